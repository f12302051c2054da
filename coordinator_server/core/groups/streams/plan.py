"""The plan of a heartbeat that does not leave: records, response, and unlogged group state.

Source: GroupMetadataManager.streamsGroupHeartbeat.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.core.groups.modern.members import (
    HeartbeatComputation,
    RefusedError,
    caller,
    check_epoch,
    check_size,
)
from coordinator_server.core.groups.modern.metadata_hash import metadata_hash
from coordinator_server.core.groups.modern.modern_group import config
from coordinator_server.core.groups.streams.configs import (
    HEARTBEAT_INTERVAL,
    INITIAL_DELAY,
    RECOVERY_LAG,
    TASK_OFFSET_INTERVAL,
)
from coordinator_server.core.groups.streams.configure import configured_topology
from coordinator_server.core.groups.streams.endpoints import partitions_by_endpoint
from coordinator_server.core.groups.streams.member import NO_TASKS, CurrentTasks, StreamsMember
from coordinator_server.core.groups.streams.reconcile import (
    TaskReconciliation,
    UnknownTaskStateError,
)
from coordinator_server.core.groups.streams.records import (
    current_record,
    epoch_record,
    member_record,
    topology_record,
)
from coordinator_server.core.groups.streams.static_members import replaced
from coordinator_server.core.groups.streams.status import StatusCode, status
from coordinator_server.core.groups.streams.target import Computation, assignment_configs
from coordinator_server.core.groups.streams.task_offsets import TaskOffsets, reported
from coordinator_server.core.groups.streams.tasks import TaskLists, unique
from coordinator_server.core.groups.streams.topology import recorded_topology, topology_of
from coordinator_server.core.groups.streams.validation import UNSET_TIMEOUT
from protocol.apis.streams_group_heartbeat import (
    StreamsGroupHeartbeatResponse,
    StreamsTaskIds,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server import steps
    from coordinator_server.core.caller import Caller
    from coordinator_server.core.groups.records import CoordinatorRecord
    from coordinator_server.core.groups.streams.configure import (
        ConfiguredSubtopology,
        ConfiguredTopology,
        InternalTopic,
    )
    from coordinator_server.core.groups.streams.reconcile import TaskTarget
    from coordinator_server.core.groups.streams.streams_group import StreamsGroup
    from coordinator_server.core.groups.streams.tasks import ListedTasks, OwnedTasks
    from coordinator_server.core.groups.streams.topology import Topology
    from protocol.apis.streams_group_heartbeat import (
        StreamsGroupHeartbeatRequest,
        StreamsStatus,
    )


class SoftState(NamedTuple):
    """The part of the group state that a heartbeat changes but does not write to the log.

    As in Kafka, a new group does not keep this state.
    """

    topology: ConfiguredTopology
    revision: int
    endpoint_epoch: int
    shutdown_member_id: str | None


class StreamsPlan(NamedTuple):
    """The outcome of a heartbeat; `member_id` is None if the member leaves.

    `has_moved` is set if the member's tasks change. `delay_ms` is the time that the first
    assignment has to wait from now on; 0 if there is no delay or the delay is running already.
    """

    records: list[CoordinatorRecord]
    response: StreamsGroupHeartbeatResponse
    member_id: str | None = None
    has_moved: bool = False
    delay_ms: int = 0
    to_create: tuple[InternalTopic, ...] = ()
    kept: SoftState | None = None
    offsets: TaskOffsets | None = None

    def keep(self, group: StreamsGroup) -> None:
        """Apply the state that is not logged to the group."""
        if self.kept is not None:
            group.configured = self.kept.topology
            group.hashed_revision = self.kept.revision
            group.endpoint_epoch = self.kept.endpoint_epoch
            group.shutdown_member_id = self.kept.shutdown_member_id
        if self.offsets is not None and self.member_id is not None:
            group.task_offsets[self.member_id] = self.offsets


def planned(
    group: StreamsGroup,
    records: list[CoordinatorRecord],
    request: StreamsGroupHeartbeatRequest,
    caller: Caller,
    now_ms: int,
) -> steps.Computation[StreamsPlan]:
    """Return the plan of a heartbeat, which adds its records to `records`. Raises RefusedError."""
    return _StreamsHeartbeat(group, records, request, caller, now_ms).plan()


class _Topics(NamedTuple):
    """The topology on the current topics, with the hash and the revision of the topics."""

    topology: ConfiguredTopology
    metadata_hash: int
    revision: int


class _StreamsHeartbeat(HeartbeatComputation["StreamsGroup", "StreamsGroupHeartbeatRequest"]):
    """Computes the plan of one heartbeat."""

    def __init__(
        self,
        group: StreamsGroup,
        records: list[CoordinatorRecord],
        request: StreamsGroupHeartbeatRequest,
        caller: Caller,
        now_ms: int,
    ) -> None:
        super().__init__(group, records, request, caller, now_ms)
        self._is_new_group = group.is_new
        self._statuses: list[StreamsStatus] = []
        self._keeps_offsets = True
        self._listed = TaskLists(request.active_tasks, request.standby_tasks, request.warmup_tasks)

    def plan(self) -> steps.Computation[StreamsPlan]:
        """Return the plan of the heartbeat. Raises RefusedError if the request is refused."""
        group, records, member_id = self._group, self._records, self._request.member_id
        if self._is_joining:
            limit, instance_id = group.settings.streams_max_size, self._request.instance_id
            check_size(group, limit, member_id, instance_id)
        before, current = self._member()
        after = self._updated(before)
        if after != before:
            records.append(member_record(group.group_id, after))
        topology = self._topology(after)
        topics = yield from self._topics(topology)
        self._check_tasks(topics.topology)
        offsets = yield from reported(
            self._request, group.task_offsets.get(member_id, TaskOffsets())
        )
        if offsets is not None and member_id in group.members:
            # Keep the offsets even if the heartbeat fails later.
            group.task_offsets[member_id] = offsets
        epoch, configs = self._epoch(topics, bumps=self._bumps(before, after))
        delay_ms = self._delay_ms()
        computation = Computation(group, epoch, topics.topology, configs, self._now_ms)
        target = yield from computation.target_of(
            after,
            records,
            self._statuses,
            is_delayed=bool(delay_ms) or group.delays_first_assignment,
        )
        moved = self._reconciled(after, current, target)
        if moved != current:
            records.append(current_record(group.group_id, member_id, moved))
        response, kept = self._response(after, current, moved, topics)
        return StreamsPlan(
            records,
            response,
            member_id,
            has_moved=moved != current,
            delay_ms=delay_ms,
            to_create=topics.topology.to_create,
            kept=kept,
            offsets=offsets if self._keeps_offsets else None,
        )

    def _member(self) -> tuple[StreamsMember, CurrentTasks]:
        """Return the member and its tasks before the request; blank for a new member.

        Raises RefusedError if the member is unknown, fenced, or sends another epoch.
        """
        group, member_id = self._group, self._request.member_id
        instance_id = self._request.instance_id
        current = group.currents.get(member_id, NO_TASKS)
        if self._is_joining:
            owner_id = None if instance_id is None else group.static_ids.get(instance_id)
            if owner_id is not None:
                # As in Kafka, if the member id is reused, replaying the tombstone of its
                # predecessor removes the task offsets.
                self._keeps_offsets = owner_id != member_id
                return replaced(group, owner_id, member_id, self._records)
            return group.members.get(member_id, StreamsMember(member_id)), current
        member: StreamsMember = caller(group, member_id, instance_id)
        self._check_epoch(current)
        return member, current

    def _bumps(self, before: StreamsMember, after: StreamsMember) -> bool:
        """Return whether the change of the member's attributes raises the group epoch.

        A static member may return with another client id, host, endpoint or timeout without a new
        epoch.
        """
        if self._request.instance_id is None:
            return after != before
        return (before.topology_epoch, before.rack_id, before.tags, before.process_id) != (
            after.topology_epoch,
            after.rack_id,
            after.tags,
            after.process_id,
        )

    def _check_epoch(self, current: CurrentTasks) -> None:
        """Raise RefusedError if the member sends a wrong epoch.

        The previous epoch is accepted if the member reports only tasks of its current assignment,
        because the response with the new epoch may have been lost.
        """
        received = self._request.member_epoch
        is_lost_answer = received == current.previous_epoch and self._listed.are_in(
            current.assigned
        )
        check_epoch(self._group, received, current.epoch, is_lost_answer=is_lost_answer)

    def _updated(self, member: StreamsMember) -> StreamsMember:
        """Return the member updated from the request; null fields stay unchanged."""
        request = self._request
        said: dict[str, Any] = {}
        if request.instance_id is not None:
            said["instance_id"] = request.instance_id
        if request.rack_id is not None:
            said["rack_id"] = request.rack_id
        if request.rebalance_timeout_ms != UNSET_TIMEOUT:
            said["rebalance_timeout_ms"] = request.rebalance_timeout_ms
        if request.topology is not None:
            said["topology_epoch"] = request.topology.epoch
        if request.process_id is not None:
            said["process_id"] = request.process_id
        if request.user_endpoint is not None:
            said["endpoint"] = (request.user_endpoint.host, request.user_endpoint.port)
        if request.client_tags is not None:
            said["tags"] = unique((tag.key, tag.value) for tag in request.client_tags)
        client_id, client_host = self._caller.client_id or "", self._caller.client_host
        return member._replace(client_id=client_id, client_host=client_host, **said)

    def _topology(self, member: StreamsMember) -> Topology:
        """Return the group's topology, which the first member sends and which cannot change.

        Raises RefusedError if the group has no topology, or if the request has a different topology
        with the same or a higher epoch.
        """
        group, asked = self._group, self._request.topology
        topology = group.topology
        if asked is not None:
            brought = topology_of(recorded_topology(asked))
            if topology is None:
                self._records.append(topology_record(group.group_id, brought.recorded))
                return brought
            if topology.epoch <= brought.epoch and not topology.is_same_as(brought):
                message = "Topology updates are not supported yet."
                raise RefusedError(ErrorCode.INVALID_REQUEST, message)
        if topology is None:
            raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, None)
        if member.topology_epoch < topology.epoch:
            detail = (
                f"The member's topology epoch {member.topology_epoch} is behind the group's "
                f"topology epoch {topology.epoch}."
            )
            self._statuses.append(status(StatusCode.STALE_TOPOLOGY, detail))
        return topology

    def _topics(self, topology: Topology) -> steps.Computation[_Topics]:
        """Return the topology on the current topics; configure it again after a topic change."""
        group, topics = self._group, self._group.environment.topics
        revision = topics.revision
        configured = group.configured
        if configured is not None and revision == group.hashed_revision:
            return _Topics(configured, group.metadata_hash, revision)
        hashed = yield from metadata_hash(topology.topics, topics)
        if configured is None or hashed != group.metadata_hash:
            configured = configured_topology(topology, topics)
        return _Topics(configured, hashed, revision)

    def _check_tasks(self, topology: ConfiguredTopology) -> None:
        """Raise RefusedError if a listed task does not exist in a topology that is ready."""
        if not topology.is_ready:
            return
        assert topology.subtopologies is not None
        for listed in self._listed:
            for tasks in listed or ():
                _check_tasks_of(tasks, topology.subtopologies)

    def _epoch(self, topics: _Topics, *, bumps: bool) -> tuple[int, Mapping[str, str]]:
        """Return the group epoch and the assignor configs.

        The epoch rises by one if members, topics, topology or configs have changed.
        """
        group = self._group
        validated = topics.topology.epoch if topics.topology.is_ready else -1
        configs = assignment_configs(group)
        is_same = (
            topics.metadata_hash == group.metadata_hash
            and validated == group.validated_topology_epoch
            and configs == group.assignment_configs
        )
        if is_same and not bumps:
            return group.epoch, configs
        epoch = group.epoch + 1
        self._records.append(
            epoch_record(group.group_id, epoch, topics.metadata_hash, validated, configs)
        )
        return epoch, configs

    def _delay_ms(self) -> int:
        """Return the time in ms that the first assignment has to wait from now on."""
        group = self._group
        if group.members or group.delays_first_assignment:
            return 0
        return config(group, INITIAL_DELAY)

    def _reconciled(
        self, member: StreamsMember, current: CurrentTasks, target: TaskTarget
    ) -> CurrentTasks:
        """Return the tasks one step closer to the target.

        Raises RefusedError if the member's recorded state is unknown.
        """
        if current.is_reconciled_to(target.epoch):
            return current
        step = TaskReconciliation(
            member.process_id, current, target, self._group.holders, self._listed.owned()
        )
        try:
            return step.next()
        except UnknownTaskStateError:
            message = (
                "The streams group member is in a unknown state. "
                "The member must abandon all its tasks and rejoin."
            )
            raise RefusedError(ErrorCode.FENCED_MEMBER_EPOCH, message) from None

    def _response(
        self, member: StreamsMember, current: CurrentTasks, moved: CurrentTasks, topics: _Topics
    ) -> tuple[StreamsGroupHeartbeatResponse, SoftState]:
        """Return the response, with tasks and endpoints if they are new to the member."""
        group, request, topology = self._group, self._request, topics.topology
        response = StreamsGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=moved.epoch,
            heartbeat_interval_ms=config(group, HEARTBEAT_INTERVAL),
            acceptable_recovery_lag=config(group, RECOVERY_LAG),
            task_offset_interval_ms=config(group, TASK_OFFSET_INTERVAL),
        )
        endpoint_epoch = group.endpoint_epoch
        if self._is_joining or moved.assigned != current.assigned:
            assigned = moved.assigned
            response.active_tasks = _listed_tasks(assigned.active)
            response.standby_tasks = _listed_tasks(assigned.standby)
            response.warmup_tasks = _listed_tasks(assigned.warmup)
            endpoint_epoch += member.endpoint is not None
        if endpoint_epoch != request.endpoint_information_epoch:
            response.partitions_by_user_endpoint = partitions_by_endpoint(
                self._members_with(member, moved), topology, group.environment.topics
            )
        if not self._is_new_group:
            response.endpoint_information_epoch = endpoint_epoch
        if topology.problem is not None:
            self._statuses.append(topology.problem.copy())
        shutdown_member_id = group.shutdown_member_id
        if request.shutdown_application:
            shutdown_member_id = shutdown_member_id or member.member_id
        if shutdown_member_id is not None:
            detail = (
                f"Streams group member {shutdown_member_id} encountered a fatal error and "
                "requested a shutdown for the entire application."
            )
            self._statuses.append(status(StatusCode.SHUTDOWN_APPLICATION, detail))
        response.status = self._statuses
        return response, SoftState(topology, topics.revision, endpoint_epoch, shutdown_member_id)

    def _members_with(
        self, member: StreamsMember, moved: CurrentTasks
    ) -> Iterator[tuple[StreamsMember, OwnedTasks]]:
        """Yield all members with their assigned tasks; `member` comes last."""
        for member_id, other in self._group.members_with(member).items():
            if member_id != member.member_id:
                yield other, self._group.current(member_id).assigned
        yield member, moved.assigned


def _check_tasks_of(
    listed: ListedTasks, subtopologies: Mapping[str, ConfiguredSubtopology]
) -> None:
    subtopology_id = listed.subtopology_id
    subtopology = subtopologies.get(subtopology_id)
    if subtopology is None:
        message = f"Subtopology {subtopology_id} does not exist in the topology."
        raise RefusedError(ErrorCode.INVALID_REQUEST, message)
    for partition in listed.partitions:
        if not 0 <= partition < subtopology.task_count:
            message = (
                f"Task {partition} for subtopology {subtopology_id} is invalid. "
                f"Number of tasks for this subtopology: {subtopology.task_count}"
            )
            raise RefusedError(ErrorCode.INVALID_REQUEST, message)


def _listed_tasks(tasks: Mapping[str, Iterable[int]]) -> list[StreamsTaskIds]:
    return [
        StreamsTaskIds(subtopology_id=subtopology_id, partitions=sorted(partitions))
        for subtopology_id, partitions in sorted(tasks.items())
    ]
