"""Leaving tests out that cannot run where they are.

It does not go unnoticed: each reason is a line at the end of the run (`tests/conftest.py`).
"""

from __future__ import annotations

from collections.abc import Collection

import pytest

LINES = pytest.StashKey[list[str]]()


def leave_out(
    config: pytest.Config, items: list[pytest.Item], away: Collection[pytest.Item], line: str
) -> None:
    """Take `away` out of `items`, the collected tests, and note the line that says why."""
    config.stash.setdefault(LINES, []).append(line)
    config.hook.pytest_deselected(items=list(away))
    items[:] = [item for item in items if item not in away]
