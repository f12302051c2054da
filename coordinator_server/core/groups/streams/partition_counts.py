"""How many partitions the internal topics of a topology need.

A repartition topic gets as many as the subtopologies that write to it read, unless the application
says how many; topics that are joined have to have the same number; a changelog has one partition
for each task. Source: RepartitionTopics, CopartitionedTopicsEnforcer and ChangelogTopics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from coordinator_server.core.groups.modern.refusal import RefusedError
from coordinator_server.core.groups.streams.status import StatusCode
from coordinator_server.core.groups.streams.topology import source_topics
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.groups.settings import TopicsView
    from coordinator_server.core.groups.streams.topology import Topology
    from protocol.streams_group_records import RecordedCopartitionGroup, RecordedSubtopology


class TopicProblemError(Exception):
    """The topics are not as the topology needs them; `status` and text go to the members."""

    def __init__(self, status: StatusCode, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class PartitionCounts:
    """What is decided so far, in `decided`, about topics that exist or will be created.

    A topology with a group of joined topics that names a topic in no list raises RefusedError.
    """

    def __init__(self, topology: Topology, topics: TopicsView) -> None:
        self.decided: dict[str, int] = {}
        self._subtopologies: Sequence[RecordedSubtopology] = tuple(topology.subtopologies.values())
        self._topics = topics
        repartition_topics = [
            topic for one in self._subtopologies for topic in one.repartition_source_topics
        ]
        self._fixed = {one.name: one.partitions for one in repartition_topics if one.partitions}
        self._flexible = {one.name for one in repartition_topics if not one.partitions}
        self._joined = [
            _joined(one, group) for one in self._subtopologies for group in one.copartition_groups
        ]

    def decide(self) -> None:
        """Decide about all internal topics. Raises TopicProblemError and RefusedError."""
        self._decide_repartition_topics()
        for names in self._joined:
            if names:
                self._copartition(names)
        for one in self._subtopologies:
            sources = source_topics(one)
            if not sources:
                message = f"No source topics found for subtopology {one.subtopology_id}"
                raise RefusedError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
            most = max(map(self.of, sources))
            for topic in one.state_changelog_topics:
                self.decided[topic.name] = most

    def of(self, name: str) -> int:
        """The partitions of a topic that exists or is decided about."""
        topic = self._topics.topic(name)
        return self.decided[name] if topic is None else len(topic.partitions)

    def _decide_repartition_topics(self) -> None:
        """From the sources down: each round decides about what the last one has made possible."""
        counts = dict(self._fixed)
        waiting = [
            (sink, one)
            for one in self._subtopologies
            for sink in one.repartition_sink_topics
            if sink not in counts
        ]
        while waiting:
            left: list[tuple[str, RecordedSubtopology]] = []
            for sink, one in waiting:
                if sink in counts:
                    continue
                inputs = [
                    counts[topic.name]
                    for topic in one.repartition_source_topics
                    if topic.name in counts
                ]
                inputs += map(self.of, one.source_topics)
                if inputs:
                    counts[sink] = max(inputs)
                else:
                    left.append((sink, one))
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
        """Give topics that are joined the same number of partitions."""
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
            # All that the application has fixed anywhere has to be the same, as in Kafka.
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
    """The one number of partitions of several topics."""
    if len(set(counts.values())) > 1:
        text = ", ".join(f"{name}={count}" for name, count in shown.items())
        message = f"Following topics do not have the same number of partitions: [{{{text}}}]"
        raise TopicProblemError(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, message)
    return next(iter(counts.values()))


def _joined(subtopology: RecordedSubtopology, group: RecordedCopartitionGroup) -> set[str]:
    """The names of topics that are joined. Raises RefusedError for a place in no list."""
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
