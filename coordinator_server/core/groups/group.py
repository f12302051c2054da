"""Group: what every kind of group has, and what the shared requests ask of a kind.

Committed offsets and timers are the same for all kinds. Who may commit, which offsets may expire
and what ends with a group differs: `classic.metadata` answers for the classic protocol. Source:
Kafka's interface Group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from coordinator_server.core.groups.offsets import CommittedOffsets
from coordinator_server.core.groups.purgatory import Purgatory
from coordinator_server.core.groups.records import OffsetRecords
from coordinator_server.core.groups.settings import GroupKind
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection

    from coordinator_server.core.groups.effects import Effects, Steps
    from coordinator_server.core.groups.explain import Rebalance, Trigger
    from coordinator_server.core.groups.offsets import CommittedOffset
    from coordinator_server.core.groups.records import CoordinatorRecord, CoordinatorRecords
    from coordinator_server.core.groups.settings import GroupEnvironment, GroupSettings
    from protocol.apis.list_groups import ListedGroup
    from protocol.apis.offset_commit import OffsetCommitRequest


class Group(ABC):
    """One group of any kind: the unit that one task owns.

    `is_new` until something is recorded: such a group is forgotten if nothing comes of it. Records
    alone decide of which kind a group is: one that turns it into another kind makes another object,
    which has the same `offsets`.
    """

    kind: ClassVar[GroupKind]

    def __init__(self, group_id: str, environment: GroupEnvironment) -> None:
        self.group_id = group_id
        self.environment = environment
        self.offsets = CommittedOffsets()
        self.purgatory: Purgatory[Any] = Purgatory()
        self.rebalance: Rebalance | None = None
        """The account of what is under way; None while nothing is."""
        self.is_new = True
        self.is_unloaded = False

    @property
    def settings(self) -> GroupSettings:
        """The broker's settings of groups."""
        return self.environment.settings

    # Durable state

    @abstractmethod
    def replay(self, record: CoordinatorRecord) -> Group:
        """Apply a record of this group, live or while the log is loaded.

        Returns the group as it is from then on: this one, or that of another kind in its place.
        """

    @abstractmethod
    def state_records(self) -> list[CoordinatorRecord]:
        """The records that hold in the log, but for those of offsets."""

    @abstractmethod
    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that end the group, but for those of offsets."""

    def replay_offsets(self, records: OffsetRecords) -> None:
        """Apply the records of committed offsets, as if each had been replayed."""
        self.is_new = False
        for topic, offsets in records.topics:
            self.offsets.replay_offsets(topic, offsets)

    def replay_pending(self, records: CoordinatorRecords, producer_id: int) -> None:
        """Apply records that belong to a transaction: offsets, which it alone can have."""
        self.is_new = False
        assert isinstance(records, OffsetRecords)
        for topic, offsets in records.topics:
            for partition, offset in offsets.items():
                self.offsets.replay_pending(topic, partition, offset, producer_id)

    def replay_end(self, producer_id: int, *, commits: bool) -> None:
        """Apply the marker that ends a transaction."""
        self.offsets.replay_end(producer_id, commits=commits)

    def restore(self, topic: str, offsets: dict[int, CommittedOffset]) -> None:
        """Apply offsets from a snapshot, by partition."""
        self.is_new = False
        self.offsets.replay_offsets(topic, offsets)

    def has_state_of(self, topic_ids: Collection[bytes]) -> bool:
        """Whether the group holds something of these topics, besides offsets."""
        return False

    def forgetting_topics(self, topic_ids: Collection[bytes]) -> list[CoordinatorRecord]:
        """The records that drop what it holds of topics that are deleted, besides offsets."""
        return []

    @property
    @abstractmethod
    def is_blank(self) -> bool:
        """Whether the log holds nothing (any more) of the group."""

    # What a kind decides

    @property
    @abstractmethod
    def is_dead(self) -> bool:
        """Whether the group has ended: deleted, expired or unloaded."""

    @property
    @abstractmethod
    def is_vacant(self) -> bool:
        """Whether the group may be forgotten: it has ended or was never created."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the group exists and has no members."""

    @property
    @abstractmethod
    def member_count(self) -> int:
        """How many members the group has."""

    @abstractmethod
    def check_transactional_commit(self, request: OffsetCommitRequest) -> ErrorCode:
        """Whether the caller may commit in a transaction. Source: validateOffsetCommit."""

    @abstractmethod
    def check_commit(self, request: OffsetCommitRequest, api_version: int) -> ErrorCode:
        """Whether the caller may commit. Source: Group.validateOffsetCommit."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Whether offsets may be fetched by who says to be this member, None for nobody.

        Source: Group.validateOffsetFetch, which all kinds but one leave empty.
        """
        return ErrorCode.NONE

    @abstractmethod
    def committed_by(self, member_id: str, now_ms: int) -> None:
        """A member has committed, which renews its session where the kind has it so."""

    @abstractmethod
    def check_offset_delete(self) -> ErrorCode:
        """Whether offsets may be deleted now. Source: Group.validateOffsetDelete."""

    @abstractmethod
    def is_subscribed(self, topic: str) -> bool:
        """Whether a member reads `topic`; True for every topic where that cannot be known."""

    @property
    @abstractmethod
    def offsets_may_expire(self) -> bool:
        """Whether offsets of unsubscribed topics expire in this state at all."""

    @abstractmethod
    def expiry_starts_ms(self, stored: CommittedOffset) -> int:
        """From when the retention of one offset counts. Source: offsetExpirationCondition."""

    @abstractmethod
    def listed(self) -> ListedGroup:
        """The group's entry in ListGroups; it changes nothing, so it may be made at any time."""

    @abstractmethod
    def end(self, trigger: Trigger, now_ms: int, effects: Effects) -> None:
        """The group's tombstone is written: the group has ended."""

    # Time

    def next_look_ms(self) -> int | None:
        """When to call `expire_timers`, which may be too early; None while nothing waits."""
        return self.purgatory.next_look_ms()

    def expire_timers(self, now_ms: int, effects: Effects) -> Steps | None:
        """Run every delayed operation whose deadline has come, earliest first."""
        for operation in self.purgatory.expired(now_ms):
            operation.on_expiration(self, now_ms, effects)
        return None
