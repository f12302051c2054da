"""A member of a consumer group: what it asks for, and what it owns.

Both are values that a record holds; a change makes a new one. Source: ConsumerGroupMember.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.consumer.state import MemberState
from coordinator_server.core.groups.modern.members import JOINING_EPOCH

if TYPE_CHECKING:
    from protocol.consumer_group_records import ClassicMemberMetadata

OwnedPartitions = Mapping[bytes, Mapping[int, int]]
"""Topic id -> partition -> the member epoch at which the partition was assigned (KIP-1251)."""

"""The member epochs of requests that are no plain heartbeats."""


class ConsumerMember(NamedTuple):
    """What a member says of itself. `topics` are the names it subscribes to, in order.

    `classic` is there while it speaks the classic protocol in this group.
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
        """Its instance id, by the name that accounts of rebalances use."""
        return self.instance_id


class CurrentAssignment(NamedTuple):
    """What a member owns: `assigned`, and `revoking`, which it has still to give up."""

    epoch: int = JOINING_EPOCH
    previous_epoch: int = JOINING_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: OwnedPartitions = {}
    revoking: OwnedPartitions = {}

    def held(self) -> Iterator[tuple[bytes, int]]:
        """Each partition that it owns or has still to give up, as (topic id, partition)."""
        for owned in (self.assigned, self.revoking):
            for topic_id, partitions in owned.items():
                for partition in partitions:
                    yield topic_id, partition

    def held_beyond(self, other: CurrentAssignment) -> Iterator[tuple[bytes, set[int]]]:
        """What it owns or has still to give up and `other` does not, by topic."""
        for owned in (self.assigned, self.revoking):
            for topic_id, partitions in owned.items():
                more = partitions.keys() - other.assigned.get(topic_id, {}).keys()
                more -= other.revoking.get(topic_id, {}).keys()
                if more:
                    yield topic_id, more

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member has reached the target of `epoch`."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def moved_to(self, epoch: int) -> CurrentAssignment:
        """The same at another epoch."""
        return self._replace(epoch=epoch, previous_epoch=self.epoch)


NOTHING_OWNED = CurrentAssignment()


def holds_all(owned: OwnedPartitions, asked: Iterable[tuple[bytes, Iterable[int]]]) -> bool:
    """Whether all of `asked`, as (topic id, partitions), is in `owned`."""
    return all(
        topic_id in owned and owned[topic_id].keys() >= set(partitions)
        for topic_id, partitions in asked
    )


def holds_any(owned: OwnedPartitions, asked: Iterable[tuple[bytes, Iterable[int]]]) -> bool:
    """Whether something of `asked`, as (topic id, partitions), is in `owned`."""
    nothing: Mapping[int, int] = {}
    return any(
        partition in owned.get(topic_id, nothing)
        for topic_id, partitions in asked
        for partition in partitions
    )


def holds_at(current: CurrentAssignment, topic_id: bytes, partition: int, epoch: int) -> bool:
    """Whether a partition was assigned at `epoch` or before, and is not given up since then."""
    for owned in (current.assigned, current.revoking):
        assigned_at = owned.get(topic_id, {}).get(partition)
        if assigned_at is not None:
            return assigned_at <= epoch
    return False
