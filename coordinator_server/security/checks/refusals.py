"""Builds the response entries of refused request entries.

A topic of a request may have a million partitions, so entries are built in steps.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from coordinator_server.topics.config_requests import BROKER, BROKER_LOGGER
from protocol.apis.alter_configs import AlterConfigsResourceResponse
from protocol.apis.alter_share_group_offsets import (
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from protocol.apis.alter_user_scram_credentials import AlterUserScramCredentialsResult
from protocol.apis.create_partitions import CreatePartitionsTopicResult
from protocol.apis.create_topics import CreatableTopicResult
from protocol.apis.delete_groups import DeletableGroupResult
from protocol.apis.delete_records import DeleteRecordsPartitionResult, DeleteRecordsTopicResult
from protocol.apis.delete_share_group_offsets import DeleteShareGroupOffsetsResponseTopic
from protocol.apis.describe_configs import DescribeConfigsResult
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


def by_partition(
    topic_result: Callable[..., Any],
    partition_result: Callable[..., Any],
    names: tuple[str, ...] = ("name",),
    *,
    index: str = "partition_index",
    asked: str = "partitions",
    has_message: bool = False,
    **rest: Any,
) -> Refused:
    """Return a Refused for topics with partitions, which sets the error in each partition's entry.

    `names` are the fields that the response copies from the topic of the request, and `index` is
    the field with the number of a partition. `asked` is the field of the request that lists the
    partitions or their numbers. `rest` are further fields of each partition's entry.
    """

    def refused(topic: Any, error: ErrorCode) -> Refusal:
        fields = {**rest, "error_code": error}
        if has_message:
            fields["error_message"] = error.message
        answer = topic_result(**{name: getattr(topic, name) for name in names})
        entries = (
            partition_result(
                **{index: partition if isinstance(partition, int) else getattr(partition, index)},
                **fields,
            )
            for partition in getattr(topic, asked)
        )
        return with_partitions(answer, entries)

    return refused


def produce(topic: Any, error: ErrorCode) -> Refusal:
    """Refuse a topic of Produce."""
    return with_partitions(
        TopicProduceResponse(name=topic.name, topic_id=topic.topic_id),
        (
            PartitionProduceResponse(index=partition.index, error_code=error, base_offset=-1)
            for partition in topic.partition_data
        ),
        "partition_responses",
    )


_NAME_AND_ID = ("name", "topic_id")

list_offsets = by_partition(ListOffsetsTopicResponse, ListOffsetsPartitionResponse)
offset_commit = by_partition(OffsetCommitResponseTopic, OffsetCommitResponsePartition, _NAME_AND_ID)
offset_delete = by_partition(OffsetDeleteResponseTopic, OffsetDeleteResponsePartition)
delete_records = by_partition(
    DeleteRecordsTopicResult, DeleteRecordsPartitionResult, low_watermark=-1
)
offset_for_leader_epoch = by_partition(
    OffsetForLeaderTopicResult, EpochEndOffset, ("topic",), index="partition"
)
describe_producers = by_partition(
    DescribedProducersTopic,
    DescribedProducersPartition,
    asked="partition_indexes",
    has_message=True,
)
alter_share_group_offsets = by_partition(
    AlterShareGroupOffsetsResponseTopic,
    AlterShareGroupOffsetsResponsePartition,
    ("topic_name",),
    has_message=True,
)
"""The caller adds the topic id."""


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


def config_change(result: Callable[..., Any], resource: Any, error: ErrorCode) -> Any:
    """Refuse a resource of AlterConfigs or IncrementalAlterConfigs with a `result` message."""
    return result(
        error_code=error,
        error_message=_text(resource, error),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


alter_configs = partial(config_change, AlterConfigsResourceResponse)
incremental_alter_configs = partial(config_change, IncrementalAlterConfigsResourceResponse)


def describe_user(error: ErrorCode) -> DescribeUserScramCredentialsResult:
    """Refuse a user of DescribeUserScramCredentials, without the name."""
    return DescribeUserScramCredentialsResult(user="", error_code=error, error_message=None)


def alter_user(name: str, error: ErrorCode, message: str | None) -> AlterUserScramCredentialsResult:
    """Refuse a user of AlterUserScramCredentials."""
    return AlterUserScramCredentialsResult(user=name, error_code=error, error_message=message)
