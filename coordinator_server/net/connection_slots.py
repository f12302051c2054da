"""Limits the connections of a broker and of each listener: max.connections.

Source: ConnectionQuotas of Kafka's SocketServer. A full listener stops accepting until a connection
ends; new clients wait in the backlog. A listener's limit is listener.name.NAME.max.connections, or
else the limit of the broker. Other listeners never block the inter-broker listener: if one of its
connections exceeds the broker's limit, the longest-idle connection of another listener is closed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator_server.config.config import Config

MAX_CONNECTIONS = "max.connections"


def protected_listener(config: Config) -> str | None:
    """Return the inter-broker listener, or None if it is the only listener (ConnectionQuotas)."""
    name = config.optional_text("inter.broker.listener.name")
    if name is None:
        name = config.text("security.inter.broker.protocol")
    names = [listener.name for listener in config.listeners()]
    return name.upper() if len(names) > 1 and name.upper() in names else None


class ConnectionSlots:
    """Counts the connections of one broker by listener, including those being set up."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.limit, self._limits = self._read_limits()
        self.protected = protected_listener(config)
        """The name of the inter-broker listener, or None."""
        self._taken: defaultdict[str, int] = defaultdict(int)
        self._total = 0
        self._waiting: list[Callable[[], None]] = []

    def refusal(self, listener: str) -> str | None:
        """Return the reason why a listener cannot take a connection now, or None."""
        limit = self._limits[listener]
        if self._taken[listener] >= limit:
            return f"{MAX_CONNECTIONS} of the listener is {limit}"
        if self._total >= self.limit and listener != self.protected:
            return f"{MAX_CONNECTIONS} is {self.limit}"
        return None

    def take(self, listener: str) -> Slot:
        """Count a connection that is being set up; return its slot."""
        self._taken[listener] += 1
        self._total += 1
        return Slot(self, listener)

    def given_back(self, listener: str) -> None:
        """Remove a connection from the count and run the waiting callbacks."""
        self._taken[listener] -= 1
        self._total -= 1
        self._look_again()

    def settings_changed(self) -> None:
        """Apply changed limits and run the waiting callbacks."""
        self.limit, self._limits = self._read_limits()
        self.protected = protected_listener(self._config)
        self._look_again()

    def _look_again(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for look_again in waiting:
                look_again()

    def _read_limits(self) -> tuple[int, dict[str, int]]:
        """Return the limit of the broker and the limits of its listeners by name."""
        config = self._config
        return config.integer(MAX_CONNECTIONS), {
            listener.name: config.of_listener(listener.name).integer(MAX_CONNECTIONS)
            for listener in config.listeners()
        }

    def wait(self, look_again: Callable[[], None]) -> None:
        """Call `look_again` once when a connection ends or the limits change."""
        self._waiting.append(look_again)

    def wait_no_more(self, look_again: Callable[[], None]) -> None:
        """Remove a callback added by `wait`, if present."""
        if look_again in self._waiting:
            self._waiting.remove(look_again)


class Slot:
    """The slot of one connection. `give_back` has an effect only once."""

    __slots__ = ("_is_taken", "_listener", "_slots")

    def __init__(self, slots: ConnectionSlots, listener: str) -> None:
        self._slots = slots
        self._listener = listener
        self._is_taken = True

    def give_back(self) -> None:
        """Free the slot because the connection ended or was not established."""
        if self._is_taken:
            self._is_taken = False
            self._slots.given_back(self._listener)
