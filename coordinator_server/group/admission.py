"""What is answered before a group is looked for, and for groups that do not exist.

So garbage makes no group. `refuse_…` gives the answer that needs no group, or None; `…_unknown`
gives the answer when nobody knows the group; `creates_group` says which requests make one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.group.classic.leave_group import identities
from coordinator_server.group.classic.state import DEAD
from coordinator_server.group.offset_commit import PartitionCount, split_unknown
from coordinator_server.group.offset_fetch import fetch_from
from coordinator_server.group.responses import (
    HEARTBEAT,
    join_error,
    leave_answer,
    leave_error,
    leave_result,
    offset_delete_error,
    sync_error,
)
from protocol.apis.delete_groups import DeletableGroupResult
from protocol.apis.describe_groups import DescribedGroup
from protocol.apis.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.apis.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol.apis.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.apis.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from protocol.apis.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from protocol.apis.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.group.settings import GroupSettings
    from protocol.apis.heartbeat import HeartbeatRequest, HeartbeatResponse

PROTOCOL_MANDATORY_SINCE = 5  # SyncGroup
GROUP_ID_NOT_FOUND_SINCE = 9  # OffsetCommit
DESCRIBE_NOT_FOUND_SINCE = 6


def creates_group(request: JoinGroupRequest | OffsetCommitRequest) -> bool:
    """Whether the request makes the group if nobody knows it.

    A join without a member id, and a commit of a standalone consumer or an administrator.
    """
    if isinstance(request, JoinGroupRequest):
        return not request.member_id
    return request.generation_id_or_member_epoch < 0


def refuse_join(
    request: JoinGroupRequest, api_version: int, settings: GroupSettings
) -> JoinGroupResponse | None:
    """Empty group id, or a session timeout out of bounds (inclusive)."""
    if not request.group_id:
        error = ErrorCode.INVALID_GROUP_ID
    elif not (
        settings.min_session_timeout_ms
        <= request.session_timeout_ms
        <= settings.max_session_timeout_ms
    ):
        error = ErrorCode.INVALID_SESSION_TIMEOUT
    else:
        return None
    return join_error(request.member_id, error, api_version)


def join_unknown(request: JoinGroupRequest, api_version: int) -> JoinGroupResponse:
    """A member id of a group that does not exist."""
    return join_error(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID, api_version)


def refuse_sync(request: SyncGroupRequest, api_version: int) -> SyncGroupResponse | None:
    """A protocol type or name that is missing (v5+, KIP-559), or an empty group id."""
    if api_version >= PROTOCOL_MANDATORY_SINCE and (
        request.protocol_type is None or request.protocol_name is None
    ):
        return sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return sync_error(ErrorCode.INVALID_GROUP_ID) if not request.group_id else None


def sync_unknown() -> SyncGroupResponse:
    """Nobody is a member of a group that does not exist."""
    return sync_error(ErrorCode.UNKNOWN_MEMBER_ID)


def refuse_heartbeat(request: HeartbeatRequest) -> HeartbeatResponse | None:
    """Empty group id."""
    return None if request.group_id else HEARTBEAT[ErrorCode.INVALID_GROUP_ID]


def heartbeat_unknown() -> HeartbeatResponse:
    """Nobody is a member of a group that does not exist."""
    return HEARTBEAT[ErrorCode.UNKNOWN_MEMBER_ID]


def refuse_leave(request: LeaveGroupRequest) -> LeaveGroupResponse | None:
    """Empty group id."""
    return None if request.group_id else leave_error(ErrorCode.INVALID_GROUP_ID)


def leave_unknown(request: LeaveGroupRequest, api_version: int) -> LeaveGroupResponse:
    """Every one who is to leave is unknown."""
    results = [
        leave_result(identity, ErrorCode.UNKNOWN_MEMBER_ID)
        for identity in identities(request, api_version)
    ]
    return leave_answer(results, api_version)


def commit_unknown(
    request: OffsetCommitRequest, api_version: int, partition_count: PartitionCount
) -> OffsetCommitResponse:
    """A generation of a group that does not exist."""
    error = ErrorCode.ILLEGAL_GENERATION
    if api_version >= GROUP_ID_NOT_FOUND_SINCE:
        error = ErrorCode.GROUP_ID_NOT_FOUND
    response, accepted = split_unknown(request, partition_count)
    for _, _, result in accepted:
        result.error_code = error
    return response


def fetch_unknown(request: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    """No offset anywhere, and no error."""
    return fetch_from({}, request)


def refuse_offset_delete(request: OffsetDeleteRequest) -> OffsetDeleteResponse | None:
    """Empty group id: a group for commits, but not here."""
    return None if request.group_id else offset_delete_error(ErrorCode.INVALID_GROUP_ID)


def offset_delete_unknown() -> OffsetDeleteResponse:
    """There is no such group."""
    return offset_delete_error(ErrorCode.GROUP_ID_NOT_FOUND)


def describe_unknown(group_id: str, api_version: int) -> DescribedGroup:
    """A group that does not exist is Dead; since v6 that is an error with a message (KIP-1043)."""
    described = DescribedGroup(group_id=group_id, group_state=DEAD.value)
    if api_version >= DESCRIBE_NOT_FOUND_SINCE:
        described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        described.error_message = f"Group {group_id} not found."
    return described


def delete_unknown(group_id: str) -> DeletableGroupResult:
    """There is no such group."""
    return DeletableGroupResult(group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND)
