"""The uniform assignor for members with different subscriptions.

Members keep the partitions of topics they still subscribe to. Free partitions go to the
least-loaded subscriber of their topic. Then, topic by topic, partitions move from the most-loaded
to the least-loaded subscriber, until a round over all topics moves none. Source:
UniformHeterogeneousAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coordinator_server.core.groups.effects import Pace
from coordinator_server.core.groups.modern.assignor_spec import Assignment, GroupSpec, uuid_order

if TYPE_CHECKING:
    from coordinator_server.core.groups.modern.assignor_spec import Partitions
    from coordinator_server.steps import Computation


ROUNDS_MAX = 16
"""The limit on balancing rounds: with overlapping subscriptions, moves can go on for long. Each
round is said to halve the imbalance."""

UNASSIGNED = -1


def assign(spec: GroupSpec) -> Computation[Assignment]:
    """Return the assignment; the group must have members and topics."""
    return (yield from _Builder(spec).build())


class _Builder:
    """Builds one assignment; members are identified by their index.

    `_owners` maps a topic id to the owner of each partition; `_sizes` has the number of partitions
    that each member owns.
    """

    def __init__(self, spec: GroupSpec) -> None:
        self._members = list(spec.members.items())
        self._counts = spec.partition_counts
        self._sizes = [0] * len(self._members)
        self._readers: dict[bytes, list[int]] = {}
        self._topic_ids: list[bytes] = []
        self._owners: dict[bytes, list[int]] = {}
        self._pace = Pace()

    def build(self) -> Computation[Assignment]:
        """Build and return the assignment."""
        yield from self._order()
        yield from self._keep()
        for topic_id in self._topic_ids:
            self._assign_rest(topic_id)
            if self._pace.is_due(self._work_on(topic_id)):
                yield
        yield from self._balance()
        return (yield from self._assignment())

    def _work_on(self, topic_id: bytes) -> int:
        """Return the cost of a topic: its number of partitions plus its number of subscribers."""
        return self._counts[topic_id] + len(self._readers[topic_id])

    def _order(self) -> Computation[None]:
        """Collect the subscribers of each topic, and sort the topics."""
        for index, (_, member) in enumerate(self._members):
            for topic_id in member.topic_ids:
                self._readers.setdefault(topic_id, []).append(index)
            if self._pace.is_due(len(member.topic_ids)):
                yield
        counts = self._counts
        # Topics with the most partitions per subscriber come first.
        self._topic_ids = sorted(
            self._readers,
            key=lambda topic_id: (
                -counts[topic_id] / len(self._readers[topic_id]),
                len(self._readers[topic_id]),
                uuid_order(topic_id),
            ),
        )
        self._owners |= {topic_id: [UNASSIGNED] * counts[topic_id] for topic_id in self._topic_ids}

    def _keep(self) -> Computation[None]:
        """Keep each member's previous partitions of topics that it still subscribes to."""
        for index, (_, member) in enumerate(self._members):
            for topic_id, partitions in member.partitions.items():
                if topic_id in member.topic_ids:
                    self._sizes[index] += len(partitions)
                    owners = self._owners[topic_id]
                    for partition in partitions:
                        owners[partition] = index
                if self._pace.is_due(len(partitions)):
                    yield

    def _assign_rest(self, topic_id: bytes) -> None:
        """Assign the unowned partitions of a topic to its least-loaded subscribers."""
        owners = self._owners[topic_id]
        if UNASSIGNED not in owners:
            return
        loads = Loads(self._readers[topic_id], self._sizes)
        for partition, owner in enumerate(owners):
            if owner == UNASSIGNED:
                index = loads.next_least()
                owners[partition] = index
                self._sizes[index] += 1

    def _balance(self) -> Computation[None]:
        """Balance topics with several subscribers in rounds, until a whole round moves nothing."""
        topic_ids = [topic_id for topic_id in self._topic_ids if len(self._readers[topic_id]) > 1]
        last_moved: bytes | None = None
        for _ in range(ROUNDS_MAX):
            for topic_id in topic_ids:
                if topic_id == last_moved:
                    return
                if self._has_moved(topic_id) or last_moved is None:
                    last_moved = topic_id
                if self._pace.is_due(self._work_on(topic_id)):
                    yield

    def _has_moved(self, topic_id: bytes) -> bool:
        """Move partitions of a topic from its most- to its least-loaded subscribers.

        Returns whether any partition was moved.
        """
        readers, sizes, owners = self._readers[topic_id], self._sizes, self._owners[topic_id]
        of_readers = [sizes[index] for index in readers]
        if max(of_readers) - min(of_readers) <= 1:
            return False
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            owned.setdefault(owner, []).append(partition)
        has_moved = False
        loads = Loads(readers, sizes)
        while True:
            giver = loads.next_most()
            while giver is not None and not owned.get(giver):
                loads.exclude_most()
                giver = loads.next_most()
            if giver is None:
                return has_moved
            partition = owned[giver].pop()
            taker = loads.next_least()
            if loads.are_even:
                return has_moved
            owners[partition] = taker
            sizes[giver] -= 1
            sizes[taker] += 1
            has_moved = True

    def _assignment(self) -> Computation[Assignment]:
        owned: list[dict[bytes, set[int]]] = [{} for _ in self._members]
        for topic_id, owners in self._owners.items():
            for partition, index in enumerate(owners):
                owned[index].setdefault(topic_id, set()).add(partition)
            if self._pace.is_due(len(owners)):
                yield
        assignment: dict[str, Partitions] = {}
        for (member_id, _), partitions in zip(self._members, owned, strict=True):
            assignment[member_id] = {
                topic_id: frozenset(of_topic) for topic_id, of_topic in partitions.items()
            }
            if self._pace.is_due(len(partitions)):
                yield
        return assignment


