"""Declarations of messages, and the methods of message classes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

import protocol
from protocol.apis.fetch import FetchRequest, LeaderIdAndEpoch, PartitionData
from protocol.apis.heartbeat import HeartbeatRequest
from protocol.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.apis.metadata import MetadataRequest
from protocol.apis.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from protocol.codec import encoder, step_encoder
from protocol.errors import ErrorCode
from protocol.registry import SPEC_BY_KEY, SPECS
from protocol.schema import Columns, frozen


def test_constructor_arguments_are_optional() -> None:
    """A message without arguments has Kafka's defaults."""
    request = JoinGroupRequest()
    assert (request.group_id, request.session_timeout_ms, request.rebalance_timeout_ms) == (
        "",
        0,
        -1,
    )
    assert request.group_instance_id is None
    assert request.protocols == []
    assert FetchRequest().max_bytes == 2**31 - 1
    assert PartitionData().current_leader == LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)


def in_steps(steps: Generator[None, None, Any]) -> Any:
    """Run the steps; return their result."""
    returned: list[Any] = []

    def run() -> Iterator[None]:
        returned.append((yield from steps))

    assert not any(run())
    return returned[0]


def test_columns_are_encoded_as_the_messages_they_stand_for() -> None:
    """Columns encode, compare and print like the messages that they stand for.

    The comparison covers every version with the array, in steps and at once.
    """
    rows = [(0, 5, 1, 0), (3, -1, -1, 0), (7, 2**40, 9, 107)]
    messages = [
        OffsetFetchResponsePartitions(
            partition_index=index,
            committed_offset=offset,
            committed_leader_epoch=epoch,
            metadata="",
            error_code=error,
        )
        for index, offset, epoch, error in rows
    ]
    columns = Columns(
        OffsetFetchResponsePartitions,
        len(rows),
        {
            "partition_index": [row[0] for row in rows],
            "committed_offset": [row[1] for row in rows],
            "committed_leader_epoch": [row[2] for row in rows],
            "metadata": repeat(""),
            "error_code": [row[3] for row in rows],
        },
    )
    assert columns == messages
    assert columns != messages[:2]
    assert columns[1] == messages[1]
    assert columns[1:] == messages[1:]
    assert repr(columns) == repr(messages)

    def response(partitions: Any) -> OffsetFetchResponse:
        topic = OffsetFetchResponseTopics(name="t", partitions=partitions)
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=[topic])])

    for version in (8, 9, 10):
        encode = encoder(OffsetFetchResponse, version)
        expected = encode(response(messages))
        assert encode(response(columns)) == expected
        assert in_steps(step_encoder(OffsetFetchResponse, version)(response(columns))) == expected


def test_a_frozen_message_keeps_its_bytes() -> None:
    """A frozen message caches its bytes per version, for all requests that share it."""
    assert HeartbeatRequest().encodings is None
    assert frozen(HeartbeatRequest()).encodings == {}


def test_mutable_defaults_are_not_shared() -> None:
    """Each message has its own lists and nested messages."""
    first, second = JoinGroupRequest(), JoinGroupRequest()
    first.protocols.append(JoinGroupRequestProtocol(name="range"))
    assert second.protocols == []
    PartitionData().current_leader.leader_id = 5
    assert PartitionData().current_leader.leader_id == -1


def test_null_is_not_the_default_of_a_nullable_array() -> None:
    """None in a nullable array stays None; without an argument the array is empty."""
    assert MetadataRequest(topics=None).topics is None
    assert MetadataRequest().topics == []


def test_unknown_arguments_and_attributes_are_refused() -> None:
    """A misspelt field is an error, in the constructor and later."""
    with pytest.raises(TypeError):
        HeartbeatRequest(grup_id="a")  # type: ignore[call-arg]  # wrong on purpose
    with pytest.raises(AttributeError):
        HeartbeatRequest().grup_id = "a"  # type: ignore[attr-defined]  # wrong on purpose


def test_equality_and_repr() -> None:
    """Messages compare by type and fields, and print as their constructor call."""
    one = HeartbeatRequest(group_id="g", generation_id=1)
    assert one == HeartbeatRequest(group_id="g", generation_id=1)
    assert one != HeartbeatRequest(group_id="g", generation_id=2)
    assert one != JoinGroupRequest(group_id="g")
    assert repr(one) == (
        "HeartbeatRequest(group_id='g', generation_id=1, member_id='', group_instance_id=None)"
    )


def test_copy_is_shallow() -> None:
    """A copy has its own fields and shares nested values."""
    one = JoinGroupRequest(group_id="g", protocols=[JoinGroupRequestProtocol(name="range")])
    other = one.copy()
    assert other == one
    other.group_id = "h"
    assert one.group_id == "g"
    assert other.protocols is one.protocols


def test_fields_describe_themselves() -> None:
    """A field prints as its declaration, without defaults."""
    shown = {one.name: repr(one) for one in JoinGroupRequest.FIELDS}
    assert shown["group_id"] == "field(STRING)"
    assert shown["rebalance_timeout_ms"] == "field(INT32, since=1, default=-1)"
    assert shown["reason"] == "field(STRING, since=8, nullable_since=8, default=None)"
    assert shown["protocols"] == "field(ARRAY(JoinGroupRequestProtocol))"


def test_registry_is_ordered_and_complete() -> None:
    """Each served API has two messages with its name and the versions of the registry."""
    assert [spec.key for spec in SPECS] == sorted(SPEC_BY_KEY)
    for spec in SPECS:
        assert spec.request_type.__name__ == f"{spec.name}Request"
        assert spec.response_type.__name__ == f"{spec.name}Response"
        assert (spec.min_version, spec.max_version) == spec.request_type.VERSIONS
        assert (spec.min_version, spec.max_version) == spec.response_type.VERSIONS
        assert spec.request_flexible_since == spec.request_type.FLEXIBLE_SINCE
        assert spec.response_flexible_since == spec.response_type.FLEXIBLE_SINCE


def test_api_versions_keeps_its_plain_response_header() -> None:
    """The header of an ApiVersions response is not flexible, so that any client can read it."""
    spec = SPEC_BY_KEY[18]
    assert spec.request_header_version(4) == 2
    assert spec.response_header_version(4) == 0
    assert SPEC_BY_KEY[12].response_header_version(4) == 1


def test_error_codes() -> None:
    """An error code is a number with a retriable flag and a message."""
    assert int(ErrorCode.REBALANCE_IN_PROGRESS) == 27
    assert ErrorCode(16).retriable
    assert not ErrorCode.UNKNOWN_MEMBER_ID.retriable
    assert ErrorCode.NOT_COORDINATOR.message == "This is not the correct coordinator."


def test_cheap_modules_import_nothing_heavy() -> None:
    """Errors, registry and headers, which every start imports, import no heavy modules."""
    code = (
        "import sys, protocol.errors, protocol.registry, protocol.headers, protocol.batch;"
        "heavy = {'construct', 'cramjam', 'google_crc32c', 'dataclasses', 'inspect', 'json'};"
        "print(sorted(n for n in sys.modules if n in heavy or n.startswith('protocol.apis')))"
    )
    shown = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(protocol.__file__).parent.parent,
    )
    assert shown.stdout.strip() == "[]"
