"""The control server's own faults; what it answers is tested with the process (tests/e2e)."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from coordinator_server.control.http import ControlServer
from coordinator_server.events.log import LOG


async def test_a_bug_costs_its_connection_and_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection is closed, one event is written, the server stops cleanly afterwards."""
    events: list[tuple[str, dict[str, Any]]] = []

    def emit(_: object, event: str, **fields: Any) -> None:
        events.append((event, fields))

    async def broken(*_: object) -> bool:
        raise ZeroDivisionError

    monkeypatch.setattr(type(LOG), "emit", emit)
    monkeypatch.setattr(ControlServer, "_serve_one", broken)
    server = ControlServer(cast(Any, None))
    await server.start("127.0.0.1", 0)
    host, _, port = events[0][1]["address"].rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    assert await reader.read() == b""
    writer.close()
    await server.stop()
    assert [event for event, _ in events] == ["control.listening", "control.failed"]
    assert isinstance(events[1][1]["exc_info"], ZeroDivisionError)
