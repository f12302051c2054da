"""One group behind the real handlers, coordinator and task, without an event loop.

Requests go through the handlers of the APIs, `GroupCoordinator.submit` and the group's task; only
the clock, the log of the partition and the topics are simulated. Unit tests and the simulation
drive it: time stands still until `advance`, and the turns of the loop run when a call returns.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
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
from coordinator_server.core.groups.effects import (
    Effects,
    ProducerIdAndEpoch,
    Reply,
    Response,
    Steps,
)
from coordinator_server.core.groups.explain import Rebalance
from coordinator_server.core.groups.group import Group
from coordinator_server.core.groups.kinds import in_place_of
from coordinator_server.core.groups.offsets import CommittedOffset, CommittedOffsets
from coordinator_server.core.groups.records import (
    CoordinatorRecord,
    CoordinatorRecords,
    encode_record,
)
from coordinator_server.core.groups.settings import GroupEnvironment, GroupKind, GroupSettings
from coordinator_server.runtime.partition import PartitionState
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
from tests.sim.share_state import SimulatedPersister
from tests.unit.topics.fakes import OpenSecurity

GROUP = "g"
TOPICS = {"one": 1, "three": 3, "many": 100}
_NODE_ID = 1
_SPECS = {spec.request_type: spec for spec in SPECS}


class KilledError(BaseException):
    """The process dies after an append: what of it is in the log stays, no answer is sent.

    No Exception, so that no door for bugs takes it for one.
    """


class ViolationError(BaseException):
    """What must hold does not, seen inside a drain; no Exception, for the same reason."""


class Answer:
    """The call of one request, and where its answer arrives; a second answer is a failure.

    `on_answer` is called when it arrives; `note` is whatever the watcher wants to remember.
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
        self.on_answer = on_answer
        self.arrived: Callable[[Answer], None] | None = None

    @property
    def api_name(self) -> str:
        """As `Call.api_name`."""
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
        """Whether the answer was given."""
        return self.response is not None or self.failed

    def may_change_partitions(self, count: int) -> bool:
        """No quota refuses it."""
        return True

    def run(self, steps: Steps) -> None:
        """Work for the request, all of it at once."""
        for _ in steps:
            pass

    def reply(self, response: Message) -> None:
        """Take the answer."""
        assert self.response is None, f"answered twice: {self.request!r} {response!r}"
        assert not self.lost, f"answered after the crash: {self.request!r}"
        self.response = response
        if self.arrived is not None:
            self.arrived(self)
        if self.on_answer is not None:
            self.on_answer(self)

    def fail(self) -> None:
        """A bug prevents the answer."""
        self.failed = True

    @property
    def parked(self) -> bool:
        """Whether the request still waits."""
        return not self.answered and not self.lost

    @property
    def error(self) -> ErrorCode:
        """The top-level error of the answer; of DeleteGroups that of its one group."""
        response = self.response
        if isinstance(response, DeleteGroupsResponse):
            response = response.results[0]
        return ErrorCode(response.error_code)


def answer_of(reply: object) -> Answer:
    """The call of a reply inside the core: of a request, a part of one, or a merged call."""
    call: Any = reply
    while not isinstance(call, Answer):
        call = call.fan_in.call if isinstance(call, Part) else call.call
    return call


class Watcher:
    """Called for what happens inside a drain, step by step; this one does not care."""

    def asked(self, answer: Answer, caller: Caller) -> None:
        """A request is about to be handled."""

    def refused(self, answer: Answer, response: Message) -> None:
        """It was answered without the group."""

    def handled(self, answer: Answer) -> None:
        """The group has taken it; the writes of the drain are not settled yet."""

    def timers_ran(self) -> None:
        """Delayed operations whose time has come have run."""

    def appended(self, records: Sequence[CoordinatorRecord], error: ErrorCode) -> None:
        """The log has taken the records, or refused them."""

    def settled(self) -> None:
        """All writes of a drain are settled; its answers are about to be sent."""

    def moved(self, group: GroupMetadata, source: GroupState, target: GroupState) -> None:
        """The group is in another state."""

    def loading(self, group: GroupMetadata) -> None:
        """The log has been read; the group is about to continue from it."""

    def loaded(self) -> None:
        """It has."""


class WatchedGroup(GroupMetadata):
    """A group that reports its transitions."""

    watcher: Watcher

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        """Move, and report it."""
        source = self.state
        super().transition_to(state, now_ms)
        self.watcher.moved(self, source, state)


