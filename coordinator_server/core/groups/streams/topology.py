"""The topology of a streams application: the topics that it reads and writes.

Source: StreamsTopology.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.modern.members import RefusedError
from coordinator_server.core.groups.streams.tasks import unique
from protocol.errors import ErrorCode
from protocol.streams_group_records import (
    KeyValue,
    RecordedCopartitionGroup,
    RecordedSubtopology,
    RecordedTopicInfo,
    StreamsGroupTopologyValue,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.apis.streams_group_heartbeat import (
        StreamsSubtopology,
        StreamsTopicInfo,
        StreamsTopology,
    )


class Topology(NamedTuple):
    """A topology; `recorded` is its record, `subtopologies` are by id.

    `readers` maps a topic to the subtopology that reads it. `topics` are all topics that must
    exist.
    """

    recorded: StreamsGroupTopologyValue
    subtopologies: Mapping[str, RecordedSubtopology]
    readers: Mapping[str, str]
    topics: frozenset[str]

    @property
    def epoch(self) -> int:
        """The topology epoch set by the application."""
        return self.recorded.epoch

    def is_same_as(self, other: Topology) -> bool:
        """Return whether the topologies are equal, regardless of the order of subtopologies."""
        return self.epoch == other.epoch and self.subtopologies == other.subtopologies


def topology_of(recorded: StreamsGroupTopologyValue) -> Topology:
    """Return the topology in a record. Raises RefusedError if the topology is invalid."""
    if recorded.epoch < 0:
        raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    by_id = unique(
        (subtopology.subtopology_id, subtopology) for subtopology in recorded.subtopologies
    )
    readers: dict[str, str] = {}
    changelogs: set[str] = set()
    for subtopology_id, subtopology in by_id.items():
        readers |= dict.fromkeys(source_topics(subtopology), subtopology_id)
        changelogs.update(topic.name for topic in subtopology.state_changelog_topics)
    topics = frozenset(changelogs | readers.keys())
    return Topology(recorded, dict(sorted(by_id.items())), readers, topics)


def source_topics(subtopology: RecordedSubtopology) -> list[str]:
    """Return the names of all topics that a subtopology reads."""
    return [
        *subtopology.source_topics,
        *(topic.name for topic in subtopology.repartition_source_topics),
    ]


def recorded_topology(topology: StreamsTopology) -> StreamsGroupTopologyValue:
    """Return a topology of a request as a record value; nothing is shared with the request."""
    return StreamsGroupTopologyValue(
        epoch=topology.epoch,
        subtopologies=[_recorded(subtopology) for subtopology in topology.subtopologies],
    )


def _recorded(subtopology: StreamsSubtopology) -> RecordedSubtopology:
    return RecordedSubtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=list(subtopology.source_topics),
        source_topic_regex=list(subtopology.source_topic_regex),
        state_changelog_topics=_recorded_topics(subtopology.state_changelog_topics),
        repartition_sink_topics=list(subtopology.repartition_sink_topics),
        repartition_source_topics=_recorded_topics(subtopology.repartition_source_topics),
        copartition_groups=[
            RecordedCopartitionGroup(
                source_topics=list(group.source_topics),
                source_topic_regex=list(group.source_topic_regex),
                repartition_source_topics=list(group.repartition_source_topics),
            )
            for group in subtopology.copartition_groups
        ],
    )


def _recorded_topics(topics: Iterable[StreamsTopicInfo]) -> list[RecordedTopicInfo]:
    return [
        RecordedTopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[
                KeyValue(key=config.key, value=config.value) for config in topic.topic_configs
            ],
        )
        for topic in topics
    ]
