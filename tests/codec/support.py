"""Shared parts of the codec tests: every message and version, and the verdicts of both codecs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from construct import ConstructError

from protocol import consumer_protocol, headers, offsets_log, share_state_log
from protocol.codec import decoder, encoder
from protocol.errors import ProtocolError
from protocol.registry import SPECS
from protocol.schema import Message
from tests.codec.vectors import TRANSACTION_TYPES, Line, read_lines

VECTORS = Path(__file__).parent / "data" / "vectors.jsonl.gz"
MESSAGE_KINDS = {
    "request": 0,
    "response": 0,
    "request_header": 0,
    "response_header": 0,
    "consumer_protocol": 2,
    "coordinator_key": 2,
    "coordinator_value": 2,
}

Case = tuple[type[Message], int]


def all_message_types() -> list[type[Message]]:
    """Return every declared outermost message type."""
    found = [one for spec in SPECS for one in (spec.request_type, spec.response_type)]
    found += [headers.RequestHeader, headers.ResponseHeader]
    found += [
        consumer_protocol.ConsumerProtocolSubscription,
        consumer_protocol.ConsumerProtocolAssignment,
    ]
    for types in (
        *filter(None, map(offsets_log.record_types, range(100))),
        TRANSACTION_TYPES,
        *share_state_log.RECORD_TYPES.values(),
    ):
        found += types
    return found


def all_cases() -> list[Case]:
    """Return every message at every version."""
    return [
        (one, version)
        for one in all_message_types()
        for version in range(one.VERSIONS[0], one.VERSIONS[1] + 1)
    ]


def cases_by_run() -> list[Any]:
    """Return all cases as parameters; cases below a message's newest version run nightly."""
    return [
        pytest.param(
            (kind, version), marks=[] if version == kind.VERSIONS[1] else [pytest.mark.nightly]
        )
        for kind, version in all_cases()
    ]


def case_name(case: Case) -> str:
    """Return a readable test id."""
    return f"{case[0].__name__}-v{case[1]}"


def message_vectors() -> Iterator[tuple[Case, bytes, Line]]:
    """Yield the recorded bodies: case, bare bytes, and vector."""
    by_name = {one.__name__: one for one in all_message_types()}
    for line in read_lines(VECTORS):
        if line["kind"] not in MESSAGE_KINDS:
            continue
        name = line["name"].removesuffix("Data")
        if line["kind"] in ("request", "response"):
            name += line["kind"].capitalize()
        data = bytes.fromhex(line["hex"])[MESSAGE_KINDS[line["kind"]] :]
        yield (by_name[name], line["version"]), data, line


def generated_verdict(case: Case, data: bytes) -> Message | None:
    """Return the message that the generated decoder reads, or None if it refuses the bytes."""
    try:
        return decoder(*case)(data, 0)[0]
    except ProtocolError:
        return None


def construct_verdict(case: Case, data: bytes) -> Message | None:
    """Return the message that construct reads, or None if it refuses the bytes."""
    message_type, version = case
    try:
        parsed: Message = message_type.at(version).parse(data)
    except ConstructError:
        return None
    return parsed


def same_verdict(case: Case, one: Message | None, other: Message | None) -> bool:
    """Return whether two verdicts agree.

    If a NaN makes the messages unequal, their encoded bytes are compared.
    """
    if one is None or other is None or one == other:
        return one == other
    return encoder(*case)(one) == encoder(*case)(other)
