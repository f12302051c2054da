"""The registry of the command-line tools for data. A tool's module is imported when the tool runs.

Each tool is a module with `main(arguments) -> exit code`: 0 for success, 1 for damaged data, 2 for
wrong arguments.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple


class Command(NamedTuple):
    """A command: its module and function, and its line in `--help`.

    `needs` is a module from an optional extra that the command requires.
    """

    name: str
    module: str
    help: str
    function: str = "main"
    needs: str | None = None


_LIST = (
    Command("dump-log", "dump_log", "print the contents of log, index and snapshot files"),
    Command("doctor", "doctor", "connect like a client, and report which step fails and why"),
    Command("users", "users", "list users with SCRAM credentials, set a password, delete a user"),
    Command("ctl", "ctl", "inspect and change a running broker through its control server"),
    Command("explain", "explain", "print why a group rebalanced, and how long each rebalance took"),
    Command("verify-log", "verify_log", "verify every byte of a data directory or a partition"),
    Command("snapshot", "snapshot", "copy a data directory, also of a running broker"),
    Command("restore", "restore", "create a data directory from a snapshot"),
    Command(
        "import",
        "migrate",
        "copy topics and committed offsets from another cluster",
        "import_main",
        "kafka",
    ),
    Command(
        "promote",
        "migrate",
        "copy topics and committed offsets into another cluster",
        "promote_main",
        "kafka",
    ),
)
_MIGRATE_EXTRA = "pip install 'coordinator-server[migrate]'"
TOOLS = {tool.name: tool for tool in _LIST}


def installed_tools() -> list[Command]:
    """Return the tools whose required extras are installed."""
    return [
        tool
        for tool in _LIST
        if tool.needs is None or importlib.util.find_spec(tool.needs) is not None
    ]


def run_tool(name: str, arguments: Sequence[str]) -> int:
    """Run one tool and return its exit code: 2 also if the tool's extra is not installed.

    Raises ModuleNotFoundError if any other module is missing.
    """
    tool = TOOLS[name]
    try:
        module = import_module(f"coordinator_server.tools.{tool.module}")
    except ModuleNotFoundError as error:
        if tool.needs is None or error.name != tool.needs:
            raise
        print(f"coordinator-server: {name} needs an extra: {_MIGRATE_EXTRA}", file=sys.stderr)
        return 2
    code: int = getattr(module, tool.function)(list(arguments))
    return code
