"""Runs pytest; the few tests in real time that failed are run once more, by themselves, at the end.

    python -m tests.again [ARGUMENTS OF PYTEST]

Tests of the directories in `REAL_TIME` talk with other processes while the clock on the wall goes
on: a machine that stands still for some seconds lets a session expire or a client give up, and the
broker has done nothing wrong. Alone, at the end, they get the machine for themselves. Nothing is
hidden: the first failure stays in the output, whole, and the last lines name the tests that passed
only then. A failure anywhere else, or more than `MOST` of them, counts at once. See
docs/decisions/0006-tests-in-real-time.md.

Exit status: that of pytest, 0 if what was run again passed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest

REAL_TIME = tuple(
    f"tests/{name}/"
    for name in (
        "clients",
        "compose",
        "conformance",
        "e2e",
        "faults",
        "long",
        "oracle",
        "pipeline",
        "testing",
    )
)
MOST = 5
"""More failures than this are no accident."""


class Failed:
    """A pytest plugin that remembers which tests failed, in any phase, and what else went wrong."""

    def __init__(self) -> None:
        self.tests: dict[str, None] = {}
        self.collections: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called for setup, call and teardown of each test."""
        if report.failed:
            self.tests[report.nodeid] = None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Called for each file and class."""
        if report.failed:
            self.collections.append(report.nodeid)


def may_run_again(failed: Failed) -> bool:
    """Whether all failures are of tests in real time, and few."""
    in_real_time = all(test.startswith(REAL_TIME) for test in failed.tests)
    return in_real_time and not failed.collections and 0 < len(failed.tests) <= MOST


def main(arguments: Sequence[str]) -> int:
    """Run pytest, and what failed again if it may."""
    failed = Failed()
    status = pytest.main(list(arguments), plugins=[failed])
    if status != pytest.ExitCode.TESTS_FAILED or not may_run_again(failed):
        return int(status)
    tests = list(failed.tests)
    print(f"\nFailed in real time, and run once more by themselves: {len(tests)}", flush=True)
    command = [sys.executable, "-m", "pytest", "-v", *tests]
    again = subprocess.run(command, check=False).returncode
    if again == pytest.ExitCode.OK:
        print("\nPassed only when run once more; their first failures are above:")
        print("\n".join(tests), flush=True)
    return again


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
