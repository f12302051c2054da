"""The expected response to a request, computed independently of the product.

A small model of the classic coordinator without time or bookkeeping: the facts of a group just
before a request, and the request, determine an error code or the thing that the response waits for.
The model follows Kafka's rules (docs/coordinator.md) slowly and naively, so that it does not repeat
the mistakes of the product.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.core.groups.classic.state import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    GroupState,
)
from protocol.apis.heartbeat import HeartbeatRequest
from protocol.apis.join_group import JoinGroupRequest
from protocol.apis.leave_group import LeaveGroupRequest
from protocol.apis.offset_commit import OffsetCommitRequest
from protocol.apis.sync_group import SyncGroupRequest
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.groups.classic.member import MemberMetadata
    from coordinator_server.core.groups.classic.metadata import GroupMetadata
    from coordinator_server.core.groups.settings import GroupSettings

E = ErrorCode


class Wait(Enum):
    """The event that a response waits for."""

    JOIN = "the end of the join phase"
    REPLACE = "the record of a static member's new id, or the end of the join phase"
    SYNC = "the record of the leader's assignment"
    WRITE = "its own records"


Verdict = ErrorCode | Wait

CLIENT_ERRORS: Mapping[ErrorCode, ErrorCode] = {
    E.NOT_ENOUGH_REPLICAS: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_LEADER_OR_FOLLOWER: E.NOT_COORDINATOR,
    E.KAFKA_STORAGE_ERROR: E.NOT_COORDINATOR,
    E.MESSAGE_TOO_LARGE: E.UNKNOWN_SERVER_ERROR,
}
"""Error of an append -> error in the client's response."""


