"""Differing replicas, as found by kafka-replica-verification."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator_server.kafka_tools.replica_verification import compare_batches
from protocol.batch import Record, build_batch

_TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"


def fetched(*values: bytes, first: int = 0, watermark: int = 9) -> Any:
    """Return a replica's response: batches of one record from an offset on."""
    batches = [
        build_batch([Record(offset, 1, None, value)])
        for offset, value in enumerate(values, start=first)
    ]
    records = b"".join(one.to_bytes() for one in batches)
    return SimpleNamespace(records=records, high_watermark=watermark)


def test_equal_replicas_are_verified_up_to_the_shortest() -> None:
    """Equal replicas are verified up to the end of the shortest replica."""
    assert compare_batches("t-0", {1: fetched(b"a", b"b"), 2: fetched(b"a", b"b")}) == 2
    assert compare_batches("t-0", {1: fetched(b"a", b"b"), 2: fetched(b"a")}) == 1
    assert compare_batches("t-0", {1: fetched(b"a"), 2: fetched()}) is None
    assert compare_batches("t-0", {1: fetched(b"a"), 2: None}) is None


def test_batches_above_the_high_watermark_are_not_verified() -> None:
    """Batches above the high watermark are not verified, as they may still change."""
    one = fetched(b"a", b"b", watermark=1)
    assert compare_batches("t-0", {1: one, 2: fetched(b"a", b"x")}) == 1


def test_the_batch_that_a_fetch_cuts_is_not_verified() -> None:
    """A batch that the fetch cuts off is not verified, as in Kafka's clients."""
    cut = fetched(b"a", b"b")
    cut.records = cut.records[:-1]
    assert compare_batches("t-0", {1: cut, 2: fetched(b"a", b"b")}) == 1


def test_another_checksum_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """A different checksum is printed with offset and replicas, and verification continues."""
    assert compare_batches("t-0", {1: fetched(b"a", b"b"), 3: fetched(b"x", b"b")}) == 2
    line = capsys.readouterr().out
    assert re.fullmatch(
        rf"{_TIME}: partition t-0 has unmatched checksum at offset 0; "
        r"replica 1's checksum \d+; replica 3's checksum \d+\n",
        line,
    )


def test_another_offset_ends_the_tool(capsys: pytest.CaptureFixture[str]) -> None:
    """A different offset in a replica ends the tool with exit code 1."""
    with pytest.raises(SystemExit) as ended:
        compare_batches("t-0", {1: fetched(b"a"), 2: fetched(b"a", first=4)})
    assert ended.value.code == 1
    line = capsys.readouterr().out
    expected = "partition t-0: replica 1's offset 0 doesn't match replica 2's offset 4"
    assert re.fullmatch(rf"{_TIME}: {expected}\n", line)
