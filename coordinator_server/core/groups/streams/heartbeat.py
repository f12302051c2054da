"""StreamsGroupHeartbeat: the only request that members of streams groups need (KIP-1071).

A heartbeat can join with a topology, report the member's tasks, and leave. Its records are written
and replayed before the response is sent; the result also names the internal topics that the broker
has to create. Source: GroupMetadataManager.streamsGroupHeartbeat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.api import GroupApi
from coordinator_server.core.groups.classic.state import EMPTY
from coordinator_server.core.groups.modern import members
from coordinator_server.core.groups.modern.members import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    RefusedError,
    creates_group,
    no_group,
)
from coordinator_server.core.groups.modern.modern_group import config
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
    from coordinator_server.core.groups.effects import Effects, Reply
    from coordinator_server.core.groups.records import CoordinatorRecord
    from coordinator_server.core.groups.settings import GroupSettings
    from coordinator_server.core.groups.streams.configure import InternalTopic
    from coordinator_server.steps import Computation, Steps

_LEAVING = (LEAVING_EPOCH, STATIC_LEAVING_EPOCH)


class HeartbeatResult(NamedTuple):
    """The response, the internal topics to create, and the heartbeat interval in ms."""

    response: StreamsGroupHeartbeatResponse
    to_create: tuple[InternalTopic, ...] = ()
    interval_ms: int = 0


def _refusal(error: ErrorCode, message: str | None = None) -> HeartbeatResult:
    response = StreamsGroupHeartbeatResponse(error_code=error, error_message=message)
    return HeartbeatResult(response)


def validate(request: StreamsGroupHeartbeatRequest, _: Caller, __: GroupSettings) -> ErrorCode:
    """Return the error of a request that is invalid for every group, or NONE."""
    try:
        validation.check(request)
    except RefusedError as refused:
        return refused.error
    return ErrorCode.NONE


def refuse(request: StreamsGroupHeartbeatRequest, _: Caller, error: ErrorCode) -> HeartbeatResult:
    """Return the response to a heartbeat that did not reach a group."""
    if error is not ErrorCode.UNSUPPORTED_VERSION:
        try:
            validation.check(request)
        except RefusedError as refused:
            return _refusal(refused.error, refused.message)
    return _refusal(error)


def missing(request: StreamsGroupHeartbeatRequest, _: Caller) -> HeartbeatResult:
    """Refuse a heartbeat to a missing group; only joining members create groups."""
    return _refusal(ErrorCode.GROUP_ID_NOT_FOUND, no_group(request, GroupKind.STREAMS))


def wrong_kind(request: StreamsGroupHeartbeatRequest, _: Caller) -> HeartbeatResult:
    """Refuse a heartbeat to a group of another kind."""
    message = members.other_kind(request.group_id, GroupKind.STREAMS)
    return _refusal(ErrorCode.GROUP_ID_NOT_FOUND, message)


def heartbeat(
    group: StreamsGroup,
    request: StreamsGroupHeartbeatRequest,
    reply: Reply[HeartbeatResult],
    now_ms: int,
    effects: Effects,
) -> Steps:
    """Serve a heartbeat. The request is exclusive, to see the results of earlier requests."""
    return _serve(group, [], request, reply, now_ms, effects)


def first_heartbeat(
    group: GroupMetadata,
    request: StreamsGroupHeartbeatRequest,
    reply: Reply[HeartbeatResult],
    now_ms: int,
    effects: Effects,
) -> Steps:
    """Serve a heartbeat to a classic group; a join turns an Empty group into a streams group."""
    if request.member_epoch != JOINING_EPOCH or group.state is not EMPTY:
        effects.reply(reply, wrong_kind(request, reply.caller))
        return
    tombstones = [] if group.is_new else group.tombstones()
    blank: StreamsGroup = group.environment.in_place_of(GroupKind.STREAMS, group)
    yield from _serve(blank, tombstones, request, reply, now_ms, effects)


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
    """Plan the heartbeat of a member that leaves, permanently or temporarily.

    As in Kafka, even an unknown member can request the shutdown of the application.
    """
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
    """Start the timers after the records of a heartbeat are written."""
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
    serve_kind={GroupKind.STREAMS: heartbeat},
    refuse=refuse,
    missing=missing,
    wrong_kind=wrong_kind,
    protocol=GroupKind.STREAMS,
    validate=validate,
    creates_group=creates_group,
    exclusive=True,
    at_once=True,
)
