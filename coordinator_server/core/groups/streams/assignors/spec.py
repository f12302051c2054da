"""What the task assignor is given, and what it answers.

Members are taken in the order of the mapping; in Kafka that is the order of a hash table. Source:
GroupSpec, MemberMetadataAndState, TopologyDescriber and MemberAssignment of Kafka's streams groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Tasks = Mapping[str, frozenset[int]]
"""Subtopology id -> partitions: each is a task."""


class MemberTasks(NamedTuple):
    """The tasks of a member: those that it runs, those whose state it keeps as a copy, and those
    whose state it fetches so that it can run them soon."""

    active: Tasks = {}
    standby: Tasks = {}
    warmup: Tasks = {}


Assignment = Mapping[str, MemberTasks]
"""Member id -> what the member shall run."""


class StreamsMemberSpec(NamedTuple):
    """A member: one thread of a process. `tasks` are those that it has.

    `offsets` are how far it has restored tasks, also tasks of which it has the state only.
    """

    process_id: str
    tasks: MemberTasks = MemberTasks()
    offsets: Mapping[tuple[str, int], int] = {}


class Subtopology(NamedTuple):
    """A part of the topology. `task_count` is the most partitions that one of its source topics
    has; `is_stateful` if it has a changelog topic."""

    task_count: int
    is_stateful: bool


class StreamsGroupSpec(NamedTuple):
    """A group. `standby_replicas` is Kafka's `num.standby.replicas`."""

    members: Mapping[str, StreamsMemberSpec]
    subtopologies: Mapping[str, Subtopology]
    standby_replicas: int = 0
