"""Decode a hex dump of Kafka frames or of one message body, as a tree and as JSON.

    python -m protocol.dump [HEX ...]                         requests, with their headers
    python -m protocol.dump --api A --version V --side S      the bare body of one message
    python -m protocol.dump --api A --version V --side S --frame   with its header

Without HEX the dump is read from standard input: plain hex, `xxd` or `hexdump -C`. In front of a
header the frame's length may be present or missing; frames with lengths may follow each other.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from typing import Any

from protocol.batch import iterate_records
from protocol.batch_header import crc_is_valid, iterate_batches
from protocol.codec import decoder
from protocol.errors import ProtocolError
from protocol.headers import ResponseHeader, decode_request_header
from protocol.json_form import to_json, uuid_to_text
from protocol.registry import SPEC_BY_KEY, ApiSpec
from protocol.schema import RECORDS, UUID, FieldType, Message
from protocol.show import find_api

_XXD = re.compile(r"^[0-9a-fA-F]+:\s(.*?)(?:\s{2,}.*)?$")
_HEXDUMP = re.compile(r"^[0-9a-fA-F]{7,8}(?:\s{2}(.*?)(?:\s*\|.*)?)?$")


def parse_hex(text: str) -> bytes:
    """Return the bytes of a dump. Raises ValueError for text that is not hex."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    digits = []
    canonical = any("|" in line for line in lines)
    for line in lines:
        match = _HEXDUMP.match(line) if canonical else _XXD.match(line)
        digits.append((match.group(1) or "") if match else line)
    joined = "".join(digits).replace("0x", "").replace("\\x", "")
    return bytes.fromhex(re.sub(r"[\s:,]", "", joined))


def tree(
    name: str, value: Any, kind: FieldType | type[Message] | None, indent: str
) -> Iterator[str]:
    """Yield a value as indented lines; records are decoded."""
    if isinstance(value, Message):
        yield f"{indent}{name}: {type(value).__name__}"
        for field in value.FIELDS:
            yield from tree(field.name, getattr(value, field.name), field.type, indent + "  ")
    elif isinstance(value, list) and value and isinstance(value[0], Message):
        yield f"{indent}{name}: {len(value)}"
        for number, item in enumerate(value):
            yield from tree(f"[{number}]", item, None, indent + "  ")
    elif kind is RECORDS and value is not None:
        yield f"{indent}{name}: {len(value)} bytes"
        yield from records_tree(value, indent + "  ")
    else:
        yield f"{indent}{name}: {uuid_to_text(value) if kind is UUID else repr(value)}"


def records_tree(data: bytes | memoryview, indent: str) -> Iterator[str]:
    """Yield the batches and records of a records field; malformed data becomes a line of text."""
    try:
        for header in iterate_batches(data):
            valid = "crc valid" if crc_is_valid(data, header) else "CRC WRONG"
            yield (
                f"{indent}batch {header.base_offset}-{header.last_offset} "
                f"{header.compression.name.lower()} {valid} leader_epoch={header.leader_epoch} "
                f"producer={header.producer_id}/{header.producer_epoch}/{header.base_sequence}"
            )
            for record in iterate_records(data, header):
                yield f"{indent}  {record}"
    except ProtocolError as error:
        yield f"{indent}damaged: {error}"


def show(title: str, message: Message, version: int) -> None:
    """Print a message as a tree and as JSON."""
    print("\n".join(tree(title, message, None, "")))
    print(json.dumps(to_json(message, version), ensure_ascii=False))


def frames(data: bytes) -> list[bytes]:
    """Split at frame lengths; data that does not split evenly is one frame without a length."""
    matches = []
    position = 0
    while position < len(data):
        start = position + 4
        position = start + int.from_bytes(data[start - 4 : start], "big")
        matches.append(data[start:position])
    return matches if position == len(data) else [data]


def show_request(frame: bytes) -> None:
    """Print header and body of a request frame. Raises ProtocolError."""
    header, position = decode_request_header(frame)
    spec = SPEC_BY_KEY.get(header.api_key)
    if spec is None:
        raise ProtocolError(f"API key {header.api_key} is not served")
    version = header.api_version
    show("header", header, spec.request_header_version(version))
    message, end = decoder(spec.request_type, version)(frame, position)
    show(f"body v{version}", message, version)
    if end < len(frame):
        print(f"{len(frame) - end} bytes behind the message")


def show_body(spec: ApiSpec, version: int, side: str, data: bytes) -> None:
    """Print a body without header."""
    message_type = spec.request_type if side == "request" else spec.response_type
    message, end = decoder(message_type, version)(data, 0)
    show(f"body v{version}", message, version)
    if end < len(data):
        print(f"{len(data) - end} bytes behind the message")


def show_response(spec: ApiSpec, version: int, frame: bytes) -> None:
    """Print header and body of a response frame."""
    header_version = spec.response_header_version(version)
    header, position = decoder(ResponseHeader, header_version)(frame, 0)
    show("header", header, header_version)
    show_body(spec, version, "response", frame[position:])


def run(arguments: argparse.Namespace) -> None:
    """Decode and print the dump. Raises ProtocolError or ValueError for invalid input."""
    text = " ".join(arguments.hex) if arguments.hex else sys.stdin.read()
    data = parse_hex(text)
    if arguments.api is None:
        for frame in frames(data):
            show_request(frame)
        return
    spec = find_api(arguments.api)
    if spec is None:
        raise ValueError(f"no API {arguments.api!r} is served")
    version = spec.max_version if arguments.version is None else arguments.version
    if not arguments.frame:
        show_body(spec, version, arguments.side, data)
        return
    for frame in frames(data):
        if arguments.side == "request":
            show_request(frame)
        else:
            show_response(spec, version, frame)


def main(argv: list[str], prog: str = "python -m protocol.dump") -> int:
    """Run with these arguments and return the exit code: 1 if the bytes are malformed."""
    parser = argparse.ArgumentParser(prog=prog, description=__doc__.split("\n")[0])
    parser.add_argument(
        "hex", metavar="HEX", nargs="*", help="hex digits (default: read from standard input)"
    )
    parser.add_argument(
        "--api",
        help="name or key of the API; required for responses, and for requests without a header",
    )
    parser.add_argument("--version", type=int, help="API version (default: the newest)")
    parser.add_argument(
        "--side",
        choices=("request", "response"),
        default="request",
        help="whether the bytes are a request or a response (default: request)",
    )
    parser.add_argument(
        "--frame", action="store_true", help="the bytes start with a request or response header"
    )
    try:
        run(parser.parse_args(argv))
    except (ProtocolError, ValueError) as error:
        print(f"cannot decode: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
