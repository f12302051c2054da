"""Group: what every kind of group has, and what the shared requests ask of a kind.

Committed offsets and timers are the same for all kinds. Who may commit, which offsets may expire
and what ends with a group differs: `classic.metadata` answers for the classic protocol. Source:
Kafka's interface Group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from coordinator_server.group.offsets import CommittedOffsets
from coordinator_server.group.records import OffsetRecords

if TYPE_CHECKING:
    from coordinator_server.group.effects import Effects
    from coordinator_server.group.explain import Trigger
    from coordinator_server.group.offsets import CommittedOffset
    from coordinator_server.group.records import CoordinatorRecord, CoordinatorRecords
    from coordinator_server.group.settings import GroupSettings
    from protocol.apis.offset_commit import OffsetCommitRequest
    from protocol.errors import ErrorCode


LARGE_OFFSETS = 2000
"""A group with more committed offsets is deleted and expired in steps."""


class Group(ABC):
    """One group of any kind: the unit that one task owns.

    `is_new` until something is recorded: such a group is forgotten if nothing comes of it.
    """

    def __init__(self, group_id: str, settings: GroupSettings) -> None:
        self.group_id = group_id
        self.settings = settings
        self.offsets = CommittedOffsets()
        self.is_new = True

    # Durable state

    @abstractmethod
    def replay(self, record: CoordinatorRecord) -> None:
        """Apply a record of this group, live or while the log is loaded."""

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

    @property
    @abstractmethod
    def is_blank(self) -> bool:
        """Whether the log holds nothing (any more) of the group."""

    @property
    def is_large(self) -> bool:
        """Whether work on all committed offsets of the group may be long."""
        return sum(map(len, self.offsets.by_topic.values())) > LARGE_OFFSETS

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

    @abstractmethod
    def check_transactional_commit(self, request: OffsetCommitRequest) -> ErrorCode:
        """Whether the caller may commit in a transaction. Source: validateOffsetCommit."""

    @abstractmethod
    def check_commit(self, request: OffsetCommitRequest) -> ErrorCode:
        """Whether the caller may commit. Source: Group.validateOffsetCommit."""

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
    def end(self, trigger: Trigger, now_ms: int, effects: Effects) -> None:
        """The group's tombstone is written: the group has ended."""

    # Time

    @abstractmethod
    def next_look_ms(self) -> int | None:
        """When to call `expire_timers`, which may be too early; None while nothing waits."""

    @abstractmethod
    def expire_timers(self, now_ms: int, effects: Effects) -> None:
        """Run every delayed operation whose deadline has come, earliest first."""
