"""A connection's turn ends by the count of its requests alone: not by how busy the machine is."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def turns_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that sends several requests in one turn must not see it end for the time it took."""
    monkeypatch.setattr("coordinator_server.net.connection.TURN_SECONDS", 60.0)
