"""The input and output of the task assignor.

Members are processed in mapping order; Kafka uses the order of a hash table. Source: GroupSpec,
MemberMetadataAndState, TopologyDescriber and MemberAssignment of Kafka's streams groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Tasks = Mapping[str, frozenset[int]]
"""Subtopology id -> partitions; each partition is a task."""


class MemberTasks(NamedTuple):
    """The active, standby and warm-up tasks of a member.

    A standby task keeps a copy of the state. A warm-up task restores the state, so that its member
    can run the task soon.
    """

    active: Tasks = {}
    standby: Tasks = {}
    warmup: Tasks = {}


Assignment = Mapping[str, MemberTasks]
"""Member id -> target tasks."""


class StreamsMemberSpec(NamedTuple):
    """A member, one thread of a process; `tasks` are its current tasks.

    `offsets` are the member's restored offsets by task, including tasks of which the member has
    only the state.
    """

    process_id: str
    tasks: MemberTasks = MemberTasks()
    offsets: Mapping[tuple[str, int], int] = {}


class Subtopology(NamedTuple):
    """A part of the topology.

    `task_count` is the largest partition count of the source topics. `is_stateful` is set if the
    subtopology has a changelog topic.
    """

    task_count: int
    is_stateful: bool


class StreamsGroupSpec(NamedTuple):
    """The group to assign; `standby_replicas` is Kafka's `num.standby.replicas`."""

    members: Mapping[str, StreamsMemberSpec]
    subtopologies: Mapping[str, Subtopology]
    standby_replicas: int = 0
