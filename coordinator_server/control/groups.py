"""Control requests about groups: the state of a group, and a description of its last rebalance.

A group is read between two turns of its task, so its state is consistent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator_server.control.request import ControlError, ControlRequest
from coordinator_server.core.groups.classic.metadata import GroupMetadata
from coordinator_server.rebalances.ownership import assigned
from protocol.consumer_protocol import decode_subscription
from protocol.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coordinator_server.broker import Broker
    from coordinator_server.cluster import Cluster
    from coordinator_server.core.groups.classic.member import MemberMetadata
    from coordinator_server.core.groups.group import Group


async def groups(request: ControlRequest) -> dict[str, Any]:
    """GET /groups: list all groups."""
    return {
        "groups": [
            {
                "group": one.group_id,
                "type": one.kind.value,
                "state": one.listed().group_state,
                "members": one.member_count,
            }
            for _, one in _groups(request.cluster)
        ]
    }


async def group(request: ControlRequest) -> dict[str, Any]:
    """GET /groups/GROUP: describe a group. Raises ControlError (404) for an unknown group."""
    group_id = request.parameters["GROUP"]
    for broker, one in _groups(request.cluster):
        if one.group_id == group_id:
            return _group(request.cluster, broker, one)
    if any(broker.groups.is_loading for broker in request.cluster.brokers.values()):
        raise ControlError(404, f"there is no group {group_id} so far, groups are being loaded")
    names = ", ".join(sorted(one.group_id for _, one in _groups(request.cluster))[:20])
    others = f"there are {names}" if names else "there is none at all"
    raise ControlError(404, f"there is no group {group_id}; {others}")


def _groups(cluster: Cluster) -> Iterator[tuple[Broker, Group]]:
    """Yield every group with its coordinator."""
    for broker in cluster.brokers.values():
        for task in broker.groups.tasks.values():
            if not task.group.is_dead:
                yield broker, task.group


def _group(cluster: Cluster, broker: Broker, one: Group) -> dict[str, Any]:
    from coordinator_server.control.modern_groups import described
    from coordinator_server.rebalances.story import tell

    history = cluster.journal.history(one.group_id)
    listed = one.listed()
    return {
        "group": one.group_id,
        "type": listed.group_type,
        "coordinator": broker.node_id,
        "state": listed.group_state,
        "protocol_type": listed.protocol_type or None,
        **(_classic(one) if isinstance(one, GroupMetadata) else described(cluster, one)),
        "offsets": [
            {
                "topic": topic,
                "partition": partition,
                "offset": commit.offset,
                "metadata": commit.metadata,
                "commit_timestamp_ms": commit.commit_timestamp,
            }
            for topic, partitions in one.offsets.by_topic.items()
            for partition, commit in sorted(partitions.items())
        ],
        "last_rebalance": tell(history[-1]) if history else [],
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
