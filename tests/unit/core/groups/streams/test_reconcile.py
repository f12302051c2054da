"""Reconciliation of tasks: revocations first, then free tasks, then standby tasks."""

from __future__ import annotations

import pytest

from coordinator_server.core.groups.streams.assignors.spec import MemberTasks
from coordinator_server.core.groups.streams.member import CurrentTasks
from coordinator_server.core.groups.streams.reconcile import (
    TaskReconciliation,
    TaskTarget,
    UnknownTaskStateError,
)
from coordinator_server.core.groups.streams.state import StreamsMemberState
from coordinator_server.core.groups.streams.streams_group import Holders
from coordinator_server.core.groups.streams.tasks import OwnedTasks
from protocol.errors import ErrorCode
from protocol.streams_group_records import (
    CurrentTaskIds,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
)
from tests.harness.one_group import GROUP
from tests.harness.topologies import subtopology, topology
from tests.unit.core.groups.streams.context import (
    StreamsContext,
)

STATEFUL = topology(subtopology("0", "two", changelogs=["changelog"]))
STABLE, UNREVOKED, UNRELEASED, UNKNOWN = StreamsMemberState


def two(*partitions: int) -> dict[str, frozenset[int]]:
    """Return tasks of one subtopology."""
    return {"0": frozenset(partitions)} if partitions else {}


def at(epoch: int, *partitions: int) -> dict[str, dict[int, int]]:
    """Return active tasks of one subtopology, assigned at an epoch."""
    return {"0": dict.fromkeys(partitions, epoch)} if partitions else {}


def step(
    current: CurrentTasks,
    target: MemberTasks,
    listed: MemberTasks | None = None,
    *,
    epoch: int = 9,
    others: tuple[tuple[str, OwnedTasks], ...] = (),
) -> CurrentTasks:
    """Return the next state of a member of process p."""
    holders = Holders()
    holders.add("p", current.assigned)
    holders.add("p", current.revoking)
    for process_id, tasks in others:
        holders.add(process_id, tasks)
    return TaskReconciliation("p", current, TaskTarget(epoch, target), holders, listed).next()


def test_standby_tasks_go_to_other_processes() -> None:
    """Standby tasks go to other processes; a change of the group's config raises the epoch."""
    context = StreamsContext({"two": 2, "changelog": 2})
    first, second = context.member("a", STATEFUL), context.member("b", STATEFUL)
    context.joined(first, second)
    assert (first.count, second.count, first.standby, second.standby) == (1, 1, {}, {})
    epoch = context.group.epoch
    context.broker.configs["streams.num.standby.replicas"] = "1"
    context.reconcile(first, second)
    assert context.group.epoch == epoch + 1
    assert first.active == {"0": [0]}
    assert first.standby == second.active == {"0": [1]}
    assert second.standby == first.active
    assert context.group.assignment_configs == {"num.standby.replicas": "1"}
    context.check()
    context.broker.crash()
    assert context.group.assignment_configs == {"num.standby.replicas": "1"}
    assert context.group.holders.has_copy("process-a", "0", 1)


def test_a_copy_gives_way_to_the_task() -> None:
    """When the owner of a task is gone, the member with its standby task runs it."""
    context = StreamsContext({"two": 2, "changelog": 2}, streams_num_standby_replicas=1)
    first, second = context.member("a", STATEFUL), context.member("b", STATEFUL)
    context.joined(first, second)
    first.leave()
    second.own()
    context.reconcile(second)
    assert (second.active, second.standby) == ({"0": [0, 1]}, {})
    context.check()


def test_threads_of_one_process() -> None:
    """Threads of one process have no standby tasks of each other."""
    context = StreamsContext({"two": 2, "changelog": 2}, streams_num_standby_replicas=1)
    first = context.member("a", STATEFUL, process="p")
    second = context.member("b", STATEFUL, process="p")
    context.joined(first, second)
    assert (first.count, second.count, first.standby, second.standby) == (1, 1, {}, {})


def test_a_process_takes_its_tasks_along() -> None:
    """When a member names another process, its tasks belong to the new process."""
    context = StreamsContext()
    member = context.member("m")
    context.joined(member)
    member.own(process_id="q")
    assert context.group.holders.runner("0", 2) == "q"
    context.check()


def test_what_is_not_said_is_not_given_up() -> None:
    """A heartbeat that lists no tasks releases no task."""
    context = StreamsContext()
    first, second = context.member("a"), context.member("b")
    context.joined(first)
    second.join()
    first.beat()
    assert first.active == {"0": [0, 1]}
    for _ in range(2):
        assert first.beat() is ErrorCode.NONE
        assert first.epoch == 2
    first.own()
    assert first.epoch == 3


def test_tasks_that_stay_at_home() -> None:
    """If a member already owns its target, only its epoch changes."""
    current = CurrentTasks(3, 2, STABLE, OwnedTasks(at(3, 0, 1)))
    moved = step(current, MemberTasks(two(0, 1)))
    assert moved == CurrentTasks(9, 3, STABLE, OwnedTasks(at(3, 0, 1)))


