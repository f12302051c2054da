"""Heartbeat: the hot path. A few dictionary look-ups and one number moved.

Source: GroupMetadataManager.classicGroupHeartbeat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.group.classic.state import DEAD, HEARTBEAT_ANSWER
from coordinator_server.group.responses import HEARTBEAT
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.group.classic.metadata import GroupMetadata
    from coordinator_server.group.effects import Caller, Effects, Reply
    from protocol.apis.heartbeat import HeartbeatRequest

_ANSWER = {state: HEARTBEAT[error] for state, error in HEARTBEAT_ANSWER.items()}


def heartbeat(
    group: GroupMetadata,
    request: HeartbeatRequest,
    caller: Caller,
    reply: Reply,
    now_ms: int,
    effects: Effects,
) -> None:
    """Renew the session of a member of this generation; always answered at once."""
    member = group.roster.members.get(request.member_id)
    if (
        member is None
        or request.group_instance_id is not None
        or request.generation_id != group.generation_id
    ):
        error = _check(group, request)
        if error is not ErrorCode.NONE:
            effects.replies.append((reply, HEARTBEAT[error]))
            return
        member = group.roster.members[request.member_id]
    group.purgatory.schedule(member.session, now_ms + member.session_timeout_ms)
    effects.replies.append((reply, _ANSWER[group.state]))


def _check(group: GroupMetadata, request: HeartbeatRequest) -> ErrorCode:
    """All checks in Kafka's order."""
    if group.state is DEAD:
        return HEARTBEAT_ANSWER[DEAD]
    error = group.check_member(request.member_id, request.group_instance_id)
    if error is ErrorCode.NONE and request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return error
