"""Checks of a StreamsGroupHeartbeat that do not depend on its group.

Source: throwIfStreamsGroupHeartbeatRequestIsUsingUnsupportedFeatures and
throwIfStreamsGroupHeartbeatRequestIsInvalid of GroupCoordinatorService.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from coordinator_server.core.groups.modern.members import (
    JOINING_EPOCH,
    STATIC_LEAVING_EPOCH,
    RefusedError,
    is_blank,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from protocol.apis.streams_group_heartbeat import (
        StreamsGroupHeartbeatRequest,
        StreamsTopology,
    )

UNSET_TIMEOUT = -1
MOST_ENTRIES = 4_000
"""The largest total of subtopologies, topics, configs and copartition groups in a topology, and the
largest number of client tags. Kafka limits only the record size, but no broker could create so many
topics at once."""

Complaints = Iterator[tuple[bool, str]]
"""(condition, Kafka's message): the request is refused if the condition is true."""


def check(request: StreamsGroupHeartbeatRequest) -> None:
    """Raise RefusedError for a request that is invalid for every group."""
    if request.topology is not None and is_too_large(request.topology):
        message = f"A topology of more than {MOST_ENTRIES} entries is not served."
        raise RefusedError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
    if len(request.client_tags or ()) > MOST_ENTRIES:
        message = f"More than {MOST_ENTRIES} client tags are not served."
        raise RefusedError(ErrorCode.INVALID_REQUEST, message)
    _refuse_first(_malformed(request))


def is_too_large(topology: StreamsTopology) -> bool:
    """Return whether processing the topology would block the broker for too long."""
    left = MOST_ENTRIES - len(topology.subtopologies)
    for subtopology in topology.subtopologies:
        if left < 0:
            break
        internal_topics = (
            subtopology.state_changelog_topics,
            subtopology.repartition_source_topics,
        )
        left -= len(subtopology.source_topics) + len(subtopology.repartition_sink_topics)
        left -= len(subtopology.copartition_groups) + sum(len(topics) for topics in internal_topics)
        if left >= 0:
            left -= sum(len(topic.topic_configs) for topics in internal_topics for topic in topics)
            left -= sum(
                len(group.source_topics) + len(group.repartition_source_topics)
                for group in subtopology.copartition_groups
            )
    return left < 0


def _refuse_first(complaints: Complaints) -> None:
    for holds, message in complaints:
        if holds:
            raise RefusedError(ErrorCode.INVALID_REQUEST, message)


def _malformed(request: StreamsGroupHeartbeatRequest) -> Complaints:
    epoch = request.member_epoch
    yield is_blank(request.member_id), "MemberId can't be empty."
    yield is_blank(request.group_id), "GroupId can't be empty."
    instance_id = request.instance_id
    yield instance_id is not None and is_blank(instance_id), "InstanceId can't be empty."
    yield request.rack_id is not None and is_blank(request.rack_id), "RackId can't be empty."
    if epoch == JOINING_EPOCH:
        yield from _malformed_join(request)
    elif epoch == STATIC_LEAVING_EPOCH:
        yield instance_id is None, "InstanceId can't be null."
    else:
        message = f"MemberEpoch is {epoch}, but must be greater than or equal to -2."
        yield epoch < STATIC_LEAVING_EPOCH, message
    tasks = request.active_tasks, request.standby_tasks, request.warmup_tasks
    is_mixed = any(task is None for task in tasks) and any(task is not None for task in tasks)
    yield is_mixed, "If one task-type is non-null, all must be non-null."
    if epoch != JOINING_EPOCH:
        message = "Topology can only be provided when (re-)joining."
        yield request.topology is not None, message


def _malformed_join(request: StreamsGroupHeartbeatRequest) -> Complaints:
    is_unset = request.rebalance_timeout_ms == UNSET_TIMEOUT
    yield is_unset, "RebalanceTimeoutMs must be provided in first request."
    for name, tasks in (
        ("ActiveTasks", request.active_tasks),
        ("StandbyTasks", request.standby_tasks),
        ("WarmupTasks", request.warmup_tasks),
    ):
        yield tasks is None or bool(tasks), f"{name} must be empty when (re-)joining."
    topology = request.topology
    yield topology is None, "Topology must be non-null when (re-)joining."
    assert topology is not None
    has_regex = any(subtopology.source_topic_regex for subtopology in topology.subtopologies)
    yield has_regex, "Regular expressions for source topics are not supported yet."
    _check_changelogs(topology)


def _check_changelogs(topology: StreamsTopology) -> None:
    """Raise RefusedError if a changelog sets a partition count, which only the broker may do."""
    changelogs: Iterable[tuple[str, int]] = (
        (topic.name, topic.partitions)
        for subtopology in topology.subtopologies
        for topic in subtopology.state_changelog_topics
    )
    for name, partitions in changelogs:
        if partitions:
            message = (
                f"Changelog topic {name} must have an undefined partition count, "
                f"but it is set to {partitions}."
            )
            raise RefusedError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
