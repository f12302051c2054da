"""Deliberate bugs in streams groups, which the simulation of streams groups has to see."""

from __future__ import annotations

from tests.sim.bug import Bug

WORLD = "tests.sim --kind streams"


def _bug(name: str, module: str, fragment: str, replacement: str, *, is_quick: bool = False) -> Bug:
    return Bug(name, f"core.groups.{module}", fragment, replacement, is_quick, WORLD)


STREAMS_BUGS = [
    _bug(
        "a task that runs elsewhere is given away",
        "streams.reconcile",
        "        return self.holders.runner(subtopology_id, partition) is not None or self",
        "        return self",
        is_quick=True,
    ),
    _bug(
        "a task is opened beside its copy",
        "streams.reconcile",
        " is not None or self._is_copied(\n"
        "            (assigned.standby, assigned.warmup), subtopology_id, partition\n        )",
        " is not None",
    ),
    _bug(
        "a copy is opened beside its task",
        "streams.reconcile",
        "            return partition not in assigned.active.get(subtopology_id, ())\n",
        "            return False\n",
    ),
    _bug(
        "a thread moves on before it has closed its tasks",
        "streams.reconcile",
        "            if self._still_has(current.revoking):\n                return current\n",
        "",
        is_quick=True,
    ),
    _bug(
        "a thread that waits for a task counts as stable",
        "streams.reconcile",
        "StreamsMemberState.UNRELEASED_TASKS if is_waiting else StreamsMemberState.STABLE",
        "StreamsMemberState.STABLE",
    ),
    _bug(
        "new tasks are not told",
        "streams.plan",
        "if self._is_joining or moved.assigned != current.assigned:",
        "if self._is_joining:",
    ),
    _bug(
        "any epoch of the past of a thread is accepted",
        "modern.members",
        "if received == epoch or (is_lost_answer and not is_larger):",
        "if not is_larger:",
    ),
    _bug(
        "the tasks of a member that goes stay taken",
        "streams.streams_group",
        "            self.holders.remove(member.process_id, current.assigned)\n",
        "            if len(self.members) > 2:\n"
        "                self.holders.remove(member.process_id, current.assigned)\n",
    ),
    _bug(
        "a streams group that has lost its last thread waits for an assignment",
        "streams.streams_group",
        "        if self.member_count == 1:\n",
        "        if self.member_count == 0:\n",
    ),
    _bug(
        "a thread whose record could not be written never goes",
        "streams.timers",
        "effects.write(group.removal(timer.member_id), retried(group, timer))",
        "effects.write(group.removal(timer.member_id))",
    ),
    _bug(
        "nobody waits for tasks to be closed",
        "streams.timers",
        "if group.current(member_id).state is not StreamsMemberState.UNREVOKED_TASKS:",
        "if group.current(member_id).state is not StreamsMemberState.UNKNOWN:",
    ),
    _bug(
        "a change of the topics of an application goes unseen",
        "streams.plan",
        "if configured is not None and revision == group.hashed_revision:",
        "if configured is not None:",
    ),
]
