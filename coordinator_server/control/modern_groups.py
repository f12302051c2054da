"""Descriptions of groups whose members have epochs: consumer, share and streams groups.

A description has each member's current and target assignment, its pending revocations and the
members that wait for them, and for share groups the in-flight records of each partition.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from coordinator_server.control.rebalances import may_see
from coordinator_server.core.groups.modern.account import (
    EpochChange,
    has_reached,
    holders,
    owner_of,
)
from coordinator_server.core.groups.modern.snapshot import (
    assignor,
    by_name,
    instance_id,
    sides,
    subscription,
    wanted,
)
from coordinator_server.core.groups.settings import GroupKind
from coordinator_server.rebalances.record import encode_record, record_of
from coordinator_server.rebalances.story import ms, ranges, tell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coordinator_server.cluster import Cluster
    from coordinator_server.control.request import ControlRequest
    from coordinator_server.core.share_partitions.share_partition import SharePartition


def described(request: ControlRequest, group: Any) -> dict[str, Any]:
    """Return the description of a group without offsets. `generation` is the group epoch."""
    cluster = request.cluster
    now_ms = cluster.clock.now_ms()
    account = group.rebalance
    members = [_member(group, member, account, now_ms) for member in group.members.values()]
    answer = {
        "generation": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "protocol": assignor(group),
        "leader": None,
        "members": members,
        "under_way": [] if account is None else _told(request, group, account, now_ms),
    }
    share_partitions: list[dict[str, Any]] = []
    if group.kind is GroupKind.SHARE:
        share_partitions = list(_share_partitions(cluster, group.group_id))
        answer["share_partitions"] = share_partitions
        answer["is_settled"] = (
            account is None
            and not group.has_unassigned
            and (group.states is None or not group.states.initializing)
        )
    state = group.state.value
    noun = "member" if len(members) == 1 else "members"
    answer["now"] = [
        f"{state}, epoch {group.epoch}, {len(members)} {noun}",
        *map(_tell_member, members),
        *map(_tell_share_partition, share_partitions),
    ]
    return answer


def _tell_member(member: dict[str, Any]) -> str:
    """Return a line about a member: epoch, state, assignment and pending revocations."""
    line = f"{member['instance_id'] or member['member_id']}: epoch {member['epoch']}"
    line += f", {member['state']}; has {ranges(member['assignment'])}"
    if member["revoking"]:
        line += f"; has still to give up {ranges(member['revoking'])}"
        line += _for(member["revoking_ms"])
    if member["waits_for"]:
        line += f"; waits for {member['waits_for']}{_for(member['waiting_ms'])}"
    return line


def _for(duration_ms: int | None) -> str:
    return "" if duration_ms is None else f", for {ms(duration_ms)}"


def _tell_share_partition(shown: dict[str, Any]) -> str:
    """Return a line about the in-flight records of a share partition."""
    line = f"{shown['topic']} {shown['partition']}: from {shown['start_offset']} on, "
    if not shown["in_flight"]:
        line += "nothing in flight"
    else:
        states = ", ".join(f"{count} {state}" for state, count in shown["states"].items())
        line += f"{shown['in_flight']} in flight ({states})"
    parts = [f"{count} delivered {times} times" for times, count in shown["deliveries"].items()]
    parts += [f"{member} has {count}" for member, count in shown["members"].items()]
    lost = sum(records["last"] - records["first"] + 1 for records in shown["given_up"])
    if lost:
        parts.append(f"{lost} {'record' if lost == 1 else 'records'} given up")
    return "; ".join([line, *parts])


def _told(request: ControlRequest, group: Any, account: EpochChange, now_ms: int) -> list[str]:
    """Return lines that describe the rebalance in progress, if the user may see its topics."""
    encoded_record = encode_record(record_of(group.group_id, account.so_far(group, now_ms)))
    record = json.loads(encoded_record)
    return tell(record) if may_see(request, record) else []


def _member(group: Any, member: Any, account: EpochChange | None, now_ms: int) -> dict[str, Any]:
    member_id, environment = member.member_id, group.environment
    current = group.currents.get(member_id)
    assigned, revoking = sides(group.kind, current)
    target = wanted(group.kind, group.targets.get(member_id))
    # Members of a share group share partitions, so no member waits for another.
    is_there = group.kind is GroupKind.SHARE or has_reached(group, member_id)
    held_by = {} if is_there else holders(group, member_id, owner_of(group))
    releases = {holder: by_name(environment, partitions) for holder, partitions in held_by.items()}
    revocation = None if account is None else account.revocations.get(member_id)
    wait = None if account is None else account.waits.get(member_id)
    answer = {
        "member_id": member_id,
        "instance_id": instance_id(member),
        "client_id": member.client_id,
        "host": member.client_host,
        "subscription": _subscription(group, member),
        "epoch": 0 if current is None else current.epoch,
        "state": _state(group, current),
        "assignment": by_name(environment, assigned),
        "target": by_name(environment, target),
        "revoking": by_name(environment, revoking),
        "revoking_ms": revocation.lasted_ms(now_ms) if revoking and revocation else None,
        "waits_for": _in_words(releases),
        "waits_for_release": releases,
        "waiting_ms": wait.lasted_ms(now_ms) if releases and wait else None,
    }
    if group.kind is GroupKind.STREAMS:
        answer |= _copies(current)
    return answer


def _subscription(group: Any, member: Any) -> list[str]:
    """Return a member's subscription; in a streams group the source topics of the topology."""
    if group.kind is GroupKind.STREAMS:
        return [] if group.topology is None else sorted(group.topology.readers)
    return sorted(subscription(member))


