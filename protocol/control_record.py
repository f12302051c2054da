"""Control records: the markers that end transactions (KIP-98; Kafka's ControlRecordType).

A control batch has one record. Its key has a version and a type, int16 each. The value of a
transaction marker has a version and the epoch of the transaction coordinator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from protocol.raw_records import batch_records

if TYPE_CHECKING:
    from protocol.batch_header import BatchBuffer, BatchHeader

_ABORT, _COMMIT = 0, 1


class EndMarker(NamedTuple):
    """A transaction marker (Kafka's EndTransactionMarker); a missing coordinator epoch is -1."""

    commits: bool
    coordinator_epoch: int


class EndTransaction(NamedTuple):
    """The transaction to end with a marker (Kafka's TxnMarkerEntry)."""

    producer_id: int
    producer_epoch: int
    commits: bool
    coordinator_epoch: int
    transaction_version: int


def end_marker(key: bytes | None, value: bytes | None) -> EndMarker | None:
    """Decode a control record; return None for types other than commit and abort."""
    if key is None or len(key) < 4:
        return None
    kind = int.from_bytes(key[2:4], "big", signed=True)
    if kind not in (_ABORT, _COMMIT):
        return None
    has_epoch = value is not None and len(value) >= 6
    epoch = int.from_bytes(value[2:6], "big", signed=True) if value and has_epoch else -1
    return EndMarker(kind == _COMMIT, epoch)


def end_marker_of(buffer: BatchBuffer, header: BatchHeader, origin: int = 0) -> EndMarker | None:
    """Return the marker in a control batch; None for another type or a batch without records.

    `origin` is used as in `protocol.batch_header`. Raises ProtocolError for a malformed record.
    """
    for _, _, _, _, key, value, _ in batch_records(buffer, header, origin):
        return end_marker(key, value)
    return None
