"""Fixtures that the unit tests of all packages share."""

from __future__ import annotations

import pytest

from tests.unit.reports import Reports


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> Reports:
    """Return a list that collects events instead of log lines."""
    return Reports(monkeypatch)
