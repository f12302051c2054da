"""Which broker leads which partition, and what changes when a broker stops or starts.

The brokers of one process share one data directory, so a replica is no copy of the data: it is the
right to lead. All replicas whose broker runs are in sync. As with Kafka's controller, every change
of a leader, also to none, is a new leader epoch; partitions whose last replica has stopped are
offline until one of them starts. A broker that comes back leads only what was offline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from coordinator_server.events.log import LOG
from protocol.hashing import java_hash
from storage.errors import StorageError
from storage.topic_catalogue import PartitionLeadership

if TYPE_CHECKING:
    from coordinator_server.topics.topic import Partition, Topic
    from storage.topic_catalogue import TopicRecord

NOBODY = -1

Keep = Callable[[Iterable["Topic"]], None]
Moved = Callable[["Partition", int], None]
"""Gets a partition that has a new leader, and the id of the leader before (-1: none)."""


class Leadership:
    """The table of leaders; the entries stand in the partitions themselves.

    `node_ids` are all brokers of the process, `keep` writes changed topics to the disk. `on_moved`
    is called for each moved partition, when all that moved with it has its new leader.
    """

    def __init__(self, node_ids: tuple[int, ...], keep: Keep) -> None:
        self.node_ids = node_ids
        self.running = set(node_ids)
        self.on_moved: list[Moved] = []
        self._keep = keep

    def place(self, name: str, index: int, factor: int) -> tuple[int, ...]:
        """Replicas of a new partition: spread evenly, the same each time, running brokers first.

        The partitions of a topic go round; where a topic begins depends on its name. Each second
        time round the followers stand the other way, so that they spread as well.
        """
        count = len(self.node_ids)
        if count == 1:
            return self.node_ids
        running = [node_id for node_id in self.node_ids if node_id in self.running]
        stopped = [node_id for node_id in self.node_ids if node_id not in self.running]
        places = running or stopped
        first = (java_hash(name) + index) % len(places)
        leader, *followers = places[first:] + places[:first]
        if index // len(places) % 2:
            followers.reverse()
        spare = stopped if running else []
        return (leader, *followers, *spare)[: min(factor, count)]

    def elect(self, replicas: Iterable[int]) -> int:
        """The first replica whose broker runs, or NOBODY."""
        return next((one for one in replicas if one in self.running), NOBODY)

    def at_creation(
        self, name: str, factor: int, indexes: range, places: Mapping[int, Iterable[int]] | None
    ) -> tuple[PartitionLeadership, ...]:
        """The leadership of new partitions; `places` are replicas chosen by an administrator."""
        if len(self.node_ids) == 1:  # a topic may have very many partitions
            return (PartitionLeadership(self.elect(self.node_ids), 0, self.node_ids),) * len(
                indexes
            )
        found = []
        for index in indexes:
            replicas = self.place(name, index, factor) if places is None else tuple(places[index])
            found.append(PartitionLeadership(self.elect(replicas), 0, replicas))
        return tuple(found)

    def at_start(self, record: TopicRecord, factor: int) -> tuple[PartitionLeadership, ...]:
        """The leadership of a topic that is on the disk: as it was, if these brokers still exist.

        `factor` is that of topics of which nothing is recorded.
        """
        found = []
        for index in range(record.partition_count):
            if index >= len(record.leadership):
                replicas = self.place(record.name, index, factor)
                found.append(PartitionLeadership(replicas[0], 0, replicas))
                continue
            leader_id, leader_epoch, recorded = record.leadership[index]
            replicas = tuple(one for one in recorded if one in self.node_ids)
            if leader_id not in replicas:
                replicas = replicas or self.place(record.name, index, 1)
                leader_id, leader_epoch = replicas[0], leader_epoch + 1
            found.append(PartitionLeadership(leader_id, leader_epoch, replicas))
        return tuple(found)

    # --- changes ----------------------------------------------------------------------------------

    def stop_node(self, node_id: int, topics: Iterable[Topic]) -> int:
        """Have others lead what this broker led; how many partitions that were."""
        self.running.discard(node_id)
        return self._elect_anew(topics, node_id)

    def start_node(self, node_id: int, topics: Iterable[Topic]) -> int:
        """Let this broker lead what is offline and has a replica there; how many these are."""
        self.running.add(node_id)
        return self._elect_anew(topics, NOBODY)

    def move(self, topic: Topic, partition: Partition, node_id: int) -> None:
        """Let a running broker lead a partition.

        One that has no replica gets that of the leader, as in a reassignment.
        """
        assert node_id in self.running, node_id
        before = partition.leader_id
        if before == node_id:
            return
        if node_id not in partition.replicas:
            given_up = partition.replicas[0] if before == NOBODY else before
            partition.replicas = tuple(
                node_id if one == given_up else one for one in partition.replicas
            )
        partition.begin_leadership(node_id)
        self._tell([topic], [(partition, before)])

    def _elect_anew(self, topics: Iterable[Topic], leader_id: int) -> int:
        """A new leader for everything that `leader_id` leads."""
        changed: list[Topic] = []
        moved: list[tuple[Partition, int]] = []
        for topic in topics:
            count = len(moved)
            for partition in topic.partitions:
                if partition.leader_id != leader_id:
                    continue
                elected = self.elect(partition.replicas)
                if elected != leader_id:
                    partition.begin_leadership(elected)
                    moved.append((partition, leader_id))
            if len(moved) > count:
                changed.append(topic)
        self._tell(changed, moved)
        return len(moved)

    def _tell(self, topics: Iterable[Topic], moved: Iterable[tuple[Partition, int]]) -> None:
        try:
            self._keep(topics)
        except StorageError as error:
            # Who leads counts as of now; only the next start might not know it.
            LOG.emit("log.failed", reason=f"who leads cannot be kept: {error}")
        for partition, before in moved:
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
