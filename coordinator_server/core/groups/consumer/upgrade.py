"""The online upgrade of KIP-848: a classic group with members becomes a consumer group.

The first member that joins with the consumer protocol triggers the upgrade. The members of the
classic protocol keep their ids, sessions and partitions, and `classic_members` serves them from
then on. Source: validateOnlineUpgrade and convertToConsumerGroup of GroupMetadataManager, and
ConsumerGroup.fromClassicGroup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.core.groups.classic.responses import refuse_parked
from coordinator_server.core.groups.consumer import timers
from coordinator_server.core.groups.consumer.classic_protocol import (
    assigned_partitions,
    classic_metadata,
)
from coordinator_server.core.groups.consumer.consumer_group import ConsumerGroup
from coordinator_server.core.groups.consumer.member import ConsumerMember, CurrentAssignment
from coordinator_server.core.groups.consumer.records import (
    current_record,
    epoch_record,
    member_record,
    target_epoch_record,
    target_record,
)
from coordinator_server.core.groups.effects import PER_MEMBER, STEP_ITEMS, Pace
from coordinator_server.core.groups.modern.members import RefusedError
from coordinator_server.core.groups.modern.metadata_hash import metadata_hash
from coordinator_server.core.groups.settings import GroupKind
from protocol.consumer_protocol import decode_assignment, decode_subscription
from protocol.errors import ErrorCode, ProtocolError

if TYPE_CHECKING:
    from coordinator_server.core.groups.classic.member import MemberMetadata
    from coordinator_server.core.groups.classic.metadata import GroupMetadata
    from coordinator_server.core.groups.effects import Effects
    from coordinator_server.core.groups.modern.assignor_spec import Partitions
    from coordinator_server.core.groups.records import CoordinatorRecord
    from coordinator_server.steps import Computation

POLICIES = frozenset({"bidirectional", "upgrade"})
"""The values of `group.consumer.migration.policy` that allow an upgrade."""

NO_TIMESTAMP = 0


def convert(
    group: GroupMetadata, effects: Effects
) -> Computation[tuple[ConsumerGroup, list[CoordinatorRecord]]]:
    """Return the consumer group that replaces a classic group with members, and its records.

    As in Kafka, all parked JoinGroup and SyncGroup requests are answered with an error that makes
    their members rejoin, even if the upgrade fails later. Raises RefusedError if the group cannot
    be upgraded.
    """
    _check(group)
    _ask_to_rejoin(group, effects)
    converted: ConsumerGroup = group.environment.in_place_of(GroupKind.CONSUMER, group)
    pace = Pace()
    records: tuple[list[CoordinatorRecord], ...] = ([], [], [])
    for member in group.membership.members.values():
        for record, of_kind in zip(_member_records(group, member), records, strict=True):
            converted.replay(record)
            of_kind.append(record)
        if pace.is_due(PER_MEMBER):
            yield
    topics = group.environment.topics
    hashed = yield from metadata_hash(converted.subscribed_topics(), topics)
    generation = group.generation_id
    epoch = epoch_record(group.group_id, generation, hashed)
    target_epoch = target_epoch_record(group.group_id, generation, NO_TIMESTAMP)
    converted.replay(epoch)
    converted.replay(target_epoch)
    _check_owners(converted)
    if group.member_count > STEP_ITEMS // PER_MEMBER:
        yield
    members, targets, currents = records
    made = [*members, epoch, *targets, target_epoch, *currents]
    return converted, [*group.tombstones(), *made]


def _check(group: GroupMetadata) -> None:
    reason = None
    if group.settings.consumer_migration_policy not in POLICIES:
        reason = "online upgrade is disabled"
    elif not group.uses_consumer_protocol:
        reason = "the group does not use the consumer embedded protocol"
    elif group.member_count > group.settings.consumer_max_size:
        reason = "the group size exceeds the consumer group maximum size"
    if reason is not None:
        raise _refused(group, reason)


def _refused(group: GroupMetadata, reason: str) -> RefusedError:
    message = f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}."
    return RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _ask_to_rejoin(group: GroupMetadata, effects: Effects) -> None:
    for member in group.membership.members.values():
        refuse_parked(group, member, ErrorCode.REBALANCE_IN_PROGRESS, effects)


def _member_records(group: GroupMetadata, member: MemberMetadata) -> list[CoordinatorRecord]:
    """Return the records of a member with its subscription and assignment. Raises RefusedError."""
    try:
        assigned = _assigned(group, member)
        subscription = decode_subscription(_metadata(group, member))
    except ProtocolError:
        raise _refused(group, "the embedded consumer protocol is malformed") from None
    generation = group.generation_id
    upgraded = ConsumerMember(
        member.member_id,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=classic_metadata(member.session_timeout_ms, member.protocols),
    )
    owned = {
        topic_id: dict.fromkeys(sorted(partitions), generation)
        for topic_id, partitions in assigned.items()
    }
    current = CurrentAssignment(generation, generation, assigned=owned)
    return [
        member_record(group.group_id, upgraded),
        target_record(group.group_id, member.member_id, assigned),
        current_record(group.group_id, member.member_id, current),
    ]


def _assigned(group: GroupMetadata, member: MemberMetadata) -> Partitions:
    """Return the partitions assigned to a member; none if the member has never synced.

    Raises ProtocolError for malformed data, RefusedError if the assignor added user data.
    """
    if not member.assignment:
        return {}
    assignment = decode_assignment(member.assignment)
    if assignment.user_data:
        reason = (
            "an unsupported custom assignor is in use. Please refer to the documentation or switch "
            "to a default assignor before re-attempting the upgrade"
        )
        raise _refused(group, reason)
    return assigned_partitions(assignment, group.environment.topics)


def _metadata(group: GroupMetadata, member: MemberMetadata) -> bytes:
    """Return the member's metadata for the group's protocol.

    Raises RefusedError if the member has no metadata for that protocol (Kafka throws). This happens
    before the first join phase ends, when no protocol is selected yet, and when a member rejoins
    without the selected protocol.
    """
    for name, metadata in member.protocols:
        if name == group.protocol_name:
            return metadata
    raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, None)


def _check_owners(converted: ConsumerGroup) -> None:
    """Raise RefusedError if the leader assigned a partition to two members, where Kafka throws."""
    owned = sum(len(list(current.held())) for current in converted.currents.values())
    if owned > sum(map(len, converted.owners.values())):
        raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, None)


def finish(effects: Effects, now_ms: int) -> None:
    """Renew the sessions of classic-protocol members after the records are written."""
    group = effects.group
    assert isinstance(group, ConsumerGroup)
    for member in group.members.values():
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
            timers.renew_session(group, member.member_id, now_ms, timeout_ms)
    effects.event("group.upgraded", group=group.group_id, members=len(group.members))
