"""Random streams groups: each step changes the previous group and keeps its tasks."""

from __future__ import annotations

import random
from collections.abc import Iterator

from coordinator_server.core.groups.streams.assignors.spec import (
    Assignment,
    MemberTasks,
    StreamsGroupSpec,
    StreamsMemberSpec,
    Subtopology,
)
from coordinator_server.core.groups.streams.assignors.sticky import sticky
from coordinator_server.steps import run_all

FIRST_NAME = 64
"""Java's hash of a one-character string is its code.

From a multiple of 64 on, names lie in a hash table in their order, as long as the table has a slot
for each.
"""


def assigned(spec: StreamsGroupSpec) -> Assignment:
    """Return the assignment of our assignor, with all steps run at once."""
    return run_all(sticky(spec))


class Evolving:
    """A group that changes step by step; members are numbers."""

    def __init__(self, chosen: random.Random, members_max: int, tasks_max: int) -> None:
        self._chosen = chosen
        self._members_max = members_max
        self._tasks_max = tasks_max
        self._processes = chosen.randint(1, members_max)
        self._made = 0
        self._salt = chosen.random()
        self._reporting = random.Random(self._salt)
        self.replicas = chosen.choice((0, 1, 1, 2, 3))
        self.subtopologies: dict[str, Subtopology] = {}
        for _ in range(chosen.randint(1, 4)):
            self._grow()
        self.processes: dict[int, int] = {}
        self.tasks: dict[int, MemberTasks] = {}
        for _ in range(chosen.randint(1, members_max)):
            self._join()

    def _grow(self) -> None:
        count = self._chosen.randint(0, self._tasks_max)
        subtopology = Subtopology(count, self._chosen.random() < 0.6)
        self.subtopologies[str(self._chosen.randint(0, 11))] = subtopology

    def _join(self) -> None:
        self._made += 1
        self.processes[self._made] = self._chosen.randrange(self._processes)

    def step(self) -> None:
        """Change the group in a random way."""
        chosen = self._chosen
        match chosen.choice(("join", "join", "leave", "crash", "grow", "replicas", "swap")):
            case "join":
                for _ in range(min(chosen.randint(1, 3), self._members_max - len(self.processes))):
                    self._join()
            case "leave" if len(self.processes) > 1:
                for member in chosen.sample(list(self.processes), len(self.processes) // 2):
                    del self.processes[member]
            case "crash" if len(set(self.processes.values())) > 1:
                crashed = chosen.choice(list(self.processes.values()))
                self.processes = {
                    member: process
                    for member, process in self.processes.items()
                    if process != crashed
                }
            case "grow":
                self._grow()
            case "replicas":
                self.replicas = chosen.choice((0, 1, 2))
            case "swap":
                members = list(self.processes)
                chosen.shuffle(members)
                self.processes = {member: self.processes[member] for member in members}

    def names(self, *, is_ordered: bool) -> dict[int, str]:
        """Return names for the members of this step, by number."""
        if is_ordered:
            return {member: chr(FIRST_NAME + place) for place, member in enumerate(self.processes)}
        return {member: f"m{member}-{self._salt}" for member in self.processes}

    def spec(self, names: dict[int, str], *, is_ordered: bool) -> StreamsGroupSpec:
        """Return the group in the form for the assignor."""
        of_processes: dict[int, str] = {}
        for process in self.processes.values():
            name = chr(FIRST_NAME + len(of_processes)) if is_ordered else f"p{process}-{self._salt}"
            of_processes.setdefault(process, name)
        members = {
            names[member]: StreamsMemberSpec(
                of_processes[process], self.tasks.get(member, MemberTasks()), self._offsets()
            )
            for member, process in self.processes.items()
        }
        return StreamsGroupSpec(members, dict(self.subtopologies), self.replicas)

    def _offsets(self) -> dict[tuple[str, int], int]:
        """Return the restored offsets of some tasks; half of the members report none."""
        chosen = self._reporting
        if chosen.random() < 0.5:
            return {}
        return {
            (one, partition): chosen.randint(0, 5)
            for one, subtopology in self.subtopologies.items()
            for partition in range(subtopology.task_count)
            if chosen.random() < 0.3
        }

    def take(self, assignment: Assignment, names: dict[int, str]) -> None:
        """Set the tasks for the next step."""
        self.tasks = {member: assignment[name] for member, name in names.items()}


def evolving(seed: int, count: int, members_max: int, tasks_max: int) -> Iterator[Evolving]:
    """Yield `count` steps of random groups, each of which is replaced after some steps."""
    chosen = random.Random(seed)
    group = Evolving(chosen, members_max, tasks_max)
    for _ in range(count):
        yield group
        if chosen.random() < 0.08:
            group = Evolving(chosen, members_max, tasks_max)
        else:
            group.step()
