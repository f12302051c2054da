"""What was left out of a run is said at its end, a line for each reason."""

from __future__ import annotations

import pytest

from tests.left_out import LINES


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what was left out."""
    for line in config.stash.get(LINES, []):
        terminalreporter.write_line(line, yellow=True)
