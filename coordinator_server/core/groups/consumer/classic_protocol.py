"""Conversion between classic-protocol bytes and the state of a consumer group.

The metadata in JoinGroup is a ConsumerProtocol subscription, and the assignment in SyncGroup is a
ConsumerProtocol assignment. These bytes name topics, while a consumer group uses topic ids; topics
that do not exist are left out. Source: Utils and ConsumerGroupMember.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from protocol.consumer_group_records import ClassicMemberMetadata, ClassicProtocol
from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartition,
    encode_assignment,
    version_of,
)
from protocol.errors import ProtocolError

if TYPE_CHECKING:
    from coordinator_server.core.groups.classic.member import Protocols
    from coordinator_server.core.groups.consumer.reconcile import Listed
    from coordinator_server.core.groups.settings import TopicsView
    from protocol.consumer_protocol import ConsumerProtocolSubscription


def classic_metadata(session_timeout_ms: int, protocols: Protocols) -> ClassicMemberMetadata:
    """Return the classic metadata of a member; a protocol that is listed twice counts once."""
    by_name: dict[str, bytes] = {}
    for name, metadata in protocols:
        by_name.setdefault(name, metadata)
    return ClassicMemberMetadata(
        session_timeout_ms=session_timeout_ms,
        supported_protocols=[
            ClassicProtocol(name=name, metadata=metadata) for name, metadata in by_name.items()
        ],
    )


def protocols_of(classic: ClassicMemberMetadata) -> Protocols:
    """Return the protocols of a classic-protocol member, in its order of preference."""
    return tuple(
        (protocol.name, bytes(protocol.metadata)) for protocol in classic.supported_protocols
    )


def owned_partitions(subscription: ConsumerProtocolSubscription, topics: TopicsView) -> Listed:
    """Return the partitions that the member reports as owned, by topic id."""
    return _by_id(subscription.owned_partitions, topics)


def assigned_partitions(
    assignment: ConsumerProtocolAssignment, topics: TopicsView
) -> Mapping[bytes, frozenset[int]]:
    """Return the partitions that the group leader assigned to a member, by topic id."""
    by_id = _by_id(assignment.assigned_partitions, topics)
    return {topic_id: frozenset(partitions) for topic_id, partitions in by_id}


def _by_id(named: Iterable[TopicPartition], topics: TopicsView) -> list[tuple[bytes, list[int]]]:
    known = [(topics.topic(entry.topic), entry.partitions) for entry in named]
    return [(topic.topic_id, partitions) for topic, partitions in known if topic is not None]


def assignment_bytes(
    assigned: Mapping[bytes, Iterable[int]], metadata: bytes, topics: TopicsView
) -> bytes:
    """Encode a member's assignment in the version of the member's `metadata`.

    If the metadata has no version, version 0 is used (Kafka throws). Only the metadata of a
    protocol that the member did not list first can lack a version.
    """
    try:
        version = version_of(metadata)
    except ProtocolError:
        version = 0
    known = [(topics.topic_by_id(topic_id), numbers) for topic_id, numbers in assigned.items()]
    named = [
        TopicPartition(topic=topic.name, partitions=sorted(numbers))
        for topic, numbers in known
        if topic is not None
    ]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=named), version)
