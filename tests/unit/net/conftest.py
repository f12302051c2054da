"""A connection's turn does not end by its time, which depends on how busy the machine is."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def turns_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test sends at once is taken at once, however long that takes."""
    for module in ("connection", "tls_transport"):
        monkeypatch.setattr(f"coordinator_server.net.{module}.TURN_SECONDS", 60.0)
