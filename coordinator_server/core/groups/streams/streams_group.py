"""StreamsGroup: one group of the streams protocol (KIP-1071).

Only records change the durable state; requests and timers only compute records. As in Kafka, the
configured topology (`configured`) and the shutdown request (`shutdown_member_id`) are not recorded.
Source: Kafka's StreamsGroup.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from coordinator_server.core.groups.modern.modern_group import (
    NEVER_ASSIGNED_MS,
    CommittingGroup,
)
from coordinator_server.core.groups.offsets import is_too_long
from coordinator_server.core.groups.settings import GroupKind
from coordinator_server.core.groups.streams.assignors.spec import MemberTasks
from coordinator_server.core.groups.streams.member import NO_TASKS
from coordinator_server.core.groups.streams.records import (
    current_of,
    current_record,
    epoch_record,
    group_tombstones,
    mapping_of,
    member_of,
    member_record,
    member_tombstones,
    target_epoch_record,
    target_of,
    target_record,
    topology_record,
)
from coordinator_server.core.groups.streams.state import StreamsGroupState, state_of
from coordinator_server.core.groups.streams.topology import topology_of
from protocol.errors import ErrorCode
from protocol.offsets_log import LegacyOffsetCommitKey, OffsetCommitKey
from protocol.streams_group_records import (
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
)

if TYPE_CHECKING:
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.groups.purgatory import DelayedOperation
    from coordinator_server.core.groups.records import CoordinatorRecord
    from coordinator_server.core.groups.settings import GroupEnvironment
    from coordinator_server.core.groups.streams.configure import ConfiguredTopology
    from coordinator_server.core.groups.streams.member import CurrentTasks, StreamsMember
    from coordinator_server.core.groups.streams.task_offsets import TaskOffsets
    from coordinator_server.core.groups.streams.tasks import OwnedTasks
    from coordinator_server.core.groups.streams.topology import Topology
    from protocol.apis.offset_commit import OffsetCommitRequest


class StreamsGroup(CommittingGroup):
    """A group whose tasks the coordinator assigns.

    `members` (attributes), `targets` (target tasks) and `currents` (current tasks) are by member
    id; `holders` has the current tasks by task.
    """

    kind = GroupKind.STREAMS

    def __init__(self, group_id: str, environment: GroupEnvironment) -> None:
        super().__init__(group_id, environment)
        self.validated_topology_epoch = 0
        self.assignment_configs: Mapping[str, str] = {}
        """The assignor configs at the last rise of the group epoch."""
        self.topology: Topology | None = None
        self.members: dict[str, StreamsMember] = {}
        self.targets: dict[str, MemberTasks] = {}
        self.currents: dict[str, CurrentTasks] = {}
        self.holders = Holders()
        self.task_offsets: dict[str, TaskOffsets] = {}
        """Member id -> task offsets that the member reports."""

        self.configured: ConfiguredTopology | None = None
        self.endpoint_epoch = 0
        self.shutdown_member_id: str | None = None
        """The member that requested the shutdown of the whole application."""
        # Timers in the purgatory: revocations by member id, and the delay of the first assignment.
        self.revocations: dict[str, DelayedOperation[StreamsGroup]] = {}
        self.first_assignment: DelayedOperation[StreamsGroup] | None = None

    # Durable state

    def replay(self, record: CoordinatorRecord) -> Group:
        """Apply a record of this group, live or while the log is loaded."""
        self.is_new = False
        key, value = record
        match key:
            case OffsetCommitKey() | LegacyOffsetCommitKey():
                self.offsets.replay(key, value)
            case StreamsGroupCurrentMemberAssignmentKey(member_id=member_id):
                assert value is None or isinstance(value, StreamsGroupCurrentMemberAssignmentValue)
                self._set_current(member_id, None if value is None else current_of(value))
            case StreamsGroupMemberMetadataKey(member_id=member_id):
                assert value is None or isinstance(value, StreamsGroupMemberMetadataValue)
                self._set_member(member_id, None if value is None else member_of(member_id, value))
            case StreamsGroupTargetAssignmentMemberKey(member_id=member_id):
                assert value is None or isinstance(value, StreamsGroupTargetAssignmentMemberValue)
                self.targets.pop(member_id, None)
                if value is not None:
                    self.targets[member_id] = target_of(value)
            case StreamsGroupTargetAssignmentMetadataKey():
                if isinstance(value, StreamsGroupTargetAssignmentMetadataValue):
                    self.assignment_epoch = value.assignment_epoch
                    self.assigned_at_ms = value.assignment_timestamp
            case StreamsGroupTopologyKey():
                assert value is None or isinstance(value, StreamsGroupTopologyValue)
                self.topology = None if value is None else topology_of(value)
            case StreamsGroupMetadataKey():
                if value is None:
                    classic: Group = self.environment.in_place_of(GroupKind.CLASSIC, self)
                    return classic
                assert isinstance(value, StreamsGroupMetadataValue)
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
                self.validated_topology_epoch = value.validated_topology_epoch
                self.assignment_configs = mapping_of(value.last_assignment_configs)
        return self

    def _set_member(self, member_id: str, member: StreamsMember | None) -> None:
        self._release(member_id)
        before = self.members.get(member_id)
        if before is not None and self.static_ids.get(before.instance_id or "") == member_id:
            del self.static_ids[before.instance_id or ""]
        if member is not None:
            self.members[member_id] = member
            if member.instance_id is not None:
                self.static_ids[member.instance_id] = member_id
            self._hold(member_id)
            return
        self.members.pop(member_id, None)
        self.task_offsets.pop(member_id, None)
        for waiting in (self.sessions, self.revocations):
            if member_id in waiting:
                self.purgatory.cancel(waiting.pop(member_id))
        if not self.members:
            self.shutdown_member_id = None

    def _set_current(self, member_id: str, current: CurrentTasks | None) -> None:
        self._release(member_id)
        self.currents.pop(member_id, None)
        if current is not None:
            self.currents[member_id] = current
            self._hold(member_id)

    def _release(self, member_id: str) -> None:
        """Remove a member's tasks from its process."""
        member, current = self.members.get(member_id), self.currents.get(member_id)
        if member is not None and current is not None:
            self.holders.remove(member.process_id, current.assigned)
            self.holders.remove(member.process_id, current.revoking)

    def _hold(self, member_id: str) -> None:
        """Add a member's tasks to its process, once member and tasks are both known."""
        member, current = self.members.get(member_id), self.currents.get(member_id)
        if member is not None and current is not None:
            self.holders.add(member.process_id, current.assigned)
            self.holders.add(member.process_id, current.revoking)

    def state_records(self) -> list[CoordinatorRecord]:
        """Return the records that restore the group's state."""
        group_id = self.group_id
        records = [member_record(group_id, member) for member in self.members.values()]
        if self.topology is not None:
            records.append(topology_record(group_id, self.topology.recorded))
        records.append(self._epoch_record(self.epoch))
        records += [
            target_record(group_id, member_id, target) for member_id, target in self.targets.items()
        ]
        records.append(target_epoch_record(group_id, self.assignment_epoch, self.assigned_at_ms))
        records += [
            current_record(group_id, member_id, tasks) for member_id, tasks in self.currents.items()
        ]
        return records

    def _epoch_record(self, epoch: int) -> CoordinatorRecord:
        return epoch_record(
            self.group_id,
            epoch,
            self.metadata_hash,
            self.validated_topology_epoch,
            self.assignment_configs,
        )

    def removal(self, member_id: str) -> list[CoordinatorRecord]:
        """Return the records that remove a member and raise the group epoch.

        If the last member is removed, the assignment epoch rises too, without a timestamp. Source:
        streamsGroupFenceMember.
        """
        epoch = self.epoch + 1
        records = [*member_tombstones(self.group_id, member_id), self._epoch_record(epoch)]
        if self.member_count == 1:
            records.append(target_epoch_record(self.group_id, epoch, NEVER_ASSIGNED_MS))
        return records

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the tombstones that delete the group."""
        return group_tombstones(self.group_id, self.members)

    # Derived state

    @property
    def state(self) -> StreamsGroupState:
        """The group state, by the rules of `STATE_RULES`."""
        return state_of(self)

    @property
    def has_valid_topology(self) -> bool:
        """Whether the topology was ready when the group epoch last rose."""
        topology = self.topology
        return topology is not None and topology.epoch == self.validated_topology_epoch

    @property
    def is_reconciled(self) -> bool:
        """Whether every member has reached the target assignment."""
        epoch = self.assignment_epoch
        return all(self.current(member_id).is_reconciled_to(epoch) for member_id in self.members)

    def last_target(self, member: StreamsMember) -> MemberTasks:
        """Return a member's last target; a static member inherits its predecessor's target."""
        owner_id = self.static_ids.get(member.instance_id or "", member.member_id)
        return self.targets.get(owner_id, MemberTasks())

    def last_assigned(self, member: StreamsMember) -> MemberTasks:
        """Return a member's assigned tasks; a static member inherits its predecessor's tasks."""
        owner_id = self.static_ids.get(member.instance_id or "", member.member_id)
        active, standby, warmup = self.current(owner_id).assigned
        owned = {
            subtopology_id: frozenset(partitions) for subtopology_id, partitions in active.items()
        }
        return MemberTasks(owned, standby, warmup)

    def current(self, member_id: str) -> CurrentTasks:
        """Return a member's current tasks."""
        return self.currents.get(member_id, NO_TASKS)

    # Offsets

    def check_member_epoch(self, request: OffsetCommitRequest, member: StreamsMember) -> ErrorCode:
        """Return the error if the commit's member epoch is not accepted, or NONE."""
        received = request.generation_id_or_member_epoch
        current = self.current(member.member_id)
        if received == current.epoch:
            return ErrorCode.NONE
        if received > current.epoch or self.topology is None:
            return ErrorCode.STALE_MEMBER_EPOCH
        limit = self.settings.offset_metadata_max_length
        for topic in request.topics:
            subtopology_id = self.topology.readers.get(topic.name, "")
            assigned = current.assigned.active.get(subtopology_id, {})
            revoking = current.revoking.active.get(subtopology_id, {})
            for partition in topic.partitions:
                if is_too_long(partition.committed_metadata, limit):
                    continue  # too long metadata has its own error, which takes precedence
                index = partition.partition_index
                assigned_at = assigned.get(index, revoking.get(index))
                if assigned_at is None or received < assigned_at:
                    return ErrorCode.STALE_MEMBER_EPOCH
        return ErrorCode.NONE

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Return UNKNOWN_MEMBER_ID or STALE_MEMBER_EPOCH, or NONE for a member's current epoch.

        A request without a member id and epoch also gets NONE.
        """
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE
        if member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member_epoch != self.current(member_id).epoch:
            return ErrorCode.STALE_MEMBER_EPOCH
        return ErrorCode.NONE

    def is_subscribed(self, topic: str) -> bool:
        """Return whether the application reads `topic`; False for a group without members."""
        return bool(self.members) and self.topology is not None and topic in self.topology.readers

    # Time

    @property
    def delays_first_assignment(self) -> bool:
        """Whether the first assignment is still waiting for more members to join."""
        waiting = self.first_assignment
        return waiting is not None and waiting.deadline_ms is not None


class Holders:
    """The tasks that members hold or still have to revoke, by process.

    A process is an instance of the application; its threads are the members.
    """

    __slots__ = ("_copies", "_runners")

    def __init__(self) -> None:
        self._runners: dict[str, dict[int, str]] = {}
        self._copies: dict[tuple[str, int], list[str]] = {}
        """Task -> processes that hold the task as standby or warm-up. A process occurs twice while
        one copy replaces the other."""

    def runner(self, subtopology_id: str, partition: int) -> str | None:
        """Return the process in which a task is active, or None."""
        return self._runners.get(subtopology_id, {}).get(partition)

    def has_copy(self, process_id: str, subtopology_id: str, partition: int) -> bool:
        """Return whether a process holds a task as standby or warm-up."""
        return process_id in self._copies.get((subtopology_id, partition), ())

    def add(self, process_id: str, tasks: OwnedTasks) -> None:
        """Add tasks that a member of the process holds."""
        for subtopology_id, partitions in tasks.active.items():
            runners = self._runners.setdefault(subtopology_id, {})
            runners.update(dict.fromkeys(partitions, process_id))
        for task in tasks.copies():
            self._copies.setdefault(task, []).append(process_id)

    def remove(self, process_id: str, tasks: OwnedTasks) -> None:
        """Remove tasks that a member of the process no longer holds."""
        for subtopology_id, partitions in tasks.active.items():
            runners = self._runners[subtopology_id]
            for partition in partitions:
                if runners.get(partition) == process_id:
                    del runners[partition]
        for task in tasks.copies():
            copies = self._copies[task]
            copies.remove(process_id)
            if not copies:
                del self._copies[task]
