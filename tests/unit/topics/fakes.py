"""Fakes for handlers of topics, without loop and sockets: clock, scheduler, call, broker."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from coordinator_server.clock.step_runner import StepRunner
from coordinator_server.config.config import Config
from coordinator_server.config.dynamic_configs import DynamicConfigs
from coordinator_server.config.group_configs import GroupConfigs
from coordinator_server.core.caller import Caller
from coordinator_server.fetch.purgatory import KeyedPurgatory
from coordinator_server.fetch.session import FetchSessionCache
from coordinator_server.net.addresses import BrokerEndpoint
from coordinator_server.security.rights import UNRESTRICTED
from coordinator_server.telemetry.telemetry import Telemetry
from coordinator_server.topics.manager import TopicManager
from coordinator_server.topics.producer_ids import ProducerIdManager
from coordinator_server.topics.topic_configs import log_defaults
from protocol.codec import decoder, encoder
from protocol.schema import Message, declared_type
from storage.log_manager import LogManager
from storage.memory_disk import MemoryDisk

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call

from protocol.batch import Record, build_batch

DATA = "/data"
START_MS = 1_700_000_000_000


def batch(
    *values: bytes,
    key: bytes | None = b"k",
    times_ms: Sequence[int] = (),
    **fields: Any,
) -> bytes:
    """Return a client's batch of records with these values, at START_MS or at `times_ms`."""
    times_ms = times_ms or [START_MS] * len(values)
    records = [
        Record(offset, time_ms, key, value)
        for offset, (time_ms, value) in enumerate(zip(times_ms, values, strict=True))
    ]
    return build_batch(records, **fields).to_bytes()


class FakeClock:
    """A clock that tests set; its timers are the running loop's."""

    def __init__(self) -> None:
        self.time_ms = START_MS

    def now_ms(self) -> int:
        """Return the time in ms since the epoch."""
        return self.time_ms

    def call_soon(self, callback: Callable[[], None], /) -> object:
        """Schedule after the callbacks that are due now."""
        return asyncio.get_running_loop().call_soon(callback)

    def call_later(self, delay: float, callback: Callable[[], None], /) -> asyncio.TimerHandle:
        """Schedule after `delay` seconds of the loop's time."""
        return asyncio.get_running_loop().call_later(delay, callback)

    def call_maintenance(
        self, delay: float, callback: Callable[[], None], /
    ) -> asyncio.TimerHandle:
        """Schedule like `call_later`."""
        return self.call_later(delay, callback)


class FakeTimer:
    """A scheduled call."""

    def __init__(self, due_ms: int, callback: Callable[[], None]) -> None:
        self.due_ms = due_ms
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        """Cancel the call."""
        self.cancelled = True


class FakeScheduler:
    """A scheduler like the loop's; `turn` and `advance` run the callbacks that are due."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.soon: list[Callable[[], None]] = []
        self.timers: list[FakeTimer] = []

    def call_soon(self, callback: Callable[[], None], /) -> object:
        """Schedule for the end of this turn."""
        self.soon.append(callback)
        return callback

    def call_later(self, delay: float, callback: Callable[[], None], /) -> FakeTimer:
        """Schedule for `delay` seconds from now."""
        timer = FakeTimer(self.clock.time_ms + round(delay * 1000), callback)
        self.timers.append(timer)
        return timer

    def turn(self) -> None:
        """Run the callbacks for the end of this turn."""
        while self.soon:
            callbacks, self.soon = self.soon, []
            for callback in callbacks:
                callback()

    def advance(self, elapsed_ms: int) -> None:
        """Advance the time and run the timers that are due."""
        self.turn()
        self.clock.time_ms += elapsed_ms
        while due := [
            timer
            for timer in self.timers
            if not timer.cancelled and timer.due_ms <= self.clock.time_ms
        ]:
            timer = min(due, key=lambda timer: timer.due_ms)
            self.timers.remove(timer)
            timer.callback()
            self.turn()


class FakeConnection:
    """A client's connection."""

    listener_name = "PLAINTEXT"
    client_host, remote = "/127.0.0.1", "127.0.0.1:40000"
    local_address = ("127.0.0.1", 9092)

    def __init__(self) -> None:
        self.closed = False
        self.software = ("test", "1.0")
        self.refusals: list[str] = []

    def refuse(self, reason: str, api: str | int | None = None, version: int | None = None) -> None:
        """Record the reason for closing the connection."""
        self.refusals.append(reason)
        self.closed = True


class SchedulerClock:
    """The time of a fake broker, with the timers of its scheduler."""

    def __init__(self, broker: FakeBroker) -> None:
        self.now_ms = broker.clock.now_ms
        self.call_soon = broker.scheduler.call_soon
        self.call_later = self.call_maintenance = broker.scheduler.call_later


