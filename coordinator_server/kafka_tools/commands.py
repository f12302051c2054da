"""Tools with commands of their own, such as `kafka-transactions.sh list`.

Kafka builds these on argparse4j, a port of Python's argparse, so it is argparse that parses here;
messages, their order and exit codes are argparse4j's. Usage texts are ours, as of the other tools.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from coordinator_server.client import UnsupportedSettingError
from coordinator_server.kafka_tools.frame import (
    FAILURES,
    Failure,
    NotHereError,
    ToolError,
    parse_integer,
    print_thrown_by_main,
)
from protocol import REFERENCE_VERSION


class CommandError(Exception):
    """What ends a command with a line on standard error (Kafka's printErrorAndExit)."""


def failed(what: str, error: Failure) -> CommandError:
    """The error of a request that a command made."""
    return CommandError(f"{what}: {error}. Enable debug logging for additional detail.")


class Parser(argparse.ArgumentParser):
    """A parser with argparse4j's messages: what is not known is reported before what is missing."""

    help_code = 1
    """The exit code of `--help`."""

    def __init__(self, name: str, description: str) -> None:
        self._required: list[argparse.Action] = []
        super().__init__(name, description=description, add_help=False)
        self.add_argument("-h", "--help", action=_Help, nargs=0, help="show this text and exit")

    def add_argument(self, *names: str, required: bool = False, **options: Any) -> argparse.Action:
        """An argument; `check_required` looks for those that are required."""
        action = super().add_argument(*names, **options)
        if required:
            self._required.append(action)
        return action

    def check_known(self, extras: Sequence[str]) -> None:
        """Exit when arguments are left over: the first option, else all words."""
        if extras:
            option = next((extra for extra in extras if extra.startswith("-")), None)
            self.error(f"unrecognized arguments: '{option or ' '.join(extras)}'")

    def check_required(self, options: argparse.Namespace) -> None:
        """Exit when a required argument is not there."""
        for action in sorted(self._required, key=lambda action: action.dest):
            if getattr(options, action.dest) is None:
                self.error(f"argument {'/'.join(action.option_strings)} is required")

    def error(self, message: str) -> NoReturn:
        """Exit with usage and message."""
        self.print_usage(sys.stderr)
        self.exit(1, f"{self.prog.split()[0]}: error: {message}\n")


class _Help(argparse.Action):
    """`--help`, which ends most tools of Kafka's with exit code 1."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        parser.print_help()
        parser.exit(parser.help_code if isinstance(parser, Parser) else 1)


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


def java_integer(java_type: str, bits: int) -> Callable[[str], int]:
    """What reads an argument of one of Java's integer types, with argparse4j's message."""

    def read(text: str) -> int:
        limit = 1 << (bits - 1)
        try:
            # Java reads a short as an int first, and words one that is too large differently.
            value = parse_integer(text, max(bits, 32))
            if not -limit <= value < limit:
                message = f'Value out of range. Value:"{text}" Radix:10'
                raise ToolError("java.lang.NumberFormatException", message)
        except ToolError as error:
            message = f"could not convert '{text}' to {java_type} ({error})"
            raise argparse.ArgumentTypeError(message) from error
        return value

    return read


SHORT, INTEGER, LONG = (
    java_integer("Short", 16),
    java_integer("Integer", 32),
    java_integer("Long", 64),
)


class CommandTool(NamedTuple):
    """One tool: its official name without `.sh`, its parsers, and its work, which gives the exit
    code and raises CommandError."""

    name: str
    parser: Callable[[], Parser]
    """The parser of the options that all commands have."""
    commands: Callable[[], Mapping[str, Parser]]
    """The parser of each command."""
    run: Callable[[argparse.Namespace], int]


class ParserTool(NamedTuple):
    """One tool without commands: its official name without `.sh`, its parser, its work."""

    name: str
    parser: Callable[[], Parser]
    run: Callable[[argparse.Namespace], int]


def run_parser_tool(tool: ParserTool, arguments: Sequence[str]) -> int:
    """Run a tool, without arguments its help; returns its exit code."""
    parser = tool.parser()

    def work() -> int:
        if not arguments:
            parser.print_help()
            return 0
        options, extras = parser.parse_known_args(arguments)
        parser.check_known(extras)
        parser.check_required(options)
        return tool.run(options)

    return _ended(tool.name, work)


def parse(tool: CommandTool, arguments: Sequence[str]) -> argparse.Namespace:
    """The options of a command and those of all, and its name as `command`. Exits on a mistake."""
    top, commands = tool.parser(), tool.commands()
    names = ", ".join(commands)
    top.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND ...", help=names)
    options, extras = top.parse_known_args(arguments)
    top.check_known(extras)
    if not options.words:
        top.error("too few arguments")
    word, *rest = options.words
    if word.startswith("-"):
        top.check_known([word])
    name = _command(top, word, list(commands))
    command = commands[name]
    options, extras = command.parse_known_args(rest, options)
    command.check_known(extras)
    top.check_required(options)
    command.check_required(options)
    options.command = name
    return options


def _command(top: Parser, word: str, names: Sequence[str]) -> str:
    """The command that a word names or begins like no other."""
    if word in names:
        return word
    matching = [name for name in names if name.startswith(word)]
    if len(matching) > 1:
        top.error(f"ambiguous command: {word} could match {', '.join(sorted(matching))}")
    if not matching:
        choices = ", ".join(f"'{name}'" for name in names)
        top.error(f"invalid choice: '{word}' (choose from {choices})")
    return matching[0]


def run_command_tool(tool: CommandTool, arguments: Sequence[str]) -> int:
    """Run a tool; returns its exit code."""
    return _ended(tool.name, lambda: tool.run(parse(tool, arguments)))


def _ended(name: str, work: Callable[[], int]) -> int:
    """The exit code of the work of a tool; what it raises is printed."""
    try:
        return work()
    except SystemExit as end:
        return int(end.code or 0)
    except CommandError as error:
        print(error, file=sys.stderr)
    except (NotHereError, UnsupportedSettingError) as error:
        print(f"{name}: {error}", file=sys.stderr)
    except FAILURES as error:
        return print_thrown_by_main(error)
    return 1


def print_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table as Kafka's ToolsUtils does: each cell as wide as its column, then a tab."""
    texts = [list(headers), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(headers))]
    for row in texts:
        print("".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True)))
