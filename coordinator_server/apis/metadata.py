"""Metadata: brokers, topics, partitions and their leaders.

A topic that this request auto-creates is included in the response. Kafka, whose controller creates
the topic later, first responds UNKNOWN_TOPIC_OR_PARTITION. For a moment after a topic's deletion,
this broker responds with the same error and does not create the topic (docs/decisions/0014).
Existing topics come first in the response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.topics.counts import Counts
from coordinator_server.topics.leadership import NOBODY
from coordinator_server.topics.names import is_internal, name_error
from coordinator_server.topics.operations import NOT_ASKED
from protocol.apis.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.errors import ErrorCode
from protocol.schema import ZERO_UUID
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Generator, Mapping, Sequence

    from coordinator_server.broker import Broker
    from coordinator_server.net.addresses import BrokerEndpoint
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from coordinator_server.topics.topic import Partition, Topic

    Operations = Callable[[str], int]
    """Returns the authorized operations on a topic, as bits."""

_KNOWS_LISTENERS = 6
"""The first version that says LISTENER_NOT_FOUND; earlier ones say LEADER_NOT_AVAILABLE."""


def handle(broker: Broker, call: Call, request: MetadataRequest) -> Steps:
    """Respond with the requested topics; null, or an empty list in version 0, means all topics."""
    asked = request.topics
    if asked is not None:
        error = yield from _invalid(asked, call.api_version)
        if error is not ErrorCode.NONE:
            call.reply((yield from _refusal(asked, error)))
            return
    endpoints = broker.endpoints(call.connection)
    lacking = without_listener(broker, endpoints, call.api_version)
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=endpoint.node_id, host=endpoint.host, port=endpoint.port, rack=endpoint.rack
            )
            for endpoint in endpoints
        ],
        cluster_id=broker.cluster_id,
        controller_id=broker.controller_id,
    )
    rights = call.rights
    operations = rights.topic_operations if request.include_topic_authorized_operations else None
    if asked is None or (call.api_version == 0 and not (asked or rights.refused)):
        for topic in broker.topics.listed_topics():
            # The topic may have been deleted since the previous step.
            is_current = broker.topics.topic(topic.name) is topic
            if is_current and rights.allows(topic.name):
                response.topics.append((yield from _known(broker, topic, operations, lacking)))
            yield
    else:
        yield from _asked(broker, call, request, asked, response.topics, operations, lacking)
        response.topics = rights.after(response.topics)
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = rights.cluster_operations()
    call.reply(response)


def _asked(
    broker: Broker,
    call: Call,
    request: MetadataRequest,
    asked: list[MetadataRequestTopic],
    known: list[MetadataResponseTopic],
    operations: Operations | None,
    lacking: Mapping[int, ErrorCode],
) -> Steps:
    """Append the requested topics, looked up by id or by name; unknown topics come last.

    Missing topics are created if broker and request allow auto-creation.
    """
    unknown: list[MetadataResponseTopic] = []
    to_create: list[str] = []
    created: dict[str | None, MetadataResponseTopic] = {}
    seen: Counts[bytes | str | None] = Counts()
    by_id = False
    for asked_topic in asked:
        by_id = by_id or asked_topic.topic_id != ZERO_UUID
        yield
    for asked_topic in asked:
        yield
        name = asked_topic.name
        key = asked_topic.topic_id if by_id else name
        if key is None or key == ZERO_UUID or seen.add(key) > 1:
            continue
        if by_id:
            topic = broker.topics.topic_by_id(asked_topic.topic_id)
        else:
            assert name is not None
            topic = broker.topics.topic(name)
        if topic is not None:
            known.append((yield from _known(broker, topic, operations, lacking)))
        elif by_id:
            error = ErrorCode.UNKNOWN_TOPIC_ID
            unknown.append(
                MetadataResponseTopic(error_code=error, name=None, topic_id=asked_topic.topic_id)
            )
        else:
            assert name is not None
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if broker.topics.creation_error(name) is None:
                # A client that has just deleted the topic may be verifying that it is gone.
                if name not in broker.recent_deletions:
                    to_create.append(name)
            elif name_error(name) is not None:
                error = ErrorCode.INVALID_TOPIC_EXCEPTION
            unknown.append(
                MetadataResponseTopic(
                    error_code=error,
                    name=name,
                    is_internal=is_internal(name),
                    topic_authorized_operations=_bits(operations, name),
                )
            )
    if to_create and request.allow_auto_topic_creation:
        yield from broker.topics.auto_create(to_create, call.may_change_partitions)
        for name in to_create:
            topic = broker.topics.topic(name)
            if topic is not None:
                created[name] = yield from _known(broker, topic, operations, lacking)
    for described in unknown:
        known.append(created.get(described.name, described))
        yield
    yield from seen.clear()


def _bits(operations: Operations | None, name: str) -> int:
    return NOT_ASKED if operations is None else operations(name)


def _known(
    broker: Broker,
    topic: Topic,
    operations: Operations | None,
    lacking: Mapping[int, ErrorCode],
) -> Generator[None, None, MetadataResponseTopic]:
    running = broker.topics.leadership.running
    described = MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        topic_authorized_operations=_bits(operations, topic.name),
    )
    for partition in topic.partitions:
        described.partitions.append(described_partition(partition, running, lacking))
        yield
    return described


def without_listener(
    broker: Broker, endpoints: Sequence[BrokerEndpoint], version: int = _KNOWS_LISTENERS
) -> Mapping[int, ErrorCode]:
    """Return the running brokers without the client's listener, each with a Metadata error.

    The error is set on the partitions that the broker leads; it depends on the API version.
    """
    running = broker.topics.leadership.running
    if len(endpoints) >= len(running):
        return {}
    is_new = version >= _KNOWS_LISTENERS
    error = ErrorCode.LISTENER_NOT_FOUND if is_new else ErrorCode.LEADER_NOT_AVAILABLE
    return dict.fromkeys(
        frozenset(running).difference(endpoint.node_id for endpoint in endpoints), error
    )


def described_partition(
    partition: Partition, running: Container[int], lacking: Mapping[int, ErrorCode]
) -> MetadataResponsePartition:
    """Return one partition with its leader and replicas; `running` replicas are in sync.

    Brokers in `lacking` do not have the client's listener: the response shows these brokers as
    offline and not as leaders (Kafka's KRaftMetadataCache.getPartitionMetadata).
    """
    replicas = partition.replicas
    described = MetadataResponsePartition(
        partition_index=partition.index,
        leader_id=partition.leader_id,
        replica_nodes=list(replicas),
        isr_nodes=[node_id for node_id in replicas if node_id in running],
        offline_replicas=[
            node_id for node_id in replicas if node_id not in running or node_id in lacking
        ],
    )
    if partition.leader_id == NOBODY:
        described.error_code = ErrorCode.LEADER_NOT_AVAILABLE
    elif partition.leader_id in lacking:
        described.error_code, described.leader_id = lacking[partition.leader_id], NOBODY
    try:
        described.leader_epoch = partition.leader_epoch
    except StorageError:
        # The log cannot be opened: report an offline partition, like Kafka for a failed disk.
        described.error_code = ErrorCode.LEADER_NOT_AVAILABLE
        described.leader_id = NOBODY
        described.isr_nodes = []
        described.offline_replicas = list(replicas)
    return described


def _invalid(asked: list[MetadataRequestTopic], version: int) -> Generator[None, None, ErrorCode]:
    """Return the error of a request that names topics in a way its version does not allow."""
    error = ErrorCode.NONE
    for topic in asked:
        if version < 12 and (topic.topic_id != ZERO_UUID or topic.name is None):
            return ErrorCode.INVALID_REQUEST
        if topic.name is None and topic.topic_id == ZERO_UUID:
            error = ErrorCode.UNKNOWN_SERVER_ERROR
        yield
    return error


def _refusal(
    asked: list[MetadataRequestTopic], error: ErrorCode
) -> Generator[None, None, MetadataResponse]:
    """Return the error on each topic, and at the top level in versions with such a field."""
    response = MetadataResponse(error_code=error)
    for topic in asked:
        response.topics.append(
            MetadataResponseTopic(error_code=error, name=topic.name or "", topic_id=topic.topic_id)
        )
        yield
    return response
