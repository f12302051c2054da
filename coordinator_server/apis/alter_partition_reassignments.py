"""AlterPartitionReassignments: move partitions to other brokers, or cancel a move (KIP-455).

Source: Kafka's ReplicationControlManager. All replicas of a partition share one log, so a
reassignment only waits for brokers that are stopped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.topics.assignments import replicas_error
from coordinator_server.topics.manager import MAX_RECORDS_PER_REQUEST
from protocol.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from coordinator_server.topics.topic import Partition, Topic

    Error = tuple[ErrorCode, str | None]


def handle(broker: Broker, call: Call, request: AlterPartitionReassignmentsRequest) -> Steps:
    """Reassign partitions and respond with one result per partition."""
    if not request.topics:
        call.reply(AlterPartitionReassignmentsResponse(error_message=""))
        return
    may_change_count = request.allow_replication_factor_change
    response = AlterPartitionReassignmentsResponse()
    if request.timeout_ms <= 0:
        response.error_code = ErrorCode.REQUEST_TIMED_OUT
    else:
        response.allow_replication_factor_change = may_change_count
    changed: dict[Topic, list[ReassignablePartitionResponse]] = {}
    changes_left = MAX_RECORDS_PER_REQUEST
    for asked in request.topics:
        answered = ReassignableTopicResponse(name=asked.name)
        response.responses.append(answered)
        for asked_partition in asked.partitions:
            result = ReassignablePartitionResponse(partition_index=asked_partition.partition_index)
            answered.partitions.append(result)
            message = None
            if asked_partition.replicas is not None:
                message = yield from replicas_error(
                    [asked_partition.replicas], broker.topics.broker_ids
                )
            yield
            topic = broker.topics.topic(asked.name)
            error = _error(topic, asked.name, asked_partition.partition_index)
            if response.error_code:
                error = ErrorCode.REQUEST_TIMED_OUT, None
            if error is None:
                assert topic is not None
                partition = topic.partitions[asked_partition.partition_index]
                error = _refusal(
                    broker, topic, partition, asked_partition.replicas, message, may_change_count
                )
            if error is None and not changes_left:
                # As in Kafka, this error has no message.
                error = ErrorCode.UNKNOWN_SERVER_ERROR, None
            if error is not None:
                result.error_code, result.error_message = error
            elif _change(broker, partition, asked_partition.replicas):
                assert topic is not None
                changed.setdefault(topic, []).append(result)
                changes_left -= 1
        yield
    if changed:
        yield from broker.topics.keep_leaders(changed)
    call.reply(response)


def _error(topic: Topic | None, name: str, index: int) -> Error | None:
    """Return the error for a partition that does not exist."""
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}."
    if not 0 <= index < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}."
    return None


def _refusal(
    broker: Broker,
    topic: Topic,
    partition: Partition,
    replicas: list[int] | None,
    message: str | None,
    may_change_count: bool,
) -> Error | None:
    """Return the error if a partition cannot get these replicas, or None.

    `message` is the validation error of the replicas, if any.
    """
    if replicas is None:
        if partition.reassignment is None:
            return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None
        leadership = broker.topics.leadership
        if leadership.is_unclean_to_cancel(
            partition
        ) and not broker.topics.allows_unclean_elections(topic):
            return (
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {topic.name}:{partition.index} "
                "because it would require an unclean leader election.",
            )
        return None
    if message is not None:
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, message
    wanted = set(partition.replicas)
    if partition.reassignment is not None:
        wanted.difference_update(partition.reassignment.removing)
    if len(wanted) != len(replicas) and not may_change_count:
        return (
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(wanted)} to {len(replicas)}",
        )
    return None


def _change(broker: Broker, partition: Partition, replicas: list[int] | None) -> bool:
    """Reassign a partition, or cancel its reassignment; return whether anything changed."""
    leadership = broker.topics.leadership
    if replicas is not None:
        return leadership.reassign(partition, tuple(replicas))
    leadership.cancel(partition)
    return True
