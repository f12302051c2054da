"""One group behind the real handlers, coordinator and task, without an event loop.

Requests go through the API handlers, `GroupCoordinator.submit` and the group's task; only the
clock, the log of the partition and the topics are simulated. Unit tests and the simulation drive
this broker: time stands still until `advance`, and the callbacks of the event loop run before a
call returns.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from coordinator_server.apis.handlers import handler_of
from coordinator_server.clock.step_runner import StepRunner
from coordinator_server.config.config import Config
from coordinator_server.coordinator.fan_in import Part
from coordinator_server.coordinator.group_coordinator import LOAD_FINISHED, GroupCoordinator
from coordinator_server.coordinator.offsets_partition import OffsetsPartition
from coordinator_server.coordinator.operations import EXPIRE_TIMERS, GroupOperation, PendingRequest
from coordinator_server.coordinator.task import GroupTask, TaskContext
from coordinator_server.core.caller import Caller
from coordinator_server.core.groups.classic.metadata import GroupMetadata
from coordinator_server.core.groups.classic.state import EMPTY, STABLE, GroupState
from coordinator_server.core.groups.effects import Effects, ProducerIdAndEpoch, Reply, Response
from coordinator_server.core.groups.explain import Rebalance
from coordinator_server.core.groups.group import Group
from coordinator_server.core.groups.kinds import in_place_of
from coordinator_server.core.groups.offsets import CommittedOffset, CommittedOffsets
from coordinator_server.core.groups.purgatory import Purgatory
from coordinator_server.core.groups.records import (
    CoordinatorRecord,
    CoordinatorRecords,
    encode_record,
)
from coordinator_server.core.groups.settings import GroupEnvironment, GroupKind, GroupSettings
from coordinator_server.runtime.partition import PartitionState
from coordinator_server.security.rights import UNRESTRICTED
from coordinator_server.steps import Steps
from coordinator_server.topics.creation_errors import CreationErrors
from coordinator_server.topics.names import OFFSETS_TOPIC
from protocol.apis.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from protocol.apis.describe_groups import DescribeGroupsRequest
from protocol.errors import ErrorCode
from protocol.offsets_log import (
    GroupMetadataValue,
    UnknownKey,
    decode_key,
    decode_value,
)
from protocol.registry import SPECS
from protocol.schema import Message
from storage.errors import StorageError
from tests.harness.simulated_persister import SimulatedPersister

GROUP = "g"
TOPICS = {"one": 1, "three": 3, "many": 100}
_NODE_ID = 1
_SPECS = {spec.request_type: spec for spec in SPECS}


class KilledError(BaseException):
    """The process dies after an append: appended records stay in the log, and no response is sent.

    This is a BaseException, so that no error boundary for bugs catches it.
    """


class ViolationError(BaseException):
    """An invariant is violated while the group's task runs.

    This is a BaseException, so that no error boundary for bugs catches it.
    """


class Answer:
    """The call of one request: receives the response, and fails on a second response.

    `on_answer` is called once the response has arrived; `note` is free for the `Watcher` to use.
    """

    connection = None

    def __init__(
        self,
        request: Message,
        on_answer: Callable[[Answer], None] | None = None,
        caller: Caller | None = None,
    ) -> None:
        self.request = request
        self.caller = caller or Caller("client", "/127.0.0.1", 0)
        self.note: Any = None
        self.response: Any = None
        self.lost = False
        self.failed = False
        self.is_large = False
        self.rights = UNRESTRICTED
        self.on_answer = on_answer
        self.arrived: Callable[[Answer], None] | None = None

    @property
    def api_name(self) -> str:
        """Return a fixed API name, like `Call.api_name`."""
        return "StreamsGroupHeartbeat"

    @property
    def api_version(self) -> int:
        """The version of the request."""
        return self.caller.api_version

    @property
    def client_id(self) -> str | None:
        """The client id of the request."""
        return self.caller.client_id

    @property
    def answered(self) -> bool:
        """Return whether the request got a response or failed."""
        return self.response is not None or self.failed

    def may_change_partitions(self, count: int) -> bool:
        """Return True: no quota applies."""
        return True

    def run(self, steps: Steps) -> None:
        """Run all the steps of the request without a pause."""
        for _ in steps:
            pass

    def reply(self, response: Message) -> None:
        """Record the response."""
        assert self.response is None, f"answered twice: {self.request!r} {response!r}"
        assert not self.lost, f"answered after the crash: {self.request!r}"
        self.response = response
        if self.arrived is not None:
            self.arrived(self)
        if self.on_answer is not None:
            self.on_answer(self)

    def fail(self) -> None:
        """Record that a bug prevents the response."""
        self.failed = True

    @property
    def parked(self) -> bool:
        """Return whether the request is still waiting for its response."""
        return not self.answered and not self.lost

    @property
    def error(self) -> ErrorCode:
        """The top-level error of the response; for DeleteGroups, the error of its only group."""
        response = self.response
        if isinstance(response, DeleteGroupsResponse):
            response = response.results[0]
        return ErrorCode(response.error_code)


def answer_of(reply: object) -> Answer:
    """Return the Answer of the request to which a reply belongs.

    The reply can be one part of a request for several groups, or wrap another call.
    """
    call: Any = reply
    while not isinstance(call, Answer):
        call = call.fan_in.call if isinstance(call, Part) else call.call
    return call


class Watcher:
    """Callbacks for each step of the group's task; in this base class they do nothing."""

    def asked(self, answer: Answer, caller: Caller) -> None:
        """Called before a request is handled."""

    def refused(self, answer: Answer, response: Message) -> None:
        """Called when the coordinator answered a request itself, without the group."""

    def handled(self, answer: Answer) -> None:
        """Called when the group has handled a request; its writes are not settled yet."""

    def timers_ran(self) -> None:
        """Called after the delayed operations that were due have run."""

    def appended(self, records: Sequence[CoordinatorRecord], error: ErrorCode) -> None:
        """Called when the log has accepted or refused the records."""

    def settled(self) -> None:
        """Called when all writes of a run of the task are settled, before responses are sent."""

    def moved(self, group: GroupMetadata, source: GroupState, target: GroupState) -> None:
        """Called when the group has changed its state."""

    def loading(self, group: GroupMetadata) -> None:
        """Called when the log has been read, before the group continues from the log."""

    def loaded(self) -> None:
        """Called when the group has finished loading."""


