"""The target assignment of a streams group.

The assignor computes the target when the group epoch has risen, but not during the initial
rebalance delay, and at most once per `group.streams.assignment.interval.ms`. Source:
maybeUpdateStreamsTargetAssignment of GroupMetadataManager, and TargetAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.effects import Pace
from coordinator_server.core.groups.modern.modern_group import config
from coordinator_server.core.groups.streams.assignors.spec import (
    Assignment,
    MemberTasks,
    StreamsGroupSpec,
    StreamsMemberSpec,
    Subtopology,
)
from coordinator_server.core.groups.streams.assignors.sticky import sticky
from coordinator_server.core.groups.streams.configs import (
    ASSIGNMENT_INTERVAL,
    STANDBY_REPLICAS,
)
from coordinator_server.core.groups.streams.reconcile import TaskTarget
from coordinator_server.core.groups.streams.records import target_epoch_record, target_record
from coordinator_server.core.groups.streams.status import StatusCode, status
from coordinator_server.core.groups.streams.task_offsets import TaskOffsets

if TYPE_CHECKING:
    from coordinator_server import steps
    from coordinator_server.core.groups.effects import Effects
    from coordinator_server.core.groups.records import CoordinatorRecord
    from coordinator_server.core.groups.streams.configure import ConfiguredTopology
    from coordinator_server.core.groups.streams.member import StreamsMember
    from coordinator_server.core.groups.streams.streams_group import StreamsGroup
    from coordinator_server.steps import Steps
    from protocol.apis.streams_group_heartbeat import StreamsStatus

_STANDBY_REPLICAS = "num.standby.replicas"
_NO_TASKS = MemberTasks()
_NO_OFFSETS = TaskOffsets()


def assignment_configs(group: StreamsGroup) -> Mapping[str, str]:
    """Return the assignor configs in the form of the epoch record."""
    return {_STANDBY_REPLICAS: str(config(group, STANDBY_REPLICAS))}


class Computation(NamedTuple):
    """Computes a target assignment for group epoch `epoch` at time `now_ms`."""

    group: StreamsGroup
    epoch: int
    topology: ConfiguredTopology
    configs: Mapping[str, str]
    now_ms: int

    def target_of(
        self,
        member: StreamsMember,
        records: list[CoordinatorRecord],
        statuses: list[StreamsStatus],
        *,
        is_delayed: bool,
    ) -> steps.Computation[TaskTarget]:
        """Return the target tasks of `member`; compute a new assignment if due.

        `member` is the member after the current heartbeat, which the group state does not contain
        yet.
        """
        group = self.group
        if is_delayed:
            statuses.append(_delayed("initial rebalance delay"))
            return TaskTarget(group.assignment_epoch, _NO_TASKS)
        if group.assignment_epoch < self.epoch:
            if group.may_assign(ASSIGNMENT_INTERVAL, self.now_ms):
                members = group.members_with(member)
                targets = yield from self.compute(members, records)
                return TaskTarget(self.epoch, targets.get(member.member_id, _NO_TASKS))
            statuses.append(_delayed("assignment interval"))
        return TaskTarget(group.assignment_epoch, group.last_target(member))

    def compute(
        self, members: Mapping[str, StreamsMember], records: list[CoordinatorRecord]
    ) -> steps.Computation[Assignment]:
        """Return the target tasks of all members, and append their records.

        While topics are missing or have wrong partition counts, no member gets tasks.
        """
        group, last = self.group, self.group.targets
        subtopologies = self.topology.subtopologies
        targets: Assignment = {}
        if self.topology.is_ready:
            assert subtopologies is not None
            spec = StreamsGroupSpec(
                {
                    member_id: StreamsMemberSpec(
                        member.process_id,
                        group.last_assigned(member),
                        group.task_offsets.get(member_id, _NO_OFFSETS).reached,
                    )
                    for member_id, member in members.items()
                },
                {
                    subtopology_id: Subtopology(
                        subtopology.task_count, bool(subtopology.changelog_topics)
                    )
                    for subtopology_id, subtopology in subtopologies.items()
                },
                int(self.configs.get(_STANDBY_REPLICAS, "0")),
            )
            targets = yield from sticky(spec)
        steps = Pace()
        for member_id, member in members.items():
            target = targets.get(member_id, _NO_TASKS)
            # Compare with both: `replaced` may have written the predecessor's target for this
            # member in the same batch.
            if target != last.get(member_id) or target != group.last_target(member):
                records.append(target_record(group.group_id, member_id, target))
            if steps.is_due(1 + sum(map(len, target.active.values()))):
                yield
        records.append(target_epoch_record(group.group_id, self.epoch, self.now_ms))
        return targets

    def write(self, effects: Effects) -> Steps:
        """Compute and record the assignment of the current members, if the interval allows it."""
        if self.group.may_assign(ASSIGNMENT_INTERVAL, self.now_ms):
            records: list[CoordinatorRecord] = []
            yield from self.compute(self.group.members, records)
            effects.write(records)


def _delayed(reason: str) -> StreamsStatus:
    detail = f"Assignment delayed due to the configured {reason}."
    return status(StatusCode.ASSIGNMENT_DELAYED, detail)


def first_target(group: StreamsGroup, now_ms: int, effects: Effects) -> Steps:
    """Compute the first assignment, after its delay."""
    topology = group.configured
    if group.members and group.epoch > group.assignment_epoch and topology is not None:
        computation = Computation(group, group.epoch, topology, group.assignment_configs, now_ms)
        yield from computation.write(effects)