class WatchedEffects(Effects):
    """Effects that list their answers as they are made, in `made`."""

    __slots__ = ("made",)

    def __init__(self, *, debug: bool) -> None:
        super().__init__(debug=debug)
        self.made: list[tuple[Answer, Any]] = []

    def reply(self, reply: Reply[Response], response: Response) -> None:
        """Answer a request."""
        super().reply(reply, response)
        self.made.append((answer_of(reply), response))


class WatchedTask(GroupTask):
    """A task that reports what it does, step by step."""

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
        self._effects: WatchedEffects = WatchedEffects(debug=context.log.debug)

    @property
    def effects(self) -> WatchedEffects:
        """What the heart has asked for so far."""
        return self._effects

    def _apply(self, operation: GroupOperation, now_ms: int) -> None:
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
        super()._apply(operation, now_ms)
        if answer is not None:
            watcher.handled(answer)
        elif operation is LOAD_FINISHED:
            watcher.loaded()
        elif operation is EXPIRE_TIMERS:
            watcher.timers_ran()

    def _write(self, now_ms: int) -> None:
        with self._watched():
            super()._write(now_ms)
            if self.broker.task is self:
                self.broker.watcher.settled()
        self._effects.made.clear()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """A bug or a violation ends the test; the door for bugs does not see it."""
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
        """Forget the call."""
        self.callback = None


class SimulatedClock:
    """A BrokerClock that stands still; `turn` runs what the loop would run next."""

    def __init__(self, now_ms: int) -> None:
        self.time_ms = now_ms
        self.soon: deque[Callable[[], None]] = deque()
        self.timers: list[SimulatedTimer] = []

    def now_ms(self) -> int:
        """The simulated time."""
        return self.time_ms

    def call_soon(self, callback: Callable[[], None], /) -> object:
        """Call in the next `turn`."""
        self.soon.append(callback)
        return None

    def call_later(self, delay: float, callback: Callable[[], None], /) -> SimulatedTimer:
        """Call when so much time has passed."""
        timer = SimulatedTimer(self.time_ms + round(delay * 1000), callback)
        self.timers.append(timer)
        return timer

    def call_maintenance(self, delay: float, callback: Callable[[], None], /) -> SimulatedTimer:
        """Never: a test expires offsets itself."""
        return SimulatedTimer(0, callback)

    def next_due_ms(self) -> int | None:
        """When the next timer fires."""
        self.timers = [timer for timer in self.timers if timer.callback is not None]
        return min((timer.due_ms for timer in self.timers), default=None)

    def fire(self) -> None:
        """Call the timers that are due, in the order in which they were planned."""
        due = [timer for timer in self.timers if timer.due_ms <= self.time_ms]
        for timer in due:
            callback, timer.callback = timer.callback, None
            if callback is not None:
                callback()

    def turn(self) -> None:
        """Run everything that is to run soon, and what follows from it."""
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
        """Whether there is nothing to load."""
        return not self.broker.log

    def append(
        self, writes: Sequence[CoordinatorRecords], producer: ProducerIdAndEpoch | None = None
    ) -> ErrorCode:
        """Append, fail, or die. No simulated client commits in transactions yet."""
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
        """Whether the last append must be synced before it is acknowledged."""
        return self.is_flush_due

    def when_flushed(self, done: Callable[[StorageError | None], None]) -> None:
        """Call `done` when the broker flushes."""
        self.broker.flushing.append(done)

    def load(self, new_group: Callable[[str], Group], groups: dict[str, Group]) -> Steps:
        """Replay the log."""
        groups[GROUP] = self.reload(new_group(GROUP))
        yield

    def reload(self, group: Group) -> Group:
        """Replay the log into `group`."""
        for record in self.broker.records():
            group = group.replay(record)
        return group

    def save_snapshot(self, groups: object) -> None:
        """None: the log is all that is kept."""


