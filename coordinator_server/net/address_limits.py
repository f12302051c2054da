"""Limits the connections per address: max.connections.per.ip and its overrides.

Source: ConnectionQuotas of Kafka's SocketServer. Connections over the limit are closed immediately.
"""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from typing import TYPE_CHECKING

from coordinator_server.config.config import ConfigError
from coordinator_server.config.dynamic_settings import java_integer
from coordinator_server.config.hosts import as_java

if TYPE_CHECKING:
    from coordinator_server.config.config import Config

_LIMIT = "max.connections.per.ip"
_OVERRIDES = "max.connections.per.ip.overrides"


class AddressLimits:
    """Connection counts and limits by address. Raises ConfigError for invalid overrides."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._limit = config.integer(_LIMIT)
        self._text = ""
        self._hosts: dict[str, int] = {}
        self._addresses: dict[str, str] = {}
        self._overrides: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        if any(config.value(name) != config.static_value(name) for name in (_LIMIT, _OVERRIDES)):
            self.settings_changed()  # an invalid dynamic config must not prevent the start
            return
        self._text = config.text(_OVERRIDES)
        self._hosts = _hosts(self._text)
        self._addresses = {host: _address(host) for host in self._hosts}
        self._override()
        if self._limit == 0 and not self._overrides:
            raise ConfigError(f"{_LIMIT}: 0 needs {_OVERRIDES}, nobody may connect")

    def settings_changed(self) -> None:
        """Apply changed limits; host names are resolved in a thread.

        A host keeps its known address until a new lookup succeeds. An override of a host without a
        known address has no effect. A limit of 0 without overrides is replaced by the static limit.
        """
        text = self._config.text(_OVERRIDES)
        self._limit = self._config.integer(_LIMIT)
        if self._limit == 0 and not text.strip():
            static_limit = self._config.static_value(_LIMIT)
            assert isinstance(static_limit, int)
            self._limit = static_limit
        known = self._addresses
        hosts = _hosts(text, is_lenient=True)
        self._addresses = {host: known[host] for host in hosts if host in known}
        is_changed, self._text, self._hosts = text != self._text, text, hosts
        for host in hosts:
            if is_changed or host not in known:
                self._look_up(host)
        self._override()

    def _look_up(self, host: str) -> None:
        try:
            self._addresses[host] = _address(host, socket.AI_NUMERICHOST)
        except ConfigError:
            looked_up = asyncio.get_running_loop().run_in_executor(None, _address, host)
            looked_up.add_done_callback(partial(self._take, host))

    def _take(self, host: str, looked_up: asyncio.Future[str]) -> None:
        """Store the resolved address of a host, if the host still has an override."""
        if looked_up.cancelled() or looked_up.exception() is not None or host not in self._hosts:
            return
        address, before = looked_up.result(), self._addresses.get(host)
        self._addresses[host] = address
        if before is None:
            self._overrides[address] = self._hosts[host]
        elif before != address:
            self._override()

    def _override(self) -> None:
        """Set the limits of the known addresses."""
        self._overrides = {
            self._addresses[host]: count
            for host, count in self._hosts.items()
            if host in self._addresses
        }

    def opened(self, address: str) -> str | None:
        """Count a connection; return the reason if it must be closed, otherwise None."""
        count = self._counts.get(address, 0) + 1
        self._counts[address] = count
        most = self._overrides.get(address, self._limit)
        return f"{address} has {most} connections, max.connections.per.ip" if count > most else None

    def closed(self, address: str) -> None:
        """Remove a counted connection from the count."""
        count = self._counts.get(address, 0)
        if count > 1:
            self._counts[address] = count - 1
        else:
            self._counts.pop(address, None)


def _hosts(text: str, *, is_lenient: bool = False) -> dict[str, int]:
    """Return the counts of HOST:COUNT,HOST:COUNT by host.

    Raises ConfigError for an invalid item; if lenient, skips invalid items.
    """
    hosts = {}
    for item in text.split(",") if text.strip() else ():
        host, _, count_text = item.strip().rpartition(":")
        count = java_integer(count_text.strip())
        if host.strip() and count is not None:
            hosts[host.strip()] = count
        elif not is_lenient:
            raise ConfigError(f"{_OVERRIDES}: {item.strip()!r} is not HOST:COUNT")
    return hosts


def _address(host: str, flags: int = 0) -> str:
    """Return the first address of a host as Java writes it. Raises ConfigError if it has none."""
    try:
        known = socket.getaddrinfo(host.strip("[] "), None, type=socket.SOCK_STREAM, flags=flags)
    except (OSError, ValueError) as error:  # ValueError for a name that is invalid in DNS
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{_OVERRIDES}: {host}: {reason}") from None
    return as_java(str(known[0][4][0]))
