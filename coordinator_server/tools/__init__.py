"""The command-line tools over data: what there is, and where. Nothing is imported until it runs.

Each tool is a module with `main(arguments) -> exit code`: 0 when all is well, 1 when the data is
not, 2 for wrong arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple


class Tool(NamedTuple):
    """A command, the module that holds it and its line in `--help`."""

    name: str
    module: str
    help: str


_LIST = (
    Tool("dump-log", "dump_log", "show what log, index and snapshot files hold"),
    Tool("explain", "explain", "tell why a group rebalanced and how it went"),
    Tool("verify-log", "verify_log", "check every byte of a data directory or a partition"),
    Tool("snapshot", "snapshot", "copy a data directory, its broker running or not"),
    Tool("restore", "restore", "make a data directory from a snapshot"),
)
TOOLS = {tool.name: tool for tool in _LIST}


def run_tool(name: str, arguments: Sequence[str]) -> int:
    """Run one tool; returns its exit code."""
    module = import_module(f"coordinator_server.tools.{TOOLS[name].module}")
    code: int = module.main(list(arguments))
    return code