def test_new_tasks_are_as_old_as_the_target() -> None:
    """New tasks have the target's epoch; kept tasks have their earlier epoch (KIP-1251)."""
    current = CurrentTasks(3, 2, STABLE, OwnedTasks(at(3, 0), two(1)))
    moved = step(current, MemberTasks(two(0, 2), two(1, 3), two(4)))
    assert moved.assigned == OwnedTasks({"0": {0: 3, 2: 9}}, two(1, 3), two(4))
    assert (moved.epoch, moved.state) == (9, STABLE)


@pytest.mark.parametrize(
    ("target", "revoking"),
    [
        (MemberTasks({}, two(1), two(2)), OwnedTasks(at(3, 0))),
        (MemberTasks(two(0), {}, two(2)), OwnedTasks({}, two(1))),
        (MemberTasks(two(0), two(1), {}), OwnedTasks({}, {}, two(2))),
    ],
    ids=["active", "standby", "warm-up"],
)
def test_tasks_of_each_kind_are_given_up(target: MemberTasks, revoking: OwnedTasks) -> None:
    """A member stays at its epoch until its heartbeat no longer lists the tasks to revoke.

    This holds for tasks of any kind.
    """
    current = CurrentTasks(3, 2, STABLE, OwnedTasks(at(3, 0), two(1), two(2)))
    moved = step(current, target)
    assert (moved.epoch, moved.previous_epoch, moved.state) == (3, 3, UNREVOKED)
    assert moved.revoking == revoking
    listed = MemberTasks(two(0), two(1), two(2))
    assert step(moved, target) == step(moved, target, listed) == moved
    kept = MemberTasks(two(*moved.assigned.active.get("0", ())), *moved.assigned[1:])
    done = step(moved, target, kept)
    assert (done.epoch, done.state, done.revoking) == (9, STABLE, OwnedTasks())
    assert step(current, target, kept) == done._replace(previous_epoch=3)


def test_more_is_to_be_given_up_than_before() -> None:
    """If a newer target needs further revocations, the member epoch rises by one."""
    current = CurrentTasks(3, 3, UNREVOKED, OwnedTasks(at(3, 0)), OwnedTasks(at(3, 1)))
    moved = step(current, MemberTasks(), MemberTasks(two(0)))
    assert moved == CurrentTasks(4, 3, UNREVOKED, OwnedTasks(), OwnedTasks(at(3, 0)))


@pytest.mark.parametrize(
    ("target", "others"),
    [
        (MemberTasks(two(5)), (("q", OwnedTasks(at(2, 5))),)),
        (MemberTasks(two(5)), (("p", OwnedTasks({}, two(5))),)),
        (MemberTasks({}, two(5)), (("p", OwnedTasks(at(2, 5))),)),
        (MemberTasks({}, two(5)), (("p", OwnedTasks({}, {}, two(5))),)),
        (MemberTasks({}, {}, two(5)), (("p", OwnedTasks({}, two(5))),)),
    ],
    ids=["active", "copied here", "active here", "warming up here", "standby here"],
)
def test_tasks_that_others_have_still_to_give_up(
    target: MemberTasks, others: tuple[tuple[str, OwnedTasks], ...]
) -> None:
    """A member at the target epoch waits for tasks that other members must still revoke."""
    moved = step(CurrentTasks(), target, others=others)
    assert (moved.epoch, moved.state, moved.assigned) == (9, UNRELEASED, OwnedTasks())
    again = step(moved, target, others=others)
    assert again == moved._replace(previous_epoch=9)
    done = step(again, target)
    assert (done.state, done.assigned.is_empty) == (STABLE, False)


@pytest.mark.parametrize(
    ("target", "others"),
    [
        (MemberTasks(two(5)), (("q", OwnedTasks({}, two(5))),)),
        (MemberTasks({}, two(5)), (("q", OwnedTasks(at(2, 5))), ("r", OwnedTasks({}, two(5))))),
    ],
    ids=["copied elsewhere", "active and copied elsewhere"],
)
def test_tasks_that_may_be_in_two_processes(
    target: MemberTasks, others: tuple[tuple[str, OwnedTasks], ...]
) -> None:
    """A task or a standby task does not wait for its standby tasks in other processes."""
    assert step(CurrentTasks(), target, others=others).state is STABLE


def test_a_state_of_a_later_release() -> None:
    """A member in an unknown state must rejoin, unless it has no tasks."""
    current = CurrentTasks(3, 2, UNKNOWN)
    assert StreamsMemberState(77) is UNKNOWN
    for listed in (None, MemberTasks(two(1))):
        with pytest.raises(UnknownTaskStateError):
            step(current, MemberTasks(two(1)), listed)
    moved = step(current, MemberTasks(two(1)), MemberTasks())
    assert moved == CurrentTasks(9, 3, STABLE, OwnedTasks(at(9, 1)))


