"""How many connections one address may have: max.connections.per.ip and its overrides.

Source: ConnectionQuotas of Kafka's SocketServer. One connection more is closed at once.
"""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from typing import TYPE_CHECKING

from coordinator_server.config.config import ConfigError
from coordinator_server.config.hosts import as_java

if TYPE_CHECKING:
    from coordinator_server.config.config import Config

_OVERRIDES = "max.connections.per.ip.overrides"


class AddressLimits:
    """The connections of each address. Raises ConfigError for overrides that cannot be used."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._limit = config.integer("max.connections.per.ip")
        self._overrides: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        if config.value(_OVERRIDES) != config.static_value(_OVERRIDES):
            self.settings_changed()  # what was accepted at run time must not prevent a start
            return
        self._overrides = _parse(config.text(_OVERRIDES))
        if self._limit == 0 and not self._overrides:
            raise ConfigError(f"max.connections.per.ip: 0 needs {_OVERRIDES}, nobody may connect")

    def settings_changed(self) -> None:
        """Take limits that have changed; names of hosts are looked up in a thread.

        The override of a host that cannot be found has no effect.
        """
        self._limit = self._config.integer("max.connections.per.ip")
        self._overrides = {}
        text = self._config.text(_OVERRIDES)
        for item in text.split(","):
            try:
                self._overrides |= _parse(item, socket.AI_NUMERICHOST)
            except ConfigError:
                looked_up = asyncio.get_running_loop().run_in_executor(None, _parse, item)
                looked_up.add_done_callback(partial(self._take, text))

    def _take(self, text: str, looked_up: asyncio.Future[dict[str, int]]) -> None:
        """Take the address of a host, unless the overrides have changed since."""
        is_found = not looked_up.cancelled() and looked_up.exception() is None
        if is_found and self._config.text(_OVERRIDES) == text:
            self._overrides |= looked_up.result()

    def opened(self, address: str) -> str | None:
        """Count a connection; why it has to be closed, if it has."""
        count = self._counts.get(address, 0) + 1
        self._counts[address] = count
        most = self._overrides.get(address, self._limit)
        return f"{address} has {most} connections, max.connections.per.ip" if count > most else None

    def closed(self, address: str) -> None:
        """A connection is gone that was counted."""
        count = self._counts.get(address, 0)
        if count > 1:
            self._counts[address] = count - 1
        else:
            self._counts.pop(address, None)


def _parse(text: str, flags: int = 0) -> dict[str, int]:
    """HOST:COUNT,HOST:COUNT by address as Java writes it.

    A name counts for the first address that it has.
    """
    overrides = {}
    for item in text.split(",") if text.strip() else ():
        host, _, count = item.strip().rpartition(":")
        if not host.strip() or not count.strip().isdecimal():
            raise ConfigError(f"{_OVERRIDES}: {item.strip()!r} is not HOST:COUNT")
        try:
            known = socket.getaddrinfo(
                host.strip("[] "), None, type=socket.SOCK_STREAM, flags=flags
            )
            address = known[0][4][0]
        except OSError as error:
            raise ConfigError(f"{_OVERRIDES}: {host.strip()}: {error.strerror}") from None
        overrides[as_java(str(address))] = int(count)
    return overrides
