"""Leave out tests that cannot run on this machine.

Every reason is printed at the end of the run (`tests/conftest.py`).
"""

from __future__ import annotations

from collections.abc import Collection

import pytest

LINES = pytest.StashKey[list[str]]()


def leave_out(
    config: pytest.Config, items: list[pytest.Item], away: Collection[pytest.Item], line: str
) -> None:
    """Remove `away` from `items`, the collected tests, and record the reason in `line`."""
    config.stash.setdefault(LINES, []).append(line)
    config.hook.pytest_deselected(items=list(away))
    items[:] = [item for item in items if item not in away]
