"""ConfiguredTopology: a topology applied to the existing topics, with tasks and internal topics.

Source: InternalTopicManager, ConfiguredTopology, ConfiguredSubtopology, ConfiguredInternalTopic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.modern.members import RefusedError
from coordinator_server.core.groups.streams.partition_counts import (
    PartitionCounts,
    TopicProblemError,
)
from coordinator_server.core.groups.streams.status import StatusCode, status
from coordinator_server.core.groups.streams.tasks import unique
from coordinator_server.core.groups.streams.topology import source_topics
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.groups.settings import TopicsView
    from coordinator_server.core.groups.streams.topology import Topology
    from protocol.apis.streams_group_heartbeat import StreamsStatus
    from protocol.streams_group_records import RecordedSubtopology, RecordedTopicInfo

_MOST_SHOWN = 3
"""The number of topics that a message names."""


class InternalTopic(NamedTuple):
    """A topic that the application needs; the broker replaces a replication factor of 0."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


class ConfiguredSubtopology(NamedTuple):
    """A subtopology with its number of tasks, and its internal topics by name."""

    task_count: int
    source_topics: frozenset[str]
    repartition_source_topics: Mapping[str, InternalTopic]
    repartition_sink_topics: frozenset[str]
    changelog_topics: Mapping[str, InternalTopic]


class ConfiguredTopology(NamedTuple):
    """A topology applied to the current topics; ready unless there is a `problem`.

    `subtopologies`, by id, are None for any problem other than missing internal topics. `to_create`
    are the missing internal topics.
    """

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    to_create: tuple[InternalTopic, ...] = ()
    problem: StreamsStatus | None = None

    @property
    def is_ready(self) -> bool:
        """Whether all topics exist with the required partition counts."""
        return self.problem is None


def configured_topology(topology: Topology, topics: TopicsView) -> ConfiguredTopology:
    """Return the topology on the current topics. Raises RefusedError if the topology is invalid."""
    try:
        return _configured(topology, topics)
    except TopicProblemError as problem:
        reason = status(problem.status, problem.message)
        return ConfiguredTopology(topology.epoch, None, problem=reason)


def _configured(topology: Topology, topics: TopicsView) -> ConfiguredTopology:
    subtopologies = topology.subtopologies
    counts = PartitionCounts(topology, topics)
    missing = {
        name
        for subtopology in subtopologies.values()
        for name in subtopology.source_topics
        if topics.topic(name) is None
    }
    if missing:
        message = f"Source topics {_summary(sorted(missing))} are missing."
        raise TopicProblemError(StatusCode.MISSING_SOURCE_TOPICS, message)
    counts.decide()
    configured = {
        subtopology_id: _configured_subtopology(subtopology, counts)
        for subtopology_id, subtopology in subtopologies.items()
    }
    to_create = _missing_topics(configured.values(), topics)
    problem = None
    if to_create:
        names = _summary([topic.name for topic in to_create])
        message = f"Internal topics are missing: {names}"
        problem = status(StatusCode.MISSING_INTERNAL_TOPICS, message)
    return ConfiguredTopology(topology.epoch, configured, tuple(to_create), problem)


def _configured_subtopology(
    subtopology: RecordedSubtopology, counts: PartitionCounts
) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(
        task_count=max(map(counts.of, source_topics(subtopology))),
        source_topics=frozenset(subtopology.source_topics),
        repartition_source_topics=_internal(subtopology.repartition_source_topics, counts),
        repartition_sink_topics=frozenset(subtopology.repartition_sink_topics),
        changelog_topics=_internal(subtopology.state_changelog_topics, counts),
    )


def _internal(
    topics: Iterable[RecordedTopicInfo], counts: PartitionCounts
) -> Mapping[str, InternalTopic]:
    return unique((topic.name, _internal_topic(topic, counts)) for topic in topics)


def _internal_topic(topic: RecordedTopicInfo, counts: PartitionCounts) -> InternalTopic:
    partitions = topic.partitions or counts.decided[topic.name]
    if partitions < 1:
        raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    configs = unique((config.key, config.value) for config in topic.topic_configs)
    return InternalTopic(topic.name, partitions, topic.replication_factor, configs)


def _missing_topics(
    subtopologies: Iterable[ConfiguredSubtopology], topics: TopicsView
) -> list[InternalTopic]:
    """Return the internal topics that do not exist.

    Raises TopicProblemError if an existing internal topic has another number of partitions.
    """
    needed: dict[str, InternalTopic] = {}
    for subtopology in subtopologies:
        needed |= {**subtopology.repartition_source_topics, **subtopology.changelog_topics}
    missing: list[InternalTopic] = []
    for name, internal in sorted(needed.items()):
        topic = topics.topic(name)
        if topic is None:
            missing.append(internal)
        elif len(topic.partitions) != internal.partitions:
            message = (
                f"Existing topic {name} has different number of partitions: "
                f"expected {internal.partitions}, found {len(topic.partitions)}"
            )
            raise TopicProblemError(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, message)
    return missing


def _summary(names: Collection[str]) -> str:
    """Return the first topic names as text, with the number of names that are left out."""
    more = len(names) - _MOST_SHOWN
    text = ", ".join(list(names)[:_MOST_SHOWN])
    return f"{text} and {more} additional topics" if more > 0 else text
