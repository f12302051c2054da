"""Fixtures for tests of the Windows disk on other systems."""

from __future__ import annotations

import sys

import pytest

from tests.windows import msvcrt as stand_in


@pytest.fixture
def msvcrt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace Windows' file locks by those of this system."""
    monkeypatch.setitem(sys.modules, "msvcrt", stand_in)