def test_a_member_in_a_state_of_a_later_release_is_fenced() -> None:
    """A member in an unknown state is fenced with Kafka's text.

    The member's record is read, but without the epochs of tasks.
    """
    context = StreamsContext()
    member = context.member("m")
    context.joined(member)
    tasks = [CurrentTaskIds(subtopology_id="0", partitions=[0, 1, 2])]
    value = StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=2, previous_member_epoch=1, state=42, active_tasks=tasks
    )
    context.group.replay(
        (StreamsGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="m"), value)
    )
    assert context.group.current("m").assigned == OwnedTasks(at(2, 0, 1, 2))
    response = member.own().response
    assert response.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert response.error_message == (
        "The streams group member is in a unknown state. "
        "The member must abandon all its tasks and rejoin."
    )


def test_who_holds_what() -> None:
    """A task that moved to another process stays there when the first process releases it."""
    holders = Holders()
    copies = OwnedTasks({}, two(1), two(1))
    for tasks in (OwnedTasks(at(1, 0)), copies):
        holders.add("p", tasks)
    holders.add("q", OwnedTasks(at(1, 0), two(1)))
    holders.remove("p", OwnedTasks(at(1, 0)))
    assert (holders.runner("0", 0), holders.runner("1", 0)) == ("q", None)
    holders.remove("p", OwnedTasks({}, two(1)))
    assert holders.has_copy("p", "0", 1)
    holders.remove("p", OwnedTasks({}, two(1)))
    assert not holders.has_copy("p", "0", 1)
    assert holders.has_copy("q", "0", 1)
    holders.remove("q", OwnedTasks(at(1, 0), two(1)))
    assert not holders.has_copy("q", "0", 1)
    assert holders.runner("0", 0) is None


def test_a_task_becomes_a_copy_at_once() -> None:
    """A member gets a standby task at once, while it still revokes the same active task."""
    current = CurrentTasks(epoch=8, assigned=OwnedTasks(at(8, 0, 1)))
    target = MemberTasks(two(0), two(1))
    moved = step(current, target)
    assert moved.state is UNREVOKED
    assert moved.assigned == OwnedTasks(at(8, 0), two(1))
    assert moved.revoking == OwnedTasks(at(8, 1))
    done = step(moved, target, MemberTasks(two(0), two(1)))
    assert (done.state, done.epoch) == (STABLE, 9)
    assert done.assigned == OwnedTasks(at(8, 0), two(1))


def test_a_copy_is_kept_until_the_task_is_granted() -> None:
    """A standby task is kept until its member gets the active task from the previous owner."""
    current = CurrentTasks(epoch=8, assigned=OwnedTasks({}, two(1)))
    target = MemberTasks(two(1))
    waits = step(current, target, others=(("q", OwnedTasks(at(8, 1))),))
    assert (waits.state, waits.assigned) == (UNRELEASED, OwnedTasks({}, two(1)))
    assert waits.revoking.is_empty
    runs = step(waits, target)
    assert (runs.state, runs.assigned) == (STABLE, OwnedTasks(at(9, 1)))


def test_a_copy_is_kept_while_others_are_given_up() -> None:
    """Standby tasks stay while other tasks are revoked; new tasks come afterwards."""
    current = CurrentTasks(epoch=8, assigned=OwnedTasks({}, two(1, 2)))
    target = MemberTasks(two(1))
    moved = step(current, target)
    assert (moved.state, moved.assigned) == (UNREVOKED, OwnedTasks({}, two(1)))
    assert moved.revoking == OwnedTasks({}, two(2))
    done = step(moved, target, MemberTasks({}, two(1)))
    assert (done.state, done.assigned) == (STABLE, OwnedTasks(at(9, 1)))


def test_copies_change_their_kind_in_one_step() -> None:
    """A warm-up task can become a standby task in one step, and vice versa."""
    current = CurrentTasks(epoch=8, assigned=OwnedTasks({}, two(0), two(1)))
    target = MemberTasks({}, two(1), two(0))
    moved = step(current, target)
    assert (moved.state, moved.assigned) == (STABLE, OwnedTasks({}, two(1), two(0)))


def test_a_copy_of_another_member_of_the_process_is_waited_for() -> None:
    """A member waits for a standby task of another member of its process.

    A process cannot have a task twice.
    """
    for owned in (OwnedTasks(at(8, 1)), OwnedTasks({}, two(1)), OwnedTasks({}, {}, two(1))):
        for wanted in (MemberTasks(two(1)), MemberTasks({}, two(1)), MemberTasks({}, {}, two(1))):
            waits = step(CurrentTasks(epoch=8), wanted, others=(("p", owned),))
            assert (waits.state, waits.assigned.is_empty) == (UNRELEASED, True)
