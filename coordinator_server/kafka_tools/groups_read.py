"""Reads and changes groups and their offsets like Kafka's Admin client.

All functions retry while coordinators move, until `default.api.timeout.ms`, and raise ClientError,
or ToolError if Java's client wraps the error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from coordinator_server.client import Address, Client, ClientError, Lookup, check
from coordinator_server.kafka_tools.frame import ToolError
from coordinator_server.kafka_tools.java import in_hash_order
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from protocol.apis.list_groups import ListedGroup

T = TypeVar("T")

KAFKA_EXCEPTION = "org.apache.kafka.common.KafkaException"
DEAD = "Dead"
_BY_NAME = 9  # the last OffsetCommit and OffsetFetch version with topic names, not ids

Partition = tuple[str, int]


class Listing(NamedTuple):
    """A listed group; fields that the broker is too old for are empty."""

    name: str
    state: str
    kind: str


class AnyListing(NamedTuple):
    """A listed group of any type; the type is empty if the broker is too old for it."""

    name: str
    kind: str
    protocol: str


class MemberDescription(NamedTuple):
    """A member with its assigned partitions, in order.

    Fields that only KIP-848 has are None in a classic group: the member epoch, the target
    assignment, and whether the member uses the consumer protocol (None also for an older broker).
    """

    member_id: str
    instance_id: str
    host: str
    client_id: str
    partitions: list[Partition]
    epoch: int | None = None
    target: list[Partition] | None = None
    is_upgraded: bool | None = None


class GroupDescription(NamedTuple):
    """A described group; `node_id` and `address` identify its coordinator.

    The group epoch and the target assignment epoch exist only in KIP-848; None in a classic group.
    """

    name: str
    state: str
    assignor: str
    node_id: int
    address: Address
    members: list[MemberDescription]
    epoch: int | None = None
    target_epoch: int | None = None


class Committed(NamedTuple):
    """A committed offset and its leader epoch, -1 if unknown."""

    offset: int
    leader_epoch: int


def on_coordinator(client: Client, name: str, group: str, ask: Callable[[int], T]) -> T:
    """Call `ask` with the node id of the group's coordinator; retry while the coordinator moves."""
    api = "FIND_COORDINATOR"
    return client.call_on(name, Lookup(api, partial(client.coordinator, group)), api, ask)


def list_kind(client: Client, kind: str, states: Sequence[str] = ()) -> list[Listing]:
    """Return the groups of one type (Share, Streams) from all brokers, sorted by name."""
    return sorted(
        Listing(group.group_id, group.group_state, group.group_type)
        for group in _listed(client, states, [kind])
    )


def list_groups(
    client: Client, states: Sequence[str] = (), types: Sequence[str] = ()
) -> list[Listing]:
    """Return the consumer groups of all brokers, sorted by name."""
    kinds = ("", "classic", "consumer")
    return sorted(
        Listing(group.group_id, group.group_state, group.group_type)
        for group in _listed(client, states, types)
        if group.protocol_type in ("", "consumer") and group.group_type.lower() in kinds
    )


def list_all_groups(client: Client) -> list[AnyListing]:
    """Return the groups of all types and brokers, sorted by name."""
    return sorted(
        AnyListing(group.group_id, group.group_type, group.protocol_type)
        for group in _listed(client)
    )


def _listed(
    client: Client, states: Sequence[str] = (), types: Sequence[str] = ()
) -> Collection[ListedGroup]:
    from protocol.apis.list_groups import ListGroupsRequest

    try:
        client.call("findAllBrokers", lambda: client.metadata([]))
    except ClientError as error:
        message = "Failed to find brokers to send ListGroups"
        raise ToolError(KAFKA_EXCEPTION, message) from error
    least = 5 if types else 4 if states else 0
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    groups: dict[str, ListedGroup] = {}

    def read(node_id: int) -> None:
        answer = client.ask(request, node_id, min_version=least)
        check(answer.error_code)
        groups.update((group.group_id, group) for group in answer.groups)

    for node_id in list(client.nodes):
        client.call("listGroups", partial(read, node_id))
    return groups.values()


def describe_group(client: Client, name: str) -> GroupDescription:
    """Describe a group, KIP-848 or classic."""

    def attempt(node_id: int) -> GroupDescription:
        try:
            return _consumer_group(client, name, node_id)
        except ClientError as error:
            if error.code not in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.GROUP_ID_NOT_FOUND):
                raise
            first = error
        try:
            return _classic_group(client, name, node_id)
        except ClientError as error:
            raise first if error.code is first.code else error from None

    return on_coordinator(client, "describeConsumerGroups", name, attempt)


def _consumer_group(client: Client, name: str, node_id: int) -> GroupDescription:
    """Describe a KIP-848 group. Raises ClientError, GROUP_ID_NOT_FOUND also for a classic group."""
    from protocol.apis.consumer_group_describe import (
        CONSUMER_MEMBER,
        ConsumerGroupDescribeRequest,
    )

    def partitions(assignment: Any) -> list[Partition]:
        return sorted(
            (topic.topic_name, index)
            for topic in assignment.topic_partitions
            for index in topic.partitions
        )

    answer = client.ask(ConsumerGroupDescribeRequest(group_ids=[name]), node_id).groups[0]
    check(answer.error_code, answer.error_message)
    members = [
        MemberDescription(
            member.member_id,
            member.instance_id or "",
            member.client_host,
            member.client_id,
            partitions(member.assignment),
            member.member_epoch,
            partitions(member.target_assignment),
            None if member.member_type < 0 else member.member_type == CONSUMER_MEMBER,
        )
        for member in answer.members
    ]
    return GroupDescription(
        name,
        answer.group_state,
        answer.assignor_name,
        node_id,
        client.nodes[node_id],
        members,
        answer.group_epoch,
        answer.assignment_epoch,
    )


