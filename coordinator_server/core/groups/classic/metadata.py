"""GroupMetadata: one group of the classic protocol.

The group combines durable state (committed offsets and the last GroupMetadata record) with the
state that exists only in memory: membership, parked requests, timers. Each API has its own module
of functions, whose first parameter is the group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from coordinator_server.core.groups.classic import rebalance
from coordinator_server.core.groups.classic.membership import ClassicMembership
from coordinator_server.core.groups.classic.rebalance import DelayedJoin, DelayedSync
from coordinator_server.core.groups.classic.state import (
    COMMIT_ANSWER,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    TRANSITIONS,
    GroupState,
)
from coordinator_server.core.groups.explain import Cause, Rebalance, RebalanceOutcome
from coordinator_server.core.groups.group import Group
from coordinator_server.core.groups.records import kind_of
from coordinator_server.core.groups.settings import GroupKind
from protocol.apis.list_groups import ListedGroup
from protocol.codec import decoder
from protocol.consumer_protocol import ConsumerProtocolSubscription
from protocol.errors import ErrorCode, ProtocolError
from protocol.offsets_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    RecordedMember,
)

if TYPE_CHECKING:
    from coordinator_server.core.groups.classic.member import MemberMetadata
    from coordinator_server.core.groups.effects import Effects
    from coordinator_server.core.groups.explain import Trigger
    from coordinator_server.core.groups.offsets import CommittedOffset
    from coordinator_server.core.groups.records import CoordinatorRecord
    from coordinator_server.core.groups.settings import GroupEnvironment
    from protocol.apis.offset_commit import OffsetCommitRequest


CONSUMER_PROTOCOL_TYPE = "consumer"


class GroupMetadata(Group):
    """A group of the classic protocol."""

    kind = GroupKind.CLASSIC

    def __init__(self, group_id: str, environment: GroupEnvironment) -> None:
        super().__init__(group_id, environment)
        self.recorded: GroupMetadataValue | None = None
        """The last GroupMetadata record; durable, like the offsets."""

        self.state: GroupState = EMPTY
        self.state_timestamp_ms: int | None = None
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.membership = ClassicMembership()
        self.subscribed_topics: frozenset[str] | None = None
        """The topics of the last completed join phase; None if unknown (see `subscription`)."""

        self.join_operation: DelayedJoin | None = None
        self.sync_operation = DelayedSync()
        self.awaited_syncs: set[str] | None = None
        """The members of this generation that have not sent SyncGroup yet; None if all have."""
        self.assignment_in_flight: int | None = None
        """The generation whose assignment is being written, or None."""

    session_expired = rebalance.session_expired

    def __repr__(self) -> str:
        return f"<GroupMetadata {self.group_id!r} {self.state} generation {self.generation_id}>"

    # Durable state

    def replay(self, record: CoordinatorRecord) -> Group:
        """Apply a record of this group, live or while the log is loaded."""
        self.is_new = False
        key, value = record
        if isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey):
            self.offsets.replay(key, value)
        elif isinstance(key, GroupMetadataKey):
            assert value is None or isinstance(value, GroupMetadataValue)
            self.recorded = value
        elif value is not None:
            kind = kind_of(key)
            group: Group = self.environment.in_place_of(kind, self)
            return group.replay(record)
        return self

    def state_records(self) -> list[CoordinatorRecord]:
        """Return the last GroupMetadata record, if there is one."""
        if self.recorded is None:
            return []
        return [(GroupMetadataKey(group=self.group_id), self.recorded)]

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the tombstone that deletes the group."""
        return [(GroupMetadataKey(group=self.group_id), None)]

    @property
    def is_blank(self) -> bool:
        """Whether the log holds no record of the group."""
        return self.recorded is None and not self.offsets

    def record(self, assignments: Mapping[str, bytes] | None = None) -> CoordinatorRecord:
        """Return the GroupMetadata record of the current state, with `assignments` if given."""
        members = [
            RecordedMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata_for(self.protocol_name),
                assignment=(
                    member.assignment
                    if assignments is None
                    else assignments.get(member.member_id, b"")
                ),
            )
            for member in self.membership.members.values()
        ]
        timestamp_ms = self.state_timestamp_ms
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation_id,
            protocol=self.protocol_name,
            leader=self.membership.leader_id,
            current_state_timestamp=-1 if timestamp_ms is None else timestamp_ms,
            members=members,
        )
        return GroupMetadataKey(group=self.group_id), value

    # Soft state

    @property
    def new_member_id(self) -> Callable[[str], str]:
        """The function `new_member_id(prefix)`, which returns a new member id."""
        return self.environment.new_member_id

    @property
    def is_dead(self) -> bool:
        """Whether the group has ended: deleted, expired or unloaded."""
        return self.state is DEAD

    @property
    def is_vacant(self) -> bool:
        """Whether the group object can be removed: the group has ended or was never created."""
        return self.is_new or self.state is DEAD

    @property
    def is_empty(self) -> bool:
        """Whether the group exists and has no members."""
        return self.state is EMPTY

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether the members' metadata are subscriptions of the consumer protocol."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        """Change the state. Raises AssertionError for an illegal transition."""
        assert (self.state, state) in TRANSITIONS, f"{self.group_id}: {self.state} -> {state}"
        self.state = state
        self.state_timestamp_ms = now_ms

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Return NONE if the caller is a member, else UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
        if group_instance_id is not None:
            owner = self.membership.static_ids.get(group_instance_id)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if owner != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        if member_id not in self.membership.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE

    def await_no_sync(self, member_id: str) -> None:
        """Stop waiting for the SyncGroup of a member that has synced or is removed."""
        if self.awaited_syncs is not None:
            self.awaited_syncs.discard(member_id)
            if not self.awaited_syncs:
                self.awaited_syncs = None

    def renew_session(self, member: MemberMetadata, now_ms: int) -> None:
        """Start or renew a member's session."""
        self.purgatory.schedule(member.session, now_ms + member.session_timeout_ms)

    def refresh_subscriptions(self) -> None:
        """Compute `subscribed_topics`, at the end of a join phase and after loading."""
        if self.uses_consumer_protocol:
            self.subscribed_topics = subscribed_topics(
                member.metadata_for(self.protocol_name)
                for member in self.membership.members.values()
            )
        else:
            self.subscribed_topics = None

    @property
    def member_count(self) -> int:
        """The number of members."""
        return len(self.membership.members)

    def listed(self) -> ListedGroup:
        """Return the group's entry in ListGroups."""
        return ListedGroup(
            group_id=self.group_id,
            protocol_type=self.protocol_type or "",
            group_state=self.state.value,
            group_type=self.kind.value,
        )

    def end(self, trigger: Trigger, now_ms: int, effects: Effects) -> None:
        """End a deleted or expired group; its pending member ids become invalid.

        A group that never had a generation publishes no report.
        """
        if self.generation_id:
            ended = Rebalance(Cause(trigger), self.generation_id, None, now_ms)
            effects.explain(ended.end(RebalanceOutcome.DEAD, self.protocol_type, now_ms))
        self.purgatory.clear()
        self.membership.pending.clear()
        self.transition_to(DEAD, now_ms)

    # Offsets

    def check_commit(self, request: OffsetCommitRequest, api_version: int) -> ErrorCode:
        """Return NONE if the caller may commit offsets, otherwise the error.

        Members of this generation may commit. An Empty group also accepts commits without a
        generation, from clients that are not members.
        """
        state = self.state
        generation_id = request.generation_id_or_member_epoch
        if state is EMPTY and generation_id < 0:
            return COMMIT_ANSWER[EMPTY]
        if generation_id < 0 and not request.member_id and request.group_instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = self.check_member(request.member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
        if generation_id != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        return COMMIT_ANSWER[state]

    def check_transactional_commit(self, request: OffsetCommitRequest) -> ErrorCode:
        """Return NONE for a member of this generation, and for a caller that names no member.

        Requests before version 3 cannot name a member.
        """
        if self.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        generation_id = request.generation_id_or_member_epoch
        if generation_id < 0:
            is_stranger = not request.member_id and request.group_instance_id is None
            if is_stranger or self.state is EMPTY:
                return ErrorCode.NONE
        error = self.check_member(request.member_id, request.group_instance_id)
        if error is ErrorCode.NONE and generation_id != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def committed_by(self, member_id: str, now_ms: int) -> None:
        """Renew the member's session, except in CompletingRebalance."""
        if self.state is STABLE or self.state is PREPARING_REBALANCE:
            self.renew_session(self.membership.members[member_id], now_ms)

    def check_offset_delete(self) -> ErrorCode:
        """Return NON_EMPTY_GROUP if members use another protocol type than `consumer`, or NONE."""
        if self.membership.members and not self.uses_consumer_protocol:
            return ErrorCode.NON_EMPTY_GROUP
        return ErrorCode.NONE

    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member subscribes to `topic`; True if the subscriptions are unknown."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    @property
    def offsets_may_expire(self) -> bool:
        """Whether offsets can expire in the current state; see the table in docs/coordinator.md."""
        if self.protocol_type is None or self.state is EMPTY:
            return True
        return (
            self.uses_consumer_protocol
            and self.state is STABLE
            and self.subscribed_topics is not None
        )

    def expiry_starts_ms(self, stored: CommittedOffset) -> int:
        """Return the time in ms from which the retention of an offset is counted.

        For an Empty group, this is the time at which the group became Empty, if that time is
        known; otherwise it is the time of the commit.
        """
        is_former = self.protocol_type is not None and self.state is EMPTY
        if is_former and self.state_timestamp_ms is not None:
            return self.state_timestamp_ms
        return stored.commit_timestamp


SUBSCRIPTIONS_KEPT, KEPT_BYTES = 1024, 4096
"""The number of cached subscriptions, and their largest size in bytes."""

_VERSION_SIZE = 2


def subscribed_topics(metadata_of_members: Iterable[bytes]) -> frozenset[str] | None:
    """Return the union of the members' topics, or None if a subscription is malformed.

    Metadata is decoded as version 0, the prefix of every version.
    """
    distinct: set[frozenset[str]] = set()
    for metadata in metadata_of_members:
        topics = _topics_kept(metadata) if len(metadata) <= KEPT_BYTES else _topics(metadata)
        if topics is None:
            return None
        distinct.add(topics)
    return distinct.pop() if len(distinct) == 1 else frozenset().union(*distinct)


def _topics(metadata: bytes) -> frozenset[str] | None:
    """Return the topics of one subscription, or None if it is malformed."""
    if len(metadata) < _VERSION_SIZE or metadata[0] & 0x80:
        return None  # version missing or negative
    try:
        subscription, _ = decoder(ConsumerProtocolSubscription, 0)(metadata, _VERSION_SIZE)
    except ProtocolError:
        return None
    return frozenset(subscription.topics)


_topics_kept = lru_cache(SUBSCRIPTIONS_KEPT)(_topics)
