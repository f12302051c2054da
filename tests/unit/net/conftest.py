"""Turns of connections end by the count of requests, not by the time; events for looking at."""

from __future__ import annotations

import pytest

from tests.unit.net.fakes import Reports


@pytest.fixture(autouse=True)
def turns_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that sends several requests in one turn must not see it end for the time it took."""
    monkeypatch.setattr("coordinator_server.net.connection.TURN_SECONDS", 60.0)


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> Reports:
    """Events instead of log lines."""
    return Reports(monkeypatch)
