"""Keys and values of `__transaction_state`, as Kafka writes and reads them (KIP-98, KIP-890).

A key starts with its record type as int16 (always 0), a value with its version; a null value is a
tombstone.
"""

from __future__ import annotations

from struct import Struct

from protocol.codec import decoder, encoder, leading_int16
from protocol.errors import ProtocolError
from protocol.schema import ARRAY, INT8, INT16, INT32, INT64, STRING, Message, field

VALUE_VERSION = 1
"""The version that Kafka writes since values have tagged fields (`transaction.version` 1)."""

_INT16 = Struct(">h")
_STATUS_NAMES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)


class TransactionLogKey(Message, versions=(0, 0)):
    """Key type 0: one transactional id."""

    transactional_id: str = field(STRING)


class PartitionsSchema(Message):
    """Partitions of one topic in a transaction."""

    topic: str = field(STRING)
    partition_ids: list[int] = field(ARRAY(INT32))


class TransactionLogValue(Message, versions=(0, 1), flexible_since=1):
    """The state of a transactional id. Times are in ms.

    `transaction_status` is a number of Kafka's TransactionState, an index of `_STATUS_NAMES`.
    """

    producer_id: int = field(INT64)
    previous_producer_id: int = field(INT64, since=1, default=-1, tag=0)
    next_producer_id: int = field(INT64, since=1, default=-1, tag=1)
    producer_epoch: int = field(INT16)
    next_producer_epoch: int = field(INT16, since=1, default=-1, tag=3)
    transaction_timeout_ms: int = field(INT32)
    transaction_status: int = field(INT8)
    transaction_partitions: list[PartitionsSchema] | None = field(
        ARRAY(PartitionsSchema), nullable_since=0
    )
    transaction_last_update_timestamp_ms: int = field(INT64)
    transaction_start_timestamp_ms: int = field(INT64)
    client_transaction_version: int = field(INT16, since=1, default=0, tag=2)


def status_name(status: int) -> str:
    """Return a transaction status as Kafka's tools print it: its name, or an unknown number."""
    return _STATUS_NAMES[status] if 0 <= status < len(_STATUS_NAMES) else str(status)


def encode_transaction_key(transactional_id: str) -> bytes:
    """Encode a key, after its record type."""
    key = TransactionLogKey(transactional_id=transactional_id)
    return _INT16.pack(0) + encoder(TransactionLogKey, 0)(key)


def encode_transaction_value(value: TransactionLogValue) -> bytes:
    """Encode a value, after its version."""
    return _INT16.pack(VALUE_VERSION) + encoder(TransactionLogValue, VALUE_VERSION)(value)


def decode_transaction_key(data: bytes) -> TransactionLogKey:
    """Decode a key. Raises ProtocolError if the bytes are malformed."""
    record_type = leading_int16(data)
    if record_type != 0:
        raise ProtocolError(f"a transaction key of type {record_type}")
    key, _ = decoder(TransactionLogKey, 0)(data, 2)
    return key


def decode_transaction_value(data: bytes) -> tuple[TransactionLogValue, int]:
    """Decode a value; return the message and its version. Raises ProtocolError if malformed."""
    version = leading_int16(data)
    value, _ = decoder(TransactionLogValue, version)(data, 2)
    return value, version