class SimulatedTopics:
    """The topics of the broker, of which requests only ask for ids and numbers of partitions.

    Who changes `counts` also raises `revision`, and sets `created_revision` if a topic is new.
    `configs` are those of topics that were created.
    """

    broker_ids = frozenset((_NODE_ID,))

    def __init__(self, counts: dict[str, int]) -> None:
        self.counts = counts
        self.racks: dict[int, str] = {}
        self.configs: dict[str, Mapping[str, str]] = {}
        self.revision = self.created_revision = 1
        self.on_deleted: list[Callable[[Any], None]] = []

    def partition_count(self, topic: str) -> int:
        """Partitions of a topic, 0 if it does not exist."""
        return self.counts.get(topic, 0)

    def topic(self, name: str) -> SimulatedTopic | None:
        """The topic of this name; its id is made from the name."""
        count = self.counts.get(name)
        if count is None:
            return None
        return SimulatedTopic(name, topic_id_of(name), _partitions(count))

    def topic_by_id(self, topic_id: bytes) -> SimulatedTopic | None:
        """The topic of this id."""
        return self.topic(topic_id.decode(errors="replace").rstrip("-"))

    def listed_topics(self) -> Iterator[SimulatedTopic]:
        """Every topic."""
        return (topic for name in self.counts if (topic := self.topic(name)) is not None)

    def creation_error(self, name: str) -> tuple[ErrorCode, str] | None:
        """Why no topic of this name can be created; None when one can."""
        if name in self.counts:
            return ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists."
        return None

    def new_topic(
        self, name: str, count: int, configs: Mapping[str, str], factor: int
    ) -> SimulatedTopic:
        """A topic that does not exist before `add`."""
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
    """The id of the topic of that name, whether it exists or not."""
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
        """It exists."""
        return ErrorCode.NONE

    def partition_of(self, group_id: str) -> _OffsetsTopic:
        """The one partition."""
        return self


class _EventLog:
    """The log of events of one broker, in memory."""

    def __init__(self, broker: OneGroupBroker) -> None:
        self.broker = broker
        self.debug = True

    def emit(self, event: str, **fields: object) -> None:
        """Remember an event; a bug that came to an error boundary is a violation."""
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
        """A blank group that reports its transitions."""
        group = WatchedGroup(group_id, self.broker.environment)
        group.watcher = self.broker.watcher
        return group

    def _take_over(self, _: object) -> OffsetsPartition:
        return SimulatedPartition(self.broker)

    def _adopt(self, group: Group, led: OffsetsPartition) -> GroupTask:
        task = self.tasks[group.group_id] = WatchedTask(group, led, self, self.broker)
        return task


