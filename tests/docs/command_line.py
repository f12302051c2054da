"""The command line as Markdown and as man pages, from the definitions that parse the arguments.

    python -m tests.docs.command_line DIR     # writes a man page of each command to DIR

`make docs` inserts the Markdown into docs/command-line.md.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from coordinator_server import __version__, cli
from coordinator_server.kafka_tools.commands import CommandTool, ParserTool
from coordinator_server.kafka_tools.options import HELP, VERSION, Option
from coordinator_server.kafka_tools.script_names import SCRIPTS, Script
from coordinator_server.tools import TOOLS, run_tool

PROGRAM = "coordinator-server"


class Entry(NamedTuple):
    """An option, an argument or a subcommand: the text to type, and its meaning."""

    term: str
    meaning: str


class Command(NamedTuple):
    """A command: its full name, a line, its usage, its entries by heading, and its subcommands."""

    name: str
    summary: str
    description: str
    usage: str
    entries: dict[str, list[Entry]]
    subcommands: list[Command]


class _ParserCaught(BaseException):
    """Raised in place of parsing, to pass the parser out of a tool's function."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__()
        self.parser = parser


def caught_parser(run: Callable[[], object]) -> argparse.ArgumentParser:
    """Return the parser whose `parse_args` or `parse_known_args` a function calls first."""

    def catch(parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        raise _ParserCaught(parser)

    with mock.patch.object(argparse.ArgumentParser, "parse_known_args", catch):
        try:
            run()
        except _ParserCaught as caught:
            return caught.parser
    raise AssertionError(f"{run} parses no arguments")


def commands() -> list[Command]:
    """Return every command in the order of `--help`: the broker's own, then Kafka's scripts."""
    top = cli.parser()
    helps = {entry.term: entry.meaning for entry in _choices(top)}
    own = [
        _of_parser(f"{PROGRAM} {name}", own_parser(name), helps[name])
        for name in helps
        if name not in {script.command for script in SCRIPTS}
    ]
    return own + [_of_script(script) for script in SCRIPTS]


def own_parser(name: str, arguments: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return the parser of a command that is not one of Kafka's scripts.

    `ctl` has the options only of the verb in `arguments`.
    """
    if name in TOOLS:
        return caught_parser(lambda: run_tool(name, list(arguments)))
    if name == "pipeline":
        parser: argparse.ArgumentParser = import_module("pipeline.options").parser()
        return parser
    if name == "protocol":
        parser = caught_parser(lambda: cli.main(["protocol"]))
        tools = _subparsers(parser)
        for tool, subparser in list(tools.items()):
            main = import_module(f"protocol.{tool}").main
            tools[tool] = caught_parser(partial(main, [], subparser.prog))
        return parser
    return _subparsers(cli.parser())[name]


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            choices: dict[str, argparse.ArgumentParser] = action.choices
            return choices
    return {}


def _choices(parser: argparse.ArgumentParser) -> list[Entry]:
    """Return the subcommands of a parser with their help lines."""
    return [
        Entry(choice.dest, choice.help or "")
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for choice in action._choices_actions
    ]


def _of_parser(name: str, parser: argparse.ArgumentParser, summary: str) -> Command:
    parser.prog = name
    entries: dict[str, list[Entry]] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction | argparse._HelpAction):
            continue
        entries.setdefault("Options" if action.option_strings else "Arguments", []).append(
            _of_action(parser, action)
        )
    helps = {entry.term: entry.meaning for entry in _choices(parser)}
    description = " ".join((parser.description or "").split())
    return Command(
        name,
        summary,
        "" if _sentence(description) == _sentence(summary) else description,
        _wide_usage(parser),
        entries,
        [
            _of_parser(f"{name} {word}", subparser, helps.get(word, subparser.description or ""))
            for word, subparser in _subparsers(parser).items()
        ],
    )


def _of_action(parser: argparse.ArgumentParser, action: argparse.Action) -> Entry:
    formatter = parser._get_formatter()
    term = formatter._format_action_invocation(action)
    meaning = formatter._expand_help(action) if action.help else ""
    choices = [str(choice) for choice in action.choices or ()]
    if choices and not action.option_strings:
        meaning += f" ({', '.join(choices)})"
    if action.default not in (None, False, argparse.SUPPRESS, [], "") and "default" not in meaning:
        default = action.default
        if not isinstance(default, tuple):
            meaning = f"{meaning} (default: {default})".strip()
    return Entry(term, meaning)


def _wide_usage(parser: argparse.ArgumentParser) -> str:
    with mock.patch.dict("os.environ", {"COLUMNS": "80"}):
        usage = parser.format_usage().rstrip()
    # Further lines are indented by the length of "usage: ".
    return "\n".join(line[len("usage: ") :] for line in usage.splitlines())


def _of_script(script: Script) -> Command:
    tool = import_module(f"coordinator_server.kafka_tools.{script.module}").TOOL
    name = f"{PROGRAM} {script.command}"
    summary = f"{script.help} ({script.name}.sh)"
    if isinstance(tool, ParserTool):
        return _of_parser(name, tool.parser(), summary)
    if isinstance(tool, CommandTool):
        top = _of_parser(name, tool.parser(), summary)
        subcommands = [
            _of_parser(f"{name} {word}", parser, parser.description or "")
            for word, parser in tool.commands().items()
        ]
        return top._replace(usage=f"{top.usage} COMMAND ...", subcommands=subcommands)
    entries = [_of_option(option) for option in sorted((*tool.options, HELP, VERSION))]
    return Command(name, summary, tool.purpose, f"{name} [OPTION ...]", {"Options": entries}, [])


def _of_option(option: Option) -> Entry:
    value = f" <{option.argument}>" if option.argument else ""
    meaning = option.instead or option.help
    if option.default is not None:
        meaning += f" (default: {option.default})"
    return Entry(f"--{option.name}{value}", meaning)


# --- Markdown -------------------------------------------------------------------------------------


def markdown() -> str:
    """Return the reference of all commands, a section each."""
    scripts = {f"{PROGRAM} {script.command}": script for script in SCRIPTS}
    every = commands()
    own = [command for command in every if command.name not in scripts]
    lines = ["## The broker and its tools", "", *_index(own), "## Kafka's scripts", ""]
    lines += ["| command | Kafka's script | |", "|---|---|---|"]
    for command in every[len(own) :]:
        script = scripts[command.name]
        anchor = _anchor(command.name)
        lines.append(f"| [`{script.command}`](#{anchor}) | `{script.name}.sh` | {script.help} |")
    lines.append("")
    for command in every:
        lines += _section(command, 2)
    return "\n".join(lines)


def _index(listed: list[Command]) -> Iterator[str]:
    yield from ("| command | |", "|---|---|")
    for command in listed:
        name = command.name.removeprefix(f"{PROGRAM} ")
        yield f"| [`{name}`](#{_anchor(command.name)}) | {_escaped(command.summary)} |"
    yield ""


def _anchor(name: str) -> str:
    return name.replace(" ", "-").lower()


def _section(command: Command, level: int) -> Iterator[str]:
    yield from (f"{'#' * level} {command.name}", "")
    for text in filter(None, (command.summary, command.description)):
        yield from (_escaped(_sentence(text)), "")
    yield from ("```text", command.usage, "```", "")
    for entries in command.entries.values():
        yield from ("| | |", "|---|---|")
        for term, meaning in entries:
            yield f"| `{term.replace('|', chr(92) + '|')}` | {_escaped(meaning)} |"
        yield ""
    for subcommand in command.subcommands:
        yield from _section(subcommand, level + 1)


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_<>\[\]|$])", r"\\\1", " ".join(text.split()))


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", ")")) else ".")


# --- man pages ------------------------------------------------------------------------------------


def man_page(command: Command, see_also: list[str]) -> str:
    """Return a page for section 1 of the manual, in man(7) macros."""
    page = command.name.replace(" ", "-")
    lines = [
        f'.TH {_roff(page.upper())} 1 "" "{PROGRAM} {__version__}" "{PROGRAM}"',
        ".SH NAME",
        f"{_roff(page)} \\- {_roff(command.summary)}",
        *_man_body(command, ".SH"),
    ]
    for subcommand in command.subcommands:
        lines += [f".SH {_roff(subcommand.name.removeprefix(f'{PROGRAM} ').upper())}"]
        lines += [".PP", _roff(_sentence(subcommand.summary))]
        lines += _man_body(subcommand, ".SS")
    lines += [".SH SEE ALSO", ",\n".join(f".BR {_roff(name)} (1)" for name in see_also)]
    return "\n".join(lines).replace(",\n.BR", " ,\n.BR") + "\n"


def _man_body(command: Command, macro: str) -> Iterator[str]:
    yield from (f"{macro} SYNOPSIS", ".nf", *map(_roff, command.usage.splitlines()), ".fi")
    if command.description:
        yield from (f"{macro} DESCRIPTION", _roff(_sentence(command.description)))
    for heading, entries in command.entries.items():
        yield f"{macro} {heading.upper()}"
        for term, meaning in entries:
            yield from (".TP", f".B {_roff(term)}", _roff(meaning) or "\\&")


def _roff(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text)


def man_pages() -> dict[str, str]:
    """Return the text of every man page by file name."""
    every = commands()
    pages = [command.name.replace(" ", "-") for command in every]
    top = cli.parser()
    main = _of_parser(PROGRAM, top, "a Kafka broker without a JVM, for one machine")._replace(
        subcommands=[]
    )
    main.entries["Commands"] = [
        Entry(command.name.removeprefix(f"{PROGRAM} "), command.summary) for command in every
    ]
    return {
        f"{PROGRAM}.1": man_page(main, pages),
        **{
            f"{page}.1": man_page(command, [PROGRAM])
            for page, command in zip(pages, every, strict=True)
        },
    }


def main(arguments: list[str]) -> int:
    """Write the man pages to a directory, and print their number."""
    directory = Path(arguments[0])
    directory.mkdir(parents=True, exist_ok=True)
    pages = man_pages()
    for name, text in pages.items():
        (directory / name).write_text(text, encoding="utf-8")
    print(f"{len(pages)} man pages in {directory}: man -l {directory}/{PROGRAM}.1")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
