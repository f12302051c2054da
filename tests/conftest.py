"""How a run goes: which tests run side by side, which alone, which again, and what it says last.

`make test` has several pytest-xdist workers, as most of a test with real clients is waiting. A
plain `pytest tests/...` runs one test after the other.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.left_out import LINES
from tests.turns import Turns

REAL_TIME, ALONE = "real_time", "alone"
JVM = ("tests/oracle/", "tests/pipeline/", "tests/long/")
"""One Java process at a time is what a small machine bears, and one Spark session serves all."""
APART = ("tests/clients/", "tests/compose/")
"""Tests that wait for seconds each and share nothing: any worker may take the next one."""

_TURNS = pytest.StashKey[Turns]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let tests in real time run once more when they fail; what takes longest comes first."""
    for item in items:
        if item.get_closest_marker(REAL_TIME) is not None:
            item.add_marker(pytest.mark.flaky(reruns=1))
    if _is_worker(config):
        items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    """0 for what one worker has to do all by itself, 1 for what mostly waits, 2 for the rest."""
    if item.nodeid.startswith(JVM):
        return 0
    return 1 if item.nodeid.startswith(APART) else 2


# --- side by side, and alone ----------------------------------------------------------------------


def _is_worker(config: pytest.Config) -> bool:
    """Whether this is one of several processes that share the tests."""
    return hasattr(config, "workerinput")


class Scheduler(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Hands out tests by file, but for those that may be spread and those that may not at all."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(JVM):
            return "jvm"
        return nodeid if nodeid.startswith(APART) else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Our scheduler, which leaves the tests in the order in which we sorted them."""
    config.option.loadscopereorder = False
    return Scheduler(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """Take part in the turns."""
    if _is_worker(config):
        config.stash[_TURNS] = Turns()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Run a test when it is its turn."""
    turns = item.config.stash.get(_TURNS, None)
    if turns is None:
        return (yield)
    turns.begin(_is_alone(item))
    try:
        return (yield)
    finally:
        turns.end(nextitem is not None and _is_alone(nextitem))


def _is_alone(item: pytest.Item) -> bool:
    return item.get_closest_marker(ALONE) is not None


# --- the last lines -------------------------------------------------------------------------------


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take over what a worker left out; all of them left out the same."""
    node.config.stash[LINES] = node.workeroutput.get("left_out", [])


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand over what was left out."""
    if _is_worker(session.config):
        output = session.config.workeroutput  # type: ignore[attr-defined]  # xdist puts it there
        output["left_out"] = session.config.stash.get(LINES, [])


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what was left out, and which tests passed or failed only when run once more."""
    for line in config.stash.get(LINES, []):
        terminalreporter.write_line(line, yellow=True)
    reruns = terminalreporter.getreports("rerun")
    for report in reruns:
        terminalreporter.write_sep("_", f"first failure of {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)
    if reruns:
        terminalreporter.write_line(f"Run once more: {len(reruns)}", yellow=True)
        for report in reruns:
            terminalreporter.write_line(f"  {report.nodeid}", yellow=True)
