"""Reads, changes and prints share groups: offsets, members and states (KIP-932)."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.client import Client, ClientError, check
from coordinator_server.kafka_tools.groups_description import LEAST_WIDTH, MISSING, print_table
from coordinator_server.kafka_tools.groups_read import (
    DEAD,
    Partition,
    on_coordinator,
    raise_altering,
)

if TYPE_CHECKING:
    from protocol.apis.share_group_describe import DescribedShareAssignment, DescribedShareGroup


Row = Sequence[object]


def print_offsets(
    offsets: Mapping[str, Mapping[Partition, ShareOffset | None]], *, is_verbose: bool
) -> None:
    """Print a row for each partition of each group."""
    for group, partitions in offsets.items():
        if not partitions:
            print(f"\nShare group '{group}' has no offset information.")
            continue
        rows: list[Row] = [
            ("GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "START-OFFSET", "LAG"),
        ]
        for topic, index in sorted(partitions):
            offset = partitions[topic, index]
            cells: tuple[int | None, ...] = (None, None, None)
            if offset is not None:
                cells = (offset.leader_epoch, offset.start, offset.lag)
            rows.append(
                (group, topic, index, *(MISSING if cell is None else cell for cell in cells))
            )
        if not is_verbose:
            rows = [(*row[:3], *row[4:]) for row in rows]
        topic_width = max(len(topic) for topic, _ in partitions)
        print_table(rows, (*_widened(len(group), topic_width), 10, 13, 13))


def print_group_states(
    client: Client, groups: Sequence[ShareGroupDescription], *, is_verbose: bool
) -> None:
    """Print coordinator, state and number of members of each group."""
    for group, node_id in groups:
        _print_state(group.group_id, group.group_state)
        host, port = client.nodes[node_id]
        coordinator = f"{host}:{port}  ({node_id})"
        rows: list[Row] = [
            ("GROUP", "COORDINATOR (ID)", "STATE", "GROUP-EPOCH", "ASSIGNMENT-EPOCH", "#MEMBERS"),
            (
                group.group_id,
                coordinator,
                group.group_state,
                group.group_epoch,
                group.assignment_epoch,
                len(group.members),
            ),
        ]
        if not is_verbose:
            rows = [(*row[:3], row[5]) for row in rows]
        widths = _widened(len(group.group_id), max(25, len(coordinator)))
        print_table(rows, (*widths, 15, 12, 17))


def print_members(groups: Sequence[ShareGroupDescription], *, is_verbose: bool) -> None:
    """Print a row for each member of each group."""
    for group, _ in groups:
        _print_state(group.group_id, group.group_state)
        if group.group_state == DEAD or not group.members:
            continue
        header = ("GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "MEMBER-EPOCH")
        rows: list[Row] = [(*header, "ASSIGNMENT")]
        members = sorted(group.members, key=lambda member: member.member_id)
        for member in members:
            count = sum(len(topic.partitions) for topic in member.assignment.topic_partitions)
            who = (group.group_id, member.member_id, member.client_host, member.client_id)
            rows.append((*who, count, member.member_epoch, _assignment(member.assignment)))
        widths = tuple(max(len(str(row[column])) for row in rows[1:]) for column in range(4))
        if not is_verbose:
            rows = [(*row[:5], row[6]) for row in rows]
        print_table(rows, (*_widened(*widths), 12, 13))


def _assignment(assignment: DescribedShareAssignment) -> str:
    """Return partitions in the form OTHER:2;TOPIC:0,1."""
    return ";".join(
        sorted(
            f"{topic.topic_name}:{','.join(map(str, sorted(topic.partitions)))}"
            for topic in assignment.topic_partitions
        )
    )


def _widened(*widths: int) -> tuple[int, ...]:
    return tuple(max(LEAST_WIDTH, width) for width in widths)


def _print_state(group: str, state: str) -> None:
    if state == DEAD:
        print(f"\nError: Share group '{group}' does not exist.")
    elif state == "Empty":
        print(f"\nShare group '{group}' has no active members.", file=sys.stderr)


class ShareOffset(NamedTuple):
    """The start offset of a share partition; None for values that the broker does not know."""

    start: int
    leader_epoch: int | None
    lag: int | None


class ShareGroupDescription(NamedTuple):
    """A described share group and the node id of its coordinator."""

    described: DescribedShareGroup
    node_id: int


def describe_share_group(client: Client, name: str) -> ShareGroupDescription:
    """Describe a share group."""
    from protocol.apis.share_group_describe import ShareGroupDescribeRequest

    def attempt(node_id: int) -> ShareGroupDescription:
        answer = client.ask(ShareGroupDescribeRequest(group_ids=[name]), node_id).groups[0]
        check(answer.error_code, answer.error_message)
        return ShareGroupDescription(answer, node_id)

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
