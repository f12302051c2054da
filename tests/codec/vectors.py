"""Run a file of vectors recorded from Apache Kafka against the protocol package.

    python -m tests.codec.vectors FILE.jsonl.gz

Every line is decoded and encoded by the generated codec and by construct. The last line printed is
`N passed, M failed, K skipped`; lines about unsupported APIs, versions and record types are
skipped. The exit code is 1 if a line failed.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from protocol import (
    codec,
    consumer_protocol,
    hashing,
    headers,
    offsets_log,
    share_state_log,
    transaction_log,
    varint,
)
from protocol.crc32c import crc32c
from protocol.errors import ErrorCode
from protocol.json_form import from_json, to_json, uuid_from_text, uuid_to_text
from protocol.registry import SPEC_BY_KEY
from protocol.schema import Message
from tests.codec.batch_vectors import check_batch, check_damaged_batch

Line = dict[str, Any]

TRANSACTION_TYPES: tuple[type[Message], type[Message]] = (
    transaction_log.TransactionLogKey,
    transaction_log.TransactionLogValue,
)


class NotServedError(Exception):
    """The line is about an API, version or record type that this broker does not support."""


def read_lines(path: Path) -> Iterator[Line]:
    """Yield the lines of a vector file, plain or compressed."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    for line in data.decode().split("\n"):
        if line:
            yield json.loads(line)


def check(line: Line) -> None:
    """Check one line. Raises NotServedError to skip it, and any other exception if it fails."""
    checker = CHECKERS.get(line["kind"])
    if checker is None:
        raise NotServedError(line["kind"])
    checker(line)


def check_message(message_type: type[Message], line: Line, data: bytes) -> None:
    """Check that both codecs decode `data`, the bare message, to the JSON and encode it back."""
    version = line["version"]
    message, end = codec.decoder(message_type, version)(data, 0)
    assert end == len(data), f"read {end} of {len(data)} bytes"
    shown = to_json(message, version)
    assert shown == line["json"], f"decoded to {shown}"
    struct = message_type.at(version)
    parsed = struct.parse(data)
    assert parsed == message, f"construct decoded to {parsed}"
    shifted, end = codec.decoder(message_type, version)(memoryview(b"\xff" + data + b"\xff"), 1)
    assert (shifted, end) == (message, len(data) + 1), "decoded otherwise inside a larger buffer"
    again = from_json(message_type, line["json"])
    assert again == message, f"the JSON reads as {again}"
    if "unknown_tags" not in line:
        encoded = codec.encoder(message_type, version)(message)
        assert encoded == data, f"encoded to {encoded.hex()}"
        built = struct.build(message)
        assert built == data, f"construct encoded to {built.hex()}"


def check_api_message(line: Line) -> None:
    """Check a request or response body."""
    spec = SPEC_BY_KEY.get(line["api_key"])
    version = line["version"]
    if spec is None or not spec.supports(version):
        raise NotServedError(f"{line['name']} v{version}")
    assert spec.name == line["name"]
    if line["kind"] == "request":
        assert spec.request_header_version(version) == line["header_version"]
        message_type = spec.request_type
    else:
        assert spec.response_header_version(version) == line["header_version"]
        message_type = spec.response_type
    assert message_type.is_flexible(version) == line["flexible"]
    check_message(message_type, line, bytes.fromhex(line["hex"]))


def check_request_header(line: Line) -> None:
    """Check a request header, also with the hand-written reader if its API is supported."""
    if line["version"] == 0:
        raise NotServedError("request header v0")
    data = bytes.fromhex(line["hex"])
    # Kafka's JSON calls two fields requestApiKey and requestApiVersion; this codec calls them
    # api_key and api_version.
    shown = {name.replace("requestApi", "api"): value for name, value in line["json"].items()}
    check_message(headers.RequestHeader, {**line, "json": shown}, data)
    header = from_json(headers.RequestHeader, shown)
    spec = SPEC_BY_KEY.get(header.api_key)
    expected = 1 if spec is None else spec.request_header_version(header.api_version)
    if expected == line["version"]:
        assert headers.decode_request_header(data) == (header, len(data))


def check_response_header(line: Line) -> None:
    """Check a response header, also with the hand-written writer."""
    data = bytes.fromhex(line["hex"])
    check_message(headers.ResponseHeader, line, data)
    if "unknown_tags" not in line:
        prefix = headers.response_prefix(line["json"]["correlationId"], line["version"] == 1, 7)
        assert prefix == (len(data) + 7).to_bytes(4, "big") + data


def check_consumer_protocol(line: Line) -> None:
    """Check the bytes of a subscription or assignment that follow the version."""
    data = bytes.fromhex(line["hex"])
    version = int.from_bytes(data[:2], "big")
    assert version == line["version"]
    message_type: type[Message] = getattr(consumer_protocol, line["name"])
    check_message(message_type, line, data[2:])
    if line["name"] == "ConsumerProtocolSubscription":
        subscription = consumer_protocol.decode_subscription(data)
        assert consumer_protocol.encode_subscription(subscription, version) == data
    else:
        assignment = consumer_protocol.decode_assignment(data)
        assert consumer_protocol.encode_assignment(assignment, version) == data


def _record_types(line: Line) -> tuple[type[Message], type[Message]]:
    if line["log"] == "__transaction_state":
        return TRANSACTION_TYPES
    if line["log"] == "__share_group_state":
        return share_state_log.RECORD_TYPES[line["record_type"]]
    types = offsets_log.record_types(line["record_type"])
    if types is None:
        raise NotServedError(f"{line['log']} record type {line['record_type']}")
    return types


