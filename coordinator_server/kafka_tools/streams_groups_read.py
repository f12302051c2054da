"""Reads streams groups and their topics like Kafka's Admin client (KIP-1071).

All functions retry until `default.api.timeout.ms` is over, and raise ClientError. Offsets of
streams groups are read and changed like those of consumer groups.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.client import Client, ClientError, check
from coordinator_server.kafka_tools.frame import ToolError
from coordinator_server.kafka_tools.groups_read import on_coordinator

if TYPE_CHECKING:
    from protocol.apis.streams_group_describe import DescribedStreamsGroup, DescribedSubtopology

_INTERNAL = re.compile(
    r".*(?:-changelog|-repartition|-subscription-registration-topic|-subscription-response-topic)"
    r"|.+-KTABLE-FK-JOIN-SUBSCRIPTION-(?:REGISTRATION|RESPONSE)-\d+-topic",
    re.ASCII | re.DOTALL,
)


class StreamsGroup(NamedTuple):
    """A described streams group and the node id of its coordinator."""

    described: DescribedStreamsGroup
    node_id: int

    @property
    def subtopologies(self) -> Sequence[DescribedSubtopology]:
        """The subtopologies of the group."""
        topology = self.described.topology
        return (topology.subtopologies if topology is not None else None) or ()

    def source_topics(self) -> set[str]:
        """Return the input topics of the group."""
        return {topic for part in self.subtopologies for topic in part.source_topics}

    def repartition_topics(self) -> set[str]:
        """Return the repartition topics that the group reads."""
        return {
            topic.name for part in self.subtopologies for topic in part.repartition_source_topics
        }

    def internal_topics(self) -> list[str]:
        """Return the repartition and changelog topics of the group, without its input topics."""
        topics = (
            topic.name
            for part in self.subtopologies
            for topic in (*part.repartition_source_topics, *part.state_changelog_topics)
        )
        sources = self.source_topics()
        return [topic for topic in topics if topic not in sources]


def describe_streams_group(client: Client, name: str, *, has_graph: bool = False) -> StreamsGroup:
    """Describe a streams group; `has_graph` also requests the description of its topology."""
    from protocol.apis.streams_group_describe import StreamsGroupDescribeRequest

    request = StreamsGroupDescribeRequest(group_ids=[name], include_topology_description=has_graph)

    def attempt(node_id: int) -> StreamsGroup:
        answer = client.ask(request, node_id, min_version=int(has_graph)).groups[0]
        check(answer.error_code, answer.error_message)
        if answer.topology is None:
            raise ToolError("java.lang.IllegalStateException", "Topology information is missing")
        return StreamsGroup(answer, node_id)

    return on_coordinator(client, "describeStreamsGroups", name, attempt)


def is_internal_topic(topic: str, group: str) -> bool:
    """Return whether a topic has the name of an internal topic of the group."""
    return topic.startswith(f"{group}-") and _INTERNAL.fullmatch(topic) is not None


def delete_topics(client: Client, topics: Sequence[str]) -> dict[str, ClientError]:
    """Delete topics; return the errors of the topics that were not deleted."""
    from protocol.apis.delete_topics import DeleteTopicsRequest, DeleteTopicState

    names = list(dict.fromkeys(topics))
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names],
        topic_names=names,
        timeout_ms=client.settings.request_timeout_ms,
    )
    return {
        result.name: ClientError(result.error_code, result.error_message)
        for result in client.ask_controller("deleteTopics", request).responses
        if result.error_code
    }
