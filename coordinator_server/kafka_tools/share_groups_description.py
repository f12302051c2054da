"""The output of `kafka-share-groups.sh --describe`: offsets, members or states of share groups."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from coordinator_server.client import Client
from coordinator_server.kafka_tools.group_commands import LEAST_WIDTH, MISSING
from coordinator_server.kafka_tools.groups_read import DEAD, Partition
from coordinator_server.kafka_tools.share_groups_read import ShareGroup, ShareOffset

if TYPE_CHECKING:
    from protocol.apis.share_group_describe import DescribedShareAssignment

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
        _print(rows, (len(group), topic_width), (10, 13, 13))


def print_group_states(client: Client, groups: Sequence[ShareGroup], *, is_verbose: bool) -> None:
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
        _print(rows, (len(group.group_id), max(25, len(coordinator))), (15, 12, 17))


def print_members(groups: Sequence[ShareGroup], *, is_verbose: bool) -> None:
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
        _print(rows, widths, (12, 13))


def _assignment(assignment: DescribedShareAssignment) -> str:
    """Return partitions in the form OTHER:2;TOPIC:0,1."""
    return ";".join(
        sorted(
            f"{topic.topic_name}:{','.join(map(str, sorted(topic.partitions)))}"
            for topic in assignment.topic_partitions
        )
    )


def _print_state(group: str, state: str) -> None:
    if state == DEAD:
        print(f"\nError: Share group '{group}' does not exist.")
    elif state == "Empty":
        print(f"\nShare group '{group}' has no active members.", file=sys.stderr)


def _print(rows: Sequence[Row], widths: Sequence[int], fixed: Sequence[int]) -> None:
    """Print a table: columns at least 15 wide, then columns of fixed widths.

    The last column has no width.
    """
    columns = (*(max(LEAST_WIDTH, width) for width in widths), *fixed)
    for row in rows:
        cells = [f"{cell!s:<{width}}" for cell, width in zip(row[:-1], columns, strict=False)]
        print("\n" + " ".join((*cells, str(row[-1]))), end="")
    print()
