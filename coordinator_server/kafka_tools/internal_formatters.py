"""Console consumer output for internal topics: each record as JSON.

As in Kafka's CoordinatorRecordMessageFormatter, records of other types are left out and there are
no line ends.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any, NoReturn

from coordinator_server.client.fetcher import Fetched
from coordinator_server.kafka_tools.frame import ToolError
from protocol.errors import ProtocolError
from protocol.schema import Message

Types = tuple[type[Message], type[Message]]
"""The key and value messages of a record type."""

_RUNTIME = "java.lang.RuntimeException"


def internal_formatter(name: str) -> Callable[[Fetched], bytes] | None:
    """Return the formatter for a Kafka class name without its package; None if unknown."""
    if name not in _FORMATTERS:
        return None
    types_of, allowed = _FORMATTERS[name]
    return lambda fetched: _format(fetched, types_of, allowed)


def _of_groups(record_type: int) -> Types | None:
    from protocol.offsets_log import record_types

    return record_types(record_type)


def _of_transactions(record_type: int) -> Types | None:
    from protocol.transaction_log import TransactionLogKey, TransactionLogValue

    return (TransactionLogKey, TransactionLogValue) if record_type == 0 else None


def _of_share_state(record_type: int) -> Types | None:
    from protocol.share_state_log import RECORD_TYPES

    return RECORD_TYPES.get(record_type)


_FORMATTERS: dict[str, tuple[Callable[[int], Types | None], Collection[int]]] = {
    "OffsetsMessageFormatter": (_of_groups, (0, 1)),
    "GroupMetadataMessageFormatter": (_of_groups, (2,)),
    "TransactionLogMessageFormatter": (_of_transactions, (0,)),
    "ShareGroupMessageFormatter": (_of_groups, (10, 11, 12, 13, 14, 15)),
    "group.share.ShareGroupStateMessageFormatter": (_of_share_state, (0, 1)),
}
"""The known record types, and the printed ones: Kafka decodes the others as well."""


def _format(
    fetched: Fetched, types_of: Callable[[int], Types | None], allowed: Collection[int]
) -> bytes:
    """Return the JSON of a record; empty if the record's type is not printed.

    Raises ToolError for malformed bytes.
    """
    record = fetched.record
    assert record is not None
    if record.key is None:
        return b""
    number = _leading_int16(record.key, "key", record.offset)
    types = types_of(number)
    if types is None:
        return b""
    key_type, value_type = types
    shown: dict[str, Any] = {
        "key": {"type": number, "data": _data(key_type, record.key, "key", record.offset)},
        "value": None,
    }
    if record.value is not None:
        data = _data(value_type, record.value, "value", record.offset)
        status = data.get("transactionStatus")
        if status is not None:
            from protocol.transaction_log import status_name

            data["transactionStatus"] = status_name(status)
        version = _leading_int16(record.value, "value", record.offset)
        shown["value"] = {"version": version, "data": data}
    if number not in allowed:
        return b""
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode()


def _data(kind: type[Message], data: bytes, side: str, offset: int) -> dict[str, Any]:
    from protocol.codec import decoder
    from protocol.json_form import to_json

    # A key's record type is stored where a value stores its version; keys have one version only.
    number = _leading_int16(data, side, offset)
    version = 0 if side == "key" else number
    try:
        message, _ = decoder(kind, version)(data, 2)
    except ProtocolError:
        _fail(number, side, offset)
    return to_json(message, version)


def _leading_int16(data: bytes, side: str, offset: int) -> int:
    if len(data) < 2:
        _fail(0, side, offset)
    return int.from_bytes(data[:2], "big", signed=True)


def _fail(number: int, side: str, offset: int) -> NoReturn:
    """Raise Kafka's error for a key or value that ends too early."""
    cause = ToolError("java.nio.BufferUnderflowException", "")
    text = f"Could not read record with version {number} from {side}'s buffer due to: null."
    inner = ToolError(_RUNTIME, text)
    inner.__cause__ = cause
    raise ToolError(_RUNTIME, f"Could not read record at offset {offset} due to: {text}") from inner
