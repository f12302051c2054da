"""The oracle tests need Java; without it they are left out, and one line says so. In CI they fail.

CI installs Java and Maven (`.ci/run`), so that there nothing is left out unseen.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.oracle.kafka_process import missing

HERE = Path(__file__).parent
left_out: list[str] = []


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave these tests out where they cannot run, unless CI is set."""
    ours = [item for item in items if HERE in item.path.parents]
    reason = missing() if ours and not os.environ.get("CI") else None
    if reason is None:
        return
    left_out.append(f"{len(ours)} oracle tests left out: {reason} (see docs/tools.md)")
    config.hook.pytest_deselected(items=ours)
    items[:] = [item for item in items if item not in ours]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out."""
    for line in left_out:
        terminalreporter.write_line(line, yellow=True)
