"""Builds the response entries of refused request entries.

A topic of a request may have a million partitions, so entries are built in steps.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any

from coordinator_server.topics.config_requests import BROKER, BROKER_LOGGER
from protocol.apis.alter_configs import AlterConfigsResourceResponse
from protocol.apis.alter_share_group_offsets import (
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from protocol.apis.alter_user_scram_credentials import AlterUserScramCredentialsResult
from protocol.apis.consumer_group_describe import DescribedConsumerGroup
from protocol.apis.create_partitions import CreatePartitionsTopicResult
from protocol.apis.create_topics import CreatableTopicResult
from protocol.apis.delete_groups import DeletableGroupResult
from protocol.apis.delete_records import DeleteRecordsPartitionResult, DeleteRecordsTopicResult
from protocol.apis.delete_share_group_offsets import DeleteShareGroupOffsetsResponseTopic
from protocol.apis.describe_configs import DescribeConfigsResult
from protocol.apis.describe_groups import DescribedGroup
from protocol.apis.describe_producers import DescribedProducersPartition, DescribedProducersTopic
from protocol.apis.describe_transactions import DescribedTransaction
from protocol.apis.describe_user_scram_credentials import DescribeUserScramCredentialsResult
from protocol.apis.incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementalAlterConfigsResourceResponse,
)
from protocol.apis.list_offsets import ListOffsetsPartitionResponse, ListOffsetsTopicResponse
from protocol.apis.offset_commit import OffsetCommitResponsePartition, OffsetCommitResponseTopic
from protocol.apis.offset_delete import OffsetDeleteResponsePartition, OffsetDeleteResponseTopic
from protocol.apis.offset_for_leader_epoch import EpochEndOffset, OffsetForLeaderTopicResult
from protocol.apis.produce import PartitionProduceResponse, TopicProduceResponse
from protocol.apis.share_group_describe import DescribedShareGroup
from protocol.apis.streams_group_describe import DescribedStreamsGroup

if TYPE_CHECKING:
    from protocol.errors import ErrorCode

Refusal = Generator[None, None, Any]
"""Steps that return the response entry."""
Refused = Callable[[Any, "ErrorCode"], Refusal]
"""`refused(entry, error)` builds the response entry of a refused request entry."""


def in_one_step(refused: Callable[[Any, ErrorCode], Any]) -> Refused:
    """Return a Refused for entries without nested entries."""

    def in_steps(entry: Any, error: ErrorCode) -> Refusal:
        yield
        return refused(entry, error)

    return in_steps


def with_partitions(topic: Any, partitions: Iterable[Any], field: str = "partitions") -> Refusal:
    """Return the topic after adding its partitions, one per step."""
    made = []
    for partition in partitions:
        made.append(partition)
        yield
    setattr(topic, field, made)
    return topic


def produce(topic: Any, error: ErrorCode) -> Refusal:
    """Refuse a topic of Produce."""
    return with_partitions(
        TopicProduceResponse(name=topic.name, topic_id=topic.topic_id),
        (
            PartitionProduceResponse(index=one.index, error_code=error, base_offset=-1)
            for one in topic.partition_data
        ),
        "partition_responses",
    )


def list_offsets(topic: Any, error: ErrorCode) -> Refusal:
    """Refuse a topic of ListOffsets."""
    return with_partitions(
        ListOffsetsTopicResponse(name=topic.name),
        (
            ListOffsetsPartitionResponse(partition_index=one.partition_index, error_code=error)
            for one in topic.partitions
        ),
    )


def offset_commit(topic: Any, error: ErrorCode) -> Refusal:
    """Refuse a topic of OffsetCommit or TxnOffsetCommit."""
    return with_partitions(
        OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id),
        (
            OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=error)
            for one in topic.partitions
        ),
    )


def offset_delete(topic: Any, error: ErrorCode) -> Refusal:
    """Refuse a topic of OffsetDelete."""
    return with_partitions(
        OffsetDeleteResponseTopic(name=topic.name),
        (
            OffsetDeleteResponsePartition(partition_index=one.partition_index, error_code=error)
            for one in topic.partitions
        ),
    )


def delete_records(topic: Any, error: ErrorCode) -> Refusal:
    """Refuse a topic of DeleteRecords."""
    return with_partitions(
        DeleteRecordsTopicResult(name=topic.name),
        (
            DeleteRecordsPartitionResult(
                partition_index=one.partition_index, low_watermark=-1, error_code=error
            )
            for one in topic.partitions
        ),
    )


def offset_for_leader_epoch(topic: Any, error: ErrorCode) -> Refusal:
    """Refuse a topic of OffsetForLeaderEpoch."""
    return with_partitions(
        OffsetForLeaderTopicResult(topic=topic.topic),
        (EpochEndOffset(partition=one.partition, error_code=error) for one in topic.partitions),
    )


def describe_producers(topic: Any, error: ErrorCode) -> Refusal:
    """Refuse a topic of DescribeProducers."""
    return with_partitions(
        DescribedProducersTopic(name=topic.name),
        (
            DescribedProducersPartition(
                partition_index=index, error_code=error, error_message=error.message
            )
            for index in topic.partition_indexes
        ),
    )


def alter_share_group_offsets(topic: Any, error: ErrorCode) -> Refusal:
    """Refuse a topic of AlterShareGroupOffsets; the caller adds the topic id."""
    return with_partitions(
        AlterShareGroupOffsetsResponseTopic(topic_name=topic.topic_name),
        (
            AlterShareGroupOffsetsResponsePartition(
                partition_index=one.partition_index, error_code=error, error_message=error.message
            )
            for one in topic.partitions
        ),
    )


@in_one_step
def delete_share_group_offsets(
    topic: Any, error: ErrorCode
) -> DeleteShareGroupOffsetsResponseTopic:
    """Refuse a topic of DeleteShareGroupOffsets."""
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name, error_code=error, error_message=error.message
    )


@in_one_step
def create_topic(topic: Any, error: ErrorCode) -> CreatableTopicResult:
    """Refuse a topic of CreateTopics."""
    return CreatableTopicResult(
        name=topic.name, error_code=error, error_message="Authorization failed.", configs=[]
    )


@in_one_step
def create_partitions(topic: Any, error: ErrorCode) -> CreatePartitionsTopicResult:
    """Refuse a topic of CreatePartitions."""
    return CreatePartitionsTopicResult(name=topic.name, error_code=error)


@in_one_step
def delete_group(group_id: str, error: ErrorCode) -> DeletableGroupResult:
    """Refuse a group of DeleteGroups."""
    return DeletableGroupResult(group_id=group_id, error_code=error)


def describe_group(group_id: str, error: ErrorCode) -> DescribedGroup:
    """Refuse a group of DescribeGroups; the state is empty, as in Kafka for every error."""
    return DescribedGroup(group_id=group_id, error_code=error)


def describe_consumer_group(group_id: str, error: ErrorCode) -> DescribedConsumerGroup:
    """Refuse a group of ConsumerGroupDescribe."""
    return DescribedConsumerGroup(group_id=group_id, error_code=error)


def describe_share_group(group_id: str, error: ErrorCode) -> DescribedShareGroup:
    """Refuse a group of ShareGroupDescribe."""
    return DescribedShareGroup(group_id=group_id, error_code=error)


def describe_streams_group(group_id: str, error: ErrorCode) -> DescribedStreamsGroup:
    """Refuse a group of StreamsGroupDescribe."""
    return DescribedStreamsGroup(group_id=group_id, error_code=error, topology=None)


@in_one_step
def describe_transaction(transactional_id: str, error: ErrorCode) -> DescribedTransaction:
    """Refuse a transactional id of DescribeTransactions."""
    return DescribedTransaction(transactional_id=transactional_id, error_code=error)


def describe_configs(resource: Any, error: ErrorCode) -> DescribeConfigsResult:
    """Refuse a resource of DescribeConfigs."""
    return DescribeConfigsResult(
        error_code=error,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _text(resource: Any, error: ErrorCode) -> str | None:
    """Return the error message; None for brokers and broker loggers, as in Kafka."""
    return None if resource.resource_type in (BROKER, BROKER_LOGGER) else error.message


def alter_configs(resource: Any, error: ErrorCode) -> AlterConfigsResourceResponse:
    """Refuse a resource of AlterConfigs."""
    return AlterConfigsResourceResponse(
        error_code=error,
        error_message=_text(resource, error),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def incremental_alter_configs(
    resource: Any, error: ErrorCode
) -> IncrementalAlterConfigsResourceResponse:
    """Refuse a resource of IncrementalAlterConfigs."""
    return IncrementalAlterConfigsResourceResponse(
        error_code=error,
        error_message=_text(resource, error),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def describe_user(error: ErrorCode) -> DescribeUserScramCredentialsResult:
    """Refuse a user of DescribeUserScramCredentials, without the name."""
    return DescribeUserScramCredentialsResult(user="", error_code=error, error_message=None)


def alter_user(name: str, error: ErrorCode, message: str | None) -> AlterUserScramCredentialsResult:
    """Refuse a user of AlterUserScramCredentials."""
    return AlterUserScramCredentialsResult(user=name, error_code=error, error_message=message)
