"""Support for tools with subcommands, such as `kafka-transactions.sh list`.

Kafka uses argparse4j, a port of Python's argparse, so argparse parses the arguments here. Messages,
their order and exit codes are argparse4j's. Usage texts are this project's own, as in the other
tools.
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
    """A command failed: the tool prints one line on standard error (Kafka's printErrorAndExit)."""


def failed(what: str, error: Failure) -> CommandError:
    """Return the error of a failed request of a command."""
    return CommandError(f"{what}: {error}. Enable debug logging for additional detail.")


class Parser(argparse.ArgumentParser):
    """A parser with argparse4j's messages: unknown arguments are reported before missing ones."""

    help_code = 1
    """The exit code of `--help`."""

    def __init__(self, name: str, description: str) -> None:
        self._required: list[argparse.Action] = []
        super().__init__(name, description=description, add_help=False)
        self.add_argument("-h", "--help", action=_Help, nargs=0, help="print this help and exit")

    def add_argument(self, *names: str, required: bool = False, **options: Any) -> argparse.Action:
        """Add an argument; `check_required` checks the required ones."""
        action = super().add_argument(*names, **options)
        if required:
            self._required.append(action)
        return action

    def check_known(self, extras: Sequence[str]) -> None:
        """Exit if arguments are left over; report the first option, or else all words."""
        if extras:
            option = next((extra for extra in extras if extra.startswith("-")), None)
            self.error(f"unrecognized arguments: '{option or ' '.join(extras)}'")

    def check_required(self, options: argparse.Namespace) -> None:
        """Exit if a required argument is missing."""
        for action in sorted(self._required, key=lambda action: action.dest):
            if getattr(options, action.dest) is None:
                self.error(f"argument {'/'.join(action.option_strings)} is required")

    def error(self, message: str) -> NoReturn:
        """Exit with the usage and a message."""
        self.print_usage(sys.stderr)
        self.exit(1, f"{self.prog.split()[0]}: error: {message}\n")


class _Help(argparse.Action):
    """The option `--help`; most of Kafka's tools exit with 1 after it."""

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
    """The option `--version`."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Print the version of the Kafka reference release and exit with 0."""
        print(REFERENCE_VERSION)
        parser.exit(0)


def java_integer(java_type: str, bits: int) -> Callable[[str], int]:
    """Return a parser for one of Java's integer types, with argparse4j's error message."""

    def read(text: str) -> int:
        limit = 1 << (bits - 1)
        try:
            # Java parses a short as an int first; values beyond int get another error.
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
    """A tool with subcommands: its official name without `.sh`, its parsers and its function.

    The function returns the exit code and raises CommandError.
    """

    name: str
    parser: Callable[[], Parser]
    """Returns the parser of the options that all commands share."""
    commands: Callable[[], Mapping[str, Parser]]
    """Returns the parser of each command, by name."""
    run: Callable[[argparse.Namespace], int]


class ParserTool(NamedTuple):
    """A tool without subcommands: its official name without `.sh`, its parser and its function."""

    name: str
    parser: Callable[[], Parser]
    run: Callable[[argparse.Namespace], int]


def run_parser_tool(tool: ParserTool, arguments: Sequence[str]) -> int:
    """Run a tool and return its exit code; without arguments, print the help."""
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
    """Return the command's options and the shared options; `command` is the command's name.

    Exits if the arguments are invalid.
    """
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
    """Return the command with this name or with this unique prefix. Exits if there is none."""
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
    """Run a tool and return its exit code."""
    return _ended(tool.name, lambda: tool.run(parse(tool, arguments)))


def _ended(name: str, work: Callable[[], int]) -> int:
    """Return the exit code of a tool's function; print the error if the function raises one."""
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
    """Print a table like Kafka's ToolsUtils: each cell padded to its column's width, then a tab."""
    texts = [list(headers), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(headers))]
    for row in texts:
        print("".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True)))
