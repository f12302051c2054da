"""How fast connections may come: to a broker, to each of its listeners, from each address. Pure.

Source: SocketServer's ConnectionQuotas, KIP-612.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
from typing import NamedTuple

from coordinator_server.security.quotas.rates import Rate, Windows, as_int
from coordinator_server.security.quotas.sensors import Sensors

NO_LIMIT = 2**31 - 1


class Admission(NamedTuple):
    """What becomes of a connection: its listener accepts no more for `listener_ms`, this one
    included; or it is not served, and closed after `address_ms`.
    """

    listener_ms: int
    address_ms: int


ADMITTED = Admission(0, 0)


class ConnectionRates:
    """The rates of one broker. A connection counts once, with all that it belongs to.

    Those of the listener between brokers (`protected`) do not count with the broker's.
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
        """Take new limits of the broker and of the listeners that it has now."""
        self._protected = protected
        self._broker.limit = broker_limit
        before, self._listeners = self._listeners, {}
        for name, limit in listener_limits.items():
            rate = self._listeners[name] = before.get(name) or Rate(self._windows, limit)
            rate.limit = limit
        self._has_limit = {broker_limit, *listener_limits.values()} != {NO_LIMIT}

    @property
    def is_enabled(self) -> bool:
        """Whether there is any limit."""
        return self._has_limit or bool(self._limits)

    def change(self, limits: Mapping[str | None, float]) -> None:
        """Take new limits of addresses; that of None is for all others."""
        self._limits = {
            address: 0 if isnan(limit) else int(limit) for address, limit in limits.items()
        }
        for address, rate in self._addresses.items():
            rate.limit = self._limit(address)

    def admit(self, listener: str, address: str, now_ms: int) -> Admission:
        """Count a new connection."""
        if not self.is_enabled:
            return ADMITTED
        of_listener = [self._listeners[listener]]
        if listener != self._protected:
            of_listener.append(self._broker)
        listener_ms = max(self._record(one, now_ms) for one in of_listener)
        limit = self._limit(address)
        if limit == NO_LIMIT:
            return Admission(listener_ms, 0)
        rate = self._addresses.of(address, now_ms, lambda: Rate(self._windows, limit))
        address_ms = self._record(rate, now_ms)
        if address_ms:
            for one in (rate, *of_listener):
                one.record(-1, now_ms)  # it is not accepted
        return Admission(listener_ms, address_ms)

    def _limit(self, address: str) -> float:
        return self._limits.get(address, self._limits.get(None, NO_LIMIT))

    def _record(self, rate: Rate, now_ms: int) -> int:
        """Count one more; how long until that is within the limit, at most a window."""
        rate.record(1, now_ms)
        violation = rate.violation(now_ms)
        if violation is None:
            return 0
        throttle_ms = min(rate.throttle_ms(violation, now_ms), self._windows.size_ms)
        return max(as_int(throttle_ms), 0)