def check_coordinator_key(line: Line) -> None:
    """Check the bytes of an internal topic's key that follow the record type."""
    message_type, _ = _record_types(line)
    assert message_type.__name__ == line["name"]
    data = bytes.fromhex(line["hex"])
    check_message(message_type, line, data[2:])
    if line["log"] == "__transaction_state":
        assert transaction_log.decode_transaction_key(data) == from_json(message_type, line["json"])
        return
    if line["log"] == "__share_group_state":
        state_key = share_state_log.decode_share_state_key(data)
        assert state_key == from_json(message_type, line["json"])
        assert share_state_log.encode_share_state_key(state_key) == data
        return
    key = offsets_log.decode_key(data)
    assert isinstance(key, Message)
    assert offsets_log.encode_key(key) == data


def check_coordinator_value(line: Line) -> None:
    """Check the bytes of an internal topic's value that follow the version."""
    key_type, message_type = _record_types(line)
    assert message_type.__name__ == line["name"]
    data = bytes.fromhex(line["hex"])
    check_message(message_type, line, data[2:])
    if line["log"] == "__transaction_state":
        expected = from_json(message_type, line["json"]), line["version"]
        assert transaction_log.decode_transaction_value(data) == expected
        return
    if line["log"] == "__share_group_state":
        state_key = share_state_log.RECORD_TYPES[line["record_type"]][0]()
        state, version = share_state_log.decode_share_state_value(state_key, data)
        assert (state, version) == (from_json(message_type, line["json"]), line["version"])
        if "unknown_tags" not in line:
            assert share_state_log.encode_share_state_value(state) == data
        return
    value = offsets_log.decode_value(key_type(), data)
    assert value is not None
    if "unknown_tags" not in line:
        assert offsets_log.encode_value(value, line["version"]) == data


def check_api_range(line: Line) -> None:
    """Check the versions in the registry of a declared API against Kafka's stable versions."""
    spec = SPEC_BY_KEY.get(line["api_key"])
    if spec is None:
        raise NotServedError(line["name"])
    ours = (spec.name, spec.min_version, spec.max_version)
    assert ours == (line["name"], line["min"], line["stable_max"]), ours
    flexible = (
        -1 if spec.request_flexible_since is None else spec.request_flexible_since,
        -1 if spec.response_flexible_since is None else spec.response_flexible_since,
    )
    assert flexible == (line["request_flexible_from"], line["response_flexible_from"]), flexible
    for message_type in (spec.request_type, spec.response_type):
        assert (spec.min_version, spec.max_version) == message_type.VERSIONS


def check_error_code(line: Line) -> None:
    """Check the name, retriable flag and text of an error code."""
    error = ErrorCode(line["code"])
    ours = (error.name, error.retriable, error.message)
    assert ours == (line["name"], line["retriable"], line["message"]), ours


def check_group_partition(line: Line) -> None:
    """Check Java's hash of a group id and the resulting partition."""
    assert hashing.java_hash(line["group"]) == line["java_hash_code"]
    for count, partition in line["partition_of"].items():
        assert hashing.partition_for(line["group"], int(count)) == partition


def check_murmur2(line: Line) -> None:
    """Check murmur2 of a key and the resulting partition."""
    data = bytes.fromhex(line["hex"])
    assert hashing.murmur2(data) == line["murmur2"]
    for count, partition in line["default_partition_of"].items():
        assert hashing.partition_for_key(data, int(count)) == partition


def check_crc32c(line: Line) -> None:
    """Check the CRC-32C of some bytes."""
    assert crc32c(bytes.fromhex(line["hex"])) == line["crc32c"]


def _varint_checker(
    decode: Callable[[bytes, int], tuple[int, int]], encode: Callable[[int], bytes]
) -> Callable[[Line], None]:
    def check_varint(line: Line) -> None:
        data = bytes.fromhex(line["hex"])
        assert decode(data, 0) == (line["value"], len(data))
        assert encode(line["value"]) == data

    return check_varint


def check_uuid(line: Line) -> None:
    """Check the text and the bytes of a UUID."""
    data = bytes.fromhex(line["hex"])
    assert uuid_to_text(data) == line["text"]
    assert uuid_from_text(line["text"]) == data


CHECKERS: dict[str, Callable[[Line], None]] = {
    "request": check_api_message,
    "response": check_api_message,
    "request_header": check_request_header,
    "response_header": check_response_header,
    "consumer_protocol": check_consumer_protocol,
    "coordinator_key": check_coordinator_key,
    "coordinator_value": check_coordinator_value,
    "record_batch": check_batch,
    "record_batch_damaged": check_damaged_batch,
    "api_range": check_api_range,
    "error_code": check_error_code,
    "group_partition": check_group_partition,
    "murmur2": check_murmur2,
    "crc32c": check_crc32c,
    "varint": _varint_checker(varint.decode_varint, varint.encode_varint),
    "varlong": _varint_checker(varint.decode_varlong, varint.encode_varint),
    "unsigned_varint": _varint_checker(
        varint.decode_unsigned_varint, varint.encode_unsigned_varint
    ),
    "uuid": check_uuid,
}


def main(argv: list[str]) -> int:
    """Run the file named in `argv` and return the exit code."""
    if len(argv) != 1:
        print("usage: python -m tests.codec.vectors FILE.jsonl.gz", file=sys.stderr)
        return 2
    passed = failed = skipped = 0
    for number, line in enumerate(read_lines(Path(argv[0])), start=1):
        if line["kind"] == "about":
            continue
        try:
            check(line)
        except NotServedError:
            skipped += 1
        except Exception as error:  # every exception of `check` means that the line has failed
            failed += 1
            what = " ".join(str(line[key]) for key in ("name", "version", "sample") if key in line)
            print(f"line {number}: {line['kind']} {what}: {type(error).__name__}: {error}"[:500])
        else:
            passed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
