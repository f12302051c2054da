"""StreamsGroupDescribe: the description of a streams group.

Source: StreamsGroup.asDescribedGroup, StreamsGroupMember.asStreamsGroupDescribeMember,
StreamsTopology and ConfiguredTopology.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.api import NOT_REQUESTED, describe_api
from coordinator_server.core.groups.effects import STEP_ITEMS
from coordinator_server.core.groups.settings import GroupKind
from coordinator_server.core.groups.streams.assignors.spec import MemberTasks
from coordinator_server.core.groups.streams.configs import ASSIGNOR
from coordinator_server.core.groups.streams.task_offsets import TaskOffsets
from protocol.apis.streams_group_describe import (
    DescribedEndpoint,
    DescribedKeyValue,
    DescribedStreamsAssignment,
    DescribedStreamsGroup,
    DescribedStreamsMember,
    DescribedSubtopology,
    DescribedTaskIds,
    DescribedTaskOffset,
    DescribedTopicInfo,
    DescribedTopology,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.groups.effects import Effects, Reply
    from coordinator_server.core.groups.streams.configure import (
        ConfiguredSubtopology,
        InternalTopic,
    )
    from coordinator_server.core.groups.streams.member import StreamsMember
    from coordinator_server.core.groups.streams.streams_group import StreamsGroup
    from coordinator_server.core.groups.streams.task_offsets import Offsets
    from coordinator_server.steps import Computation, Steps
    from protocol.streams_group_records import RecordedSubtopology, RecordedTopicInfo


_NOT_STORED = 1
"""The status of a topology description that is not stored; storing needs a plugin (KIP-1331)."""


class DescribeStreamsGroup(NamedTuple):
    """One group of a StreamsGroupDescribe request."""

    group_id: str
    authorized_operations: int = NOT_REQUESTED
    include_topology_description: bool = False


def describe(
    group: StreamsGroup,
    request: DescribeStreamsGroup,
    reply: Reply[DescribedStreamsGroup],
    now_ms: int,
    effects: Effects,
) -> Steps:
    """Reply with a DescribedStreamsGroup."""
    topology = _topology(group)
    if topology is None:
        error = ErrorCode.UNKNOWN_SERVER_ERROR
        effects.reply(reply, DescribedStreamsGroup(group_id=group.group_id, error_code=error))
        return
    members: list[DescribedStreamsMember] = []
    for member in group.members.values():
        members.append((yield from _member(group, member)))
        if not len(members) % STEP_ITEMS:
            yield
    response = DescribedStreamsGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=topology,
        members=members,
        authorized_operations=request.authorized_operations,
        topology_description_status=_NOT_STORED if request.include_topology_description else 0,
        assignor_name=ASSIGNOR,
    )
    effects.reply(reply, response)


def _topology(group: StreamsGroup) -> DescribedTopology | None:
    """Return the topology, with internal topic partitions if it is ready, else as received."""
    configured = group.configured
    if configured is not None and configured.is_ready:
        assert configured.subtopologies is not None
        subtopologies = [
            _configured(*subtopology) for subtopology in configured.subtopologies.items()
        ]
        return DescribedTopology(epoch=configured.epoch, subtopologies=subtopologies)
    topology = group.topology
    if topology is None:
        return None
    subtopologies = [_as_it_came(*subtopology) for subtopology in topology.subtopologies.items()]
    return DescribedTopology(epoch=topology.epoch, subtopologies=subtopologies)


def _configured(subtopology_id: str, subtopology: ConfiguredSubtopology) -> DescribedSubtopology:
    return DescribedSubtopology(
        subtopology_id=subtopology_id,
        source_topics=sorted(subtopology.source_topics),
        repartition_sink_topics=sorted(subtopology.repartition_sink_topics),
        state_changelog_topics=_internal_topics(subtopology.changelog_topics.values()),
        repartition_source_topics=_internal_topics(subtopology.repartition_source_topics.values()),
    )


def _internal_topics(topics: Iterable[InternalTopic]) -> list[DescribedTopicInfo]:
    return [
        DescribedTopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=_key_values(topic.configs),
        )
        for topic in sorted(topics)
    ]


def _as_it_came(subtopology_id: str, subtopology: RecordedSubtopology) -> DescribedSubtopology:
    return DescribedSubtopology(
        subtopology_id=subtopology_id,
        source_topics=sorted(subtopology.source_topics),
        repartition_sink_topics=sorted(subtopology.repartition_sink_topics),
        state_changelog_topics=_recorded_topics(subtopology.state_changelog_topics),
        repartition_source_topics=_recorded_topics(subtopology.repartition_source_topics),
    )


def _recorded_topics(topics: Iterable[RecordedTopicInfo]) -> list[DescribedTopicInfo]:
    return [
        DescribedTopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[
                DescribedKeyValue(key=config.key, value=config.value)
                for config in topic.topic_configs
            ],
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    ]


def _key_values(values: Mapping[str, str]) -> list[DescribedKeyValue]:
    return [DescribedKeyValue(key=key, value=value) for key, value in values.items()]


def _member(group: StreamsGroup, member: StreamsMember) -> Computation[DescribedStreamsMember]:
    current = group.current(member.member_id)
    endpoint = member.endpoint
    offsets = group.task_offsets.get(member.member_id, TaskOffsets())
    reached = yield from _offsets(offsets.reached)
    ends = yield from _offsets(offsets.ends)
    return DescribedStreamsMember(
        member_id=member.member_id,
        member_epoch=current.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=endpoint and DescribedEndpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=_key_values(member.tags),
        task_offsets=reached,
        task_end_offsets=ends,
        assignment=_assignment(current.assigned),
        target_assignment=_assignment(group.targets.get(member.member_id, MemberTasks())),
    )


def _offsets(offsets: Offsets) -> Computation[list[DescribedTaskOffset]]:
    """Build the offsets in steps, because a member can report any number of them."""
    described: list[DescribedTaskOffset] = []
    for (subtopology_id, partition), offset in offsets.items():
        described.append(
            DescribedTaskOffset(subtopology_id=subtopology_id, partition=partition, offset=offset)
        )
        if not len(described) % STEP_ITEMS:
            yield
    return described


def _assignment(tasks: Iterable[Mapping[str, Iterable[int]]]) -> DescribedStreamsAssignment:
    """Return active, standby and warm-up tasks, without tasks that are still to be revoked."""
    active, standby, warmup = map(_task_ids, tasks)
    return DescribedStreamsAssignment(
        active_tasks=active, standby_tasks=standby, warmup_tasks=warmup
    )


def _task_ids(tasks: Mapping[str, Iterable[int]]) -> list[DescribedTaskIds]:
    return [
        DescribedTaskIds(subtopology_id=subtopology_id, partitions=sorted(partitions))
        for subtopology_id, partitions in sorted(tasks.items())
    ]


STREAMS_GROUP_DESCRIBE = describe_api(
    GroupKind.STREAMS,
    DescribeStreamsGroup,
    DescribedStreamsGroup,
    describe,
    protocol=GroupKind.STREAMS,
)
