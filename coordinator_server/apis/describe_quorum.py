"""DescribeQuorum: a quorum whose only voter is the broker that Metadata names as controller.

The other brokers of the process are observers. There is no metadata log: offsets count the topic
changes since the start, and every replica has the latest offset. Source: Kafka's
KafkaRaftClient.handleDescribeQuorumRequest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.apis.describe_quorum import (
    DescribedQuorumPartition,
    DescribedQuorumTopic,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumListener,
    QuorumNode,
    ReplicaState,
)
from protocol.errors import ErrorCode
from storage.checkpoints import CLUSTER_METADATA_TOPIC

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps

_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def handle(broker: Broker, call: Call, request: DescribeQuorumRequest) -> Steps:
    """Respond for partition 0 of the metadata topic; other requests get an error per partition."""
    response = DescribeQuorumResponse(error_message="")
    asked = [
        (asked_topic.topic_name, [part.partition_index for part in asked_topic.partitions])
        for asked_topic in request.topics[:2]
    ]
    if asked == [(CLUSTER_METADATA_TOPIC, [0])]:
        partition = _described(broker)
        topic = DescribedQuorumTopic(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
        response.topics.append(topic)
        endpoint = broker.endpoint(partition.leader_id, call.connection)
        if endpoint is not None:
            listener = QuorumListener(
                name=call.connection.listener_name, host=endpoint.host, port=endpoint.port
            )
            response.nodes.append(QuorumNode(node_id=endpoint.node_id, listeners=[listener]))
    else:
        for asked_topic in request.topics:
            refused = DescribedQuorumTopic(topic_name=asked_topic.topic_name)
            response.topics.append(refused)
            for part in asked_topic.partitions:
                refused.partitions.append(
                    DescribedQuorumPartition(
                        partition_index=part.partition_index,
                        error_code=_UNKNOWN,
                        error_message=_UNKNOWN.message,
                    )
                )
                yield
            yield
    call.reply(response)


def _described(broker: Broker) -> DescribedQuorumPartition:
    end_offset, now_ms = broker.topics.revision, broker.clock.now_ms()
    leadership = broker.topics.leadership

    def state(node_id: int) -> ReplicaState:
        return ReplicaState(
            replica_id=node_id,
            log_end_offset=end_offset,
            last_fetch_timestamp=now_ms,
            last_caught_up_timestamp=now_ms,
        )

    leader_id = broker.controller_id
    return DescribedQuorumPartition(
        leader_id=leader_id,
        leader_epoch=leadership.controller_epoch,
        high_watermark=end_offset,
        current_voters=[state(leader_id)],
        observers=[
            state(node_id)
            for node_id in leadership.node_ids
            if node_id in leadership.running and node_id != leader_id
        ],
    )
