"""Connection creation rates: per broker, per listener and per address. No I/O.

Source: SocketServer's ConnectionQuotas, KIP-612.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
from typing import NamedTuple

from coordinator_server.security.quotas.rates import Rate, Sensors, Windows, as_int

NO_LIMIT = 2**31 - 1


class Admission(NamedTuple):
    """The delays of a new connection.

    The listener, including this connection, is delayed by `listener_ms`. If `address_ms` is not 0,
    the connection is not served and is closed after that time.
    """

    listener_ms: int
    address_ms: int


ADMITTED = Admission(0, 0)


class ConnectionRates:
    """The rates of one broker. A connection counts for its broker, listener and address.

    Connections of the inter-broker listener (`protected`) do not count for the broker.
    """

    def __init__(
        self,
        windows: Windows,
        broker_limit: int,
        listener_limits: Mapping[str, int],
        protected: str | None = None,
    ) -> None:
        self._windows = windows
        self._broker = Rate(windows, broker_limit)
        self._listeners: dict[str, Rate] = {}
        self._limits: Mapping[str | None, float] = {}
        self._addresses: Sensors[str, Rate] = Sensors()
        self.limit(broker_limit, listener_limits, protected)

    def limit(
        self, broker_limit: int, listener_limits: Mapping[str, int], protected: str | None
    ) -> None:
        """Set the limits of the broker and of its current listeners."""
        self._protected = protected
        self._broker.limit = broker_limit
        before, self._listeners = self._listeners, {}
        for name, limit in listener_limits.items():
            rate = self._listeners[name] = before.get(name) or Rate(self._windows, limit)
            rate.limit = limit
        self._has_limit = {broker_limit, *listener_limits.values()} != {NO_LIMIT}

    @property
    def is_enabled(self) -> bool:
        """Whether any limit is set."""
        return self._has_limit or bool(self._limits)

    def change(self, limits: Mapping[str | None, float]) -> None:
        """Set the limits of addresses; key None is the default."""
        self._limits = {
            address: 0 if isnan(limit) else int(limit) for address, limit in limits.items()
        }
        for address, rate in self._addresses.items():
            rate.limit = self._limit(address)

    def admit(self, listener: str, address: str, now_ms: int) -> Admission:
        """Count a new connection and return its delays."""
        if not self.is_enabled:
            return ADMITTED
        of_listener = [self._listeners[listener]]
        if listener != self._protected:
            of_listener.append(self._broker)
        listener_ms = max(self._record(sensor, now_ms) for sensor in of_listener)
        limit = self._limit(address)
        if limit == NO_LIMIT:
            return Admission(listener_ms, 0)
        rate = self._addresses.of(address, now_ms, lambda: Rate(self._windows, limit))
        address_ms = self._record(rate, now_ms)
        if address_ms:
            for sensor in (rate, *of_listener):
                sensor.record(-1, now_ms)  # take back the count, because the connection is refused
        return Admission(listener_ms, address_ms)

    def _limit(self, address: str) -> float:
        return self._limits.get(address, self._limits.get(None, NO_LIMIT))

    def _record(self, rate: Rate, now_ms: int) -> int:
        """Count a connection; return the throttle time in ms, at most one window."""
        rate.record(1, now_ms)
        violation = rate.violation(now_ms)
        if violation is None:
            return 0
        throttle_ms = min(rate.throttle_ms(violation, now_ms), self._windows.size_ms)
        return max(as_int(throttle_ms), 0)
