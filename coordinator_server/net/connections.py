"""All client connections of a broker: limits, the idle sweep and log events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import nsmallest
from typing import TYPE_CHECKING

from coordinator_server.events.log import LOG
from coordinator_server.net.address_limits import AddressLimits
from coordinator_server.net.connection import Connection
from coordinator_server.net.connection_slots import MAX_CONNECTIONS, ConnectionSlots
from coordinator_server.net.turns import Turns

if TYPE_CHECKING:
    from coordinator_server.clock.broker_clock import Clock
    from coordinator_server.config.config import Config

Dispatch = Callable[[Connection, bytes | bytearray], None]

_SWEEPS_PER_IDLE_TIME = 8
_REPORTS_AT_ONCE = 2000
_REPORTS_PER_SECOND = 20
CLOSING_SECONDS = 2.0
"""How long connections may take to send queued responses before they are closed."""

TURNS_SECONDS = 0.001
"""Time limit for serving connections with several waiting requests before the event loop polls the
sockets again, so that clients with one request at a time are not delayed."""


class Connections:
    """The open connections of one broker and their shared limits."""

    def __init__(self, config: Config, clock: Clock, dispatch: Dispatch) -> None:
        self.dispatch = dispatch
        self.connection_type: type[Connection] = Connection
        """The class of new connections."""
        self.on_lost: list[Callable[[Connection], None]] = []
        """Callbacks for each connection that has ended."""
        self.request_max_bytes = config.integer("socket.request.max.bytes")
        self.slots = ConnectionSlots(config)
        self._is_closing_excess = False
        self._address_limits = AddressLimits(config)
        self._max_idle_ms = config.integer("connections.max.idle.ms")
        self._clock = clock
        self._open: set[Connection] = set()
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._all_gone: asyncio.Future[None] | None = None
        self._report_credit = float(_REPORTS_AT_ONCE)
        self._report_time_ms = clock.now_ms()
        self._unreported = 0
        self._is_held = False
        self._closed_listeners: set[str] = set()
        self.turns = Turns(TURNS_SECONDS)
        """Turns of connections with more received requests than one turn may serve."""

    def __len__(self) -> int:
        return len(self._open)

    def open_connections(self) -> tuple[Connection, ...]:
        """Return the open connections."""
        return tuple(self._open)

    def settings_changed(self) -> None:
        """Apply limits changed at run time; open connections stay open."""
        self.slots.settings_changed()
        self._address_limits.settings_changed()

    def open_listener(self, name: str) -> None:
        """Allow connections of a listener, which may have been closed before."""
        self._closed_listeners.discard(name)

    def close_listener(self, name: str) -> None:
        """Close the connections of a listener, including those being set up.

        Queued responses are sent; connections that do not close within 2 s are aborted.
        """
        self._closed_listeners.add(name)
        closing = [connection for connection in self._open if connection.listener_name == name]
        for connection in closing:
            connection.close()

        def abort() -> None:
            for connection in closing:
                if connection in self._open:
                    connection.abort()

        asyncio.get_running_loop().call_later(CLOSING_SECONDS, abort)

    def opened(self, connection: Connection) -> None:
        """Register a new connection; abort it if it exceeds the limit of its address."""
        connection.idle_since_ms = self._clock.now_ms()
        self._open.add(connection)
        if connection.slot is None:
            connection.slot = self.slots.take(connection.listener_name)
        if self._is_held:
            connection.hold()
        if connection.listener_name in self._closed_listeners:
            connection.abort()
        reason = self._address_limits.opened(connection.client_host[1:])
        if reason is not None:
            self.report("connection.refused", connection, reason)
            connection.abort()
            return
        is_excess = self.slots.protected is not None and len(self._open) > self.slots.limit
        if is_excess and not self._is_closing_excess:
            self._is_closing_excess = True
            asyncio.get_running_loop().call_soon(self._close_excess)
        if LOG.debug:
            LOG.emit("connection.opened", remote=connection.remote)

    def lost(self, connection: Connection) -> None:
        """Remove a connection that has ended."""
        self._open.discard(connection)
        if connection.slot is not None:
            connection.slot.give_back()
        self._address_limits.closed(connection.client_host[1:])
        for listener in self.on_lost:
            listener(connection)
        if LOG.debug:
            LOG.emit("connection.ended", remote=connection.remote)
        if self._all_gone is not None and not self._open and not self._all_gone.done():
            self._all_gone.set_result(None)

    @property
    def is_behind(self) -> bool:
        """Whether any connection has requests that wait only for their turn."""
        return any(connection.is_behind for connection in self._open)

    def hold(self) -> None:
        """Handle no requests, including those of new connections, until `release`."""
        self._is_held = True
        for connection in self._open:
            connection.hold()

    def release(self) -> None:
        """Continue with waiting requests after `hold`."""
        self._is_held = False
        for connection in tuple(self._open):
            connection.release()

    def _close_excess(self) -> None:
        """Abort the longest-idle connections of other listeners.

        This makes room for inter-broker connections; those that are closing are not counted.
        Source: Kafka's Processor.closeExcessConnections.
        """
        self._is_closing_excess = False
        protected = self.slots.protected
        candidates = [
            connection for connection in self._open if connection.listener_name != protected
        ]
        protected_count = sum(
            connection.listener_name == protected and not connection.closed
            for connection in self._open
        )
        for connection in nsmallest(
            len(candidates) + protected_count - self.slots.limit,
            candidates,
            key=lambda connection: (
                not connection.closed,
                connection.active,
                connection.idle_since_ms,
            ),
        ):
            if not connection.closed:
                reason = f"{MAX_CONNECTIONS} is {self.slots.limit}, {protected} needs the place"
                self.report("connection.closed", connection, reason)
            connection.abort()

    def report(
        self,
        event: str,
        connection: Connection,
        reason: str,
        api: str | int | None = None,
        version: int | None = None,
    ) -> None:
        """Log why a connection was closed, rate-limited so that a flood cannot fill the disk.

        After _REPORTS_AT_ONCE events, only _REPORTS_PER_SECOND are logged. The next event, or the
        next sweep, gives the number of suppressed events (`unreported`).
        """
        if not self._may_report():
            self._unreported += 1
            return
        fields: dict[str, object] = {"remote": connection.remote, "reason": reason}
        if api is not None:
            fields["api"] = api
        if version is not None:
            fields["version"] = version
        if self._unreported:
            fields["unreported"] = self._unreported
            self._unreported = 0
        LOG.emit(event, **fields)

    def report_handshake(self, connection: Connection, reason: str) -> None:
        """Log why a TLS handshake failed, under the same rate limit."""
        if not self._may_report():
            self._unreported += 1
            return
        listener = connection.listener_name
        LOG.emit("handshake.failed", remote=connection.remote, listener=listener, reason=reason)

    def _may_report(self) -> bool:
        now_ms = self._clock.now_ms()
        earned = (now_ms - self._report_time_ms) * _REPORTS_PER_SECOND / 1000
        self._report_credit = min(self._report_credit + earned, _REPORTS_AT_ONCE)
        self._report_time_ms = now_ms
        if self._report_credit < 1:
            return False
        self._report_credit -= 1
        return True

    def start_sweeping(self) -> None:
        """Start closing connections that are idle for connections.max.idle.ms."""
        if self._max_idle_ms >= 0:
            delay_ms = max(self._max_idle_ms // _SWEEPS_PER_IDLE_TIME, 20)
            loop = asyncio.get_running_loop()
            self._sweep_timer = loop.call_later(delay_ms / 1000, self._sweep)

    def _sweep(self) -> None:
        self.close_idle()
        if self._unreported and self._may_report():
            LOG.emit("connections.closed", unreported=self._unreported)
            self._unreported = 0
        self.start_sweeping()

    def close_idle(self) -> None:
        """Close connections that were idle for connections.max.idle.ms.

        A connection with a request in progress or a request waiting for its turn is not idle. A
        throttled connection that sends nothing is idle, as in Kafka's Selector, so that a client
        that has gone does not keep its connection for a long throttle time. A client that reads
        none of its responses is idle too, and so is a connection that does not finish closing.
        """
        now_ms = self._clock.now_ms()
        for connection in tuple(self._open):
            has_taken_some = connection.write_is_paused and connection.has_taken_some()
            if (
                connection.active
                or has_taken_some
                or connection.answer_is_due
                or connection.is_behind
            ):
                connection.active = False
                connection.idle_since_ms = now_ms
            elif now_ms - connection.idle_since_ms >= self._max_idle_ms:
                if not connection.closed:
                    reason = f"silent for {self._max_idle_ms} ms"
                    if connection.write_is_paused:
                        reason = f"took none of its answers for {self._max_idle_ms} ms"
                    self.report("connection.closed", connection, reason)
                connection.abort()

    def abort(self) -> None:
        """Abort all connections without sending outstanding responses."""
        for connection in tuple(self._open):
            connection.abort()

    async def close(self, within_seconds: float = CLOSING_SECONDS) -> None:
        """Close all connections after sending queued responses.

        Connections that are still open after `within_seconds` are aborted.
        """
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        if not self._open:
            return
        self._all_gone = asyncio.get_running_loop().create_future()
        for connection in tuple(self._open):
            connection.close()
        try:
            await asyncio.wait_for(self._all_gone, within_seconds)
        except TimeoutError:
            for connection in tuple(self._open):
                connection.abort()
