"""PartitionCounts: the partition counts of the internal topics of a topology.

A repartition topic gets the largest partition count of the topics read by the subtopologies that
write to it, unless the application sets a count. Copartitioned topics must have the same count. A
changelog has one partition per task. Source: RepartitionTopics, CopartitionedTopicsEnforcer and
ChangelogTopics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from coordinator_server.core.groups.modern.members import RefusedError
from coordinator_server.core.groups.streams.status import StatusCode
from coordinator_server.core.groups.streams.topology import source_topics
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.groups.settings import TopicsView
    from coordinator_server.core.groups.streams.topology import Topology
    from protocol.streams_group_records import RecordedCopartitionGroup, RecordedSubtopology


class TopicProblemError(Exception):
    """The topics do not fit the topology; `status` and message are sent to the members."""

    def __init__(self, status: StatusCode, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class PartitionCounts:
    """The partition counts decided so far, in `decided`.

    Raises RefusedError if a copartition group refers to a topic index that does not exist.
    """

    def __init__(self, topology: Topology, topics: TopicsView) -> None:
        self.decided: dict[str, int] = {}
        self._subtopologies: Sequence[RecordedSubtopology] = tuple(topology.subtopologies.values())
        self._topics = topics
        repartition_topics = [
            topic
            for subtopology in self._subtopologies
            for topic in subtopology.repartition_source_topics
        ]
        self._fixed = {
            topic.name: topic.partitions for topic in repartition_topics if topic.partitions
        }
        self._flexible = {topic.name for topic in repartition_topics if not topic.partitions}
        self._joined = [
            _joined(subtopology, group)
            for subtopology in self._subtopologies
            for group in subtopology.copartition_groups
        ]

    def decide(self) -> None:
        """Decide the counts of all internal topics. Raises TopicProblemError and RefusedError."""
        self._decide_repartition_topics()
        for names in self._joined:
            if names:
                self._copartition(names)
        for subtopology in self._subtopologies:
            sources = source_topics(subtopology)
            if not sources:
                message = f"No source topics found for subtopology {subtopology.subtopology_id}"
                raise RefusedError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
            most = max(map(self.of, sources))
            for topic in subtopology.state_changelog_topics:
                self.decided[topic.name] = most

    def of(self, name: str) -> int:
        """Return the partition count of a topic that exists or is decided."""
        topic = self._topics.topic(name)
        return self.decided[name] if topic is None else len(topic.partitions)

    def _decide_repartition_topics(self) -> None:
        """Decide the repartition topics, from the sources onwards, in rounds.

        Each round decides the topics whose inputs are known. Raises RefusedError if a round decides
        no topic, or if no subtopology writes to a repartition source topic.
        """
        counts = dict(self._fixed)
        waiting = [
            (sink, subtopology)
            for subtopology in self._subtopologies
            for sink in subtopology.repartition_sink_topics
            if sink not in counts
        ]
        while waiting:
            left: list[tuple[str, RecordedSubtopology]] = []
            for sink, subtopology in waiting:
                if sink in counts:
                    continue
                inputs = [
                    counts[topic.name]
                    for topic in subtopology.repartition_source_topics
                    if topic.name in counts
                ]
                inputs += map(self.of, subtopology.source_topics)
                if inputs:
                    counts[sink] = max(inputs)
                else:
                    left.append((sink, subtopology))
            if len(left) == len(waiting):
                message = (
                    "Failed to compute number of partitions for all repartition topics. "
                    "There may be loops in the topology that cannot be resolved."
                )
                raise RefusedError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
            waiting = left
        if not counts.keys() >= self._flexible:
            message = (
                "Failed to compute number of partitions for all repartition topics, "
                "because a repartition source topic is never used as a sink topic."
            )
            raise RefusedError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
        self.decided.update(counts)

    def _copartition(self, names: set[str]) -> None:
        """Give copartitioned topics the same number of partitions. Raises TopicProblemError."""
        counts = {name: self.of(name) for name in sorted(names)}
        internal = {
            name: count
            for name, count in counts.items()
            if name in self._fixed or name in self._flexible
        }
        external = {name: count for name, count in counts.items() if name not in internal}
        if external:
            count = _same_count(external, external)
        elif self._fixed:
            # As in Kafka, all partition counts that the application sets must be equal, also across
            # copartition groups.
            count = _same_count({name: self.of(name) for name in self._fixed}, internal)
        else:
            count = max(internal.values())
        for name, before in internal.items():
            if name in self._fixed and before != count:
                message = (
                    f"Number of partitions [{before}] of repartition topic [{name}] doesn't match "
                    f"number of partitions [{count}] of the source topic."
                )
                raise TopicProblemError(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, message)
            self.decided[name] = count


def _same_count(counts: Mapping[str, int], shown: Mapping[str, int]) -> int:
    """Return the common partition count of several topics.

    Raises TopicProblemError if the counts differ; the message shows `shown`.
    """
    if len(set(counts.values())) > 1:
        text = ", ".join(f"{name}={count}" for name, count in shown.items())
        message = f"Following topics do not have the same number of partitions: [{{{text}}}]"
        raise TopicProblemError(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, message)
    return next(iter(counts.values()))


def _joined(subtopology: RecordedSubtopology, group: RecordedCopartitionGroup) -> set[str]:
    """Return the topic names of a copartition group. Raises RefusedError for an invalid index."""
    internal = [topic.name for topic in subtopology.repartition_source_topics]
    names: set[str] = set()
    for places, topics in (
        (group.source_topics, subtopology.source_topics),
        (group.repartition_source_topics, internal),
    ):
        for place in places:
            if not 0 <= place < len(topics):
                raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, None)
            names.add(topics[place])
    return names
