"""The partitions that each process of the application can answer interactive queries for.

Source: EndpointToPartitionsManager, StreamsGroup.buildEndpointToPartitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from coordinator_server.core.groups.modern.members import RefusedError
from protocol.apis.streams_group_heartbeat import (
    EndpointToPartitions,
    StreamsEndpoint,
    StreamsTopicPartition,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.groups.settings import TopicsView
    from coordinator_server.core.groups.streams.configure import (
        ConfiguredSubtopology,
        ConfiguredTopology,
    )
    from coordinator_server.core.groups.streams.member import StreamsMember
    from coordinator_server.core.groups.streams.tasks import OwnedTasks


def partitions_by_endpoint(
    members: Iterable[tuple[StreamsMember, OwnedTasks]],
    topology: ConfiguredTopology,
    topics: TopicsView,
) -> list[EndpointToPartitions]:
    """Return the partitions of each member with an endpoint, derived from the member's tasks.

    Raises RefusedError while topics are missing, where Kafka fails too.
    """
    answer: list[EndpointToPartitions] = []
    for member, tasks in members:
        if member.endpoint is None:
            continue
        if topology.subtopologies is None:
            raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, None)
        host, port = member.endpoint
        answer.append(
            EndpointToPartitions(
                user_endpoint=StreamsEndpoint(host=host, port=port),
                active_partitions=_partitions(tasks.active, topology.subtopologies, topics),
                standby_partitions=_partitions(tasks.standby, topology.subtopologies, topics),
            )
        )
    return answer


def _partitions(
    tasks: Mapping[str, Collection[int]],
    subtopologies: Mapping[str, ConfiguredSubtopology],
    topics: TopicsView,
) -> list[StreamsTopicPartition]:
    """Return the partitions of all topics that the tasks read.

    If a topic has fewer partitions than the subtopology has tasks, only the first tasks read the
    topic, as in Kafka.
    """
    partitions: list[StreamsTopicPartition] = []
    for subtopology_id, tasks_of_it in tasks.items():
        subtopology = subtopologies[subtopology_id]
        for name in sorted(
            subtopology.source_topics | subtopology.repartition_source_topics.keys()
        ):
            topic = topics.topic(name)
            if topic is None:
                raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, None)
            indexes = sorted(tasks_of_it)[: len(topic.partitions)]
            partitions.append(StreamsTopicPartition(topic=name, partitions=indexes))
    return partitions
