"""Metadata: brokers, topics, partitions and their leaders.

As in Kafka, a topic that is created because it was asked for is still answered with
UNKNOWN_TOPIC_OR_PARTITION, and is there at the next request. Known topics come first in the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.topics.leadership import NOBODY
from coordinator_server.topics.names import is_internal, name_error
from coordinator_server.topics.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
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
    from collections.abc import Container

    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.topics.manager import Partition, Topic


def handle(broker: Broker, call: Call, request: MetadataRequest) -> None:
    """Answer with the topics asked for; null, and nothing in version 0, asks for all of them."""
    asked = request.topics
    if asked is not None and (error := _invalid(asked, call.api_version)) is not ErrorCode.NONE:
        call.reply(_refusal(asked, error))
        return
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=one.node_id, host=one.host, port=one.port)
            for one in broker.endpoints(call.connection)
        ],
        cluster_id=broker.cluster_id,
        controller_id=broker.controller_id,
    )
    if asked is None or (call.api_version == 0 and not asked):
        response.topics = [_known(broker, topic) for topic in broker.topics.all_topics()]
    else:
        response.topics = _asked(broker, asked, request.allow_auto_topic_creation)
    if request.include_topic_authorized_operations:
        for answered in response.topics:
            if answered.name is not None:
                answered.topic_authorized_operations = TOPIC_OPERATIONS
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    call.reply(response)


def _asked(
    broker: Broker, asked: list[MetadataRequestTopic], may_create: bool
) -> list[MetadataResponseTopic]:
    """The topics of a request: by id when it names an id, else by name."""
    known: list[MetadataResponseTopic] = []
    unknown: list[MetadataResponseTopic] = []
    ids = dict.fromkeys(topic.topic_id for topic in asked if topic.topic_id != ZERO_UUID)
    if ids:
        for topic_id in ids:
            topic = broker.topics.topic_by_id(topic_id)
            if topic is not None:
                known.append(_known(broker, topic))
            else:
                unknown.append(
                    MetadataResponseTopic(
                        error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id
                    )
                )
        return known + unknown
    for name in dict.fromkeys(topic.name for topic in asked if topic.name is not None):
        topic = broker.topics.topic(name)
        if topic is not None:
            known.append(_known(broker, topic))
        else:
            unknown.append(_missing(broker, name, may_create))
    return known + unknown


def _missing(broker: Broker, name: str, may_create: bool) -> MetadataResponseTopic:
    """A topic that is not there; it is created if broker and request allow that."""
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if name_error(name) is not None:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif may_create:
        broker.topics.auto_create(name)
    return MetadataResponseTopic(error_code=error, name=name, is_internal=is_internal(name))


def _known(broker: Broker, topic: Topic) -> MetadataResponseTopic:
    running = broker.topics.leadership.running
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[described_partition(partition, running) for partition in topic.partitions],
    )


def described_partition(partition: Partition, running: Container[int]) -> MetadataResponsePartition:
    """One partition with its leader and replicas, those of brokers that are `running` in sync."""
    replicas = partition.replicas
    described = MetadataResponsePartition(
        partition_index=partition.index,
        leader_id=partition.leader_id,
        replica_nodes=list(replicas),
        isr_nodes=[one for one in replicas if one in running],
        offline_replicas=[one for one in replicas if one not in running],
    )
    if partition.leader_id == NOBODY:
        described.error_code = ErrorCode.LEADER_NOT_AVAILABLE
    try:
        described.leader_epoch = partition.leader_epoch
    except StorageError:
        # The log cannot be opened: an offline partition, as Kafka tells of a failed disk.
        described.error_code = ErrorCode.LEADER_NOT_AVAILABLE
        described.leader_id = NOBODY
        described.isr_nodes = []
        described.offline_replicas = list(replicas)
    return described


def _invalid(asked: list[MetadataRequestTopic], version: int) -> ErrorCode:
    """The error of a request that names topics as its version does not allow."""
    if version < 12 and any(topic.topic_id != ZERO_UUID or topic.name is None for topic in asked):
        return ErrorCode.INVALID_REQUEST
    if any(topic.name is None and topic.topic_id == ZERO_UUID for topic in asked):
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode.NONE


def _refusal(asked: list[MetadataRequestTopic], error: ErrorCode) -> MetadataResponse:
    """An error in the place of everything: on each topic, and at the top where there is a field."""
    return MetadataResponse(
        error_code=error,
        topics=[
            MetadataResponseTopic(error_code=error, name=topic.name or "", topic_id=topic.topic_id)
            for topic in asked
        ],
    )
