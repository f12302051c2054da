"""Which broker leads which partition, and what changes when a broker stops or starts.

The brokers of one process share one data directory, so a replica is not a copy of the data but the
right to lead the partition. All replicas on running brokers are in sync. As with Kafka's
controller, every change of the leader, also to none, starts a new leader epoch. A partition is
offline while no broker of its replicas runs. A returning broker leads only partitions that were
offline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from coordinator_server.events.log import LOG
from coordinator_server.topics.topic import Reassignment
from protocol.hashing import java_hash
from storage.errors import StorageError
from storage.topic_catalogue import PartitionLeadership

if TYPE_CHECKING:
    from coordinator_server.topics.topic import Partition, Topic
    from storage.topic_catalogue import TopicRecord

NOBODY = -1

Keep = Callable[[Iterable["Topic"]], None]
Moving = Callable[["Partition"], None]
"""Called with a partition whose leader is about to change, while the old one can still append."""
Moved = Callable[["Partition", int], None]
"""Called with a partition that has a new leader epoch, and the previous leader (-1: none)."""


class Leadership:
    """Elects leaders and places replicas. The leader and replicas are stored in each `Partition`.

    `node_ids` are all brokers of the process; `keep` writes changed topics to disk. `on_moved` is
    called for each partition that gets a new leader epoch. `on_moving` is called before that change
    if the partition has a different leader whose broker is not being stopped.
    """

    def __init__(self, node_ids: tuple[int, ...], keep: Keep) -> None:
        self.node_ids = node_ids
        self.running = set(node_ids)
        self.registered = frozenset(node_ids)
        """Brokers that replicas may be placed on: all except those that clients unregistered."""
        self.controller_epoch = 1
        """Rises when the controller changes. The controller is the first running broker."""
        self.on_moved: list[Moved] = []
        self.on_moving: list[Moving] = []
        self._keep = keep

    def place(self, name: str, index: int, factor: int) -> tuple[int, ...]:
        """Return the replicas of a new partition; the first replica is the preferred leader.

        The placement is round-robin from a broker that depends on the topic name, so it is even and
        repeatable. Followers are in reverse order in every second round, to spread them as well.
        Running brokers come before stopped ones.
        """
        count = len(self.node_ids)
        if count == 1:
            return self.node_ids
        running = [node_id for node_id in self.node_ids if node_id in self.running]
        stopped = [
            node_id for node_id in self.node_ids if node_id in self.registered - self.running
        ]
        places = running or stopped
        first = (java_hash(name) + index) % len(places)
        leader, *followers = places[first:] + places[:first]
        if index // len(places) % 2:
            followers.reverse()
        spare = stopped if running else []
        return (leader, *followers, *spare)[: min(factor, count)]

    def elect(self, replicas: Iterable[int]) -> int:
        """Return the first replica whose broker runs, or NOBODY."""
        return next((node_id for node_id in replicas if node_id in self.running), NOBODY)

    def at_creation(
        self, name: str, factor: int, indexes: range, places: Mapping[int, Iterable[int]] | None
    ) -> tuple[PartitionLeadership, ...]:
        """Return the leadership of new partitions; `places` has manually assigned replicas."""
        if len(self.node_ids) == 1:
            # All partitions share one object, because a topic may have very many partitions.
            return (PartitionLeadership(self.elect(self.node_ids), 0, self.node_ids),) * len(
                indexes
            )
        placed = []
        for index in indexes:
            replicas = self.place(name, index, factor) if places is None else tuple(places[index])
            placed.append(PartitionLeadership(self.elect(replicas), 0, replicas))
        return tuple(placed)

    def at_start(self, record: TopicRecord, factor: int) -> tuple[PartitionLeadership, ...]:
        """Return the leadership of a stored topic when the process starts.

        Replicas on brokers that no longer exist are dropped, and unfinished reassignments are
        finished. `factor` is the replication factor of partitions without stored leadership.
        """
        placed = []
        for index in range(record.partition_count):
            if index >= len(record.leadership):
                replicas = self.place(record.name, index, factor)
                placed.append(PartitionLeadership(replicas[0], 0, replicas))
                continue
            leader_id, leader_epoch, recorded, _, removing = record.leadership[index]
            known = tuple(node_id for node_id in recorded if node_id in self.node_ids)
            # All brokers run after a start, so an unfinished reassignment can be completed now.
            replicas = tuple(node_id for node_id in known if node_id not in removing) or known
            if leader_id not in replicas:
                replicas = replicas or self.place(record.name, index, 1)
                leader_id, leader_epoch = replicas[0], leader_epoch + 1
            elif removing:
                leader_epoch += 1
            placed.append(PartitionLeadership(leader_id, leader_epoch, replicas))
        return tuple(placed)

    @property
    def _controller_id(self) -> int:
        return self.elect(self.node_ids)

    # --- changes ----------------------------------------------------------------------------------

    def stop_node(self, node_id: int, topics: Iterable[Topic]) -> int:
        """Move leadership off a stopping broker; return the number of partitions moved."""
        before = self._controller_id
        self.running.discard(node_id)
        self.controller_epoch += self._controller_id != before
        return self._elect_anew(topics, node_id)

    def start_node(self, node_id: int, topics: Iterable[Topic]) -> int:
        """Elect a starting broker for its offline partitions; return the number of partitions.

        Reassignments that waited for a replica on this broker are finished.
        """
        before = self._controller_id
        self.running.add(node_id)
        self.registered |= {node_id}
        self.controller_epoch += self._controller_id != before
        topics = tuple(topics)
        moved = self._elect_anew(topics, NOBODY)
        finished = [topic for topic in topics if self._finish_reassignments(topic)]
        self._keep_or_log(finished)
        return moved

    def unregister(self, node_id: int) -> None:
        """Place no replicas on a broker until it starts."""
        self.registered -= {node_id}

    def move(self, topic: Topic, partition: Partition, node_id: int) -> None:
        """Make a running broker the leader of a partition.

        If the broker has no replica of the partition, it takes over the leader's replica, as in a
        reassignment.
        """
        assert node_id in self.running, node_id
        before = partition.leader_id
        if before == node_id:
            return
        if node_id not in partition.replicas:
            given_up = partition.replicas[0] if before == NOBODY else before
            partition.replicas = tuple(
                node_id if replica == given_up else replica for replica in partition.replicas
            )
            partition.reassignment = None
        self._lead(partition, node_id)
        self._keep_or_log([topic])

    # --- reassignments and elections --------------------------------------------------------------
    #
    # TopicManager.keep_leaders writes the changes to disk. Source: ReplicationControlManager,
    # PartitionReassignmentReplicas, PartitionReassignmentRevert and PartitionChangeBuilder.

    def reassign(self, partition: Partition, target: tuple[int, ...]) -> bool:
        """Reassign a partition to the brokers of `target`; return whether anything changed.

        If all target brokers run, the reassignment is finished at once. Otherwise the partition
        also keeps its previous replicas until all target brokers run.
        """
        current = partition.replicas
        adding = tuple(sorted(set(target).difference(current)))
        removing = tuple(sorted(set(current).difference(target)))
        before = partition.reassignment or Reassignment()
        # As in Kafka, a new target that adds no replicas keeps `adding` of the unfinished
        # reassignment. The same applies to `removing`.
        wanted = Reassignment(adding or before.adding, removing or before.removing)
        return self._place(partition, (*target, *removing), wanted)

    def is_unclean_to_cancel(self, partition: Partition) -> bool:
        """Return whether only replicas that the reassignment adds are in sync."""
        assert partition.reassignment is not None
        return not self._in_sync(partition).difference(partition.reassignment.adding)

    def cancel(self, partition: Partition) -> None:
        """Cancel a reassignment: restore the replicas that the partition had before it."""
        assert partition.reassignment is not None
        original = _without(partition, partition.reassignment.adding)
        self._place(partition, original, Reassignment())

    def candidate(self, partition: Partition, *, is_unclean: bool) -> int:
        """Return the leader that an election would choose, or NOBODY.

        The candidate is the preferred replica if it is in sync. An unclean election takes the first
        replica whose broker runs.
        """
        if is_unclean:
            return self.elect(partition.replicas)
        preferred = partition.replicas[0]
        return preferred if preferred in self._in_sync(partition) else NOBODY

    def lead(self, partition: Partition, node_id: int) -> None:
        """Make the candidate of an election the leader."""
        self._lead(partition, node_id)
        self._finish_reassignment(partition)

    def _place(self, partition: Partition, replicas: tuple[int, ...], wanted: Reassignment) -> bool:
        """Set the replicas and reassignment of a partition; return whether anything changed.

        The reassignment is finished if all its replicas are in sync.
        """
        in_sync = self._in_sync(partition, replicas)
        kept = tuple(node_id for node_id in replicas if node_id not in wanted.removing)
        reassignment = None
        if wanted.adding or wanted.removing:
            if kept and in_sync.issuperset((*kept, *wanted.adding)):
                replicas = kept
            else:
                reassignment = wanted
        before = partition.replicas
        if (replicas, reassignment) == (before, partition.reassignment):
            return False
        leader_id = partition.leader_id
        if leader_id not in replicas or leader_id not in in_sync:
            leader_id = next((node_id for node_id in replicas if node_id in in_sync), NOBODY)
        partition.replicas, partition.reassignment = replicas, reassignment
        if leader_id != partition.leader_id or not set(before).issubset(replicas):
            self._lead(partition, leader_id)
        return True

    def _in_sync(self, partition: Partition, replicas: Iterable[int] | None = None) -> set[int]:
        """Return the in-sync replicas: all on running brokers.

        Without a leader, replicas that a reassignment adds are not in sync.
        """
        if replicas is None:
            replicas = partition.replicas
        if partition.leader_id == NOBODY:
            adding = partition.reassignment.adding if partition.reassignment else ()
            replicas = set(replicas).intersection(partition.replicas).difference(adding)
        return self.running.intersection(replicas)

    def _finish_reassignments(self, topic: Topic) -> bool:
        """Finish all reassignments of a topic that can be finished; return whether any could."""
        unfinished = [
            partition for partition in topic.partitions if partition.reassignment is not None
        ]
        return sum(self._finish_reassignment(partition) for partition in unfinished) > 0

    def _finish_reassignment(self, partition: Partition) -> bool:
        wanted = partition.reassignment or Reassignment()
        return self._place(partition, partition.replicas, wanted)

    def _lead(self, partition: Partition, node_id: int) -> None:
        """Begin a new leader epoch with this leader, which may be the current leader."""
        before = partition.leader_id
        if before not in (node_id, NOBODY):
            for announce in self.on_moving:
                announce(partition)
        partition.begin_leadership(node_id)
        self._announce(partition, before)

    def _elect_anew(self, topics: Iterable[Topic], leader_id: int) -> int:
        """Elect new leaders for the partitions of `leader_id`; return the number of changes."""
        changed: list[Topic] = []
        moved: list[tuple[Partition, int]] = []
        for topic in topics:
            count = len(moved)
            for partition in topic.partitions:
                if partition.leader_id != leader_id:
                    continue
                elected = next(
                    (
                        node_id
                        for node_id in partition.replicas
                        if node_id in self._in_sync(partition)
                    ),
                    NOBODY,
                )
                if elected != leader_id:
                    partition.begin_leadership(elected)
                    moved.append((partition, leader_id))
            if len(moved) > count:
                changed.append(topic)
        self._keep_or_log(changed)
        for partition, before in moved:
            self._announce(partition, before)
        return len(moved)

    def _keep_or_log(self, topics: Iterable[Topic]) -> None:
        try:
            self._keep(topics)
        except StorageError as error:
            # The leader has changed already. If the process restarts, this change is lost.
            LOG.emit("log.failed", reason=f"who leads cannot be kept: {error}")

    def _announce(self, partition: Partition, before: int) -> None:
        """Log a new leader epoch and call the `on_moved` listeners."""
        if LOG.debug:
            LOG.emit(
                "leader.elected",
                topic=partition.topic_name,
                partition=partition.index,
                leader=partition.leader_id,
                before=before,
            )
        for listener in self.on_moved:
            listener(partition, before)


def _without(partition: Partition, node_ids: tuple[int, ...]) -> tuple[int, ...]:
    """Return the replicas of a partition without these brokers."""
    return tuple(node_id for node_id in partition.replicas if node_id not in node_ids)
