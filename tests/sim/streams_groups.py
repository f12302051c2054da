"""A simulated life of one streams group (KIP-1071): threads of a few processes, tasks, topics.

Laws: a task is active in one member at a time, and no process has a standby of a task that it runs;
a client counts as its own only tasks that the broker also counts as its own; a task that other
members wait for becomes free only after its owner has given it up; epochs never fall; every request
gets one response, with the right error; a replay of the log gives the group. In the end, when all
clients behave, every task runs, with the configured number of standbys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

from coordinator_server.core.groups.group import Group
from coordinator_server.core.groups.settings import GroupSettings
from coordinator_server.core.groups.streams.member import CurrentTasks
from coordinator_server.core.groups.streams.state import StreamsGroupState, StreamsMemberState
from coordinator_server.core.groups.streams.streams_group import StreamsGroup
from protocol.apis.streams_group_describe import StreamsGroupDescribeRequest
from protocol.apis.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsTaskIds,
    StreamsTopology,
)
from protocol.errors import ErrorCode
from tests.harness.one_group import GROUP, Answer
from tests.harness.topologies import subtopology, topology
from tests.sim.group_world import RETRY_ERRORS, SHOWN_ERRORS, EpochMember, GroupWorld, play

E = ErrorCode
TOPICS = {"one": 1, "two": 2, "three": 4}
SESSION_MS = 10_000
STEPS = 400
TOPOLOGIES = [
    topology(subtopology("0", "three")),
    topology(subtopology("0", "three", changelogs=["store"]), subtopology("1", "one")),
    topology(
        subtopology("0", "two", sinks=["again"]),
        subtopology("1", repartitions=["again"], changelogs=["counts"]),
    ),
]

Task = tuple[str, int]
"""Subtopology and partition."""


def _settings(rng: Random) -> GroupSettings:
    return GroupSettings(
        initial_rebalance_delay_ms=0,
        streams_session_timeout_ms=SESSION_MS,
        streams_initial_rebalance_delay_ms=rng.choice([0, 0, 3_000]),
        streams_assignment_interval_ms=rng.choice([0, 0, 1_000, 5_000]),
        streams_num_standby_replicas=rng.choice([0, 1, 1]),
        streams_max_size=rng.choice([3, 100, 100]),
    )


def _places(listed: list[StreamsTaskIds]) -> set[Task]:
    return {(one.subtopology_id, partition) for one in listed for partition in one.partitions}


def _listed(tasks: set[Task]) -> list[StreamsTaskIds]:
    by_subtopology: dict[str, list[int]] = {}
    for subtopology_id, partition in sorted(tasks):
        by_subtopology.setdefault(subtopology_id, []).append(partition)
    return [
        StreamsTaskIds(subtopology_id=one, partitions=partitions)
        for one, partitions in by_subtopology.items()
    ]


def _tasks(by_subtopology: Any) -> set[Task]:
    return {(one, partition) for one, parts in by_subtopology.items() for partition in parts}


class Thread(EpochMember):
    """One thread of a process: closes tasks, reports this, and then opens new tasks."""

    revoke_rate = 0.7
    world: StreamsWorld

    def __init__(self, world: StreamsWorld, name: str) -> None:
        super().__init__(world, name)
        self.process = f"p{self.rng.choice([0, 0, 0, 1, 1, 2])}"
        self.rebalance_ms = self.rng.choice([5_000, 10_000, 30_000])
        self.crash()

    def abandon(self) -> None:
        """Close every task and rejoin."""
        self.epoch = 0
        self.active: set[Task] = set()
        self.standby: set[Task] = set()
        self.target_active: set[Task] = set()
        self.target_standby: set[Task] = set()
        self.reported: tuple[set[Task], set[Task]] | None = None
        self.is_unsure = self.has_missed = False

    def act(self) -> None:
        """Join, reconcile, or leave."""
        if self.epoch == 0:
            self.join()
            return
        closes = self.active - self.target_active or self.standby - self.target_standby
        if closes and self.rng.random() < self.revoke_rate:
            self.active &= self.target_active
            self.standby &= self.target_standby
        if self.active <= self.target_active and self.standby <= self.target_standby:
            self.active, self.standby = set(self.target_active), set(self.target_standby)
        if self.patience < 1.0 and self.rng.random() < 0.04:
            self.leave()
        else:
            self.beat()

    def join(self) -> None:
        """Send a heartbeat with every field."""
        self.send(
            0,
            rebalance_timeout_ms=self.rebalance_ms,
            topology=self.world.topology,
            process_id=self.process,
            client_tags=[],
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
        )

    def beat(self) -> None:
        """Send a heartbeat, with the tasks if they have changed."""
        fields: dict[str, Any] = {}
        owned = set(self.active), set(self.standby)
        if self.is_unsure or owned != self.reported:
            fields = {
                "active_tasks": _listed(self.active),
                "standby_tasks": _listed(self.standby),
                "warmup_tasks": [],
            }
            self.reported = owned
        self.send(self.epoch, **fields)

    def leave(self) -> None:
        """Close every task and leave."""
        self.active, self.standby = set(), set()
        self.send(-1)

    def send(self, epoch: int, **fields: Any) -> None:
        """Send a heartbeat with the given epoch."""
        request = StreamsGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=epoch, **fields
        )
        self.ask(request, 0)

    def take(self, request: Any, response: Any) -> None:
        """Update the state of the client from a response."""
        error = E(response.error_code)
        if request.member_epoch < 0:
            self.crash()
        elif error is E.NONE:
            self.is_unsure = False
            self.epoch = response.member_epoch
            if response.active_tasks is not None:
                self.target_active = _places(response.active_tasks)
                self.target_standby = _places(response.standby_tasks)
        elif error in RETRY_ERRORS:
            self.is_unsure = True
        else:
            self.abandon()

    def hear_nothing(self, request: Any) -> None:
        """Send every field again; as in Kafka, the broker does not repeat the assignment."""
        self.is_unsure = self.has_missed = True
        if request.member_epoch < 0:
            self.crash()

    def calm_down(self) -> None:
        """From now on reconcile at once; a client that may have missed its assignment rejoins."""
        super().calm_down()
        self.revoke_rate = 1.0
        if self.has_missed or self.is_unheard:
            self.crash()


class SlowToClose(Thread):
    """Closes tasks so late that its rebalance timeout often expires."""

    revoke_rate = 0.05


class Lagging(Thread):
    """Acts so rarely that its session often expires."""

    patience = 0.1


class Crashing(Thread):
    """Sometimes dies and is replaced by a new process."""

    crash_rate = 0.04


class Hostile(Thread):
    """Sends the ids of other members at odd epochs.

    A hostile client never claims that another member has closed a task: the broker could not tell
    this from the truth.
    """

    def act(self) -> None:
        """Send a false heartbeat, or act as before."""
        if self.patience == 1.0 or self.rng.random() < 0.5:
            super().act()
            return
        known = self.world.epoch
        self.lie(StreamsGroup, [-1, 1, 2, 3, known or 1, known + 1])


KINDS: list[type[Thread]] = [Thread, Thread, SlowToClose, Lagging, Crashing, Hostile]


class Expected(NamedTuple):
    """The expected error of a heartbeat, and the previous tasks of its member."""

    errors: set[ErrorCode]
    before: object = None


class Closing(NamedTuple):
    """A member with tasks to close, and its deadline."""

    current: CurrentTasks
    ends_ms: int


class StreamsWorld(GroupWorld):
    """The world of one seed: a streams group, its threads and its broker."""

    topics_grow = False  # a real application would need a reset after its topics grew

    def __init__(self, seed: int, trace: Callable[[str], None] | None = None) -> None:
        super().__init__(seed, trace, _settings, TOPICS)
        self.topology: StreamsTopology = self.rng.choice(TOPOLOGIES)
        self.clients = [
            self.rng.choice(KINDS)(self, f"c{number}")
            for number in range(self.rng.choice([1, 2, 3, 4, 5, 6]))
        ]
        self.last_heard_ms: dict[str, int] = {}
        self.closing: dict[str, Closing] = {}
        self.before: set[str] = set()
        self.may_go: set[str] = set()

    def _threads(self) -> Iterator[Thread]:
        for client in self.clients:
            assert isinstance(client, Thread)
            yield client

    # Requests and responses

    def expect(self, answer: Answer, group: Group | None) -> Expected | None:
        """Return the expected error, by the rules of KIP-1071."""
        request = answer.request
        if not isinstance(request, StreamsGroupHeartbeatRequest):
            return None
        epoch, member_id = request.member_epoch, request.member_id
        if not isinstance(group, StreamsGroup):
            return Expected({E.NONE} if epoch == 0 else {E.GROUP_ID_NOT_FOUND})
        current = group.current(member_id)
        error = E.NONE
        if epoch == 0:
            is_full = len(group.members) >= group.settings.streams_max_size
            if is_full and member_id not in group.members:
                error = E.GROUP_MAX_SIZE_REACHED
        elif member_id not in group.members:
            error = E.UNKNOWN_MEMBER_ID
        elif epoch < 0:
            self.may_go.add(member_id)
        elif epoch != current.epoch and not self._has_missed(current, request):
            error = E.FENCED_MEMBER_EPOCH
        # The client may report a task of a topic that was recreated with fewer partitions.
        errors = {error, E.INVALID_REQUEST} if request.active_tasks and not error else {error}
        return Expected(errors, current.assigned)

    @staticmethod
    def _has_missed(current: CurrentTasks, request: StreamsGroupHeartbeatRequest) -> bool:
        """Return whether the member missed its epoch and has no tasks outside its assignment."""
        active, standby = request.active_tasks, request.standby_tasks
        if active is None or standby is None or request.member_epoch != current.previous_epoch:
            return False
        assigned = current.assigned
        if current.epoch < request.member_epoch:
            return False
        has_no_other = _places(active) <= _tasks(assigned.active)
        return has_no_other and _places(standby) <= _tasks(assigned.standby)

    def compare(self, answer: Answer) -> None:
        """Check the error and the assignment in the response."""
        expected: Expected = answer.note
        response: Any = answer.response
        error = E(response.error_code)
        if self.has_failed and error in SHOWN_ERRORS:
            return
        assert error in expected.errors, f"{error.name}, not {expected.errors}"
        request, group = answer.request, self.broker.any_group
        assert isinstance(request, StreamsGroupHeartbeatRequest)
        if error or request.member_epoch < 0 or not isinstance(group, StreamsGroup):
            return
        self.last_heard_ms[response.member_id] = self.broker.now_ms
        current = group.currents[response.member_id]
        assert response.member_epoch == current.epoch, "another epoch than the member's"
        if response.active_tasks is None:
            assert current.assigned == expected.before, "a member is not told what it has got"
            return
        for client in self._threads():
            if client.member_id == response.member_id and client.waiting is not answer:
                client.has_missed = True  # another client used this member id and got the response
        told = _places(response.active_tasks), _places(response.standby_tasks)
        assigned = _tasks(current.assigned.active), _tasks(current.assigned.standby)
        assert told == assigned, f"told {told}, assigned {assigned}"

    def administrate(self) -> None:
        """Describe or delete the group."""
        if self.rng.random() < 0.5:
            self.delete_group()
            return
        group = self.broker.any_group
        described = self.broker.send(
            StreamsGroupDescribeRequest(group_ids=[GROUP]), 0
        ).response.groups[0]
        if isinstance(group, StreamsGroup):
            assert described.group_state == group.state.value, "StreamsGroupDescribe"
            assert len(described.members) == len(group.members), "StreamsGroupDescribe"

    def forget(self) -> None:
        """Restart all sessions, because the broker has loaded the group again."""
        group = self.broker.any_group
        members = group.members if isinstance(group, StreamsGroup) else ()
        self.last_heard_ms = dict.fromkeys(members, self.broker.now_ms)
        self.before, self.closing = set(members), {}

    # Invariants

    def epoch_of(self, group: StreamsGroup) -> int:
        """Return the epoch of the group."""
        return group.epoch

    def check_members(self, group: StreamsGroup) -> None:
        """Check the laws of tasks, epochs and sessions."""
        self._check_tasks(group)
        self._check_clients(group)
        self._check_sessions(group)
        for current in group.currents.values():
            assert current.epoch <= group.assignment_epoch <= group.epoch, "an epoch too high"
        if not group.members:
            assert group.assignment_epoch == group.epoch, "an empty group has something to assign"

    def _check_tasks(self, group: StreamsGroup) -> None:
        runners: dict[Task, str] = {}
        copies: dict[tuple[str, Task], str] = {}
        for member_id, current in group.currents.items():
            process = group.members[member_id].process_id
            for tasks in (current.assigned, current.revoking):
                for task in _tasks(tasks.active):
                    runner = runners.setdefault(task, member_id)
                    assert runner == member_id, f"{task} runs in {runner} and {member_id}"
                for task in _tasks(tasks.standby):
                    assert (process, task) not in copies, f"two copies of {task} in {process}"
                    copies[process, task] = member_id
        for task, member_id in runners.items():
            process = group.members[member_id].process_id
            keeper = copies.get((process, task), member_id)
            assert keeper == member_id, f"{task} runs beside its copy"
            if (process, task) in copies:
                revoking = group.currents[member_id].revoking
                assert task in _tasks(revoking.active), f"{task} runs beside a copy of its member"
        targets: set[Task] = set()
        for target in group.targets.values():
            places = _tasks(target.active)
            assert not places & targets, "a task is in two targets"
            targets |= places

    def _check_clients(self, group: StreamsGroup) -> None:
        """Check that the broker records all active tasks that a client runs.

        Clients whose epoch is neither the current nor the previous epoch are not checked.
        """
        for client in self._threads():
            current = group.currents.get(client.member_id)
            if current is None or client.epoch not in (current.epoch, current.previous_epoch):
                continue
            if client.epoch > 0:
                held = _tasks(current.assigned.active) | _tasks(current.revoking.active)
                assert client.active <= held, f"{client.name} runs {client.active - held}"

    def _check_sessions(self, group: StreamsGroup) -> None:
        """Check that members are removed at their session's end, and earlier only for a reason."""
        now_ms = self.broker.now_ms
        for member_id in group.members:
            heard_ms = self.last_heard_ms.setdefault(member_id, now_ms)
            is_over = now_ms >= heard_ms + SESSION_MS
            assert not is_over or self.may_be_late, f"{member_id} stays"
        for member_id in self.before - group.members.keys() - self.may_go:
            closing = self.closing.get(member_id)
            is_silent = now_ms >= self.last_heard_ms.get(member_id, now_ms) + SESSION_MS
            is_slow = closing is not None and now_ms >= closing.ends_ms
            assert is_silent or is_slow, f"{member_id} goes"
        self.before, self.may_go = set(group.members), set()
        closings: dict[str, Closing] = {}
        for member_id, current in group.currents.items():
            if current.state is not StreamsMemberState.UNREVOKED_TASKS:
                continue
            closing = self.closing.get(member_id)
            if closing is None or closing.current != current:
                timeout_ms = group.members[member_id].rebalance_timeout_ms
                closing = Closing(current, now_ms + timeout_ms)
            closings[member_id] = closing
            is_over = now_ms >= closing.ends_ms
            assert not is_over or self.may_be_late, f"{member_id} does not give up"
        self.closing = closings

    def check(self) -> None:
        """Check every invariant; forget the former members if the group has changed its kind."""
        super().check()
        if not isinstance(self.broker.any_group, StreamsGroup):
            self.before = set()

    def heal(self) -> None:
        """Stop the faults; restore all topics; keep as many members as the group has room for."""
        super().heal()
        for name, count in TOPICS.items():
            if name not in self.broker.topics.counts:
                self.create_topic(name, max(count, self.most_partitions[name]))
        self.clients = self.clients[: self.broker.settings.streams_max_size]

    def check_end(self) -> None:
        """Check that every task runs, its thread knows it, and the number of standbys is right."""
        group = self.broker.any_group
        assert isinstance(group, StreamsGroup), f"{group!r} is no streams group"
        assert group.state is StreamsGroupState.STABLE, f"{group!r} does not come to rest"
        assert len(group.members) == len(self.clients), f"{group!r} has other members"
        runs: set[Task] = set()
        copies: set[Task] = set()
        for client in self._threads():
            current = group.currents[client.member_id]
            assert client.active == _tasks(current.assigned.active), f"{client.name} runs others"
            assert client.standby == _tasks(current.assigned.standby), f"{client.name} has others"
            runs |= client.active
            copies |= client.standby
        counts = self.broker.topics.counts
        for one in self.topology.subtopologies:
            sources = [*one.source_topics, *(each.name for each in one.repartition_source_topics)]
            tasks = {
                (one.subtopology_id, partition)
                for partition in range(max(counts[name] for name in sources))
            }
            assert tasks <= runs, f"nobody runs {tasks - runs}"
            processes = {client.process for client in self._threads()}
            if one.state_changelog_topics and group.settings.streams_num_standby_replicas:
                assert len(processes) < 2 or tasks <= copies, f"no copy of {tasks - copies}"


def run(seed: int, steps: int = STEPS, trace: Callable[[str], None] | None = None) -> StreamsWorld:
    """Play one seed and return its world. Raises AssertionError for a violated invariant."""
    return play(StreamsWorld, "streams", seed, steps, trace)
