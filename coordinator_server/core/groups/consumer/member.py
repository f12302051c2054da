"""A member of a consumer group: its subscription, and its current assignment.

Subscription and assignment are immutable values, which are stored in records. Source:
ConsumerGroupMember.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.modern.members import JOINING_EPOCH

if TYPE_CHECKING:
    from protocol.consumer_group_records import ClassicMemberMetadata


class ConsumerGroupState(StrEnum):
    """The state of a consumer group; the values are the names in ConsumerGroupDescribe."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class MemberState(IntEnum):
    """A member's progress towards its target; the values are stored in the member's record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, _: object) -> MemberState:
        """Return UNKNOWN for a state of a later Kafka version."""
        return cls.UNKNOWN


OwnedPartitions = Mapping[bytes, Mapping[int, int]]
"""Topic id -> partition -> the member epoch at which the partition was assigned (KIP-1251)."""


class ConsumerMember(NamedTuple):
    """The attributes that a member sends; `topics` are the subscribed names, sorted.

    `classic` is set while the member uses the classic protocol.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    regex: str | None = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMemberMetadata | None = None

    @property
    def group_instance_id(self) -> str | None:
        """The instance id, under the name that rebalance reports use."""
        return self.instance_id


class CurrentAssignment(NamedTuple):
    """A member's current assignment: `assigned`, and `revoking`, which it still has to revoke."""

    epoch: int = JOINING_EPOCH
    previous_epoch: int = JOINING_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: OwnedPartitions = {}
    revoking: OwnedPartitions = {}

    def held(self) -> Iterator[tuple[bytes, int]]:
        """Yield each assigned partition and each partition to revoke, as (topic id, partition)."""
        for owned in (self.assigned, self.revoking):
            for topic_id, partitions in owned.items():
                for partition in partitions:
                    yield topic_id, partition

    def held_beyond(self, other: CurrentAssignment) -> Iterator[tuple[bytes, set[int]]]:
        """Yield by topic the partitions that are held in this assignment but not in `other`.

        Assigned partitions and partitions still to be revoked are held.
        """
        for owned in (self.assigned, self.revoking):
            for topic_id, partitions in owned.items():
                more = partitions.keys() - other.assigned.get(topic_id, {}).keys()
                more -= other.revoking.get(topic_id, {}).keys()
                if more:
                    yield topic_id, more

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether the member has reached the target of `epoch`."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def moved_to(self, epoch: int) -> CurrentAssignment:
        """Return a copy with another epoch; the current epoch becomes the previous one."""
        return self._replace(epoch=epoch, previous_epoch=self.epoch)


NOTHING_OWNED = CurrentAssignment()


def holds_all(owned: OwnedPartitions, asked: Iterable[tuple[bytes, Iterable[int]]]) -> bool:
    """Return whether `owned` has all partitions of `asked`, given as (topic id, partitions)."""
    return all(
        topic_id in owned and owned[topic_id].keys() >= set(partitions)
        for topic_id, partitions in asked
    )


def holds_any(owned: OwnedPartitions, asked: Iterable[tuple[bytes, Iterable[int]]]) -> bool:
    """Return whether `owned` has any partition of `asked`, given as (topic id, partitions)."""
    nothing: Mapping[int, int] = {}
    return any(
        partition in owned.get(topic_id, nothing)
        for topic_id, partitions in asked
        for partition in partitions
    )


def holds_at(current: CurrentAssignment, topic_id: bytes, partition: int, epoch: int) -> bool:
    """Return whether the partition is held and was assigned at `epoch` or earlier."""
    for owned in (current.assigned, current.revoking):
        assigned_at = owned.get(topic_id, {}).get(partition)
        if assigned_at is not None:
            return assigned_at <= epoch
    return False
