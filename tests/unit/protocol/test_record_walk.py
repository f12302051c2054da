"""The fast walk over produced records agrees with the exact reader, or gives up."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from protocol.batch import record_bytes
from protocol.errors import ProtocolError
from protocol.record_reader import ProducedRecord, read_partially, read_records
from protocol.record_walk import time_range
from protocol.step_limit import StepLimit, TooLargeError

Header = tuple[str, bytes | None]


def section(draw: random.Random, count: int) -> bytes:
    """Return `count` encoded records; `draw` chooses their layout among those of real clients."""
    spread, keys, sizes = draw.choice([0, 5, 300, 20_000]), draw.random(), draw.choice([0, 3, 300])
    headers: list[Header] = [("h", b"v"), ("n", None)] if draw.random() < 0.2 else []
    return b"".join(
        record_bytes(
            index * spread // count - draw.choice([0, 0, 0, 1]) * (spread > 5),
            index,
            b"key-%d" % index if keys < 0.5 else None,
            bytes(16 + draw.randrange(sizes + 1)) if keys > 0.1 else None,
            headers,
        )
        for index in range(count)
    )


@pytest.mark.parametrize("count", [1, 5, 6, 63, 64, 65, 130, 700, 8_300])
def test_times_are_those_of_the_records(count: int) -> None:
    """The smallest and largest timestamp delta are right, whatever the layout and varint sizes."""
    for seed in range(20 if count < 1000 else 3):
        data = section(random.Random(seed), count)
        deltas = [record.time_delta for record in read_records(data, count, StepLimit())]
        assert time_range(data, 0, len(data), count, False, StepLimit()) == (
            min(deltas),
            max(deltas),
        ), seed


def test_damage_is_never_taken_for_records() -> None:
    """With any byte changed, removed or added the walk gives up, or the exact reader agrees."""
    for seed in range(3000):
        draw = random.Random(seed)
        count = draw.choice([1, 3, 9, 40, 80])
        data = bytearray(section(draw, count))
        data[draw.randrange(len(data))] = draw.randrange(256)
        if draw.random() < 0.2:
            del data[-1]
        found = time_range(bytes(data), 0, len(data), count, False, StepLimit())
        try:
            records = list(read_records(bytes(data), count, StepLimit()))
        except ProtocolError:
            assert found is None, seed
            continue
        if found is not None:
            deltas = [record.time_delta for record in records]
            assert found == (min(deltas), max(deltas)), seed
            assert [record.offset_delta for record in records] == list(range(count)), seed


def test_a_missing_key_gives_up_where_keys_are_needed() -> None:
    """If keys are required, a missing key makes the fast walk give up, also within a run."""
    for count in (1, 30):
        data = b"".join(record_bytes(0, index, None, b"v") for index in range(count))
        assert time_range(data, 0, len(data), count, False, StepLimit()) == (0, 0)
        assert time_range(data, 0, len(data), count, True, StepLimit()) is None


@pytest.mark.parametrize("read", [read_records, read_partially])
def test_headers_are_counted(read: Callable[..., Iterator[ProducedRecord]]) -> None:
    """Fast walk and exact reader stop at a record with more headers than the caller allows."""
    headers: list[Header] = [("", None)] * 10
    data = b"".join(record_bytes(0, index, None, b"v", headers) for index in range(10))
    assert time_range(data, 0, len(data), 10, False, StepLimit(120)) == (0, 0)
    assert len(list(read(data, 10, StepLimit(100)))) == 10
    with pytest.raises(TooLargeError):
        time_range(data, 0, len(data), 10, False, StepLimit(99))
    with pytest.raises(TooLargeError):
        list(read(data, 10, StepLimit(99)))


def test_a_long_header_key_is_not_copied() -> None:
    """The fast walk leaves a header key above 64 KB to the exact reader."""
    for size, found in ((1 << 16, (0, 0)), ((1 << 16) + 1, None)):
        data = record_bytes(0, 0, None, b"v", [("k" * size, None)])
        assert time_range(data, 0, len(data), 1, False, StepLimit()) == found
