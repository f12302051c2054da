"""ListPartitionReassignments: list the partitions with an ongoing reassignment (KIP-455)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.apis.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps


def handle(broker: Broker, call: Call, request: ListPartitionReassignmentsRequest) -> Steps:
    """Respond with the requested partitions whose reassignment is ongoing."""
    response = ListPartitionReassignmentsResponse()
    for name, indexes in _wanted(broker, request):
        yield
        topic = broker.topics.topic(name)
        if topic is None:
            continue
        listed = OngoingTopicReassignment(name=name)
        for index in indexes:
            yield
            if not 0 <= index < len(topic.partitions):
                continue
            partition = topic.partitions[index]
            if partition.reassignment is not None:
                adding, removing = partition.reassignment
                ongoing = OngoingPartitionReassignment(
                    partition_index=index,
                    replicas=list(partition.replicas),
                    adding_replicas=list(adding),
                    removing_replicas=list(removing),
                )
                listed.partitions.append(ongoing)
        if listed.partitions:
            response.topics.append(listed)
    call.reply(response)


def _wanted(
    broker: Broker, request: ListPartitionReassignmentsRequest
) -> Iterator[tuple[str, Iterable[int]]]:
    """Yield each requested topic name with its partition indexes."""
    if request.topics is None:
        for topic in broker.topics.listed_topics():
            yield topic.name, range(len(topic.partitions))
    else:
        for named in request.topics:
            yield named.name, named.partition_indexes
