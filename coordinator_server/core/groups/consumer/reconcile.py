"""One reconciliation step: the current assignment of a member after a heartbeat.

A member first revokes the partitions outside its target, and confirms by listing the partitions it
owns. The member then moves to the target's epoch and gets the free partitions; partitions that
other members still have to revoke follow with later heartbeats. Source: CurrentAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.consumer.member import CurrentAssignment, MemberState, holds_any
from coordinator_server.core.groups.effects import Pace

if TYPE_CHECKING:
    from coordinator_server.core.groups.consumer.member import OwnedPartitions
    from coordinator_server.core.groups.modern.assignor_spec import Partitions
    from coordinator_server.steps import Computation

Listed = Collection[tuple[bytes, Collection[int]]]
"""The partitions that a member reports as owned, by topic id."""


class PartitionTarget(NamedTuple):
    """The epoch of the target assignment, and one member's partitions in it."""

    epoch: int
    partitions: Partitions


class UnknownStateError(Exception):
    """The member's recorded state is unknown: the member must abandon its partitions and rejoin."""


class PartitionReconciliation(NamedTuple):
    """One reconciliation step of a member.

    `is_owned(topic id, partition)` returns whether any member owns a partition.
    `subscribed` are the ids of the member's topics. `listed` is None if the heartbeat does not
    report owned partitions. `has_new_subscription` is set if the heartbeat changes the
    subscription.
    """

    current: CurrentAssignment
    target: PartitionTarget
    subscribed: Collection[bytes]
    is_owned: Callable[[bytes, int], bool]
    listed: Listed | None
    has_new_subscription: bool

    def next(self) -> Computation[CurrentAssignment]:
        """Return the member's next current assignment. Raises UnknownStateError."""
        current = self.current
        state = current.state
        if state is MemberState.UNKNOWN:
            if self.listed is None or self.listed:
                raise UnknownStateError
            return (yield from self._advance(self.target.epoch))
        if state is MemberState.UNRELEASED_PARTITIONS:
            return (yield from self._advance(current.epoch))
        if state is MemberState.UNREVOKED_PARTITIONS:
            if self._still_owns(current.revoking):
                return self._without_unsubscribed() if self.has_new_subscription else current
            return (yield from self._advance(current.epoch))
        if current.epoch != self.target.epoch:
            return (yield from self._advance(current.epoch))
        return self._without_unsubscribed() if self.has_new_subscription else current

    def _still_owns(self, revoking: OwnedPartitions) -> bool:
        """Return whether the member may still own some of `revoking`.

        Returns True if the heartbeat does not report the owned partitions.
        """
        return self.listed is None or holds_any(revoking, self.listed)

    def _without_unsubscribed(self) -> CurrentAssignment:
        """Make the member revoke unsubscribed topics; the member stays at its current epoch.

        If the member subscribes to no topic, its previous epoch is updated even if it has no
        partitions to revoke.
        """
        current = self.current
        gone = current.assigned.keys() - set(self.subscribed)
        if not gone and (self.subscribed or current.revoking):
            return current
        kept = {topic: owned for topic, owned in current.assigned.items() if topic not in gone}
        revoking: dict[bytes, Mapping[int, int]] = dict(current.revoking)
        for topic_id in gone:
            revoking[topic_id] = {**revoking.get(topic_id, {}), **current.assigned[topic_id]}
        return self._revoking_or(kept, revoking, current.epoch, current._replace(assigned=kept))

    def _revoking_or(
        self,
        kept: OwnedPartitions,
        revoking: OwnedPartitions,
        epoch: int,
        otherwise: CurrentAssignment,
    ) -> CurrentAssignment:
        """Return an assignment at `epoch` that waits for the revocation of `revoking`.

        If the member owns no partition of `revoking` any more, returns `otherwise` at `epoch`.
        """
        if revoking and self._still_owns(revoking):
            moved = self.current.moved_to(epoch)
            return moved._replace(
                state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, revoking=revoking
            )
        return otherwise.moved_to(epoch)

    def _advance(self, epoch: int) -> Computation[CurrentAssignment]:
        """Advance to the target: revoke first, at `epoch`, then take the free partitions."""
        current, target = self.current, self.target
        kept: dict[bytes, dict[int, int]] = {}
        revoking: dict[bytes, dict[int, int]] = {}
        new: dict[bytes, list[int]] = {}
        has_to_wait = False
        subscribed = self.subscribed
        pace = Pace()
        for topic_id in {**target.partitions, **current.assigned}:
            wanted = target.partitions.get(topic_id, frozenset())
            owned = current.assigned.get(topic_id, {})
            readable = wanted if topic_id in subscribed else frozenset()
            keeps = {partition: at for partition, at in owned.items() if partition in readable}
            gives_up = {
                partition: at for partition, at in owned.items() if partition not in readable
            }
            free: list[int] = []
            for partition in sorted(readable - owned.keys()):
                if self._is_held(topic_id, partition):
                    has_to_wait = True
                else:
                    free.append(partition)
            if keeps:
                kept[topic_id] = keeps
            if gives_up:
                revoking[topic_id] = gives_up
            if free:
                new[topic_id] = free
            if pace.is_due():
                yield
        if revoking and self._still_owns(revoking):
            return current.moved_to(epoch)._replace(
                state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, revoking=revoking
            )
        for topic_id, partitions in new.items():
            kept.setdefault(topic_id, {}).update(dict.fromkeys(partitions, target.epoch))
        state = MemberState.UNRELEASED_PARTITIONS if has_to_wait else MemberState.STABLE
        return current.moved_to(target.epoch)._replace(state=state, assigned=kept, revoking={})

    def _is_held(self, topic_id: bytes, partition: int) -> bool:
        """Return whether another member holds the partition; partitions just revoked are free."""
        return self.is_owned(topic_id, partition) and partition not in self.current.revoking.get(
            topic_id, ()
        )
