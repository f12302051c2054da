"""Brokers that the composition root builds on a disk in memory, and requests of clients to them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from coordinator_server.apis.handlers import handler_of
from coordinator_server.broker import Broker
from coordinator_server.clock.step_runner import StepRunner
from coordinator_server.composition import compose
from coordinator_server.config.config import Config
from coordinator_server.coordinator.group_coordinator import GroupCoordinator
from coordinator_server.coordinator.transaction_coordinator import TransactionCoordinator
from coordinator_server.faults.faults import Faults
from coordinator_server.maintenance.flusher import Flusher
from coordinator_server.net.dispatch import Dispatcher, Handler
from coordinator_server.net.metering import Metering
from coordinator_server.rebalances.journal import RebalanceJournal
from coordinator_server.security.security import Security
from coordinator_server.steps import Steps
from coordinator_server.topics.manager import TopicManager
from protocol.registry import SPEC_BY_NAME, ApiSpec
from protocol.schema import Message
from storage.log_manager import LogManager
from storage.memory_disk import MemoryDisk
from tests.harness.client import Client, SentRequest
from tests.harness.clock import ManualClock
from tests.versions import newest_with_names

if TYPE_CHECKING:
    from coordinator_server.counting.counts import Counts
    from coordinator_server.net.connection import Connection

DATA = "/data"

UNRAISED: list[Exception] = []
"""Exceptions of handlers that no call has raised yet; a test that leaves some of them fails."""


class InlineFlusher(Flusher):
    """A flusher without threads: work is done at once; the next turn reports its completion."""

    __slots__ = ()

    def submit(self, work: Callable[[], None], /) -> Future[None]:
        """Do the work now."""
        done: Future[None] = Future()
        try:
            work()
        except Exception as error:
            done.set_exception(error)
        else:
            done.set_result(None)
        return done

    submit_check = submit


class HeldStepRunner(StepRunner):
    """Runs the steps of requests, unless `MemoryBroker.begin` holds the steps back."""

    __slots__ = ("held",)

    def __init__(self, clock: ManualClock, timer_s: Callable[[], float]) -> None:
        super().__init__(clock, timer_s)
        self.held: list[Iterator[None]] | None = None

    def run_now(self, steps: Iterator[None]) -> bool:
        """Run the steps, or hold them back."""
        if self.held is None:
            return super().run_now(steps)
        self.held.append(steps)
        return False


class MemoryBroker:
    """The brokers of a process on a disk in memory; methods use the first broker by default.

    Time stands still: `turn` runs queued callbacks, `advance` moves the time. An exception in a
    handler is raised to the sender of the request, or at the end of the test. Subclasses set
    `defaults`, their settings. The steps of a request run to their end at once; with
    `has_real_steps` they pause as in a real broker, measured in real time.
    """

    defaults: Mapping[str, str] = {}

    def __init__(
        self,
        disk: MemoryDisk | None = None,
        count: int = 1,
        /,
        *,
        has_virtual_clock: bool = False,
        runs_maintenance: bool = True,
        starts: bool = True,
        has_real_steps: bool = False,
        flusher: Flusher | None = None,
        counts: Counts | None = None,
        **overrides: str,
    ) -> None:
        self.disk = disk or MemoryDisk()
        self.clock = ManualClock(runs_maintenance=runs_maintenance)
        self.step_runner = HeldStepRunner(
            self.clock, time.perf_counter if has_real_steps else self._no_time
        )
        settings = {"log_dirs": DATA, "broker_count": str(count), **self.defaults, **overrides}
        self.cluster = compose(
            Config(overrides={name.replace("_", "."): value for name, value in settings.items()}),
            self.clock,
            self.disk,
            has_virtual_clock=has_virtual_clock,
            step_runner=self.step_runner,
            flusher=flusher or InlineFlusher(self.clock),
            counts=counts,
        )
        self.shared = self.cluster.shared
        self.bugs: list[Exception] = []
        """Exceptions of handlers, which the dispatcher has caught."""
        self._dispatchers: dict[int, tuple[Broker, Dispatcher[Broker]]] = {}
        self._unencoded: Message | None = None
        """The request that replaces the decoded one."""
        if not has_real_steps:
            # The machine's clock stands still, so a pause between slices of maintenance would
            # never end. With a constant timer there are no slices.
            self.topics.maintenance.timer_s = self._no_time
        if starts:
            self.cluster.start()

    # --- parts of the first broker ----------------------------------------------------------------

    @property
    def node_id(self) -> int:
        """The id of the first broker."""
        return self.cluster.node_ids[0]

    @property
    def broker(self) -> Broker:
        """The first broker."""
        return self.cluster.brokers[self.node_id]

    @property
    def config(self) -> Config:
        """The settings of the first broker."""
        return self.broker.config

    @property
    def topics(self) -> TopicManager:
        """The topics."""
        return self.cluster.topics

    @property
    def logs(self) -> LogManager:
        """The logs of all topics."""
        return self.topics.logs

    @property
    def security(self) -> Security:
        """The users, ACLs, quotas and tokens."""
        return self.cluster.security

    @property
    def faults(self) -> Faults:
        """The rules of faults on demand."""
        return self.shared.faults

    @property
    def groups(self) -> GroupCoordinator:
        """The group coordinator of the first broker."""
        return self.broker.groups

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transaction coordinator of the first broker."""
        return self.broker.transactions

    @property
    def journal(self) -> RebalanceJournal:
        """The rebalances of all groups."""
        return self.cluster.journal

    # --- time -------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Run all queued callbacks. Raises the exception of a handler."""
        self.clock.turn()
        self._raise_bug()

    def advance(self, elapsed_ms: int) -> None:
        """Move the time; the timers that become due fire."""
        self.clock.pass_time(elapsed_ms)
        self._raise_bug()

    # --- requests ---------------------------------------------------------------------------------

    def send(
        self,
        request: Message,
        version: int | None = None,
        *,
        client: Client | None = None,
        client_id: str | None = "test",
        node_id: int | None = None,
    ) -> SentRequest:
        """Send a request and return the SentRequest. The default version is the newest.

        Raises the exception of the handler.
        """
        node_id = self.node_id if node_id is None else node_id
        if client is None:
            client = Client(local_address=("127.0.0.1", 9091 + node_id))
        spec = SPEC_BY_NAME[type(request).__name__.removesuffix("Request")]
        version = newest_with_names(spec) if version is None else version
        sent, frame = client.frame(request, version, client_id)
        self.dispatch(client, frame, node_id)
        return sent

    def dispatch(self, client: Client, frame: bytes, node_id: int | None = None) -> None:
        """Let a broker receive a frame. Raises the exception of the handler."""
        dispatcher = self._dispatcher(self.node_id if node_id is None else node_id)
        dispatcher.dispatch(cast("Connection", client), frame)
        self._raise_bug()

    def ask(self, request: Message, version: int | None = None, **fields: Any) -> Any:
        """Return the response to a request that waits for no timer."""
        sent = self.send(request, version, **fields)
        if not sent.replies:
            self.turn()
        return sent.response

    def ask_unencoded(self, request: Message, version: int | None = None, **fields: Any) -> Any:
        """Like `ask`, but without encoding, for texts that are too long to encode."""
        self._unencoded = request
        return MemoryBroker.ask(self, type(request)(), version, **fields)

    def begin(self, request: Message, version: int, **fields: Any) -> tuple[SentRequest, Steps]:
        """Send a request whose handler returns steps; return the steps, none of which has run."""
        held: list[Iterator[None]] = []
        self.step_runner.held = held
        try:
            sent = self.send(request, version, **fields)
        finally:
            self.step_runner.held = None
        (steps,) = held
        return sent, cast("Steps", steps)

    def _no_time(self) -> float:
        return 0.0

    def _raise_bug(self) -> None:
        if self.bugs:
            bug = self.bugs.pop()
            UNRAISED[:] = [other for other in UNRAISED if other is not bug]
            raise bug

    def _note(self, bug: Exception) -> None:
        self.bugs.append(bug)
        UNRAISED.append(bug)

    def _dispatcher(self, node_id: int) -> Dispatcher[Broker]:
        broker = self.cluster.brokers[node_id]
        known, dispatcher = self._dispatchers.get(node_id, (None, None))
        if dispatcher is None or known is not broker:
            metering = Metering(self.security, self.cluster.machine_clock)
            dispatcher = Dispatcher(
                broker, self.step_runner, self._find_handler, metering, faults=self.faults
            )
            self._dispatchers[node_id] = broker, dispatcher
        return dispatcher

    def _find_handler(self, spec: ApiSpec) -> Handler[Broker]:
        return partial(self._handle, handler_of(spec, self.security.authorizer))

    def _handle(
        self, handle: Handler[Broker], broker: Broker, call: Any, request: Message
    ) -> Steps | None:
        if self._unencoded is not None:
            request = call.request = self._unencoded
            self._unencoded = None
        try:
            steps = handle(broker, call, request)
        except Exception as bug:
            self._note(bug)
            raise
        return None if steps is None else self._watched(steps)

    def _watched(self, steps: Steps) -> Steps:
        try:
            yield from steps
        except Exception as bug:
            self._note(bug)
            raise
