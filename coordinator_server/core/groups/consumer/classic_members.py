"""SyncGroup, Heartbeat and LeaveGroup of classic-protocol members in a consumer group.

During a migration between the protocols a group has members of both (KIP-848). For members of the
classic protocol the member epoch is the generation. They are asked to rejoin whenever their
assignment changes, and their requests are never parked, because the broker assigns partitions and
no leader is needed. `classic_join` handles their JoinGroup. Source: the functions
classicGroup...ToConsumerGroup of GroupMetadataManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.core.groups.classic import heartbeat as classic_heartbeat
from coordinator_server.core.groups.classic import leave_group
from coordinator_server.core.groups.classic.responses import sync_error
from coordinator_server.core.groups.consumer import leaving, timers
from coordinator_server.core.groups.consumer.classic_protocol import assignment_bytes
from coordinator_server.core.groups.consumer.member import MemberState
from coordinator_server.core.groups.effects import STEP_ITEMS
from coordinator_server.core.groups.explain import Cause, Trigger, caused_by
from coordinator_server.core.groups.modern.members import (
    RefusedError,
    caller,
    known_member,
    static_member,
)
from protocol.apis.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.coordinator_errors import client_error
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.groups.consumer.consumer_group import ConsumerGroup
    from coordinator_server.core.groups.consumer.member import ConsumerMember
    from coordinator_server.core.groups.effects import Effects, Reply
    from coordinator_server.steps import Steps
    from protocol.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
    from protocol.apis.leave_group import (
        LeaveGroupRequest,
        LeaveGroupResponse,
        MemberIdentity,
        MemberResponse,
    )
    from protocol.consumer_group_records import ClassicMemberMetadata

PROTOCOL_TYPE = "consumer"


def sync(
    group: ConsumerGroup,
    request: SyncGroupRequest,
    reply: Reply[SyncGroupResponse],
    now_ms: int,
    effects: Effects,
) -> None:
    """Reply with the member's current assignment, at once."""
    try:
        member, classic = _checked(group, request)
        _check_protocol(classic, request)
    except RefusedError as refused:
        effects.reply(reply, sync_error(refused.error))
        return
    current = group.current(member.member_id)
    # A member that still has partitions to revoke gets its assignment even if its epoch is old.
    # Its next heartbeats then ask it to rejoin.
    if (
        group.assignment_epoch > current.epoch
        and current.state is not MemberState.UNREVOKED_PARTITIONS
    ):
        timers.await_rejoin(group, member.member_id, now_ms)
        effects.reply(reply, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
        return
    timers.has_synced(group, member.member_id)
    timers.renew_session(group, member.member_id, now_ms, classic.session_timeout_ms)
    metadata = bytes(classic.supported_protocols[0].metadata)
    response = SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=assignment_bytes(current.assigned, metadata, group.environment.topics),
    )
    effects.reply(reply, response)


def heartbeat(
    group: ConsumerGroup,
    request: HeartbeatRequest,
    reply: Reply[HeartbeatResponse],
    now_ms: int,
    effects: Effects,
) -> None:
    """Renew a member's session; ask the member to rejoin if its assignment changes."""
    try:
        member, classic = _checked(group, request)
    except RefusedError as refused:
        error = refused.error
    else:
        timers.renew_session(group, member.member_id, now_ms, classic.session_timeout_ms)
        error = ErrorCode.NONE
        if _has_to_rejoin(group, member):
            timers.await_rejoin(group, member.member_id, now_ms)
            error = ErrorCode.REBALANCE_IN_PROGRESS
    effects.reply(reply, classic_heartbeat.refuse(request, reply.caller, error))


def _checked(
    group: ConsumerGroup, request: HeartbeatRequest | SyncGroupRequest
) -> tuple[ConsumerMember, ClassicMemberMetadata]:
    """Return the member and its classic metadata.

    Raises RefusedError if the member is unknown or fenced, does not use the classic protocol, or
    sends another generation.
    """
    member_id = request.member_id
    if request.group_instance_id is None:
        member = known_member(group, member_id)
    else:
        member = static_member(group, member_id, request.group_instance_id)
    if member.classic is None:
        message = f"Member {member_id} does not use the classic protocol."
        raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, message)
    if request.generation_id != group.current(member_id).epoch:
        message = f"The generation of member {member_id} is not {request.generation_id}."
        raise RefusedError(ErrorCode.ILLEGAL_GENERATION, message)
    return member, member.classic


def _check_protocol(classic: ClassicMemberMetadata, request: SyncGroupRequest) -> None:
    """Raise RefusedError unless the protocol is null or was named in the JoinGroup response."""
    if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (
        None,
        classic.supported_protocols[0].name,
    ):
        message = "The protocol is not that of the JoinGroup."
        raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)


def _has_to_rejoin(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return whether the member's assignment must change.

    The member has not reached the latest target, has partitions to revoke, or can now get
    partitions that other members have released.
    """
    current = group.current(member.member_id)
    if current.epoch < group.assignment_epoch:
        return True
    if current.state is MemberState.UNRELEASED_PARTITIONS:
        return not _waits_for_others(group, member)
    return current.state is MemberState.UNREVOKED_PARTITIONS


def _waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return whether other members still hold partitions of the member's target."""
    assigned = group.current(member.member_id).assigned
    return any(
        partition not in assigned.get(topic_id, ()) and group.is_owned(topic_id, partition)
        for topic_id, partitions in group.targets.get(member.member_id, {}).items()
        for partition in partitions
    )


def leave(
    group: ConsumerGroup,
    request: LeaveGroupRequest,
    reply: Reply[LeaveGroupResponse],
    now_ms: int,
    effects: Effects,
) -> Steps:
    """Remove each named member of either protocol; reply after the write."""
    caller = reply.caller
    results: list[MemberResponse] = []
    gone: dict[str, ConsumerMember] = {}
    causes: list[Cause] = []
    for identity in leave_group.identities(request, caller.api_version):
        error = ErrorCode.NONE
        try:
            member = _leaving_member(group, identity)
        except RefusedError as refused:
            error = refused.error
        else:
            gone[member.member_id] = member
            reason = identity.reason or ""
            causes.append(caused_by(Trigger.MEMBER_LEFT, member, reason))
            effects.event(
                "member.left", group=group.group_id, member=member.member_id, reason=reason
            )
        results.append(leave_group.result(identity, error))
        if not len(results) % STEP_ITEMS:
            yield
    response = leave_group.response(results, caller.api_version)
    if not gone:
        effects.reply(reply, response)
        return
    records, back = yield from leaving.removal(group, list(gone.values()), now_ms)

    def done(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        if error is not ErrorCode.NONE:
            effects.reply(reply, leave_group.refuse(request, caller, client_error(error)))
            return
        if back is not None:
            back.finish(effects.group, now_ms, effects)
        effects.reply(reply, response)

    effects.write(records, done).causes = causes


def _leaving_member(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    """Return the member to remove; an administrator names a static member by instance id alone.

    Raises RefusedError if the member is unknown or fenced.
    """
    owner_id = group.static_ids.get(identity.group_instance_id or "", "")
    member: ConsumerMember = caller(
        group, identity.member_id or owner_id, identity.group_instance_id
    )
    return member
