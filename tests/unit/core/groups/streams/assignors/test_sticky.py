"""The sticky task assignor; tests/oracle compares further groups with Kafka."""

from __future__ import annotations

from collections import Counter

from coordinator_server.core.groups.effects import STEP_ITEMS
from coordinator_server.core.groups.streams.assignors.spec import (
    MemberTasks,
    StreamsGroupSpec,
    StreamsMemberSpec,
    Subtopology,
    Tasks,
)
from coordinator_server.core.groups.streams.assignors.sticky import sticky
from tests.unit.core.groups.streams.assignors.evolving import assigned, evolving

STATELESS = {"0": Subtopology(4, is_stateful=False)}
STATEFUL = {"0": Subtopology(2, is_stateful=True)}


def some(*partitions: int) -> Tasks:
    """Return tasks of the subtopology `0`."""
    return {"0": frozenset(partitions)} if partitions else {}


def test_nobody_gets_nothing() -> None:
    """A group without members gets an empty assignment."""
    assert assigned(StreamsGroupSpec({}, STATELESS)) == {}


def test_active_tasks_are_spread_over_processes_and_their_members() -> None:
    """Tasks are spread evenly over members; a process gets tasks in proportion to its members."""
    members = {
        "a": StreamsMemberSpec("p"),
        "b": StreamsMemberSpec("p"),
        "c": StreamsMemberSpec("q"),
    }
    topology = {"1": Subtopology(3, is_stateful=False), "0": Subtopology(3, is_stateful=False)}
    assignment = assigned(StreamsGroupSpec(members, topology))
    assert all(sum(map(len, one.active.values())) == 2 for one in assignment.values())
    assert all(one.standby == one.warmup == {} for one in assignment.values())


def test_tasks_stay_where_they_were() -> None:
    """A member keeps tasks up to an even share; other tasks go to the least loaded member."""
    members = {
        "a": StreamsMemberSpec("p", MemberTasks(some(0, 1, 2, 3))),
        "b": StreamsMemberSpec("q"),
    }
    assert assigned(StreamsGroupSpec(members, STATELESS)) == {
        "a": MemberTasks(some(0, 1)),
        "b": MemberTasks(some(2, 3)),
    }


def test_tasks_go_to_the_largest_reported_offset() -> None:
    """A task goes to the largest reported offset, but a standby task takes precedence.

    Warm-up tasks are never assigned.
    """
    topology = {"0": Subtopology(1, is_stateful=True)}
    idle = {
        "a": StreamsMemberSpec("p", offsets={("0", 0): 5}),
        "b": StreamsMemberSpec("q", offsets={("0", 0): 9}),
        "c": StreamsMemberSpec("r"),
    }
    nothing = MemberTasks()
    assert assigned(StreamsGroupSpec(idle, topology)) == {
        "a": nothing,
        "b": MemberTasks(some(0)),
        "c": nothing,
    }
    standby = {**idle, "c": StreamsMemberSpec("r", MemberTasks({}, some(0)))}
    assert assigned(StreamsGroupSpec(standby, topology, 1)) == {
        "a": nothing,
        "b": MemberTasks({}, some(0)),
        "c": MemberTasks(some(0)),
    }


def test_reported_offsets_of_many_tasks_are_read_in_steps() -> None:
    """1 100 reported offsets are read in steps, and all tasks are assigned."""
    count = 1100
    topology = {"0": Subtopology(count, is_stateful=True)}
    offsets = {("0", partition): partition for partition in range(count)}
    members = {"a": StreamsMemberSpec("p", offsets=offsets), "b": StreamsMemberSpec("q")}
    steps = sticky(StreamsGroupSpec(members, topology))
    pauses = sum(1 for _ in steps)
    assert pauses >= 2 * (count // STEP_ITEMS)
    tasks = assigned(StreamsGroupSpec(members, topology))
    assert sorted(len(one.active["0"]) for one in tasks.values()) == [count // 2] * 2


def test_tasks_go_to_copies_of_their_state() -> None:
    """A task whose owner is gone goes to a standby in the least loaded process."""
    members = {
        "a": StreamsMemberSpec("p", MemberTasks(some(0), some(1))),
        "b": StreamsMemberSpec("q", MemberTasks({}, some(1))),
        "c": StreamsMemberSpec("p", MemberTasks({}, some(1))),
    }
    assert assigned(StreamsGroupSpec(members, {"0": Subtopology(3, is_stateful=True)})) == {
        "a": MemberTasks(some(0)),
        "b": MemberTasks(some(1)),
        "c": MemberTasks(some(2)),
    }


def test_standby_tasks_are_in_other_processes() -> None:
    """Standby tasks are in other processes, if there are enough.

    Stateless tasks have no standby tasks.
    """
    members = {
        "a": StreamsMemberSpec("p"),
        "b": StreamsMemberSpec("p"),
        "c": StreamsMemberSpec("q"),
    }
    topology = {**STATEFUL, "1": Subtopology(1, is_stateful=False)}
    assignment = assigned(StreamsGroupSpec(members, topology, standby_replicas=5))
    processes = {
        task: [
            members[name].process_id
            for name, tasks in assignment.items()
            for kind in tasks
            if task in kind.get("0", ())
        ]
        for task in (0, 1)
    }
    assert all(sorted(each) == ["p", "q"] for each in processes.values())
    assert not any("1" in tasks.standby for tasks in assignment.values())


def test_standby_tasks_stay_too() -> None:
    """A standby task stays with its owner, or goes to the previous owner of the active task."""
    members = {
        "a": StreamsMemberSpec("p", MemberTasks(some(0), some(1))),
        "b": StreamsMemberSpec("q", MemberTasks(some(1), some(0))),
    }
    spec = StreamsGroupSpec(members, STATEFUL, standby_replicas=1)
    assert assigned(spec) == {name: member.tasks for name, member in members.items()}
    members = {"a": StreamsMemberSpec("p", MemberTasks(some(0, 1))), "b": StreamsMemberSpec("q")}
    assert assigned(StreamsGroupSpec(members, STATEFUL, standby_replicas=1)) == {
        "a": MemberTasks(some(0), some(1)),
        "b": MemberTasks(some(1), some(0)),
    }


def test_a_task_is_once_in_a_process_and_loads_are_even() -> None:
    """Over many changes each task is active once, and at most once in each process.

    Each stateful task has its standby replicas, if there are enough processes.
    """
    for group in evolving(21, 1500, 9, 13):
        names = group.names(is_ordered=False)
        spec = group.spec(names, is_ordered=False)
        assignment = assigned(spec)
        group.take(assignment, names)
        active, copies = Counter[tuple[str, int]](), Counter[tuple[str, int, str]]()
        for name, tasks in assignment.items():
            for kind in (tasks.active, tasks.standby):
                copies.update(
                    (one, partition, spec.members[name].process_id)
                    for one, partitions in kind.items()
                    for partition in partitions
                )
            active.update((one, each) for one, had in tasks.active.items() for each in had)
        assert set(copies.values()) <= {1}
        assert active == Counter(
            (one, partition)
            for one, (count, _) in spec.subtopologies.items()
            for partition in range(count)
        )
        process_count = len({member.process_id for member in spec.members.values()})
        replicas = min(spec.standby_replicas + 1, process_count)
        assert copies.total() == sum(
            count * (replicas if is_stateful else 1)
            for count, is_stateful in spec.subtopologies.values()
        )