class WatchedGroup(GroupMetadata):
    """A group that reports its transitions."""

    watcher: Watcher

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        """Change the state and report the transition."""
        source = self.state
        super().transition_to(state, now_ms)
        self.watcher.moved(self, source, state)


class WatchedEffects(Effects):
    """Effects that list their replies in `made`, in the order of their creation."""

    __slots__ = ("made",)

    def __init__(self, *, debug: bool) -> None:
        super().__init__(debug=debug)
        self.made: list[tuple[Answer, Any]] = []

    def reply(self, reply: Reply[Response], response: Response) -> None:
        """Answer a request."""
        super().reply(reply, response)
        self.made.append((answer_of(reply), response))


class WatchedTask(GroupTask):
    """A group's task that calls the Watcher after each step."""

    __slots__ = ("broker",)

    def __init__(
        self,
        group: Group,
        partition: OffsetsPartition,
        context: TaskContext,
        broker: OneGroupBroker,
    ) -> None:
        super().__init__(group, partition, context)
        self.broker = broker
        self.effects: WatchedEffects = WatchedEffects(debug=context.log.debug)

    def apply(self, operation: GroupOperation, now_ms: int) -> None:
        """Apply an operation and report the request."""
        with self._watched():
            self._watch(operation, now_ms)

    def _watch(self, operation: GroupOperation, now_ms: int) -> None:
        watcher = self.broker.watcher
        answer = None
        if isinstance(operation, PendingRequest):
            answer = answer_of(operation)
            if answer.note is None:
                watcher.asked(answer, answer.caller)
        elif operation is LOAD_FINISHED and isinstance(self.group, GroupMetadata):
            watcher.loading(self.group)
        super().apply(operation, now_ms)
        if answer is not None:
            watcher.handled(answer)
        elif operation is LOAD_FINISHED:
            watcher.loaded()
        elif operation is EXPIRE_TIMERS:
            watcher.timers_ran()

    def write(self, now_ms: int) -> None:
        """Append and replay records, and report the end of the writes."""
        with self._watched():
            super().write(now_ms)
            if self.broker.task is self:
                self.broker.watcher.settled()
        self.effects.made.clear()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Turn an exception into a violation, so that the task's error boundary ignores it."""
        try:
            yield
        except Exception as error:
            if self.broker.survives_bugs:
                raise
            raise ViolationError(f"{type(error).__name__}: {error}") from error


