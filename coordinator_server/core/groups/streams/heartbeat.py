"""StreamsGroupHeartbeat: the one request of members of streams groups (KIP-1071).

A heartbeat may join with a topology, say which tasks the member has, and leave. From it and the
group follow records, at once written and replayed, the answer, and the internal topics that the
broker has to create. Source: GroupMetadataManager.streamsGroupHeartbeat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.api import GroupApi
from coordinator_server.core.groups.classic.state import EMPTY
from coordinator_server.core.groups.modern import members
from coordinator_server.core.groups.modern.configs import config
from coordinator_server.core.groups.modern.members import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    creates_group,
    no_group,
)
from coordinator_server.core.groups.modern.refusal import RefusedError
from coordinator_server.core.groups.settings import GroupKind
from coordinator_server.core.groups.streams import static_members, timers, validation
from coordinator_server.core.groups.streams.configs import HEARTBEAT_INTERVAL
from coordinator_server.core.groups.streams.plan import StreamsPlan, planned
from coordinator_server.core.groups.streams.streams_group import StreamsGroup
from protocol.apis.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.caller import Caller
    from coordinator_server.core.groups.classic.metadata import GroupMetadata
    from coordinator_server.core.groups.effects import Effects, Reply, Steps
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.groups.records import CoordinatorRecord
    from coordinator_server.core.groups.settings import GroupSettings
    from coordinator_server.core.groups.streams.configure import InternalTopic
    from coordinator_server.steps import Computation

_LEAVING = (LEAVING_EPOCH, STATIC_LEAVING_EPOCH)


class HeartbeatResult(NamedTuple):
    """The answer, and the internal topics to create; the next heartbeat comes in `interval_ms`."""

    response: StreamsGroupHeartbeatResponse
    to_create: tuple[InternalTopic, ...] = ()
    interval_ms: int = 0


def _refusal(error: ErrorCode, message: str | None = None) -> HeartbeatResult:
    response = StreamsGroupHeartbeatResponse(error_code=error, error_message=message)
    return HeartbeatResult(response)


def validate(request: StreamsGroupHeartbeatRequest, _: Caller, __: GroupSettings) -> ErrorCode:
    """What is wrong with a request whatever the group."""
    try:
        validation.check(request)
    except RefusedError as refused:
        return refused.error
    return ErrorCode.NONE


def refuse(request: StreamsGroupHeartbeatRequest, _: Caller, error: ErrorCode) -> HeartbeatResult:
    """A heartbeat answered without its group."""
    if error is not ErrorCode.UNSUPPORTED_VERSION:
        try:
            validation.check(request)
        except RefusedError as refused:
            return _refusal(refused.error, refused.message)
    return _refusal(error)


def missing(request: StreamsGroupHeartbeatRequest, _: Caller) -> HeartbeatResult:
    """Only who joins makes a group."""
    return _refusal(ErrorCode.GROUP_ID_NOT_FOUND, no_group(request, GroupKind.STREAMS))


def heartbeat(
    group: StreamsGroup,
    request: StreamsGroupHeartbeatRequest,
    reply: Reply[HeartbeatResult],
    now_ms: int,
    effects: Effects,
) -> Steps:
    """Serve a heartbeat to a streams group. Exclusive: it sees what all before it have made."""
    return _serve(group, [], request, reply, now_ms, effects)


def first_heartbeat(
    group: GroupMetadata,
    request: StreamsGroupHeartbeatRequest,
    reply: Reply[HeartbeatResult],
    now_ms: int,
    effects: Effects,
) -> Steps:
    """A heartbeat to a classic group: who joins turns one without members into a streams group."""
    if request.member_epoch != JOINING_EPOCH or group.state is not EMPTY:
        other_kind(group, request, reply, now_ms, effects)
        return
    tombstones = [] if group.is_new else group.tombstones()
    blank: StreamsGroup = group.environment.in_place_of(GroupKind.STREAMS, group)
    yield from _serve(blank, tombstones, request, reply, now_ms, effects)


def other_kind(
    group: Group,
    request: StreamsGroupHeartbeatRequest,
    reply: Reply[HeartbeatResult],
    now_ms: int,
    effects: Effects,
) -> None:
    """A heartbeat to a group of another kind."""
    message = members.other_kind(group.group_id, GroupKind.STREAMS)
    effects.reply(reply, _refusal(ErrorCode.GROUP_ID_NOT_FOUND, message))


def _serve(
    group: StreamsGroup,
    tombstones: list[CoordinatorRecord],
    request: StreamsGroupHeartbeatRequest,
    reply: Reply[HeartbeatResult],
    now_ms: int,
    effects: Effects,
) -> Steps:
    if request.member_epoch in _LEAVING:
        planning = _leave(group, request)
    else:
        planning = planned(group, tombstones, request, reply.caller, now_ms)
    interval_ms = config(group, HEARTBEAT_INTERVAL)

    def finish(
        written: StreamsGroup, plan: StreamsPlan, now_ms: int, effects: Effects
    ) -> HeartbeatResult:
        if written is group:
            plan.keep(group)
        _set_timers(written, plan, now_ms)
        return HeartbeatResult(plan.response, plan.to_create, interval_ms)

    yield from members.serve_heartbeat(group, planning, reply, _refusal, finish, now_ms, effects)


def _leave(group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> Computation[StreamsPlan]:
    """A member leaves, for good or for a while. Kafka takes a request to shut down from anybody."""
    member_id = request.member_id
    if request.shutdown_application:
        group.shutdown_member_id = group.shutdown_member_id or member_id
    members.caller(group, member_id, request.instance_id)
    response = StreamsGroupHeartbeatResponse(
        member_id=member_id, member_epoch=request.member_epoch, status=[]
    )
    if request.member_epoch == STATIC_LEAVING_EPOCH:
        return StreamsPlan(static_members.leave_for_a_while(group, member_id), response)
    yield from ()
    return StreamsPlan(group.removal(member_id), response)


def _set_timers(group: StreamsGroup, plan: StreamsPlan, now_ms: int) -> None:
    """The records of a heartbeat are written."""
    if plan.member_id is None:
        return
    timers.renew_session(group, plan.member_id, now_ms)
    if plan.has_moved:
        timers.watch_revocation(group, plan.member_id, now_ms)
    if plan.delay_ms:
        timers.delay_first_assignment(group, plan.delay_ms, now_ms)


STREAMS_GROUP_HEARTBEAT = GroupApi(
    request_type=StreamsGroupHeartbeatRequest,
    serve=first_heartbeat,
    serve_kind={**dict.fromkeys(GroupKind, other_kind), GroupKind.STREAMS: heartbeat},
    refuse=refuse,
    missing=missing,
    protocol=GroupKind.STREAMS,
    validate=validate,
    creates_group=creates_group,
    exclusive=True,
    at_once=True,
)
