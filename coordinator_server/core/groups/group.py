"""Group: the state and behaviour that all kinds of groups share.

Committed offsets and timers are the same for all kinds. Kinds differ in which members may commit,
which offsets may expire, and what is removed when a group ends; `classic.metadata` has the rules of
the classic protocol. Source: Kafka's interface Group.
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

    from coordinator_server.core.groups.effects import Effects
    from coordinator_server.core.groups.explain import Rebalance, Trigger
    from coordinator_server.core.groups.offsets import CommittedOffset
    from coordinator_server.core.groups.records import CoordinatorRecord, CoordinatorRecords
    from coordinator_server.core.groups.settings import GroupEnvironment, GroupSettings
    from coordinator_server.steps import Steps
    from protocol.apis.list_groups import ListedGroup
    from protocol.apis.offset_commit import OffsetCommitRequest


class Group(ABC):
    """One group of any kind; exactly one task owns the group.

    `is_new` is set until a record is written: a new group without records is removed. Only records
    decide the kind of a group: a record that changes the kind creates another object with the same
    `offsets`.
    """

    kind: ClassVar[GroupKind]

    def __init__(self, group_id: str, environment: GroupEnvironment) -> None:
        self.group_id = group_id
        self.environment = environment
        self.offsets = CommittedOffsets()
        self.purgatory: Purgatory[Any] = Purgatory()
        self.rebalance: Rebalance | None = None
        """The report of the rebalance that is under way, or None."""
        self.is_new = True
        self.is_unloaded = False

    @property
    def settings(self) -> GroupSettings:
        """The broker's group settings."""
        return self.environment.settings

    # Durable state

    @abstractmethod
    def replay(self, record: CoordinatorRecord) -> Group:
        """Apply a record of this group, live or while the log is loaded.

        Returns the group after the record: this group, or a group of another kind that replaces it.
        """

    @abstractmethod
    def state_records(self) -> list[CoordinatorRecord]:
        """Return the records that the log must hold for the group, except offset records."""

    @abstractmethod
    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the tombstones that delete the group, without the tombstones of its offsets."""

    def replay_offsets(self, records: OffsetRecords) -> None:
        """Apply records of committed offsets, with the same result as replaying each record."""
        self.is_new = False
        for topic, offsets in records.topics:
            self.offsets.replay_offsets(topic, offsets)

    def replay_pending(self, records: CoordinatorRecords, producer_id: int) -> None:
        """Apply the offset records of a transaction; a transaction has no other group records."""
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
        """Return whether the group has state other than offsets for any of these topics."""
        return False

    def forgetting_topics(self, topic_ids: Collection[bytes]) -> list[CoordinatorRecord]:
        """Return the records that drop the group's state, except offsets, for deleted topics."""
        return []

    @property
    @abstractmethod
    def is_blank(self) -> bool:
        """Whether the log holds no record of the group."""

    # Abstract methods

    @property
    @abstractmethod
    def is_dead(self) -> bool:
        """Whether the group has ended: it was deleted, expired or unloaded."""

    @property
    @abstractmethod
    def is_vacant(self) -> bool:
        """Whether the group object can be removed: the group has ended or was never created."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the group exists and has no members."""

    @property
    @abstractmethod
    def member_count(self) -> int:
        """The number of members."""

    @abstractmethod
    def check_transactional_commit(self, request: OffsetCommitRequest) -> ErrorCode:
        """Return the error if the caller may not commit in a transaction, or NONE.

        Source: Group.validateOffsetCommit.
        """

    @abstractmethod
    def check_commit(self, request: OffsetCommitRequest, api_version: int) -> ErrorCode:
        """Return the error if the caller may not commit, or NONE.

        Source: Group.validateOffsetCommit.
        """

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Return the error if the member may not fetch offsets, or NONE.

        `member_id` is None for a client that is not a member. Source: Group.validateOffsetFetch.
        Consumer and streams groups override this method.
        """
        return ErrorCode.NONE

    @abstractmethod
    def committed_by(self, member_id: str, now_ms: int) -> None:
        """Handle a member's commit; for some kinds the commit renews the member's session."""

    @abstractmethod
    def check_offset_delete(self) -> ErrorCode:
        """Return the error if offsets may not be deleted now, or NONE.

        Source: Group.validateOffsetDelete.
        """

    @abstractmethod
    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member subscribes to `topic`; True if the subscriptions are unknown."""

    @property
    @abstractmethod
    def offsets_may_expire(self) -> bool:
        """Whether offsets of unsubscribed topics can expire in the current state."""

    @abstractmethod
    def expiry_starts_ms(self, stored: CommittedOffset) -> int:
        """Return the time at which the retention of an offset starts.

        Source: offsetExpirationCondition.
        """

    @abstractmethod
    def listed(self) -> ListedGroup:
        """Return the group's entry in ListGroups; callable at any time, without side effects."""

    @abstractmethod
    def end(self, trigger: Trigger, now_ms: int, effects: Effects) -> None:
        """End the group, after its tombstone was written."""

    # Time

    def next_look_ms(self) -> int | None:
        """Return the time (ms) at which to call `expire_timers`, or None without timers.

        The time can be earlier than the first deadline.
        """
        return self.purgatory.next_look_ms()

    def expire_timers(self, now_ms: int, effects: Effects) -> Steps | None:
        """Run every delayed operation whose deadline has passed, earliest first."""
        for operation in self.purgatory.expired(now_ms):
            operation.on_expiration(self, now_ms, effects)
        return None
