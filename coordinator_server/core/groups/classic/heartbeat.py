"""Heartbeat: the hot path, with a few dict look-ups and one changed number.

Source: GroupMetadataManager.classicGroupHeartbeat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.core.groups.api import GroupApi
from coordinator_server.core.groups.classic.state import HEARTBEAT_ANSWER
from protocol.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.errors import ErrorCode
from protocol.schema import frozen

if TYPE_CHECKING:
    from coordinator_server.core.caller import Caller
    from coordinator_server.core.groups.classic.metadata import GroupMetadata
    from coordinator_server.core.groups.effects import Effects, Reply
    from coordinator_server.core.groups.settings import GroupSettings

_RESPONSE = {error: frozen(HeartbeatResponse(error_code=error)) for error in ErrorCode}
"""One immutable response per error, so that a heartbeat allocates no object."""

_RESPONSE_IN = {state: _RESPONSE[error] for state, error in HEARTBEAT_ANSWER.items()}


def validate(request: HeartbeatRequest, _: Caller, __: GroupSettings) -> ErrorCode:
    """Return INVALID_GROUP_ID for an empty group id, or NONE."""
    return ErrorCode.NONE if request.group_id else ErrorCode.INVALID_GROUP_ID


def refuse(_: HeartbeatRequest, __: Caller, error: ErrorCode) -> HeartbeatResponse:
    """Return the response to a heartbeat that did not reach a group."""
    return _RESPONSE[error]


def missing(_: HeartbeatRequest, __: Caller) -> HeartbeatResponse:
    """Return UNKNOWN_MEMBER_ID for a missing group."""
    return _RESPONSE[ErrorCode.UNKNOWN_MEMBER_ID]


def heartbeat(
    group: GroupMetadata,
    request: HeartbeatRequest,
    reply: Reply[HeartbeatResponse],
    now_ms: int,
    effects: Effects,
) -> None:
    """Renew the session of a member of this generation; the response is never parked."""
    member = group.membership.members.get(request.member_id)
    if (
        member is None
        or request.group_instance_id is not None
        or request.generation_id != group.generation_id
    ):
        error = _check(group, request)
        if error is not ErrorCode.NONE:
            effects.reply(reply, _RESPONSE[error])
            return
        member = group.membership.members[request.member_id]
    group.purgatory.schedule(member.session, now_ms + member.session_timeout_ms)
    effects.reply(reply, _RESPONSE_IN[group.state])


def _check(group: GroupMetadata, request: HeartbeatRequest) -> ErrorCode:
    """Check the member and its generation in Kafka's order; return the first error, or NONE."""
    error = group.check_member(request.member_id, request.group_instance_id)
    if error is ErrorCode.NONE and request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return error


HEARTBEAT = GroupApi(
    request_type=HeartbeatRequest,
    serve=heartbeat,
    refuse=refuse,
    missing=missing,
    validate=validate,
    at_once=True,
    error_while_loading=ErrorCode.NONE,  # as in Kafka: an error would make members rejoin
)
