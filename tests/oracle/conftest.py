"""The oracle tests need Java. Without Java they are left out with one line; in CI they fail.

CI installs Java and Maven (`.ci/run`), so that CI leaves no test out.
"""

from __future__ import annotations

import os

import pytest

from tests.left_out import leave_out
from tests.oracle.kafka_process import missing

FOLDER = "tests/oracle/"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the oracle tests out if their requirements are missing, unless CI is set."""
    ours = [item for item in items if item.nodeid.startswith(FOLDER)]
    reason = missing() if ours and not os.environ.get("CI") else None
    if reason is None:
        return
    line = f"{len(ours)} oracle tests left out: {reason} (see docs/tools.md)"
    leave_out(config, items, ours, line)