class OneGroupBroker:
    """One group, driven by hand. Time in milliseconds; `log` holds the bytes of all records.

    `flushes` says that every append has to be synced before it is acknowledged
    (`flush.messages=1`); `flush` does that, or fails.
    """

    config = Config()
    security = OpenSecurity()

    def __init__(
        self, settings: GroupSettings | None = None, topics: dict[str, int] | None = None
    ) -> None:
        self.settings = settings or GroupSettings(initial_rebalance_delay_ms=0, max_size=4)
        self.clock = SimulatedClock(1_000_000)
        self.topics = SimulatedTopics(TOPICS if topics is None else topics)
        self.configs: dict[str, str] = {}
        """The configs that the group has of its own."""
        self.persister = SimulatedPersister()
        self.creation_errors = CreationErrors()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.batches: list[int] = []
        self.events: list[tuple[str, dict[str, object]]] = []
        self.explained: list[Rebalance] = []
        self.append_error: Callable[[], ErrorCode] = _no_error
        self.survivors: Callable[[int], int | None] = _no_kill
        """How many records of a batch are in the log after a crash that comes with the append."""
        self.batch_limit: int | None = None
        """How many records a batch may have; more are MESSAGE_TOO_LARGE."""
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
        """What the groups of a coordinator that starts now are made with."""
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
        """The time."""
        return self.clock.time_ms

    @property
    def task(self) -> WatchedTask | None:
        """The task of the group, if it exists."""
        return cast("WatchedTask | None", self.groups.tasks.get(GROUP))

    @property
    def group(self) -> GroupMetadata | None:
        """The group, if it exists; it has to be a classic one."""
        group = None if self.task is None else self.task.group
        assert group is None or isinstance(group, GroupMetadata), group
        return group

    @property
    def any_group(self) -> Group | None:
        """The group of whatever kind, if it exists."""
        return None if self.task is None else self.task.group

    @property
    def offsets(self) -> dict[str, dict[int, CommittedOffset]]:
        """The committed offsets of the group, which exists."""
        assert self.group is not None
        return self.group.offsets.by_topic

    @property
    def recorded(self) -> GroupMetadataValue | None:
        """The last GroupMetadata record of the group, which exists."""
        assert self.group is not None
        return self.group.recorded

    @property
    def is_coordinator(self) -> bool:
        """Whether this broker coordinates the group; else every request is NOT_COORDINATOR."""
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
        """Have the handler of its API serve a request."""
        answer = Answer(request, caller=Caller(client_id, client_host, api_version))
        answer.is_large = is_large
        self.deliver(answer)
        return answer

    def deliver(self, answer: Answer) -> None:
        """Handle a request that has been on its way."""
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
        """The DescribedGroup."""
        answer = self.send(DescribeGroupsRequest(groups=[GROUP]), api_version)
        return answer.response.groups[0] if answer.answered else None

    def delete(self) -> Answer:
        """DeleteGroups of the one group."""
        return self.send(DeleteGroupsRequest(groups_names=[GROUP]), 2)

    def expire_offsets(self) -> None:
        """One run of the retention check."""
        self.groups.expire_offsets()
        self.settle()

    def delete_topics(self, *topics: str) -> None:
        """Topics are deleted, as far as their offsets go; they still exist for requests."""
        for listener in tuple(self.topics.on_deleted):
            listener({topic: _DeletedTopic(topic, topic_id_of(topic)) for topic in topics})
        self.settle()

    # Time, drains, crashes

    @contextmanager
    def one_drain(self) -> Iterator[None]:
        """Let several requests lie in the mailbox when the task wakes up."""
        self._batching = True
        try:
            yield
        finally:
            self._batching = False
        self.settle()

    def settle(self) -> None:
        """Let the loop turn, unless requests are being gathered for one drain."""
        if not self._batching:
            self.clock.turn()

    def waiting_for_flush(self) -> list[Answer]:
        """The answers that wait for a sync."""
        return [
            answer_of(reply)
            for done in self.flushing
            for reply in cast("partial[None]", done).args[0]
        ]

    def flush(self, error: StorageError | None = None) -> None:
        """What was appended is synced, or cannot be."""
        flushing, self.flushing = self.flushing, []
        for done in flushing:
            done(error)
        self.settle()

    def advance(self, milliseconds: int) -> None:
        """Let time pass, from timer to timer."""
        end_ms = self.now_ms + milliseconds
        while (due_ms := self.clock.next_due_ms()) is not None and due_ms <= end_ms:
            self.clock.time_ms = max(self.now_ms, due_ms)
            self.clock.fire()
            self.settle()
        self.clock.time_ms = end_ms

    def crash(self) -> None:
        """Kill and restart: what is parked is lost, the group comes back from its log."""
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
        """Become the coordinator again, and bring the group back from its log."""
        self.write_failed = False
        self.groups.immigrate(cast("Any", self.offsets_topic))
        self.settle()

    def unload(self) -> None:
        """The partition moves away: parked requests get NOT_COORDINATOR, and all that come."""
        self.groups.emigrate_all()
        self.settle()

    # The log

    def records(self) -> Iterator[CoordinatorRecord]:
        """The log, decoded."""
        for key_bytes, value_bytes in self.log:
            key = decode_key(key_bytes)
            assert not isinstance(key, UnknownKey)
            yield key, decode_value(key, value_bytes)

    def replayed(self) -> Group:
        """A group made from the log alone."""
        group = self.groups.new_group(GROUP)
        for record in self.records():
            group = group.replay(record)
        return group

    def check_replay_law(self) -> None:
        """Replaying the log gives the durable state; at rest the soft state agrees with it."""
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
        """Names of all events so far."""
        return [name for name, _ in self.events]

    def take_account(self, _: str, rebalance: Rebalance) -> None:
        """Remember the account of a rebalance."""
        self.explained.append(rebalance)

    def in_place_of(self, kind: GroupKind, group: Group) -> Group:
        """A group of another kind; a classic one reports its transitions here."""
        if kind is not GroupKind.CLASSIC:
            return in_place_of(kind, group)
        blank = self.groups.new_group(group.group_id)
        blank.offsets = group.offsets
        blank.is_new = False
        return blank

    def find_persister(self) -> Any:
        """The share coordinator; a method, as small worlds are copied with all that they have."""
        return self.persister

    def configs_of(self, _: str) -> dict[str, str]:
        """The configs of the group."""
        return self.configs

    def new_member_id(self, prefix: str) -> str:
        """Member ids count up."""
        self._ids += 1
        return f"{prefix}-{self._ids}"

    def new_uuid(self) -> str:
        """The id of a member of a consumer group that brings none."""
        return self.new_member_id("uuid")


def durable_state(group: Group) -> tuple[list[CoordinatorRecord], CommittedOffsets]:
    """What the records of a group make of it."""
    return group.state_records(), group.offsets


def blank_group(group_id: str, settings: GroupSettings | None = None) -> GroupMetadata:
    """A group of a broker without topics."""
    return GroupMetadata(
        group_id, GroupEnvironment(settings or GroupSettings(), str, str, in_place_of)
    )


def partition_count(topic: str) -> int:
    """Partitions of the topics that exist."""
    return TOPICS.get(topic, 0)


def _no_error() -> ErrorCode:
    return ErrorCode.NONE


def _no_kill(_: int) -> int | None:
    return None
