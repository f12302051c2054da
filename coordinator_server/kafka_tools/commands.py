"""Tools with commands of their own, such as `kafka-transactions.sh list`.

Kafka builds these on argparse4j, a port of Python's argparse, so it is argparse that parses here;
messages and exit codes are argparse4j's. Like the usage texts of the other tools, these are ours.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

from coordinator_server.client import UnsupportedSettingError
from coordinator_server.kafka_tools.frame import FAILURES, Failure
from protocol import REFERENCE_VERSION


class CommandError(Exception):
    """What ends a command with a line on standard error (Kafka's printErrorAndExit)."""


def failed(what: str, error: Failure) -> CommandError:
    """The error of a request that a command made."""
    return CommandError(f"{what}: {error}. Enable debug logging for additional detail.")


class CommandTool(NamedTuple):
    """One tool: its official name without `.sh`, its parser, and its work, which gives the exit
    code and raises CommandError."""

    name: str
    parser: Callable[[], argparse.ArgumentParser]
    run: Callable[[argparse.Namespace], int]


class Parser(argparse.ArgumentParser):
    """A parser with argparse4j's messages and its exit code, which is 1 for `--help` as well."""

    def error(self, message: str) -> NoReturn:
        """Usage and message."""
        missing = "the following arguments are required: "
        if message.startswith(missing):
            first = message.removeprefix(missing).split(", ")[0]
            is_option = first.startswith("-")
            message = f"argument {first} is required" if is_option else "too few arguments"
        self.print_usage(sys.stderr)
        self.exit(1, f"{self.prog.split()[0]}: error: {message}\n")


class Version(argparse.Action):
    """`--version`."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Print the release of Kafka that is the reference."""
        print(REFERENCE_VERSION)
        parser.exit(0)


def run_command_tool(tool: CommandTool, arguments: Sequence[str]) -> int:
    """Run a tool; returns its exit code."""
    try:
        return tool.run(tool.parser().parse_args(arguments))
    except SystemExit as end:
        help_was_asked = any(one in ("-h", "--help") for one in arguments)
        return 1 if help_was_asked else int(end.code or 0)
    except CommandError as error:
        print(error, file=sys.stderr)
    except UnsupportedSettingError as error:
        print(f"{tool.name}: {error}", file=sys.stderr)
    except FAILURES as error:
        print(error, file=sys.stderr)
    return 1


def print_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table as Kafka's ToolsUtils does: each cell as wide as its column, then a tab."""
    texts = [list(headers), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(headers))]
    for row in texts:
        print("".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True)))
