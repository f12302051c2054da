"""How tests are run: which tests share a worker, run first, or may be rerun; and the summary.

`make test` uses several pytest-xdist workers, as a test with real clients mostly waits. Tests
marked `alone` measure time or CPU: `make test` runs them afterwards, one by one.
"""

from __future__ import annotations

import argparse
import gc
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

from coordinator_server.testing import process
from tests import forked
from tests.left_out import LINES

NIGHTLY, REAL_TIME, ALONE, REAL_START = "nightly", "real_time", "alone", "real_start"
ORACLE = "tests/oracle/"
TOGETHER = (ORACLE, "tests/pipeline/", "tests/compose/", "tests/page/")
"""Folders whose tests one worker runs: one Spark session serves all, a small machine bears few
Kafkas at a time, and compose projects share images and networks."""
ORACLE_WORKERS = 2
"""So many share the files of `tests/oracle`, where half of a test is waiting."""
APART = ("tests/clients/", "tests/sim/test_at_length.py", "tests/sim/test_mutations.py")
"""Tests that take seconds each and share a broker at most: any worker may take the next one."""
LONG = (
    "tests/conformance/",
    "tests/e2e/",
    "tests/codec/",
    "tests/docs/",
    "tests/faults/",
    "tests/fuzz_kafka/",
    "tests/scripts/",
    "tests/sim/",
    "tests/testing/",
    "tests/unit/test_",
)
"""Files that take up to minutes: if one came last, a single worker would be busy at the end."""
ORDER = (TOGETHER, LONG, APART)
"""What a run begins with: what takes longest in one piece. Everything else fills the gaps."""

# Garbage collections would take a third of the time of test collection and find nothing.
gc.disable()

# Hypothesis has no deadline per example, because an example takes longer on a busy machine.
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--slice=K/N`, which runs every Nth of the nightly tests."""
    parser.addoption(
        "--slice", type=parse_slice, default=(1, 1), help="run slice K of N of the nightly tests"
    )


def parse_slice(text: str) -> tuple[int, int]:
    """Return (K, N) of the text "K/N"; raise ArgumentTypeError unless 1 <= K <= N."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    number, count = map(int, match.groups()) if match else (0, 0)
    if not 1 <= number <= count:
        raise argparse.ArgumentTypeError(f"{text!r} is not K/N with 1 <= K <= N")
    return number, count


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import modules without timed tests when only timed tests run, as these are few."""
    if not config.option.markexpr.endswith("and alone") or collection_path.suffix != ".py":
        return None
    return "mark.alone" not in collection_path.read_text(encoding="utf-8") or None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fork the processes of a test, unless it measures or examines a process from its start."""
    process.start_process = forked.start
    is_real = any(item.get_closest_marker(name) is not None for name in (ALONE, REAL_START))
    forked.USE["forks"] = not is_real


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Fail a test that has left the exception of a handler behind (`tests.harness.broker`)."""
    bugs: list[Exception] = []
    try:
        yield
    finally:
        harness = sys.modules.get("tests.harness.broker")
        if harness is not None:
            bugs, harness.UNRAISED[:] = list(harness.UNRAISED), []
    for bug in bugs:
        raise bug


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests that may be rerun, deselect other slices, and put the longest tests first."""
    for item in items:
        if item.get_closest_marker(REAL_TIME) is not None:
            item.add_marker(pytest.mark.flaky(reruns=1))
    _keep_slice(config, items)
    if _is_worker(config):
        items.sort(key=_rank)


def pytest_collection_finish() -> None:
    """Collect garbage again from here on, but never look through modules and collected tests.

    Collections of few objects would take a twentieth of the CPU time of simulations.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


def _keep_slice(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the nightly tests that belong to another slice.

    Neighbours in a file go to different slices, because they tend to take equally long. Files of
    TOGETHER stay whole, because their tests share a Kafka, a Spark session or images.
    """
    number, count = config.getoption("slice")
    nightly = [item for item in items if item.get_closest_marker(NIGHTLY) is not None]
    parts = sorted({_part(item) for item in nightly})
    kept = set(parts[number - 1 :: count])
    away = {item for item in nightly if _part(item) not in kept}
    config.hook.pytest_deselected(items=list(away))
    items[:] = [item for item in items if item not in away]


def _part(item: pytest.Item) -> str:
    """Return the unit by which slices divide a test: its file if in TOGETHER, or else the test."""
    return item.nodeid.partition("::")[0] if item.nodeid.startswith(TOGETHER) else item.nodeid


def _rank(item: pytest.Item) -> int:
    """Return where in ORDER a test stands: at the last entry that has its folder or file."""
    ranks = [rank for rank, folders in enumerate(ORDER) if item.nodeid.startswith(folders)]
    return ranks[-1] if ranks else len(ORDER)


# --- parallel tests -------------------------------------------------------------------------------


def _is_worker(config: pytest.Config) -> bool:
    """Return whether this process is an xdist worker."""
    return hasattr(config, "workerinput")


class Scheduler(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Hands out tests by file; tests in APART one by one, and folders in TOGETHER as a whole."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        for folder in TOGETHER:
            if nodeid.startswith(folder):
                share = zlib.crc32(file.encode()) % ORACLE_WORKERS if folder == ORACLE else 0
                return f"{folder}{share}"
        return nodeid if nodeid.startswith(APART) else file

    def remove_node(self, node: Any) -> str | None:
        """Return the test that ended the worker, without passing the test to another worker."""
        units = self.assigned_work[node].values()
        left = [(unit, name) for unit in units for name, is_done in unit.items() if not is_done]
        unit, crashed = left[0] if left else ({}, None)
        unit[crashed] = True
        super().remove_node(node)
        return crashed


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Return the scheduler, and keep the order of `pytest_collection_modifyitems`."""
    config.option.loadscopereorder = False
    return Scheduler(config, log)


# --- summary --------------------------------------------------------------------------------------


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Add a line to the summary with the number of nightly tests that `make test` leaves out."""
    left = [item for item in items if item.get_closest_marker(NIGHTLY) is not None]
    markers = items[0].config.option.markexpr if items else ""
    if left and markers.startswith(f"not {NIGHTLY}") and not markers.endswith("and alone"):
        lines = items[0].config.stash.setdefault(LINES, [])
        lines.append(f"{len(left)} nightly tests left out: make nightly runs them")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let a worker report the skipped tests; all workers skip the same tests."""
    if _is_worker(session.config):
        output = session.config.workeroutput  # type: ignore[attr-defined]  # set by xdist
        output["left_out"] = session.config.stash.get(LINES, [])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Copy the report of skipped tests from a worker."""
    node.config.stash[LINES] = getattr(node, "workeroutput", {}).get("left_out", [])


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print which tests were left out, and the first failures of rerun tests."""
    for line in config.stash.get(LINES, []):
        terminalreporter.write_line(line, yellow=True)
    reruns = terminalreporter.getreports("rerun")
    for report in reruns:
        terminalreporter.write_sep("_", f"first failure of {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)
        for title, text in report.sections:
            terminalreporter.write_sep("-", title)
            terminalreporter.write_line(text)
    if reruns:
        terminalreporter.write_line(f"Run once more: {len(reruns)}", yellow=True)
        for report in reruns:
            terminalreporter.write_line(f"  {report.nodeid}", yellow=True)
