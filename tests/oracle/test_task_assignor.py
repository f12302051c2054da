"""Our task assignor is compared with Kafka's own class on thousands of streams groups."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from coordinator_server.core.groups.streams.assignors.spec import (
    Assignment,
    MemberTasks,
    StreamsGroupSpec,
    Tasks,
)
from tests.oracle.kafka_process import SECONDS, java
from tests.unit.core.groups.streams.assignors.evolving import assigned, evolving

PROGRAM = Path(__file__).with_name("AssignTasks.java")


@pytest.mark.nightly
def test_small_groups_get_the_same_tasks_as_from_kafka() -> None:
    """Groups of up to 16 members, in the order of Kafka's hash tables, get equal tasks."""
    specs = [*groups(1, 2000, 16, 8, is_ordered=True)]
    assert len(specs) == 2000
    for spec, theirs in zip(specs, answers(specs), strict=True):
        assert assigned(spec) == theirs, spec


@pytest.mark.parametrize("count", [40, pytest.param(400, marks=pytest.mark.nightly)])
def test_large_groups_are_balanced_as_by_kafka(count: int) -> None:
    """In any order, task counts and stickiness are equal, and loads differ by at most one."""
    specs = [*groups(2, count, 60, 60, is_ordered=False)]
    stayed: Counter[str] = Counter()
    for spec, theirs in zip(specs, answers(specs), strict=True):
        own = assigned(spec)
        for kind in ("active", "standby"):
            pairs = zip(loads(own, kind), loads(theirs, kind), strict=True)
            assert all(abs(one - another) <= 1 for one, another in pairs), spec
            assert sum(loads(own, kind)) == sum(loads(theirs, kind)), spec
        stayed.update(own=kept(own, spec), theirs=kept(theirs, spec))
    assert abs(stayed["own"] - stayed["theirs"]) < stayed["theirs"] / 200


def groups(
    seed: int, count: int, members_max: int, tasks_max: int, *, is_ordered: bool
) -> Iterator[StreamsGroupSpec]:
    """Yield groups, each with the tasks from before its last change."""
    for group in evolving(seed, count, members_max, tasks_max):
        names = group.names(is_ordered=is_ordered)
        spec = group.spec(names, is_ordered=is_ordered)
        yield spec
        group.take(assigned(spec), names)


def answers(specs: Iterable[StreamsGroupSpec]) -> list[Assignment]:
    """Return the answer of Kafka's assignor for each group."""
    lines = "".join(json.dumps(to_json(spec)) + "\n" for spec in specs)
    done = subprocess.run(
        java(str(PROGRAM)), input=lines, capture_output=True, text=True, timeout=SECONDS, check=True
    )
    return [
        {
            name: MemberTasks(*(tasks_of(own.get(kind, {})) for kind in MemberTasks._fields))
            for name, own in json.loads(line).items()
        }
        for line in done.stdout.splitlines()
    ]


def to_json(spec: StreamsGroupSpec) -> dict[str, Any]:
    """Return a group as the Java program reads it."""
    return {
        "replicas": spec.standby_replicas,
        "subtopologies": spec.subtopologies,
        "members": {
            name: {
                "process": process_id,
                "active": {one: sorted(had) for one, had in tasks.active.items()},
                "standby": {one: sorted(had) for one, had in tasks.standby.items()},
                "offsets": offsets_of(offsets),
            }
            for name, (process_id, tasks, offsets) in spec.members.items()
        },
    }


def offsets_of(offsets: Mapping[tuple[str, int], int]) -> dict[str, dict[int, int]]:
    """Return a member's offsets as the Java program reads them."""
    by_subtopology: dict[str, dict[int, int]] = {}
    for (subtopology, partition), offset in offsets.items():
        by_subtopology.setdefault(subtopology, {})[partition] = offset
    return by_subtopology


def tasks_of(answer: Mapping[str, list[int]]) -> Tasks:
    """Parse a member's tasks from the Java program."""
    return {subtopology: frozenset(partitions) for subtopology, partitions in answer.items()}


def loads(assignment: Assignment, kind: str) -> list[int]:
    """Return the sorted numbers of a kind of task per member."""
    return sorted(sum(map(len, getattr(one, kind).values())) for one in assignment.values())


def kept(assignment: Assignment, spec: StreamsGroupSpec) -> int:
    """Return the number of active tasks that stay with their member."""
    return sum(
        len(partitions & spec.members[name].tasks.active.get(subtopology, frozenset()))
        for name, tasks in assignment.items()
        for subtopology, partitions in tasks.active.items()
    )