class Loads:
    """The subscribers of a topic, sorted by the number of partitions they own in all topics.

    The sorted members begin with a run of least-loaded members and end with a run of most-loaded
    ones. The next member of the first run takes a partition. When every member of the run has taken
    one, the level of the run rises by one, and members already at that level join the run. The
    second run gives partitions and grows downwards in the same way. The caller keeps `sizes` up to
    date.

    Source: MemberAssignmentBalancer of UniformHeterogeneousAssignmentBuilder.
    """

    def __init__(self, readers: Sequence[int], sizes: Sequence[int]) -> None:
        """`readers` are indexes into `sizes`, in ascending order."""
        self._sizes = sizes
        self._sorted = sorted(readers, key=sizes.__getitem__)
        count = len(self._sorted)
        self._least_level = sizes[self._sorted[0]] - 1
        self._least_end = self._least_next = 0
        self._most_level = sizes[self._sorted[-1]] + 1
        self._most_start = self._most_end = count
        self._most_next = count - 1

    @property
    def are_even(self) -> bool:
        """Whether the levels of the two runs differ by at most one partition."""
        return self._most_level - self._least_level <= 1

    def next_least(self) -> int:
        """Return the member that takes the next partition, and count the partition as taken."""
        if self._least_next >= self._least_end:
            self._least_level += 1
            while (
                self._least_end < len(self._sorted)
                and self._sizes[self._sorted[self._least_end]] == self._least_level
            ):
                self._least_end += 1
            self._least_next = 0
        index = self._sorted[self._least_next]
        self._least_next += 1
        return index

    def next_most(self) -> int | None:
        """Return the member that gives up the next partition, or None if no member is left.

        The partition is no longer counted as this member's.
        """
        if self._most_next < self._most_start:
            if self._most_start and self._most_end <= self._most_start:
                # All members of this run were excluded: continue with the members at the next
                # lower level.
                self._most_level = self._sizes[self._sorted[self._most_start - 1]]
            else:
                self._most_level -= 1
            while (
                self._most_start
                and self._sizes[self._sorted[self._most_start - 1]] == self._most_level
            ):
                self._most_start -= 1
            self._most_next = self._most_end - 1
        if self._most_next < 0:
            return None
        index = self._sorted[self._most_next]
        self._most_next -= 1
        return index

    def exclude_most(self) -> None:
        """Exclude the member that `next_most` returned last: it owns no partition of this topic."""
        asked, last = self._most_next + 1, self._most_end - 1
        self._sorted[asked], self._sorted[last] = self._sorted[last], self._sorted[asked]
        self._most_end -= 1
