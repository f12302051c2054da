"""Conversion of a streams group's state to records and back.

Source: StreamsCoordinatorRecordHelpers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from coordinator_server.core.groups.streams.assignors.spec import MemberTasks
from coordinator_server.core.groups.streams.member import CurrentTasks, StreamsMember
from coordinator_server.core.groups.streams.state import StreamsMemberState
from coordinator_server.core.groups.streams.tasks import OwnedTasks
from protocol.streams_group_records import (
    CurrentTaskIds,
    Endpoint,
    KeyValue,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
    TargetTaskIds,
)

if TYPE_CHECKING:
    from coordinator_server.core.groups.records import CoordinatorRecord
    from coordinator_server.core.groups.streams.assignors.spec import Tasks
    from coordinator_server.core.groups.streams.tasks import ListedTasks, TaskEpochs


def epoch_record(
    group_id: str,
    epoch: int,
    metadata_hash: int,
    validated_topology_epoch: int,
    assignment_configs: Mapping[str, str],
) -> CoordinatorRecord:
    """Return the record of the group epoch, metadata hash, topology epoch and assignor configs."""
    value = StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=validated_topology_epoch,
        last_assignment_configs=key_values(assignment_configs),
    )
    return StreamsGroupMetadataKey(group_id=group_id), value


def key_values(values: Mapping[str, str]) -> list[KeyValue]:
    """Return a mapping as a list of KeyValue, sorted by key."""
    return [KeyValue(key=key, value=value) for key, value in sorted(values.items())]


def mapping_of(values: Iterable[KeyValue] | None) -> dict[str, str]:
    """Return the mapping in a record."""
    return {value.key: value.value for value in values or ()}


def topology_record(group_id: str, topology: StreamsGroupTopologyValue) -> CoordinatorRecord:
    """Return the record of the topology."""
    return StreamsGroupTopologyKey(group_id=group_id), topology


def member_record(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    """Return the record of a member's attributes."""
    endpoint = member.endpoint
    value = StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=key_values(member.tags),
    )
    return StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value


def member_of(member_id: str, value: StreamsGroupMemberMetadataValue) -> StreamsMember:
    """Return the member in a record."""
    endpoint = value.user_endpoint
    return StreamsMember(
        member_id,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        tags=mapping_of(value.client_tags),
    )


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    """Return the record of the assignment epoch and the assignment timestamp."""
    value = StreamsGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp_ms
    )
    return StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), value


def target_record(group_id: str, member_id: str, target: MemberTasks) -> CoordinatorRecord:
    """Return the record of a member's target tasks."""
    value = StreamsGroupTargetAssignmentMemberValue(
        active_tasks=_target_ids(target.active),
        standby_tasks=_target_ids(target.standby),
        warmup_tasks=_target_ids(target.warmup),
    )
    return StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value


def _target_ids(tasks: Tasks) -> list[TargetTaskIds]:
    return [
        TargetTaskIds(subtopology_id=subtopology_id, partitions=sorted(partitions))
        for subtopology_id, partitions in sorted(tasks.items())
    ]


def target_of(value: StreamsGroupTargetAssignmentMemberValue) -> MemberTasks:
    """Return the target tasks in a record."""
    return MemberTasks(
        _tasks(value.active_tasks), _tasks(value.standby_tasks), _tasks(value.warmup_tasks)
    )


def _tasks(listed: Iterable[ListedTasks]) -> Tasks:
    return {entry.subtopology_id: frozenset(entry.partitions) for entry in listed}


def current_record(group_id: str, member_id: str, current: CurrentTasks) -> CoordinatorRecord:
    """Return the record of a member's current tasks."""
    assigned, revoking = current.assigned, current.revoking
    value = StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=current.epoch,
        previous_member_epoch=current.previous_epoch,
        state=current.state,
        active_tasks=_with_epochs(assigned.active),
        standby_tasks=_current_ids(assigned.standby),
        warmup_tasks=_current_ids(assigned.warmup),
        active_tasks_pending_revocation=_with_epochs(revoking.active),
        standby_tasks_pending_revocation=_current_ids(revoking.standby),
        warmup_tasks_pending_revocation=_current_ids(revoking.warmup),
    )
    return StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), value


def _with_epochs(tasks: TaskEpochs) -> list[CurrentTaskIds]:
    return [
        CurrentTaskIds(
            subtopology_id=subtopology_id,
            partitions=sorted(epochs),
            assignment_epochs=[epoch for _, epoch in sorted(epochs.items())],
        )
        for subtopology_id, epochs in sorted(tasks.items())
    ]


def _current_ids(tasks: Tasks) -> list[CurrentTaskIds]:
    return [
        CurrentTaskIds(subtopology_id=subtopology_id, partitions=sorted(partitions))
        for subtopology_id, partitions in sorted(tasks.items())
    ]


def current_of(value: StreamsGroupCurrentMemberAssignmentValue) -> CurrentTasks:
    """Return the current tasks in a record.

    Records of earlier releases have no assignment epochs; the member epoch is used.
    """
    epoch = value.member_epoch
    return CurrentTasks(
        epoch=epoch,
        previous_epoch=value.previous_member_epoch,
        state=StreamsMemberState(value.state),
        assigned=OwnedTasks(
            _epochs(value.active_tasks, epoch),
            _tasks(value.standby_tasks),
            _tasks(value.warmup_tasks),
        ),
        revoking=OwnedTasks(
            _epochs(value.active_tasks_pending_revocation, epoch),
            _tasks(value.standby_tasks_pending_revocation),
            _tasks(value.warmup_tasks_pending_revocation),
        ),
    )


def _epochs(listed: Iterable[CurrentTaskIds], member_epoch: int) -> TaskEpochs:
    tasks: dict[str, dict[int, int]] = {}
    for entry in listed:
        epochs = entry.assignment_epochs or ()
        if len(epochs) != len(entry.partitions):
            epochs = [member_epoch] * len(entry.partitions)
        tasks[entry.subtopology_id] = dict(zip(entry.partitions, epochs, strict=True))
    return tasks


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """Return the tombstones of all records of a member."""
    ids = {"group_id": group_id, "member_id": member_id}
    return [
        (StreamsGroupCurrentMemberAssignmentKey(**ids), None),
        (StreamsGroupTargetAssignmentMemberKey(**ids), None),
        (StreamsGroupMemberMetadataKey(**ids), None),
    ]


def group_tombstones(group_id: str, member_ids: Iterable[str]) -> list[CoordinatorRecord]:
    """Return the tombstones that delete a group, in Kafka's order.

    Source: createGroupTombstoneRecords.
    """
    ids = [{"group_id": group_id, "member_id": member_id} for member_id in member_ids]
    records: list[CoordinatorRecord] = []
    records += [(StreamsGroupCurrentMemberAssignmentKey(**fields), None) for fields in ids]
    records += [(StreamsGroupTargetAssignmentMemberKey(**fields), None) for fields in ids]
    records.append((StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), None))
    records += [(StreamsGroupMemberMetadataKey(**fields), None) for fields in ids]
    records.append((StreamsGroupMetadataKey(group_id=group_id), None))
    records.append((StreamsGroupTopologyKey(group_id=group_id), None))
    return records
