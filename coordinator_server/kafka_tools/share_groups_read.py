"""Reads and changes share groups and their offsets like Kafka's Admin client (KIP-932)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.client import Client, ClientError, check
from coordinator_server.kafka_tools.groups_read import Partition, on_coordinator, raise_altering

if TYPE_CHECKING:
    from protocol.apis.share_group_describe import DescribedShareGroup


class ShareOffset(NamedTuple):
    """The start offset of a share partition; None for values that the broker does not know."""

    start: int
    leader_epoch: int | None
    lag: int | None


class ShareGroup(NamedTuple):
    """A described share group and the node id of its coordinator."""

    described: DescribedShareGroup
    node_id: int


def describe_share_group(client: Client, name: str) -> ShareGroup:
    """Describe a share group."""
    from protocol.apis.share_group_describe import ShareGroupDescribeRequest

    def attempt(node_id: int) -> ShareGroup:
        answer = client.ask(ShareGroupDescribeRequest(group_ids=[name]), node_id).groups[0]
        check(answer.error_code, answer.error_message)
        return ShareGroup(answer, node_id)

    return on_coordinator(client, "describeShareGroups", name, attempt)


def share_offsets(client: Client, group: str) -> dict[Partition, ShareOffset | None]:
    """Return the start offset of each partition of a share group, or None if not set."""
    from protocol.apis.describe_share_group_offsets import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsRequestGroup,
    )

    call = "describeShareGroupOffsets"
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)]
    )

    def attempt(node_id: int) -> dict[Partition, ShareOffset | None]:
        answer = client.ask(request, node_id).groups[0]
        check(answer.error_code, answer.error_message)
        return {
            (topic.topic_name, partition.partition_index): _offset(partition)
            for topic in answer.topics
            for partition in topic.partitions
            if not partition.error_code
        }

    return on_coordinator(client, call, group, attempt)


def _offset(partition: Any) -> ShareOffset | None:
    if partition.start_offset < 0:
        return None
    epoch, lag = partition.leader_epoch, partition.lag
    return ShareOffset(
        partition.start_offset, epoch if epoch >= 0 else None, lag if lag >= 0 else None
    )


def alter_share_offsets(client: Client, group: str, offsets: Mapping[Partition, int]) -> None:
    """Set the start offsets of a share group without members."""
    from protocol.apis.alter_share_group_offsets import (
        AlterShareGroupOffsetsRequest,
        AlterShareGroupOffsetsRequestPartition,
        AlterShareGroupOffsetsRequestTopic,
    )

    topics: dict[str, AlterShareGroupOffsetsRequestTopic] = {}
    for (name, index), offset in offsets.items():
        topic = topics.setdefault(name, AlterShareGroupOffsetsRequestTopic(topic_name=name))
        topic.partitions.append(
            AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
        )
    request = AlterShareGroupOffsetsRequest(group_id=group, topics=list(topics.values()))

    def attempt(node_id: int) -> dict[Partition, ClientError]:
        answer = client.ask(request, node_id)
        if answer.error_code:
            error = ClientError(answer.error_code, answer.error_message)
            if error.code.retriable:
                raise error
            return dict.fromkeys(offsets, error)
        return {
            (topic.topic_name, partition.partition_index): ClientError(
                partition.error_code, partition.error_message
            )
            for topic in answer.responses
            for partition in topic.partitions
            if partition.error_code
        }

    failed = on_coordinator(client, "alterShareGroupOffsets", group, attempt)
    raise_altering(failed, next((str(error) for error in failed.values()), ""))


def delete_share_offsets(
    client: Client, group: str, topics: Collection[str]
) -> dict[str, ClientError | None]:
    """Delete the offsets of topics; return each topic's error or None. Raises the group's error."""
    from protocol.apis.delete_share_group_offsets import (
        DeleteShareGroupOffsetsRequest,
        DeleteShareGroupOffsetsRequestTopic,
    )

    request = DeleteShareGroupOffsetsRequest(
        group_id=group,
        topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics],
    )

    def attempt(node_id: int) -> dict[str, ClientError | None]:
        answer = client.ask(request, node_id)
        check(answer.error_code, answer.error_message)
        return {
            topic.topic_name: ClientError(topic.error_code, topic.error_message)
            if topic.error_code
            else None
            for topic in answer.responses
        }

    return on_coordinator(client, "deleteShareGroupOffsets", group, attempt)
