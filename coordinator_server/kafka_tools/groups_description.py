"""The output of `kafka-consumer-groups.sh --describe`: offsets, members or states of groups."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence

from coordinator_server.client import Client, ClientError
from coordinator_server.kafka_tools.frame import EXECUTION, raise_wrapped
from coordinator_server.kafka_tools.groups_read import (
    DEAD,
    Committed,
    GroupDescription,
    MemberDescription,
    Partition,
    committed_offsets,
    describe_group,
)
from coordinator_server.kafka_tools.log_offsets import RUNTIME, end_offsets

MISSING = "-"
LEAST_WIDTH = 15
_REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
_MEMBER_COLUMNS = ("GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS")
_EPOCH_COLUMNS = (
    "CURRENT-EPOCH",
    "CURRENT-ASSIGNMENT",
    "TARGET-EPOCH",
    "TARGET-ASSIGNMENT",
)
_OFFSET_COLUMNS = (
    "GROUP",
    "TOPIC",
    "PARTITION",
    "LEADER-EPOCH",
    "CURRENT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "CONSUMER-ID",
    "HOST",
    "CLIENT-ID",
)

Row = tuple[str, ...]


def print_table(rows: Iterable[Sequence[object]], widths: Sequence[int]) -> None:
    """Print the rows of a table; the last column has no width."""
    for row in rows:
        cells = [f"{cell!s:<{width}}" for cell, width in zip(row[:-1], widths, strict=False)]
        print("\n" + " ".join((*cells, str(row[-1]))), end="")
    print()


def read_groups(client: Client, names: Sequence[str]) -> list[GroupDescription]:
    """Describe groups by name. Raises ToolError."""
    groups = []
    for name in sorted(set(names)):
        try:
            groups.append(describe_group(client, name))
        except ClientError as error:
            raise_wrapped(error, EXECUTION)
    return groups


def read_committed(client: Client, group: str) -> dict[Partition, Committed]:
    """Return the committed offsets of a group, by partition. Raises ToolError."""
    try:
        return committed_offsets(client, group)
    except ClientError as error:
        raise_wrapped(error, EXECUTION, RUNTIME)


def print_offsets(client: Client, groups: Sequence[GroupDescription], *, verbose: bool) -> None:
    """Print a row for each partition that a group owns or has committed. Raises ToolError."""
    described = [(group, _offset_rows(client, group)) for group in groups]
    for group, rows in described:
        if not _is_shown(group, len(rows)):
            continue
        rows.insert(0, _OFFSET_COLUMNS)
        widths = _widths(rows, free=(0, 1, 7, 8), fixed={2: 10})
        if not verbose:
            rows, widths = [row[:3] + row[4:] for row in rows], widths[:3] + widths[4:]
        print_table(rows, widths)


def _offset_rows(client: Client, group: GroupDescription) -> list[Row]:
    committed = read_committed(client, group.name)
    rows: list[Row] = []
    owned: set[Partition] = set()
    for member in sorted(group.members, key=lambda member: -len(member.partitions)):
        owned.update(member.partitions)
        who = (member.member_id, member.host, member.client_id)
        rows += _partition_rows(client, group.name, member.partitions, committed, who)
    others = sorted(committed.keys() - owned)
    nobody = (MISSING, MISSING, MISSING)
    return rows + _partition_rows(client, group.name, others, committed, nobody)


def _partition_rows(
    client: Client,
    group: str,
    partitions: Sequence[Partition],
    committed: Mapping[Partition, Committed],
    who: tuple[str, str, str],
) -> list[Row]:
    ends = end_offsets(client, partitions)
    rows: list[Row] = []
    for topic, index in partitions:
        end = ends.get((topic, index))
        epoch = offset = lag = MISSING
        position = committed.get((topic, index))
        if position is not None:
            offset = str(position.offset)
            epoch = str(position.leader_epoch) if position.leader_epoch >= 0 else MISSING
            lag = MISSING if end is None else str(end - position.offset)
        last = MISSING if end is None else str(end)
        rows.append((group, topic, str(index), epoch, offset, last, lag, *who))
    return rows


def print_members(groups: Sequence[GroupDescription], *, verbose: bool) -> None:
    """Print a row for each member of each group."""
    for group in groups:
        _is_shown(group, len(group.members))
        rows = [_MEMBER_COLUMNS, *(_member_row(group.name, member) for member in group.members)]
        widths = _widths(rows, free=(0, 1, 2, 3, 4), fixed={2: 17})
        has_instances = any(member.instance_id for member in group.members)
        tails = [_EPOCH_COLUMNS, *(_epoch_row(group, member) for member in group.members)]
        current, target = (max(20, *(len(tail[number]) for tail in tails)) for number in (1, 3))
        tail_widths = (LEAST_WIDTH, current, LEAST_WIDTH, target)
        upgrades = ["UPGRADED", *(str(member.is_upgraded).lower() for member in group.members)]
        # During an upgrade, show which members use the consumer protocol.
        is_mixed = {True, False} <= {member.is_upgraded for member in group.members}
        print()
        for row, tail, upgraded in zip(rows, tails, upgrades, strict=True):
            cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)]
            if not has_instances:
                del cells[2]
            if verbose:
                cells += [f"{cell:<{width}}" for cell, width in zip(tail, tail_widths, strict=True)]
                cells += [upgraded] if is_mixed else []
            print(" ".join(cells if verbose else (*cells, "")))


def _member_row(group: str, member: MemberDescription) -> Row:
    return (
        group,
        member.member_id,
        member.instance_id,
        member.host,
        member.client_id,
        str(len(member.partitions)),
    )


def _epoch_row(group: GroupDescription, member: MemberDescription) -> Row:
    """Return a member's epochs and assignments; only KIP-848 groups have targets and epochs."""
    return (
        _optional(member.epoch),
        _assignment(member.partitions),
        _optional(group.target_epoch),
        _assignment(member.target or []),
    )


