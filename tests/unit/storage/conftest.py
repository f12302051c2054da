"""What stands in for Windows when its disk is tested on another system."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture
def msvcrt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows' file locks, made of those of this system."""
    if sys.platform != "win32":
        from tests.windows import msvcrt

        monkeypatch.setitem(sys.modules, "msvcrt", msvcrt)
