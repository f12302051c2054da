"""Control requests about groups: the state of a group, and a description of its last rebalance.

A group is read between two turns of its task, so its state is consistent.
"""

from __future__ import annotations

from heapq import nsmallest
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from coordinator_server.control.errors import proposal
from coordinator_server.control.lag import LagReader
from coordinator_server.control.pace import in_steps
from coordinator_server.control.pages import page_of_names, page_of_places
from coordinator_server.control.request import ControlError, ControlRequest, check_loaded, unloaded
from coordinator_server.core.groups.classic.metadata import GroupMetadata
from coordinator_server.core.groups.settings import GroupKind
from coordinator_server.rebalances.ownership import assigned
from protocol.consumer_protocol import decode_subscription
from protocol.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from coordinator_server.broker import Broker
    from coordinator_server.cluster import Cluster
    from coordinator_server.core.groups.classic.member import MemberMetadata
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.groups.offsets import CommittedOffset
    from coordinator_server.steps import Computation


async def groups(request: ControlRequest) -> dict[str, Any]:
    """GET /groups: list a page of groups."""
    known: dict[str, tuple[Broker, Group]] = {}
    page, next_name = await in_steps(page_of_names(request, _listed(request, known)))
    lags = LagReader(request.cluster, request)
    await lags.read_share_groups((known[name][0].node_id, known[name][1]) for name in page)
    return {
        "groups": await in_steps(_entries(request, lags, known, page)),
        "next": next_name,
        **unloaded(request.cluster, request.cluster.offsets_topic),
    }


def _listed(
    request: ControlRequest, known: dict[str, tuple[Broker, Group]]
) -> Iterator[str | None]:
    """Yield the ids of the groups of a request, which are added to `known`; None for others."""
    kind, state = request.values["type"], request.values["state"]
    for broker, listed_group in _groups(request.cluster):
        if (
            (kind is None or listed_group.kind.value == kind)
            and (state is None or listed_group.listed().group_state == state)
            and request.sees_group(listed_group.group_id)
        ):
            known[listed_group.group_id] = broker, listed_group
            yield listed_group.group_id
        else:
            yield None


def _entries(
    request: ControlRequest,
    lags: LagReader,
    known: Mapping[str, tuple[Broker, Group]],
    page: Iterable[str],
) -> Computation[list[dict[str, Any]]]:
    entries = []
    for name in page:
        broker, listed_group = known[name]
        lag = yield from lags.of_group(listed_group, with_times=request.values["times"])
        listed = listed_group.listed()
        entries.append(
            {
                "group": name,
                "type": listed_group.kind.value,
                "state": listed.group_state,
                "members": listed_group.member_count,
                "coordinator": broker.node_id,
                "protocol_type": listed.protocol_type or None,
                "generation": _generation(listed_group),
                "lag": lag.records,
                "time_lag_ms": lag.time_ms,
                "beyond_end": lag.beyond_end,
            }
        )
        yield
    return entries


def _generation(group: Any) -> int:
    """Return the generation of a classic group, the epoch of any other group."""
    return int(group.generation_id if isinstance(group, GroupMetadata) else group.epoch)


async def group(request: ControlRequest) -> dict[str, Any]:
    """GET /groups/GROUP: describe a group.

    Raises ControlError (404) for an unknown group, and (403) like Kafka's ConsumerGroupDescribe if
    the user may not see all topics of the members.
    """
    broker, described_group = group_of(request)
    offsets = [
        (topic, tuple(partitions.items()))
        for topic, partitions in described_group.offsets.by_topic.items()
        if request.sees_topic(topic)
    ]
    description = _group(request, broker, described_group)
    if not request.sees_topics(_topics(description)):
        text = f"group {described_group.group_id} has topics that {request.user} may not describe"
        raise ControlError(403, f"TOPIC_AUTHORIZATION_FAILED: {text}")
    return {**description, "offsets": await in_steps(_offsets(offsets))}


def _offsets(
    committed: Iterable[tuple[str, Iterable[tuple[int, CommittedOffset]]]],
) -> Computation[list[dict[str, Any]]]:
    offsets = []
    for topic, partitions in committed:
        for partition, commit in sorted(partitions, key=itemgetter(0)):
            offsets.append(
                {
                    "topic": topic,
                    "partition": partition,
                    "offset": commit.offset,
                    "metadata": commit.metadata,
                    "commit_timestamp_ms": commit.commit_timestamp,
                }
            )
            yield
    return offsets


def _topics(description: Mapping[str, Any]) -> Iterator[str]:
    """Yield the topics of the members in a description. Streams groups assign tasks, not topics."""
    has_tasks = description["type"] == GroupKind.STREAMS.value
    for member in description["members"]:
        yield from member["subscription"]
        if not has_tasks:
            yield from member["assignment"]
            yield from member.get("target", ())
            yield from member.get("revoking", ())
            for partitions in member.get("waits_for_release", {}).values():
                yield from partitions
    for share_partition in description.get("share_partitions", ()):
        yield share_partition["topic"]


