"""Truncated, changed and random bytes raise no error other than ProtocolError."""

from __future__ import annotations

import random

import pytest

from protocol.batch import iterate_records
from protocol.batch_header import iterate_batches
from protocol.errors import ProtocolError
from protocol.headers import decode_request_header
from tests.codec.support import (
    VECTORS,
    Case,
    case_name,
    cases_by_run,
    construct_verdict,
    generated_verdict,
    message_vectors,
    same_verdict,
)
from tests.codec.vectors import read_lines

MESSAGES = list(message_vectors())
BATCHES = [
    bytes.fromhex(line["hex"]) for line in read_lines(VECTORS) if line["kind"] == "record_batch"
]


@pytest.mark.nightly
def test_every_truncation_is_refused() -> None:
    """The generated codec refuses a recorded message cut at any byte with ProtocolError."""
    for case, data, line in MESSAGES:
        if line["sample"] not in ("empty", "random0", "random1", "unknown_tags", "wide"):
            continue
        for size in range(len(data)):
            assert generated_verdict(case, data[:size]) is None, (case_name(case), size)


def test_construct_refuses_truncations_too() -> None:
    """The construct codec refuses a recorded message cut at any byte."""
    for case, data, line in MESSAGES:
        if line["sample"] != "random0":
            continue
        for size in range(0, len(data), 1 + len(data) // 40):
            assert construct_verdict(case, data[:size]) is None, (case_name(case), size)


def test_changed_bytes_are_judged_alike() -> None:
    """Both codecs refuse a recorded message with changed bytes, or both read the same message."""
    source = random.Random(7)
    accepted = 0
    for case, data, line in MESSAGES:
        if not data or line["sample"] not in ("random0", "random1", "unknown_tags"):
            continue
        for _ in range(30):
            changed = bytearray(data)
            for _ in range(source.choice((1, 1, 3))):
                changed[source.randrange(len(data))] = source.choice(
                    (0, 1, 2, 0x7F, 0x80, 0xFF, source.randrange(256))
                )
            ours = generated_verdict(case, bytes(changed))
            theirs = construct_verdict(case, bytes(changed))
            assert same_verdict(case, theirs, ours), (case_name(case), changed.hex())
            accepted += ours is not None
    assert accepted > 100


@pytest.mark.parametrize("case", cases_by_run(), ids=case_name)
def test_random_bytes_are_judged_alike(case: Case) -> None:
    """At every version both codecs refuse random bytes, or both read the same message."""
    source = random.Random(case_name(case))
    for _ in range(80):
        # Small bytes are more likely to be valid lengths, so the decoders read more fields before
        # they fail.
        top = source.choice((3, 6, 256))
        data = bytes(source.randrange(top) for _ in range(source.randrange(120)))
        ours = generated_verdict(case, data)
        assert same_verdict(case, construct_verdict(case, data), ours), data.hex()


def test_request_headers_refuse_random_bytes_in_order() -> None:
    """Random bytes before a body decode to a header or raise ProtocolError."""
    source = random.Random(3)
    for _ in range(20_000):
        data = source.randbytes(source.randrange(40))
        if source.randrange(2):
            data = bytes((0, source.randrange(20), 0, source.randrange(14))) + data
        try:
            _, position = decode_request_header(data)
        except ProtocolError:
            continue
        assert position <= len(data)


def read_all(data: bytes) -> None:
    """Read every batch and record."""
    for header in iterate_batches(data):
        list(iterate_records(data, header))


def test_damaged_batches_are_refused_in_order() -> None:
    """Batches cut or changed anywhere can be read or raise ProtocolError, and nothing else."""
    source = random.Random(11)
    for data in BATCHES:
        for size in range(0, len(data), 1 + len(data) // 60):
            read_all(data[:size])
        for _ in range(80):
            changed = bytearray(data)
            for _ in range(source.choice((1, 2, 5))):
                changed[source.randrange(len(data))] = source.randrange(256)
            try:
                read_all(bytes(changed))
            except ProtocolError:
                continue


def test_cut_batches_are_left_out() -> None:
    """A buffer that ends inside a batch yields the complete batches before it."""
    data = BATCHES[-1]
    whole = [one.end for one in iterate_batches(data)]
    for size in range(len(data)):
        ends = [one.end for one in iterate_batches(data[:size])]
        assert ends == [end for end in whole if end <= size]