class FakeCall:
    """A request that keeps its response, as a client would decode it."""

    is_metered = False

    def __init__(self, api_version: int, client_id: str | None, connection: FakeConnection) -> None:
        self.api_version = api_version
        self.api_name = "fake"
        self.client_id = client_id
        self.connection = connection
        self.is_large = self.failed = False
        self.rights = UNRESTRICTED
        self.replies: list[Any] = []
        self.ended_without_answer = False
        self.most_changed_partitions: float = inf

    def may_change_partitions(self, count: int) -> bool:
        """Take from the client's remaining quota; return whether it suffices."""
        self.most_changed_partitions -= count
        return self.most_changed_partitions >= 0

    def reply(self, response: Message) -> None:
        """Encode and decode the response."""
        message_type = declared_type(response)
        body = encoder(message_type, self.api_version)(response)
        decoded, end = decoder(message_type, self.api_version)(body, 0)
        assert end == len(body)
        self.replies.append(decoded)

    @property
    def answered(self) -> bool:
        """Return whether the response was sent."""
        return bool(self.replies) or self.failed

    @property
    def caller(self) -> Caller:
        """The sender of the request."""
        return Caller(self.client_id, self.connection.client_host, self.api_version)

    def serve(self, handle: Any, broker: object, request: Message) -> None:
        """Pass the request to a handler and run all its steps."""
        steps = handle(broker, self, request)
        if steps is not None:
            self.run(steps)

    def run(self, steps: Iterator[None]) -> None:
        """Run work for the request."""
        for _ in steps:
            pass

    def fail(self) -> None:
        """Record an UNKNOWN_SERVER_ERROR response, unless the request was answered."""
        self.failed = not self.replies

    def reply_nothing(self) -> None:
        """Record that there is no response."""
        self.ended_without_answer = True


class OpenSecurity:
    """Security without an authorizer."""

    authorizer = None


class FakeBroker:
    """The parts of the broker that topics use, on a disk in memory."""

    security = OpenSecurity()

    node_id = controller_id = 1
    cluster_id = "fake-cluster"

    def __init__(self, disk: MemoryDisk | None = None, /, **overrides: str) -> None:
        self.disk = disk or MemoryDisk()
        self.config = Config(
            overrides={name.replace("_", "."): value for name, value in overrides.items()}
        )
        self.clock = self.client_clock = FakeClock()
        self.scheduler = FakeScheduler(self.clock)
        self.step_runner = StepRunner(self.scheduler)
        self.fetch_purgatory = KeyedPurgatory(self.scheduler, self.clock.now_ms)
        session_ids = itertools.count(1)
        self.fetch_sessions = FetchSessionCache(
            self.config.integer("max.incremental.fetch.session.cache.slots"),
            lambda: next(session_ids),
        )
        self.log_manager = LogManager.open(self.disk, DATA, log_defaults(self.config))
        self.dynamic_configs = DynamicConfigs(
            self.log_manager.catalogue, {self.config.node_id: self.config}
        )
        self.group_configs = GroupConfigs(self.log_manager.catalogue, self.config)
        self.telemetry = Telemetry(self.log_manager.catalogue, keeps_pushes=True)
        self.producer_ids = ProducerIdManager(self.log_manager.next_producer_ids)
        self.topics = TopicManager(
            self.log_manager,
            self.config,
            self.clock,
            node_ids=(self.node_id,),
            changed=self.fetch_purgatory.notify,
            timer_s=lambda: self.clock.time_ms / 1000,
        )

    def endpoints(self, connection: object, *, with_stopped: bool = False) -> list[BrokerEndpoint]:
        """Return the endpoints for clients."""
        rack = self.topics.racks.get(self.node_id)
        return [BrokerEndpoint(self.node_id, "127.0.0.1", 9092, rack=rack)]

    def endpoint(self, node_id: int, connection: object) -> BrokerEndpoint | None:
        """Return the endpoint of one broker for clients."""
        return self.endpoints(connection)[0] if node_id == self.node_id else None

    def advertised_listeners(self, connection: object) -> str:
        """Return the only advertised address."""
        return "PLAINTEXT://127.0.0.1:9092"

    def call(
        self,
        handle: Callable[[Broker, Call, Any], Iterator[None] | None],
        request: Message,
        version: int,
        *,
        client_id: str | None = "test",
        connection: FakeConnection | None = None,
    ) -> FakeCall:
        """Pass an encoded and decoded request to a handler; return the call, maybe unanswered."""
        body = encoder(type(request), version)(request)
        received, end = decoder(type(request), version)(body, 0)
        assert end == len(body)
        call = FakeCall(version, client_id, connection or FakeConnection())
        call.serve(handle, self, received)
        return call

    def ask(
        self,
        handle: Callable[[Broker, Call, Any], Iterator[None] | None],
        request: Message,
        version: int,
        client_id: str | None = "test",
    ) -> Any:
        """Return the response to a request that is answered at once."""
        (response,) = self.call(handle, request, version, client_id=client_id).replies
        return response
