"""The record formats of the console consumer: Kafka's message formatters and deserializers."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Collection, Mapping
from typing import Any, NoReturn
from uuid import UUID

from coordinator_server.client.fetcher import Fetched
from coordinator_server.kafka_tools.frame import NotHereError, ToolError, print_stack_trace
from coordinator_server.kafka_tools.java import log
from coordinator_server.kafka_tools.options import UsageError
from protocol.errors import ProtocolError
from protocol.schema import Message
from protocol.utf8 import JAVA_REPLACE

PACKAGE = "org.apache.kafka.tools.consumer."
DEFAULT = f"{PACKAGE}DefaultMessageFormatter"
_SERIALIZATION = "org.apache.kafka.common.serialization."
_SERIALIZATION_ERROR = "org.apache.kafka.common.errors.SerializationException"

Formatter = Callable[[Fetched], bytes]
"""Returns the output bytes of a fetched record. Raises ToolError."""
Deserializer = Callable[[bytes], str]


def make_formatter(name: str, properties: Mapping[str, str]) -> Formatter:
    """Return the formatter for a class name. Raises UsageError for an unknown class."""
    if name == f"{PACKAGE}NoOpMessageFormatter":
        return lambda _: b""
    # LoggingMessageFormatter prints the same text; the tools do not print its log lines.
    if name in (DEFAULT, f"{PACKAGE}LoggingMessageFormatter"):
        return DefaultFormatter(properties).format
    if name.startswith(PACKAGE):
        formatter = internal_formatter(name.removeprefix(PACKAGE))
        if formatter is not None:
            return formatter
    raise UsageError(name)


class DefaultFormatter:
    """Prints columns with separators, chosen by the properties; by default only the value."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        def is_on(name: str, default: str = "false") -> bool:
            return properties.get(f"print.{name}", default).strip().lower() == "true"

        self._names = [
            name
            for name in ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key")
            if is_on(name)
        ]
        if is_on("value", "true"):
            self._names.append("value")
        self._separator = properties.get("key.separator", "\t").encode()
        self._line_separator = properties.get("line.separator", "\n").encode()
        self._headers_separator = properties.get("headers.separator", ",").encode()
        self._null = properties.get("null.literal", "null").encode()
        self._deserializers = {
            name: _deserializer(properties.get(f"{name}.deserializer"))
            for name in ("key", "value", "headers")
        }

    def format(self, fetched: Fetched) -> bytes:
        """Return the output line of a record. Raises ToolError if a deserializer fails."""
        columns = [self._column(name, fetched) for name in self._names]
        return self._separator.join(columns) + self._line_separator if columns else b""

    def _column(self, name: str, fetched: Fetched) -> bytes:
        record = fetched.record
        assert record is not None
        if name == "timestamp":
            if fetched.header.magic == 0:
                return b"NO_TIMESTAMP"
            kind = "LogAppendTime" if fetched.header.log_append_time else "CreateTime"
            return f"{kind}:{record.timestamp_ms}".encode()
        if name == "partition":
            return f"Partition:{fetched.partition[1]}".encode()
        if name == "offset":
            return f"Offset:{record.offset}".encode()
        if name == "delivery" and fetched.delivery_count is not None:
            return f"Delivery:{fetched.delivery_count}".encode()
        if name in ("delivery", "epoch"):  # Kafka's tool never prints an epoch.
            return f"{name.capitalize()}:NOT_PRESENT".encode()
        if name == "headers":
            headers = [
                f"{header}:".encode() + self._text("headers", value)
                for header, value in record.headers
            ]
            return self._headers_separator.join(headers) if headers else b"NO_HEADERS"
        return self._text(name, record.key if name == "key" else record.value)

    def _text(self, name: str, data: bytes | None) -> bytes:
        data = self._null if data is None else data
        deserialize = self._deserializers[name]
        return data if deserialize is None else deserialize(data).encode()


def _deserializer(name: str | None) -> Deserializer | None:
    """Return the deserializer for a class name, or None without a name.

    For an unknown class, prints a log line and returns None. Raises NotHereError for a deserializer
    of Kafka that is not implemented here.
    """
    if name is None:
        return None
    short = name.removeprefix(_SERIALIZATION)
    if name.startswith(_SERIALIZATION) and short in _DESERIALIZERS:
        return _DESERIALIZERS[short]
    if name.startswith(_SERIALIZATION):
        raise NotHereError(
            f"{short} is not here, only {', '.join(sorted(_DESERIALIZERS))}:"
            " use kafka-console-consumer.sh of Apache Kafka"
        )
    log("ERROR", f"Unable to instantiate a deserializer from {name}", DEFAULT)
    print_stack_trace(ToolError("java.lang.ClassNotFoundException", name))
    return None


def _number(form: str, kind: str) -> Deserializer:
    """Return a deserializer of big-endian numbers, like Kafka's for Java's number types."""
    reader = struct.Struct(form)

    def deserialize(data: bytes) -> str:
        if len(data) != reader.size:
            message = f"Size of data received by {kind} is not {reader.size}"
            raise ToolError(_SERIALIZATION_ERROR, message)
        (value,) = reader.unpack(data)
        return str(value)

    return deserialize


def _boolean(data: bytes) -> str:
    if len(data) != 1:
        raise ToolError(
            _SERIALIZATION_ERROR, "Size of data received by BooleanDeserializer is not 1"
        )
    if data not in (b"\x00", b"\x01"):
        message = f"Unexpected byte received by BooleanDeserializer: {data[0]}"
        raise ToolError(_SERIALIZATION_ERROR, message)
    return "true" if data == b"\x01" else "false"


def _uuid(data: bytes) -> str:
    text = data.decode("utf-8", JAVA_REPLACE)
    try:
        return str(UUID(text))
    except ValueError:
        message = "Error parsing data into UUID"
        raise ToolError(_SERIALIZATION_ERROR, message) from None


_DESERIALIZERS: dict[str, Deserializer] = {
    "StringDeserializer": lambda data: data.decode("utf-8", JAVA_REPLACE),
    "LongDeserializer": _number(">q", "LongDeserializer"),
    "IntegerDeserializer": _number(">i", "IntegerDeserializer"),
    "ShortDeserializer": _number(">h", "ShortDeserializer"),
    "BooleanDeserializer": _boolean,
    "UUIDDeserializer": _uuid,
}


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

    # A key begins with its record type, a value with its version. Keys have only version 0.
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