def _classic_group(client: Client, name: str, node_id: int) -> GroupDescription:
    from protocol.apis.describe_groups import DescribeGroupsRequest

    answer = client.ask(DescribeGroupsRequest(groups=[name]), node_id).groups[0]
    check(answer.error_code, answer.error_message)
    return GroupDescription(
        name,
        answer.group_state,
        answer.protocol_data,
        node_id,
        client.nodes[node_id],
        [_classic_member(member) for member in answer.members],
    )


def _classic_member(member: Any) -> MemberDescription:
    from protocol.consumer_protocol import decode_assignment

    partitions: list[Partition] = []
    if member.member_assignment:
        for topic in decode_assignment(member.member_assignment).assigned_partitions:
            partitions += ((topic.topic, index) for index in topic.partitions)
    return MemberDescription(
        member.member_id,
        member.group_instance_id or "",
        member.client_host,
        member.client_id,
        sorted(partitions),
    )


def committed_offsets(
    client: Client, group: str, partitions: Iterable[Partition] | None = None
) -> dict[Partition, Committed]:
    """Return the committed offsets of a group, by partition: of `partitions`, or of all."""
    from protocol.apis.offset_fetch import (
        OffsetFetchRequest,
        OffsetFetchRequestGroup,
        OffsetFetchRequestTopic,
        OffsetFetchRequestTopics,
    )

    wanted = None if partitions is None else _by_topic(partitions)

    def topics(topic: Callable[..., T]) -> list[T] | None:
        if wanted is None:
            return None
        return [topic(name=name, partition_indexes=wanted[name]) for name in wanted]

    request = OffsetFetchRequest(
        group_id=group,
        topics=topics(OffsetFetchRequestTopic),
        groups=[OffsetFetchRequestGroup(group_id=group, topics=topics(OffsetFetchRequestTopics))],
    )

    def attempt(node_id: int) -> dict[Partition, Committed]:
        answer = client.ask(
            request, node_id, min_version=2 if wanted is None else 1, max_version=_BY_NAME
        )
        of_group = answer.groups[0] if answer.groups else answer
        check(of_group.error_code)
        committed = {}
        for topic in of_group.topics:
            for partition in topic.partitions:
                check(partition.error_code)
                if partition.committed_offset >= 0:
                    committed[topic.name, partition.partition_index] = Committed(
                        partition.committed_offset, partition.committed_leader_epoch
                    )
        return committed

    return on_coordinator(client, "listConsumerGroupOffsets", group, attempt)


def alter_offsets(client: Client, group: str, offsets: Mapping[Partition, int]) -> None:
    """Commit offsets for a group without members."""
    from protocol.apis.offset_commit import (
        OffsetCommitRequest,
        OffsetCommitRequestPartition,
        OffsetCommitRequestTopic,
    )

    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offsets[name, index],
                        committed_metadata="",
                    )
                    for index in indexes
                ],
            )
            for name, indexes in _by_topic(offsets).items()
        ],
    )

    def attempt(node_id: int) -> dict[Partition, ClientError]:
        answer = client.ask(request, node_id, max_version=_BY_NAME)
        failed = {
            (topic.name, partition.partition_index): ClientError(partition.error_code)
            for topic in answer.topics
            for partition in topic.partitions
            if partition.error_code
        }
        for error in failed.values():
            if error.code.retriable:
                raise error
        return failed

    raise_altering(on_coordinator(client, "alterConsumerGroupOffsets", group, attempt))


def raise_altering(failed: Mapping[Partition, ClientError], message: str = "") -> None:
    """Raise the error of the first failed partition, if any offset was not altered.

    Kafka: AlterConsumerGroupOffsetsResult.all.
    """
    order = in_hash_order(failed)
    if not order:
        return
    listed = ", ".join(f"{topic}-{index}" for topic, index in order)
    text = f"Failed altering group offsets for the following partitions: [{listed}]"
    raise ClientError(failed[order[0]].code, f"{message} {text}" if message else text)


def delete_group(client: Client, group: str, call: str = "deleteConsumerGroups") -> None:
    """Delete a group; `call` is the name of the method of Java's Admin."""
    from protocol.apis.delete_groups import DeleteGroupsRequest

    def attempt(node_id: int) -> None:
        answer = client.ask(DeleteGroupsRequest(groups_names=[group]), node_id)
        check(answer.results[0].error_code, answer.results[0].error_message)

    on_coordinator(client, call, group, attempt)


def delete_offsets(
    client: Client, group: str, partitions: Iterable[Partition]
) -> dict[Partition, ClientError | None]:
    """Delete committed offsets and return each partition's error. Raises the group's error."""
    from protocol.apis.offset_delete import (
        OffsetDeleteRequest,
        OffsetDeleteRequestPartition,
        OffsetDeleteRequestTopic,
    )

    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[
                    OffsetDeleteRequestPartition(partition_index=index) for index in indexes
                ],
            )
            for name, indexes in _by_topic(partitions).items()
        ],
    )

    def attempt(node_id: int) -> dict[Partition, ClientError | None]:
        answer = client.ask(request, node_id)
        check(answer.error_code)
        return {
            (topic.name, partition.partition_index): ClientError(partition.error_code)
            if partition.error_code
            else None
            for topic in answer.topics
            for partition in topic.partitions
        }

    return on_coordinator(client, "deleteConsumerGroupOffsets", group, attempt)


def _by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    """Group partition numbers by topic."""
    topics: dict[str, list[int]] = {}
    for name, index in partitions:
        topics.setdefault(name, []).append(index)
    return topics
