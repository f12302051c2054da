"""Answers of the group APIs that need no group: errors, and the shape of an answer per version.

Used inside the heart and by the API handlers, which answer NOT_COORDINATOR and the like themselves.
"""

from __future__ import annotations

from protocol.apis.heartbeat import HeartbeatResponse
from protocol.apis.join_group import JoinGroupResponse
from protocol.apis.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.apis.offset_delete import OffsetDeleteResponse
from protocol.apis.offset_fetch import OffsetFetchResponseGroup
from protocol.apis.sync_group import SyncGroupResponse
from protocol.errors import ErrorCode

HEARTBEAT = {error: HeartbeatResponse(error_code=error) for error in ErrorCode}
"""One immutable-by-convention answer per error: a heartbeat builds no object."""


def join_error(member_id: str, error: ErrorCode, api_version: int) -> JoinGroupResponse:
    """A refused JoinGroup; the protocol name is null from v7 on, before that "" (KIP-559)."""
    return JoinGroupResponse(
        error_code=error,
        member_id=member_id,
        protocol_name=None if api_version >= 7 else "",
    )


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    """A refused SyncGroup: no protocol, no assignment."""
    return SyncGroupResponse(error_code=error)


def leave_error(error: ErrorCode) -> LeaveGroupResponse:
    """A LeaveGroup refused as a whole."""
    return LeaveGroupResponse(error_code=error)


def leave_answer(results: list[MemberResponse], api_version: int) -> LeaveGroupResponse:
    """One result per member; up to v2 there is one member, whose error is the top-level one."""
    if api_version >= 3:
        return LeaveGroupResponse(members=results)
    return LeaveGroupResponse(error_code=results[0].error_code)


def leave_result(member: MemberIdentity, error: ErrorCode) -> MemberResponse:
    """The result of one member, echoing how the request named it."""
    return MemberResponse(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        error_code=error,
    )


def commit_error(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """The same error on every partition of the request."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=one.partition_index, error_code=error
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def fetch_error(group_id: str, error: ErrorCode) -> OffsetFetchResponseGroup:
    """An OffsetFetch refused for one group."""
    return OffsetFetchResponseGroup(group_id=group_id, error_code=error)


def offset_delete_error(error: ErrorCode) -> OffsetDeleteResponse:
    """An OffsetDelete refused as a whole."""
    return OffsetDeleteResponse(error_code=error)
