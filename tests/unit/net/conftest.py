"""Fixtures for connections: a turn is not limited by time, which depends on the machine's load."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def turns_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a connection take everything that is sent at once, however long this takes."""
    for module in ("connection", "tls_transport"):
        monkeypatch.setattr(f"coordinator_server.net.{module}.TURN_SECONDS", 60.0)
