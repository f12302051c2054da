"""Checks that docs/clock.md names every module that reads the machine's time or sets a timer."""

from __future__ import annotations

import ast
import re

from tests.support import ROOT

PAGE = (ROOT / "docs" / "clock.md").read_text()
ROW = re.compile(r"^\| (.+?) \| (broker|client|machine) \| .+ \|$", re.MULTILINE)
SERVER = ROOT / "coordinator_server"
# Modules that do not use the broker's clock: modules of clocks, and modules that run in other
# processes. The module rebalances.events_reader runs in the process of a tool.
ELSEWHERE = ("control.advance", "rebalances.events_reader")
PACKAGES_ELSEWHERE = ("clock", "container", "tools", "kafka_tools", "testing", "client")
TIMERS = {"call_later", "call_at", "call_maintenance", "timeout", "timeout_at", "wait_for"}
CLOCKS = {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "thread_time"}


def keeps_time(module: ast.Module) -> bool:
    """Return whether a module sets timers, sleeps, or reads a clock of the machine."""
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute):
            name, owner = node.attr, node.value
            if name in TIMERS:
                return True
            if name in CLOCKS and isinstance(owner, ast.Name) and owner.id == "time":
                return True
        if (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) == "asyncio.sleep"
            and ast.unparse(node.args[0]) != "0"
        ):
            return True
    return False


def test_the_table_names_every_module_that_keeps_time() -> None:
    """The table in docs/clock.md names every module that sets timers or reads a clock."""
    named = {
        name for what, _ in ROW.findall(PAGE) for name in re.findall(r"`([a-z_.]+)`(?=[,)])", what)
    }
    found = set()
    for path in SERVER.rglob("*.py"):
        name = ".".join(path.relative_to(SERVER).with_suffix("").parts)
        if name in ELSEWHERE or name.startswith(PACKAGES_ELSEWHERE) or "_packages" in name:
            continue
        if keeps_time(ast.parse(path.read_text())):
            found.add(name)
    assert {
        "coordinator.task",
        "runtime.coordinator",
        "net.connections",
        "maintenance.scheduler",
    } <= found
    assert found - named - {"fetch.purgatory", "topics.manager"} == set()


def test_storage_reads_no_clock() -> None:
    """The storage package reads no clock: time is an argument there."""
    for path in (ROOT / "storage").glob("*.py"):
        assert not keeps_time(ast.parse(path.read_text())), path.name