class SimulatedTimer:
    """A call planned for `due_ms`."""

    def __init__(self, due_ms: int, callback: Callable[[], None]) -> None:
        self.due_ms = due_ms
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Cancel the call."""
        self.callback = None


class SimulatedClock:
    """A BrokerClock that stands still; `turn` runs the callbacks that are due next."""

    def __init__(self, now_ms: int) -> None:
        self.time_ms = now_ms
        self.soon: deque[Callable[[], None]] = deque()
        self.timers: list[SimulatedTimer] = []

    def now_ms(self) -> int:
        """The simulated time."""
        return self.time_ms

    def call_soon(self, callback: Callable[[], None], /) -> object:
        """Schedule the callback for the next `turn`."""
        self.soon.append(callback)
        return None

    def call_later(self, delay: float, callback: Callable[[], None], /) -> SimulatedTimer:
        """Schedule the callback after `delay` seconds of simulated time."""
        timer = SimulatedTimer(self.time_ms + round(delay * 1000), callback)
        self.timers.append(timer)
        return timer

    def call_maintenance(self, delay: float, callback: Callable[[], None], /) -> SimulatedTimer:
        """Ignore the callback: tests expire offsets themselves."""
        return SimulatedTimer(0, callback)

    def next_due_ms(self) -> int | None:
        """Return the time at which the next timer fires, or None."""
        self.timers = [timer for timer in self.timers if timer.callback is not None]
        return min((timer.due_ms for timer in self.timers), default=None)

    def fire(self) -> None:
        """Run the timers that are due, in the order in which they were scheduled."""
        due = [timer for timer in self.timers if timer.due_ms <= self.time_ms]
        for timer in due:
            callback, timer.callback = timer.callback, None
            if callback is not None:
                callback()

    def turn(self) -> None:
        """Run all scheduled callbacks and the callbacks that they schedule."""
        while self.soon:
            self.soon.popleft()()


class SimulatedPartition(OffsetsPartition):
    """A partition whose log is a list of records in memory, with faults on demand."""

    __slots__ = ("broker", "is_flush_due")

    def __init__(self, broker: OneGroupBroker) -> None:
        self.broker = broker
        self.index = 0
        self.state = PartitionState.LOADING
        self.is_flush_due = False

    @property
    def is_blank(self) -> bool:
        """Return whether the log is empty."""
        return not self.broker.log

    def append(
        self, writes: Sequence[CoordinatorRecords], producer: ProducerIdAndEpoch | None = None
    ) -> ErrorCode:
        """Append the records, fail, or die. No simulated client commits in transactions yet."""
        assert producer is None
        records = list(chain.from_iterable(writes))
        broker = self.broker
        error = broker.append_error()
        if broker.batch_limit is not None and len(records) > broker.batch_limit:
            error = ErrorCode.MESSAGE_TOO_LARGE
        if error is ErrorCode.NONE:
            encoded = [encode_record(record) for record in records]
            survivors = broker.survivors(len(encoded))
            broker.log += encoded if survivors is None else encoded[:survivors]
            if survivors is not None:
                raise KilledError
            broker.batches.append(len(records))
        else:
            broker.write_failed = True
        self.is_flush_due = broker.flushes and error is ErrorCode.NONE
        broker.watcher.appended(records, error)
        return error

    @property
    def flush_is_due(self) -> bool:
        """Return whether the last append must be synced before it is acknowledged."""
        return self.is_flush_due

    def when_flushed(self, done: Callable[[StorageError | None], None]) -> None:
        """Call `done` when the broker flushes."""
        self.broker.flushing.append(done)

    def load(self, new_group: Callable[[str], Group], groups: dict[str, Group]) -> Steps:
        """Replay the log into `groups`, like a coordinator that loads the partition."""
        groups[GROUP] = self.reload(new_group(GROUP))
        yield

    def reload(self, group: Group) -> Group:
        """Replay the log into `group`."""
        for record in self.broker.records():
            group = group.replay(record)
        return group

    def save_snapshot(self, groups: object) -> None:
        """Do nothing: a simulated partition keeps no snapshot."""


class SimulatedTopics:
    """The simulated topics; requests need only their ids and partition counts.

    Code that changes `counts` also raises `revision`, and sets `created_revision` for a new topic.
    `configs` holds the configs of created topics.
    """

    broker_ids = frozenset((_NODE_ID,))

    def __init__(self, counts: dict[str, int]) -> None:
        self.counts = counts
        self.racks: dict[int, str] = {}
        self.configs: dict[str, Mapping[str, str]] = {}
        self.revision = self.created_revision = 1
        self.on_deleted: list[Callable[[Any], None]] = []

    def partition_count(self, topic: str) -> int:
        """Return the number of partitions of a topic; 0 if the topic does not exist."""
        return self.counts.get(topic, 0)

    def topic(self, name: str) -> SimulatedTopic | None:
        """Return the topic with this name; its id is derived from the name."""
        count = self.counts.get(name)
        if count is None:
            return None
        return SimulatedTopic(name, topic_id_of(name), _partitions(count))

    def topic_by_id(self, topic_id: bytes) -> SimulatedTopic | None:
        """Return the topic with this id."""
        return self.topic(topic_id.decode(errors="replace").rstrip("-"))

    def listed_topics(self) -> Iterator[SimulatedTopic]:
        """Return every topic."""
        return (topic for name in self.counts if (topic := self.topic(name)) is not None)

    def creation_error(self, name: str) -> tuple[ErrorCode, str] | None:
        """Return the error of creating a topic with this name, or None."""
        if name in self.counts:
            return ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists."
        return None

    def new_topic(
        self, name: str, count: int, configs: Mapping[str, str], factor: int
    ) -> SimulatedTopic:
        """Return a new topic, which does not exist before `add`."""
        return SimulatedTopic(name, b"", _partitions(count), configs)

    def add(self, topics: Iterable[SimulatedTopic]) -> Generator[None, None, dict[str, Any]]:
        """Create topics."""
        for topic in topics:
            self.counts[topic.name] = len(topic.partitions)
            self.configs[topic.name] = topic.configs
            self.revision += 1
            self.created_revision = self.revision
            yield
        return {}


def topic_id_of(name: str) -> bytes:
    """Return the topic id that a topic with this name always gets in the simulation."""
    return name.encode().ljust(16, b"-")


class SimulatedTopicPartition(NamedTuple):
    """A partition without a log."""

    replicas: tuple[int, ...]


def _partitions(count: int) -> tuple[SimulatedTopicPartition, ...]:
    return (SimulatedTopicPartition((_NODE_ID,)),) * count


class SimulatedTopic(NamedTuple):
    """A topic without logs."""

    name: str
    topic_id: bytes
    partitions: tuple[SimulatedTopicPartition, ...]
    configs: Mapping[str, str] = {}


class _DeletedTopic(NamedTuple):
    name: str
    topic_id: bytes


class _OffsetsTopic:
    """An offsets topic of one partition."""

    name = OFFSETS_TOPIC
    index = 0
    leader_id = _NODE_ID

    def __init__(self) -> None:
        self.partitions = (self,)

    def ensure(self) -> ErrorCode:
        """Return NONE: the topic exists."""
        return ErrorCode.NONE

    def partition_of(self, group_id: str) -> _OffsetsTopic:
        """Return the only partition."""
        return self


class _EventLog:
    """The event log of one broker, in memory."""

    def __init__(self, broker: OneGroupBroker) -> None:
        self.broker = broker
        self.debug = True

    def emit(self, event: str, **fields: object) -> None:
        """Record an event; a bug caught at an error boundary is a violation."""
        if fields.get("exc_info") and not self.broker.survives_bugs:
            error = sys.exception()
            raise ViolationError(f"{event}: {error!r}") from error
        self.broker.events.append((event, fields))


class WatchedCoordinator(GroupCoordinator):
    """The coordinator of one simulated broker."""

    def __init__(self, broker: OneGroupBroker) -> None:
        self.broker = broker
        super().__init__(
            broker.environment,
            broker.clock,
            StepRunner(broker.clock),
            cast("Any", broker.topics),
            cast("Any", broker.offsets_topic),
            node_id=_NODE_ID,
            explain=broker.take_account,
            persister=broker.find_persister,
            log=cast("Any", _EventLog(broker)),
        )

    def new_group(self, group_id: str) -> Group:
        """Return a blank group that reports its transitions."""
        group = WatchedGroup(group_id, self.broker.environment)
        group.watcher = self.broker.watcher
        return group

    def take_over(self, partition: object) -> OffsetsPartition:
        """Return the simulated partition."""
        return SimulatedPartition(self.broker)

    def adopt(self, group: Group, partition: OffsetsPartition) -> GroupTask:
        """Create the task of a group, which reports what happens."""
        task = self.tasks[group.group_id] = WatchedTask(group, partition, self, self.broker)
        return task


class OneGroupBroker:
    """One group, driven by a test. Times are in milliseconds; `log` has the bytes of all records.

    With `flushes`, every append is synced before its acknowledgement (`flush.messages=1`); `flush`
    syncs, or fails.
    """

    config = Config()
    security = SimpleNamespace(authorizer=None)

    def __init__(
        self, settings: GroupSettings | None = None, topics: dict[str, int] | None = None
    ) -> None:
        self.settings = settings or GroupSettings(initial_rebalance_delay_ms=0, max_size=4)
        self.clock = SimulatedClock(1_000_000)
        self.topics = SimulatedTopics(TOPICS if topics is None else topics)
        self.configs: dict[str, str] = {}
        """The group's own configs."""
        self.persister = SimulatedPersister()
        self.creation_errors = CreationErrors()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.batches: list[int] = []
        self.events: list[tuple[str, dict[str, object]]] = []
        self.explained: list[Rebalance] = []
        self.append_error: Callable[[], ErrorCode] = _no_error
        self.survivors: Callable[[int], int | None] = _no_kill
        """The number of records of a batch that survive a crash during the append."""
        self.batch_limit: int | None = None
        """The maximum number of records of a batch; a larger batch gets MESSAGE_TOO_LARGE."""
        self.flushes = False
        self.flushing: list[Callable[[StorageError | None], None]] = []
        self.survives_bugs = False
        self.watcher = Watcher()
        self.on_answer: Callable[[Answer], None] | None = None
        self.write_failed = False
        self.answers: list[Answer] = []
        self._ids = 0
        self._batching = False
        self.offsets_topic = _OffsetsTopic()
        self.groups = WatchedCoordinator(self)
        self.groups.start()

    @property
    def environment(self) -> GroupEnvironment:
        """Return the environment of the groups, for a coordinator that starts now."""
        return GroupEnvironment(
            self.settings,
            self.new_member_id,
            self.new_uuid,
            self.in_place_of,
            self.topics,
            self.configs_of,
        )

    @property
    def now_ms(self) -> int:
        """The simulated time."""
        return self.clock.time_ms

    @property
    def task(self) -> WatchedTask | None:
        """The task of the group, or None."""
        return cast("WatchedTask | None", self.groups.tasks.get(GROUP))

    @property
    def group(self) -> GroupMetadata | None:
        """The group, or None; an existing group must be a classic group."""
        group = None if self.task is None else self.task.group
        assert group is None or isinstance(group, GroupMetadata), group
        return group

    @property
    def any_group(self) -> Group | None:
        """The group of any kind, or None."""
        return None if self.task is None else self.task.group

    @property
    def offsets(self) -> dict[str, dict[int, CommittedOffset]]:
        """The committed offsets of the group, which must exist."""
        assert self.group is not None
        return self.group.offsets.by_topic

    @property
    def recorded(self) -> GroupMetadataValue | None:
        """The last GroupMetadata record of the group, which must exist."""
        assert self.group is not None
        return self.group.recorded

    @property
    def is_coordinator(self) -> bool:
        """Return whether this broker coordinates the group; if not, it returns NOT_COORDINATOR."""
        return self.groups.unavailable(GROUP) is ErrorCode.NONE

    # Requests

    def send(
        self,
        request: Message,
        api_version: int,
        client_id: str | None = "client",
        client_host: str = "/127.0.0.1",
        *,
        is_large: bool = False,
    ) -> Answer:
        """Pass a request to the handler of its API, and return the Answer."""
        answer = Answer(request, caller=Caller(client_id, client_host, api_version))
        answer.is_large = is_large
        self.deliver(answer)
        return answer

    def deliver(self, answer: Answer) -> None:
        """Handle a request that was delayed on its way."""
        self.answers.append(answer)
        answer.arrived = self._answered
        if answer.on_answer is None:
            answer.on_answer = self.on_answer
        handle: Any = handler_of(_SPECS[type(answer.request)])
        steps = handle(self, answer, answer.request)
        if steps is not None:
            answer.run(steps)
        self.settle()

    def _answered(self, answer: Answer) -> None:
        if answer.note is None and self.is_coordinator:
            self.watcher.asked(answer, answer.caller)
            self.watcher.refused(answer, answer.response)

    def describe(self, api_version: int = 5) -> Any:
        """Return the group's description in a DescribeGroups response."""
        answer = self.send(DescribeGroupsRequest(groups=[GROUP]), api_version)
        return answer.response.groups[0] if answer.answered else None

    def delete(self) -> Answer:
        """Send DeleteGroups for the group."""
        return self.send(DeleteGroupsRequest(groups_names=[GROUP]), 2)

    def expire_offsets(self) -> None:
        """Run the retention check once."""
        self.groups.expire_offsets()
        self.settle()

    def delete_topics(self, *topics: str) -> None:
        """Delete the committed offsets of the topics; the topics still exist for requests."""
        for listener in tuple(self.topics.on_deleted):
            listener({topic: _DeletedTopic(topic, topic_id_of(topic)) for topic in topics})
        self.settle()

    # Time, drains, crashes

    @contextmanager
    def one_drain(self) -> Iterator[None]:
        """Collect several requests in the mailbox before the task runs."""
        self._batching = True
        try:
            yield
        finally:
            self._batching = False
        self.settle()

    def settle(self) -> None:
        """Run the scheduled callbacks, unless `one_drain` is collecting requests."""
        if not self._batching:
            self.clock.turn()

    def waiting_for_flush(self) -> list[Answer]:
        """The responses that are waiting for a sync."""
        return [
            answer_of(reply)
            for done in self.flushing
            for reply in cast("partial[None]", done).args[0]
        ]

    def flush(self, error: StorageError | None = None) -> None:
        """Sync the appended records, or fail with `error`."""
        flushing, self.flushing = self.flushing, []
        for done in flushing:
            done(error)
        self.settle()

    def advance(self, milliseconds: int) -> None:
        """Advance the time step by step, from timer to timer."""
        end_ms = self.now_ms + milliseconds
        while (due_ms := self.clock.next_due_ms()) is not None and due_ms <= end_ms:
            self.clock.time_ms = max(self.now_ms, due_ms)
            self.clock.fire()
            self.settle()
        self.clock.time_ms = end_ms

    def crash(self) -> None:
        """Kill and restart the broker: parked requests are lost, the group is loaded again."""
        for answer in self.answers:
            answer.lost = answer.lost or answer.parked
        self.clock.soon.clear()
        self.clock.timers.clear()
        self.topics.on_deleted.clear()
        self.flushing.clear()
        self._batching = False
        self.write_failed = False
        self.groups = WatchedCoordinator(self)
        self.groups.start()
        self.settle()

    def load(self) -> None:
        """Become the coordinator again and load the group from its log."""
        self.write_failed = False
        self.groups.immigrate(cast("Any", self.offsets_topic))
        self.settle()

    def unload(self) -> None:
        """Lose the partition: parked and new requests get NOT_COORDINATOR."""
        self.groups.emigrate_all()
        self.settle()

    # The log

    def records(self) -> Iterator[CoordinatorRecord]:
        """Yield the decoded records of the log."""
        for key_bytes, value_bytes in self.log:
            key = decode_key(key_bytes)
            assert not isinstance(key, UnknownKey)
            yield key, decode_value(key, value_bytes)

    def replayed(self) -> Group:
        """Return a group built from the log alone."""
        group = self.groups.new_group(GROUP)
        for record in self.records():
            group = group.replay(record)
        return group

    def check_replay_law(self) -> None:
        """Check that a log replay restores the durable state.

        For a Stable or Empty classic group without failed writes, the replay must also restore all
        recorded fields.
        """
        replayed, group = self.replayed(), self.any_group
        if group is None:
            return
        assert durable_state(replayed) == durable_state(group)
        if not isinstance(group, GroupMetadata):
            return
        assert isinstance(replayed, GroupMetadata)
        at_rest = group.state is STABLE or (group.state is EMPTY and group.generation_id > 0)
        if at_rest and not self.write_failed:
            _, recorded = group.record()
            expected = replayed.recorded
            assert isinstance(recorded, GroupMetadataValue)
            assert expected is not None
            if group.state is STABLE:
                recorded.current_state_timestamp = expected.current_state_timestamp
            assert recorded == expected, f"{recorded} {expected}"

    def event_names(self) -> list[str]:
        """Return the names of all events so far."""
        return [name for name, _ in self.events]

    def take_account(self, _: str, rebalance: Rebalance) -> None:
        """Record the report of a rebalance."""
        self.explained.append(rebalance)

    def in_place_of(self, kind: GroupKind, group: Group) -> Group:
        """Return a new group of this kind to replace `group`; classic groups are WatchedGroups."""
        if kind is not GroupKind.CLASSIC:
            return in_place_of(kind, group)
        blank = self.groups.new_group(group.group_id)
        blank.offsets = group.offsets
        blank.is_new = False
        return blank

    def find_persister(self) -> Any:
        """Return the share coordinator.

        This is a method, because small worlds are copied with all attributes.
        """
        return self.persister

    def configs_of(self, _: str) -> dict[str, str]:
        """Return the configs of the group."""
        return self.configs

    def new_member_id(self, prefix: str) -> str:
        """Return the next member id; ids are counted up."""
        self._ids += 1
        return f"{prefix}-{self._ids}"

    def new_uuid(self) -> str:
        """Return an id for a consumer group member that sends no id."""
        return self.new_member_id("uuid")


def durable_state(group: Group) -> tuple[list[CoordinatorRecord], CommittedOffsets]:
    """Return the durable state of a group: the state that its records determine."""
    return group.state_records(), group.offsets


def blank_group(group_id: str, settings: GroupSettings | None = None) -> GroupMetadata:
    """Return an empty group on a broker without topics."""
    return GroupMetadata(
        group_id, GroupEnvironment(settings or GroupSettings(), str, str, in_place_of)
    )


def next_deadline_ms(purgatory: Purgatory[GroupMetadata]) -> int | None:
    """Return the earliest deadline in the purgatory, or None."""
    deadlines_ms = (operation.deadline_ms for operation in purgatory)
    return min((time_ms for time_ms in deadlines_ms if time_ms is not None), default=None)


def partition_count(topic: str) -> int:
    """Return the number of partitions of a topic; 0 if the topic does not exist."""
    return TOPICS.get(topic, 0)


def _no_error() -> ErrorCode:
    return ErrorCode.NONE


def _no_kill(_: int) -> int | None:
    return None