def _optional(number: int | None) -> str:
    return MISSING if number is None else str(number)


def _assignment(partitions: Sequence[Partition]) -> str:
    """Return partitions in the form TOPIC:0,1;OTHER:2."""
    topics: dict[str, list[str]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(str(index))
    return ";".join(f"{topic}:{','.join(topics[topic])}" for topic in topics) or MISSING


def print_states(groups: Sequence[GroupDescription], *, verbose: bool) -> None:
    """Print coordinator, assignor, state and size of each group."""
    for group in groups:
        if not _is_shown(group, 1):
            continue
        host, port = group.address
        assignor = group.assignor or MISSING
        row = [group.name, f"{host}:{port}  ({group.node_id})", assignor, group.state]
        header = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"]
        if verbose:
            header += ("GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH")
            row += (_optional(group.epoch), _optional(group.target_epoch))
        widths = [max(15, len(group.name)), max(25, len(row[1])), 20, 20, 15, 25]
        print_table(((*header, "#MEMBERS"), (*row, str(len(group.members)))), widths)


def _is_shown(group: GroupDescription, rows: int) -> bool:
    """Print a note about the group's state if needed; return whether its rows are to be printed."""
    if group.state == DEAD:
        print(f"\nError: Consumer group '{group.name}' does not exist.")
    elif group.state == "Empty":
        print(f"\nConsumer group '{group.name}' has no active members.", file=sys.stderr)
    elif group.state in _REBALANCING:
        print(f"\nWarning: Consumer group '{group.name}' is rebalancing.", file=sys.stderr)
    return group.state != DEAD and rows > 0


def _widths(rows: Sequence[Row], free: Sequence[int], fixed: Mapping[int, int]) -> list[int]:
    """Return the width of each column; `free` columns grow with their contents."""
    widths = []
    for column in range(len(rows[0])):
        width = fixed.get(column, LEAST_WIDTH)
        if column in free:
            width = max(width, *(len(row[column]) for row in rows[1:] or rows))
        widths.append(width)
    return widths
