"""max.connections of the broker and of a listener has the same effect as in Kafka."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from protocol.apis.api_versions import ApiVersionsRequest
from tests.faults.client import Client, GoneError
from tests.oracle.both import Addresses, ours, theirs
from tests.support import wait_for

pytestmark = pytest.mark.nightly

PAUSE_SECONDS = 1.0
SETTINGS = {
    "max.connections": "4",
    "listener.name.small.max.connections": "2",
    "num.network.threads": "1",
}
LISTENERS = dict.fromkeys(("SMALL", "OTHER"), "PLAINTEXT")


class Visitors:
    """Named connections to a broker."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._open: dict[str, Client] = {}

    def come(self, name: str, listener: str) -> str:
        """Connect and send a request; return "served", or "waits" if no response comes."""
        client = self._open[name] = Client(self._addresses[listener], PAUSE_SECONDS)
        client.send(ApiVersionsRequest(), 0)
        return self.look(name)

    def look(self, name: str) -> str:
        """Wait for a response; return "served", "waits", or "closed" for a closed connection."""
        try:
            self._open[name].receive()
        except GoneError as error:
            return "waits" if isinstance(error.__cause__, TimeoutError) else "closed"
        return "served"

    def ask(self, name: str) -> str:
        """Send another request; return "served", "waits" or "closed"."""
        try:
            self._open[name].send(ApiVersionsRequest(), 0)
        except GoneError:
            return "closed"
        return self.look(name)

    def go(self, name: str) -> None:
        """Close a connection."""
        self._open.pop(name).close()

    def end(self) -> None:
        """Close all connections."""
        for client in self._open.values():
            client.close()


def story(addresses: Addresses) -> list[str]:
    """Return the outcome of each step of a script that opens and closes connections."""
    wait_for(lambda: _is_free(addresses), "the connection that looked for the start is gone")
    visitors = Visitors(addresses)
    # These connections reach the listener's limit.
    told = [f"{name} {visitors.come(name, 'SMALL')}" for name in "abc"]
    visitors.go("a")
    told.append(f"c then {visitors.look('c')}")
    told += [f"{name} {visitors.come(name, 'PLAINTEXT')}" for name in "de"]
    # Connection f reaches the broker's limit.
    told.append(f"f {visitors.come('f', 'OTHER')}")
    # After this request of c, connection b has been idle longest.
    told.append(f"c {visitors.ask('c')}")
    told.append(f"g {visitors.come('g', 'PLAINTEXT')}")
    time.sleep(PAUSE_SECONDS)  # Kafka's processors check three times a second
    told += [f"{name} {visitors.ask(name)}" for name in "bcdeg"]
    told.append(f"f {visitors.look('f')}")
    visitors.go("g")
    told.append(f"f then {visitors.look('f')}")
    visitors.end()
    return told


def _is_free(addresses: Addresses) -> bool:
    visitors = Visitors(addresses)
    found = [visitors.come(str(number), "OTHER") for number in range(4)]
    visitors.end()
    return found == ["served"] * 4


def test_connections_beyond_the_limits(tmp_path: Path) -> None:
    """New connections wait on a full listener.

    A new inter-broker connection closes the longest-idle connection of another listener.
    """
    with theirs(tmp_path, SETTINGS, LISTENERS) as addresses:
        expected = story(addresses)
    with ours(SETTINGS, LISTENERS) as (addresses, broker):
        assert story(addresses) == expected
        delayed = broker.log_lines("connection.delayed")
        assert any("max.connections of the listener is 2" in line for line in delayed)
        assert any("max.connections is 4" in line for line in delayed)
        assert broker.log_lines("connection.closed", "PLAINTEXT needs the place")
    for part in ("c waits", "c then served", "f waits", "b closed", "f then served"):
        assert part in expected
