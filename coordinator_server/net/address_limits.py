"""How many connections one address may have: max.connections.per.ip and its overrides.

Source: ConnectionQuotas of Kafka's SocketServer. One connection more is closed at once.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from coordinator_server.config.config import ConfigError
from coordinator_server.config.hosts import as_java
from storage.config_def import INT_MAX

if TYPE_CHECKING:
    from coordinator_server.config.config import Config

_OVERRIDES = "max.connections.per.ip.overrides"


class AddressLimits:
    """The connections of each address; none is counted if there is no limit.

    Raises ConfigError for overrides that cannot be used.
    """

    def __init__(self, config: Config) -> None:
        self._limit = config.integer("max.connections.per.ip")
        self._overrides = _parse(config.text(_OVERRIDES))
        if self._limit == 0 and not self._overrides:
            raise ConfigError(f"max.connections.per.ip: 0 needs {_OVERRIDES}, nobody may connect")
        self._counts: dict[str, int] = {}

    def opened(self, address: str) -> str | None:
        """Count a connection; why it has to be closed, if it has."""
        if self._limit == INT_MAX and not self._overrides:
            return None
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


def _parse(text: str) -> dict[str, int]:
    """HOST:COUNT,HOST:COUNT by address as Java writes it.

    A name counts for the first address that it has.
    """
    overrides = {}
    for item in text.split(",") if text.strip() else ():
        host, _, count = item.strip().rpartition(":")
        if not host.strip() or not count.strip().isdecimal():
            raise ConfigError(f"{_OVERRIDES}: {item.strip()!r} is not HOST:COUNT")
        try:
            address = socket.getaddrinfo(host.strip("[] "), None, type=socket.SOCK_STREAM)[0][4][0]
        except OSError as error:
            raise ConfigError(f"{_OVERRIDES}: {host.strip()}: {error.strerror}") from None
        overrides[as_java(str(address))] = int(count)
    return overrides
