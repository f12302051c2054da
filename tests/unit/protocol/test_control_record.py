"""Transaction markers: the contents of their records."""

from __future__ import annotations

import pytest

from protocol.batch import Record, build_batch
from protocol.batch_header import read_header
from protocol.control_record import EndMarker, end_marker, end_marker_of
from protocol.errors import ProtocolError


def control_batch(*records: Record) -> bytes:
    """Return a control batch of producer 5."""
    return build_batch(records, base_offset=0, producer_id=5, control=True).to_bytes()


@pytest.mark.parametrize("commits", [True, False])
def test_a_marker_tells_how_a_transaction_ended(commits: bool) -> None:
    """The second int16 of the key is 0 for an abort, 1 for a commit; the value has the epoch."""
    key, value = bytes((0, 0, 0, commits)), b"\0\0" + (9).to_bytes(4, "big")
    assert end_marker(key, value) == EndMarker(commits, 9)
    data = control_batch(Record(0, 1, key, value))
    assert end_marker_of(b"xx" + data, read_header(b"xx" + data, 2)) == EndMarker(commits, 9)
    assert end_marker_of(data, read_header(b"xx" + data, 2), 2) == EndMarker(commits, 9)


def test_other_control_records_are_no_markers() -> None:
    """Other control records, keys without a type, and emptied batches are not markers."""
    assert end_marker(b"\0\0\0\2", bytes(6)) is None
    assert end_marker(b"\0\0\0", bytes(6)) is None
    assert end_marker(None, bytes(6)) is None
    emptied = control_batch()
    assert end_marker_of(emptied, read_header(emptied)) is None


@pytest.mark.parametrize("value", [None, b"", b"\0\0\0\0\0"])
def test_a_marker_without_an_epoch_ends_its_transaction_all_the_same(value: bytes | None) -> None:
    """A marker needs no value: the key decides, as in Kafka's ControlRecordType."""
    assert end_marker(b"\0\0\0\1", value) == EndMarker(True, -1)


def test_a_record_that_does_not_parse_is_refused() -> None:
    """A control batch with damaged bytes is not a marker."""
    data = bytearray(control_batch(Record(0, 1, bytes(4), bytes(6))))
    data[61] = 0x7E
    with pytest.raises(ProtocolError):
        end_marker_of(data, read_header(data))
