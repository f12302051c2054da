"""A topology as the topics of the cluster allow it: tasks, and the internal topics it needs.

Source: InternalTopicManager, ConfiguredTopology, ConfiguredSubtopology, ConfiguredInternalTopic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.modern.refusal import RefusedError
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
"""How many topics a text names."""


class InternalTopic(NamedTuple):
    """A topic that the application needs; a replication factor of 0 is the broker's choice."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


class ConfiguredSubtopology(NamedTuple):
    """A subtopology with its number of tasks, and with its internal topics by name."""

    task_count: int
    source_topics: frozenset[str]
    repartition_source_topics: Mapping[str, InternalTopic]
    repartition_sink_topics: frozenset[str]
    changelog_topics: Mapping[str, InternalTopic]


class ConfiguredTopology(NamedTuple):
    """A topology: ready if there is no `problem` with its topics.

    `subtopologies`, by id, are None while something else is wrong than that internal topics are
    missing: those are `to_create`.
    """

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    to_create: tuple[InternalTopic, ...] = ()
    problem: StreamsStatus | None = None

    @property
    def is_ready(self) -> bool:
        """Whether all topics are as they have to be."""
        return self.problem is None


def configured_topology(topology: Topology, topics: TopicsView) -> ConfiguredTopology:
    """The topology as it can be run now. Raises RefusedError if it never can."""
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
        for one in subtopologies.values()
        for name in one.source_topics
        if topics.topic(name) is None
    }
    if missing:
        message = f"Source topics {_summary(sorted(missing))} are missing."
        raise TopicProblemError(StatusCode.MISSING_SOURCE_TOPICS, message)
    counts.decide()
    configured = {
        subtopology_id: _configured_subtopology(one, counts)
        for subtopology_id, one in subtopologies.items()
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
    configs = unique((one.key, one.value) for one in topic.topic_configs)
    return InternalTopic(topic.name, partitions, topic.replication_factor, configs)


def _missing_topics(
    subtopologies: Iterable[ConfiguredSubtopology], topics: TopicsView
) -> list[InternalTopic]:
    """The internal topics that do not exist; those that do have to have the right size."""
    needed: dict[str, InternalTopic] = {}
    for one in subtopologies:
        needed |= {**one.repartition_source_topics, **one.changelog_topics}
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
    """Some names, and how many more there are."""
    more = len(names) - _MOST_SHOWN
    text = ", ".join(list(names)[:_MOST_SHOWN])
    return f"{text} and {more} additional topics" if more > 0 else text
