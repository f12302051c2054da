"""A recorder of events for tests."""

from __future__ import annotations

import pytest

from coordinator_server.events.log import LOG


class Reports:
    """Collects emitted events instead of logging them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[dict[str, object]] = []
        monkeypatch.setattr(type(LOG), "emit", self._emit)

    def _emit(self, event: str, **fields: object) -> None:
        self.events.append({"event": event, **fields})
