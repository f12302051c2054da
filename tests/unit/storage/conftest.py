"""What stands in for Windows when its disk is tested on another system."""

from __future__ import annotations

import sys

import pytest

from tests.windows import msvcrt as stand_in


@pytest.fixture
def msvcrt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows' file locks, made of those of this system."""
    monkeypatch.setitem(sys.modules, "msvcrt", stand_in)