def group_of(request: ControlRequest) -> tuple[Broker, Group]:
    """Return the group in the path with its coordinator.

    Raises ControlError (404), and (503) if the coordinator has not loaded the group.
    """
    group_id, cluster = request.parameters["GROUP"], request.cluster
    for broker in cluster.brokers.values():
        task = broker.groups.tasks.get(group_id)
        if task is not None and not task.group.is_dead:
            return broker, task.group
    check_loaded(cluster, cluster.offsets_topic, group_id, f"group {group_id}")
    known = (other_group.group_id for _, other_group in _groups(cluster))
    visible = list(filter(request.sees_group, known))
    names = ", ".join(nsmallest(20, visible))
    others = f"there are {names}" if names else "there is none at all"
    text = f"there is no group {group_id}; {others}{proposal(group_id, visible)}"
    raise ControlError(404, text)


def _groups(cluster: Cluster) -> Iterator[tuple[Broker, Group]]:
    """Yield every group with its coordinator."""
    for broker in tuple(cluster.brokers.values()):
        for task in tuple(broker.groups.tasks.values()):
            if not task.group.is_dead:
                yield broker, task.group


def _group(request: ControlRequest, broker: Broker, group: Group) -> dict[str, Any]:
    from coordinator_server.control.modern_groups import described
    from coordinator_server.control.rebalances import may_see
    from coordinator_server.rebalances.story import tell

    history = request.cluster.journal.history(group.group_id)
    listed = group.listed()
    return {
        "group": group.group_id,
        "type": listed.group_type,
        "coordinator": broker.node_id,
        "state": listed.group_state,
        "protocol_type": listed.protocol_type or None,
        **(_classic(group) if isinstance(group, GroupMetadata) else described(request, group)),
        "last_rebalance": tell(history[-1]) if history and may_see(request, history[-1]) else [],
    }


def _classic(group_metadata: GroupMetadata) -> dict[str, Any]:
    """Return the fields that only groups of the classic protocol have."""
    return {
        "generation": group_metadata.generation_id,
        "protocol": group_metadata.protocol_name,
        "leader": group_metadata.membership.leader_id,
        "members": [
            _member(group_metadata, member) for member in group_metadata.membership.members.values()
        ],
    }


def _member(group_metadata: GroupMetadata, member: MemberMetadata) -> dict[str, Any]:
    assignment = assigned(member.assignment) if group_metadata.uses_consumer_protocol else None
    return {
        "member_id": member.member_id,
        "instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "host": member.client_host,
        "subscription": _subscription(group_metadata, member),
        "assignment": assignment.by_topic if assignment is not None else {},
        "waits_for": _waits_for(member),
    }


def _subscription(group_metadata: GroupMetadata, member: MemberMetadata) -> list[str]:
    """Return the topics of a member's subscription, from the first readable protocol."""
    if not group_metadata.uses_consumer_protocol:
        return []
    for _, metadata in member.protocols:
        try:
            return sorted(decode_subscription(metadata).topics)
        except ProtocolError:
            continue  # clients may write arbitrary bytes into this field
    return []


def _waits_for(member: MemberMetadata) -> str | None:
    """Return the name of the member's pending request, or None."""
    if member.awaiting_join is not None:
        return "JoinGroup"
    return None if member.awaiting_sync is None else "SyncGroup"


def owners_of(request: ControlRequest, group: Group) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the member that has each partition now; empty for groups without partitions.

    Members of a share group share partitions, and members of a streams group have tasks.
    """
    if group.kind in (GroupKind.SHARE, GroupKind.STREAMS):
        return {}
    if isinstance(group, GroupMetadata):
        members = _classic(group)["members"]
    else:
        from coordinator_server.control.modern_groups import described

        members = described(request, group)["members"]
    return {
        (topic, index): member
        for member in members
        for topic, indexes in member["assignment"].items()
        for index in indexes
    }


# --- share groups ---------------------------------------------------------------------------------


async def in_flight(request: ControlRequest) -> dict[str, Any]:
    """GET /groups/GROUP/in-flight: list a page of a share group's records in flight.

    Raises ControlError.
    """
    _, share_group = group_of(request)
    runs = await in_steps(_runs(request, share_group.group_id))
    page, next_place = await in_steps(page_of_places(request, runs))
    return {
        "group": share_group.group_id,
        "now_ms": request.cluster.clock.now_ms(),
        "in_flight": [runs[place] for place in page],
        "next": next_place,
    }


def _runs(request: ControlRequest, group_id: str) -> Computation[dict[Any, dict[str, Any]]]:
    """Return the runs in flight of a share group by topic, partition and first offset."""
    runs: dict[Any, dict[str, Any]] = {}
    for broker in tuple(request.cluster.brokers.values()):
        for partition in tuple(broker.share_partitions.all_partitions()):
            topic = request.cluster.topics.topic_by_id(partition.key.topic_id)
            if (
                partition.key.group_id != group_id
                or topic is None
                or not request.sees_topic(topic.name)
            ):
                continue
            for batch in tuple(partition.in_flight):
                for run in tuple(batch.runs):
                    place = (topic.name, partition.key.partition, run.first)
                    runs[place] = _run(place, run, partition.count_in_flight(run.first, run.last))
                yield
    return runs


def _run(place: tuple[str, int, int], run: Any, count: int) -> dict[str, Any]:
    return {
        "topic": place[0],
        "partition": place[1],
        "first": run.first,
        "last": run.last,
        "records": count,
        "state": run.state.label,
        "delivery_count": run.delivery_count,
        "member_id": run.member_id or None,
        "locked_until_ms": None if run.lock is None else run.lock.deadline_ms,
    }
