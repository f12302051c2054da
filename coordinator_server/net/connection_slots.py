"""How many connections a broker and each of its listeners may have: max.connections.

Source: ConnectionQuotas of Kafka's SocketServer. A listener that is full accepts no more until a
connection ends; who comes meanwhile waits in its backlog. A listener has the limit
listener.name.NAME.max.connections, or that of the broker. The listener between brokers
is never kept waiting by the connections of the others: for one of its own beyond the broker's limit
the one of another listener that was silent longest is closed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator_server.config.config import Config

MAX_CONNECTIONS = "max.connections"


def protected_listener(config: Config) -> str | None:
    """The listener between brokers, if it is not the only one (ConnectionQuotas)."""
    name = config.optional_text("inter.broker.listener.name")
    if name is None:
        name = config.text("security.inter.broker.protocol")
    names = [listener.name for listener in config.listeners()]
    return name.upper() if len(names) > 1 and name.upper() in names else None


class ConnectionSlots:
    """The connections of one broker by listener: those that are open, those being set up."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.limit, self._limits = self._read_limits()
        self.protected = protected_listener(config)
        """The name of the listener between brokers."""
        self._taken: defaultdict[str, int] = defaultdict(int)
        self._total = 0
        self._waiting: list[Callable[[], None]] = []

    def refusal(self, listener: str) -> str | None:
        """Why a listener may take no connection now; None if it may."""
        limit = self._limits[listener]
        if self._taken[listener] >= limit:
            return f"{MAX_CONNECTIONS} of the listener is {limit}"
        if self._total >= self.limit and listener != self.protected:
            return f"{MAX_CONNECTIONS} is {self.limit}"
        return None

    def take(self, listener: str) -> Slot:
        """Count a connection, from when it begins to be set up until it gives its slot back."""
        self._taken[listener] += 1
        self._total += 1
        return Slot(self, listener)

    def given_back(self, listener: str) -> None:
        """A connection is gone that was counted: who waits may look again."""
        self._taken[listener] -= 1
        self._total -= 1
        self._look_again()

    def settings_changed(self) -> None:
        """Take limits that have changed; listeners that wait may look again."""
        self.limit, self._limits = self._read_limits()
        self.protected = protected_listener(self._config)
        self._look_again()

    def _look_again(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for look_again in waiting:
                look_again()

    def _read_limits(self) -> tuple[int, dict[str, int]]:
        """Return the limit of the broker, and those of its listeners by name."""
        config = self._config
        return config.integer(MAX_CONNECTIONS), {
            one.name: config.of_listener(one.name).integer(MAX_CONNECTIONS)
            for one in config.listeners()
        }

    def wait(self, look_again: Callable[[], None]) -> None:
        """Call this once when a connection is gone."""
        self._waiting.append(look_again)

    def wait_no_more(self, look_again: Callable[[], None]) -> None:
        """Forget who waits, if it does."""
        if look_again in self._waiting:
            self._waiting.remove(look_again)


class Slot:
    """The slot of one connection; to be given back once, which may be said more than once."""

    __slots__ = ("_is_taken", "_listener", "_slots")

    def __init__(self, slots: ConnectionSlots, listener: str) -> None:
        self._slots = slots
        self._listener = listener
        self._is_taken = True

    def give_back(self) -> None:
        """The connection is gone, or none came of it."""
        if self._is_taken:
            self._is_taken = False
            self._slots.given_back(self._listener)
