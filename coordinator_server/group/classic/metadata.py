"""GroupMetadata: one classic consumer group, the unit that one task owns.

It joins the hard state (`image`, made by records) with the soft state of the round in progress
(roster, parked requests, timers). The verbs live in one module per request and are bound here;
each takes its request first and (now_ms, effects) last, and returns nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from coordinator_server.group import (
    delete_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    retention,
)
from coordinator_server.group.classic import (
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    lifecycle,
    rebalance,
    sync_group,
)
from coordinator_server.group.classic.membership import Roster
from coordinator_server.group.classic.rebalance import DelayedSync
from coordinator_server.group.classic.state import DEAD, EMPTY, TRANSITIONS, GroupState
from coordinator_server.group.classic.subscription import subscribed_topics
from coordinator_server.group.image import GroupImage
from coordinator_server.group.purgatory import DelayedOperation, Purgatory
from protocol.errors import ErrorCode
from protocol.offsets_log import GroupMetadataKey, GroupMetadataValue
from protocol.offsets_log import MemberMetadata as RecordedMember

if TYPE_CHECKING:
    from coordinator_server.group.classic.explain import Rebalance
    from coordinator_server.group.classic.member import MemberMetadata
    from coordinator_server.group.effects import Effects
    from coordinator_server.group.records import Record
    from coordinator_server.group.settings import GroupSettings
    from protocol.offsets_log import OffsetCommitValue

CONSUMER_PROTOCOL_TYPE = "consumer"


class GroupMetadata:
    """A consumer group of the classic protocol.

    `new_member_id(prefix)` makes member ids; it is injected, as the heart knows no randomness.
    """

    def __init__(
        self, group_id: str, settings: GroupSettings, new_member_id: Callable[[str], str]
    ) -> None:
        self.group_id = group_id
        self.settings = settings
        self.new_member_id = new_member_id

        self.image = GroupImage()

        self.state: GroupState = EMPTY
        self.state_timestamp_ms: int | None = None
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.roster = Roster()
        self.subscribed_topics: frozenset[str] | None = None
        """Topics of the last completed join phase; None: not known (see `subscription`)."""

        self.purgatory = Purgatory()
        self.join_operation: DelayedOperation | None = None
        self.sync_operation = DelayedSync()
        self.awaited_syncs: set[str] = set()
        """Members of this generation that have not sent SyncGroup yet."""
        self.assignment_in_flight: int | None = None
        """The generation whose assignment is being written."""
        self.rebalance: Rebalance | None = None
        self.is_new = True
        """Nothing has been recorded or joined yet."""

    join = join_group.join
    sync = sync_group.sync
    heartbeat = heartbeat.heartbeat
    leave = leave_group.leave
    commit = offset_commit.commit
    fetch = offset_fetch.fetch
    offset_delete = offset_delete.offset_delete
    list_entry = describe_groups.list_entry
    describe = describe_groups.describe
    delete = delete_groups.delete
    expire_offsets = retention.expire_offsets
    topics_deleted = retention.topics_deleted
    load_finished = lifecycle.load_finished
    unload = lifecycle.unload
    session_expired = rebalance.session_expired

    def __repr__(self) -> str:
        return f"<GroupMetadata {self.group_id!r} {self.state} generation {self.generation_id}>"

    # Hard state

    def replay(self, record: Record) -> None:
        """Apply a record of this group, live or while the log is loaded."""
        self.is_new = False
        self.image.replay(record)

    def restore(self, topic: str, offsets: dict[int, OffsetCommitValue]) -> None:
        """Apply offsets that a snapshot holds, by partition."""
        self.is_new = False
        self.image.restore(topic, offsets)

    def record(self, assignments: Mapping[str, bytes] | None = None) -> Record:
        """The GroupMetadata record of the state as it is, with the given or present assignments."""
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
            for member in self.roster.members.values()
        ]
        timestamp_ms = self.state_timestamp_ms
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation_id,
            protocol=self.protocol_name,
            leader=self.roster.leader_id,
            current_state_timestamp=-1 if timestamp_ms is None else timestamp_ms,
            members=members,
        )
        return GroupMetadataKey(group=self.group_id), value

    # Soft state

    @property
    def is_vacant(self) -> bool:
        """Whether the group may be forgotten: it is over, or it never came to be."""
        return self.state is DEAD or self.is_new

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether its members' metadata are subscriptions of the consumer protocol."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        """Move to `state`; an illegal move is a bug."""
        assert (self.state, state) in TRANSITIONS, f"{self.group_id}: {self.state} -> {state}"
        self.state = state
        self.state_timestamp_ms = now_ms

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Whether the caller is a member: NONE, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
        if group_instance_id is not None:
            owner = self.roster.static_ids.get(group_instance_id)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if owner != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        if member_id not in self.roster.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE

    def renew_session(self, member: MemberMetadata, now_ms: int) -> None:
        """Start a member's session anew."""
        self.purgatory.schedule(member.session, now_ms + member.session_timeout_ms)

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member reads `topic`; yes for every topic when that cannot be told."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def refresh_subscriptions(self) -> None:
        """Compute `subscribed_topics`; done when a join phase ends and after loading."""
        if self.uses_consumer_protocol:
            self.subscribed_topics = subscribed_topics(
                member.metadata_for(self.protocol_name) for member in self.roster.members.values()
            )
        else:
            self.subscribed_topics = None

    # Time

    def next_deadline_ms(self) -> int | None:
        """When `expire_timers` has something to do; None while nothing waits."""
        return self.purgatory.next_deadline_ms()

    def expire_timers(self, now_ms: int, effects: Effects) -> None:
        """Run every delayed operation whose deadline has come, earliest first."""
        for operation in self.purgatory.expired(now_ms):
            operation.on_expiration(self, now_ms, effects)