class Facts(NamedTuple):
    """The facts of a group just before a request; `members` holds the group's own objects."""

    exists: bool
    state: GroupState
    generation: int
    members: Mapping[str, MemberMetadata]
    pending: frozenset[str]
    leader: str | None
    protocol_type: str | None
    protocol: str | None
    waiting: int

    @classmethod
    def of(cls, group: GroupMetadata | None) -> Facts:
        """Return the facts of the group; `group` is None if the group does not exist."""
        if group is None:
            return cls(False, EMPTY, 0, {}, frozenset(), None, None, None, 0)
        membership = group.membership
        return cls(
            True,
            group.state,
            group.generation_id,
            membership.members,
            frozenset(membership.pending),
            membership.leader_id,
            group.protocol_type,
            group.protocol_name,
            sum(member.awaiting_join is not None for member in membership.members.values()),
        )

    def owner(self, instance_id: str) -> str | None:
        """Return the member id of a static member."""
        for member in self.members.values():
            if member.group_instance_id == instance_id:
                return member.member_id
        return None

    def stranger(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Return the error for an unknown or replaced caller, or NONE."""
        if instance_id is not None:
            owner = self.owner(instance_id)
            if owner is None:
                return E.UNKNOWN_MEMBER_ID
            if owner != member_id:
                return E.FENCED_INSTANCE_ID
        return E.NONE if member_id in self.members else E.UNKNOWN_MEMBER_ID


def judge(facts: Facts, request: Any, version: int, settings: GroupSettings) -> Verdict | None:
    """Return the expected response to the request; None if `judge` does not cover its API."""
    if isinstance(request, OffsetCommitRequest):
        return _commit(facts, request, version)
    if not isinstance(
        request, JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest
    ):
        return None
    names_no_protocol = isinstance(request, SyncGroupRequest) and None in (
        request.protocol_type,
        request.protocol_name,
    )
    if names_no_protocol and version >= 5:
        return E.INCONSISTENT_GROUP_PROTOCOL
    if not request.group_id:
        return E.INVALID_GROUP_ID
    if isinstance(request, JoinGroupRequest):
        return _join(facts, request, version, settings)
    if facts.state is DEAD:
        return E.COORDINATOR_NOT_AVAILABLE
    if isinstance(request, SyncGroupRequest):
        return _sync(facts, request)
    if isinstance(request, HeartbeatRequest):
        return _heartbeat(facts, request)
    return E.NONE  # LeaveGroup has an error for each member: see `judge_leave`


def _join(
    facts: Facts, request: JoinGroupRequest, version: int, settings: GroupSettings
) -> Verdict:
    if not (
        settings.min_session_timeout_ms
        <= request.session_timeout_ms
        <= settings.max_session_timeout_ms
    ):
        return E.INVALID_SESSION_TIMEOUT
    if not facts.exists and request.member_id:
        return E.UNKNOWN_MEMBER_ID
    member = facts.members.get(request.member_id)
    if _is_full(facts, member, settings.max_size):
        return E.GROUP_MAX_SIZE_REACHED
    if facts.state is DEAD:
        return E.COORDINATOR_NOT_AVAILABLE
    if not _goes_together(facts, request):
        return E.INCONSISTENT_GROUP_PROTOCOL
    instance_id = request.group_instance_id
    if not request.member_id:
        if instance_id is not None:
            return Wait.JOIN if facts.owner(instance_id) is None else Wait.REPLACE
        return E.MEMBER_ID_REQUIRED if version >= 4 else Wait.JOIN
    if request.member_id in facts.pending:
        return Wait.JOIN if instance_id is None else E.UNKNOWN_SERVER_ERROR
    stranger = facts.stranger(request.member_id, instance_id)
    if stranger is not E.NONE:
        return stranger
    assert member is not None
    said = tuple((one.name, bytes(one.metadata)) for one in request.protocols)
    if facts.state is PREPARING_REBALANCE or said != member.protocols:
        return Wait.JOIN
    leads = facts.leader == request.member_id
    return Wait.JOIN if facts.state is STABLE and leads else E.NONE


def _is_full(facts: Facts, member: MemberMetadata | None, max_size: int) -> bool:
    if facts.state in (EMPTY, DEAD):
        return False
    if facts.state is PREPARING_REBALANCE:
        waits = member is not None and member.awaiting_join is not None
        return not waits and facts.waiting >= max_size
    return member is None and len(facts.members) >= max_size


def _goes_together(facts: Facts, request: JoinGroupRequest) -> bool:
    named = {one.name for one in request.protocols}
    if not named:
        return False
    if facts.state is EMPTY:
        return request.protocol_type != ""
    for member in facts.members.values():
        named &= {name for name, _ in member.protocols}
    return bool(named) and request.protocol_type == facts.protocol_type


def _sync(facts: Facts, request: SyncGroupRequest) -> Verdict:
    stranger = facts.stranger(request.member_id, request.group_instance_id)
    if stranger is not E.NONE:
        return stranger
    if request.generation_id != facts.generation:
        return E.ILLEGAL_GENERATION
    for said, chosen in (
        (request.protocol_type, facts.protocol_type),
        (request.protocol_name, facts.protocol),
    ):
        if said is not None and chosen is not None and said != chosen:
            return E.INCONSISTENT_GROUP_PROTOCOL
    if facts.state is PREPARING_REBALANCE:
        return E.REBALANCE_IN_PROGRESS
    return Wait.SYNC if facts.state is COMPLETING_REBALANCE else E.NONE


def _heartbeat(facts: Facts, request: HeartbeatRequest) -> ErrorCode:
    stranger = facts.stranger(request.member_id, request.group_instance_id)
    if stranger is not E.NONE:
        return stranger
    if request.generation_id != facts.generation:
        return E.ILLEGAL_GENERATION
    return E.REBALANCE_IN_PROGRESS if facts.state is PREPARING_REBALANCE else E.NONE


def _commit(facts: Facts, request: OffsetCommitRequest, version: int) -> Verdict:
    """Return the error of every partition that exists."""
    generation = request.generation_id_or_member_epoch
    if not facts.exists and generation >= 0:
        return E.GROUP_ID_NOT_FOUND if version >= 9 else E.ILLEGAL_GENERATION
    if facts.state is DEAD:
        return E.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and facts.state is EMPTY:
        return Wait.WRITE
    stranger = facts.stranger(request.member_id, request.group_instance_id)
    if generation < 0 and not request.member_id and request.group_instance_id is None:
        stranger = E.UNKNOWN_MEMBER_ID
    if stranger is not E.NONE:
        return stranger
    if generation != facts.generation:
        return E.ILLEGAL_GENERATION
    return E.REBALANCE_IN_PROGRESS if facts.state is COMPLETING_REBALANCE else Wait.WRITE


def judge_leave(
    facts: Facts, request: LeaveGroupRequest, version: int
) -> tuple[list[ErrorCode], set[str]]:
    """Return the error of each leaving member, and the ids of the members that are removed."""
    named = [(one.member_id, one.group_instance_id) for one in request.members]
    if version < 3:
        named = [(request.member_id, None)]
    errors: list[ErrorCode] = []
    gone: set[str] = set()
    for member_id, instance_id in named:
        if not member_id and instance_id is not None:
            member_id = facts.owner(instance_id) or ""
        pending = member_id in facts.pending
        error = E.NONE if pending else facts.stranger(member_id, instance_id)
        errors.append(error)
        if error is E.NONE:
            gone.add(member_id)
            left = {one: member for one, member in facts.members.items() if one != member_id}
            facts = facts._replace(members=left, pending=facts.pending - {member_id})
    return errors, gone