def _state(group: Any, current: Any) -> str:
    """Return the state of a member by Kafka's name; "BEHIND" if its epoch is not the group's."""
    state = getattr(current, "state", None)
    if state is not None:
        return str(state.name)
    is_there = current is not None and current.epoch == group.assignment_epoch
    return "STABLE" if is_there else "BEHIND"


def _in_words(releases: dict[str, dict[str, list[int]]]) -> str | None:
    """Return a text with the partitions that a member waits for, by owner; None if it has none."""
    waits = [f"{holder} to release {ranges(partitions)}" for holder, partitions in releases.items()]
    return ", ".join(waits) or None


def _copies(current: Any) -> dict[str, Any]:
    """Return the standby and warm-up tasks of a member."""
    if current is None:
        return {"standby": {}, "warmup": {}}
    return {
        name: {
            subtopology_id: sorted(indexes)
            for subtopology_id, indexes in getattr(current.assigned, name).items()
        }
        for name in ("standby", "warmup")
    }


def _share_partitions(cluster: Cluster, group_id: str) -> Iterator[dict[str, Any]]:
    """Yield the share partitions of a group, from all leaders."""
    for broker in cluster.brokers.values():
        for partition in broker.share_partitions.all_partitions():
            topic = cluster.topics.topic_by_id(partition.key.topic_id)
            if partition.key.group_id == group_id and topic is not None:
                yield _share_partition(partition, topic.name, broker.node_id)


def _share_partition(partition: SharePartition, topic: str, leader: int) -> dict[str, Any]:
    """Describe a share partition.

    In-flight records are counted by state, by member that has acquired them, and by delivery count.
    """
    states: Counter[str] = Counter()
    members: Counter[str] = Counter()
    deliveries: Counter[int] = Counter()
    for batch in partition.in_flight:
        for run in batch.runs:
            count = partition.count_in_flight(run.first, run.last)
            states[run.state.label] += count
            if not run.state.is_terminal:
                deliveries[run.delivery_count] += count
            if run.member_id:
                members[run.member_id] += count
    return {
        "topic": topic,
        "partition": partition.key.partition,
        "leader": leader,
        "state": partition.state.name,
        "start_offset": partition.start_offset,
        "end_offset": partition.end_offset,
        "in_flight": partition.in_flight_count,
        "states": {state: count for state, count in states.items() if count},
        "members": dict(members),
        "deliveries": {str(times): count for times, count in sorted(deliveries.items()) if count},
        "given_up": [records._asdict() for records in partition.given_up],
    }
