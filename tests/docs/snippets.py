"""Code blocks and commands of the documentation."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from coordinator_server.kafka_tools import commands as command_tools
from coordinator_server.kafka_tools.frame import ToolSpec
from coordinator_server.kafka_tools.options import HELP, VERSION, parse_options
from coordinator_server.kafka_tools.script_names import BY_COMMAND, BY_NAME, Script
from tests.docs.command_line import PROGRAM, own_parser
from tests.support import ROOT

PAGES = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/**/*.md", "benchmarks/README.md", "examples/*/README.md")
    for path in ROOT.glob(pattern)
    if path.name != "CHANGELOG.md"
)

_BLOCK = re.compile(
    r"^```(\S*)\n(.*?)^```|((?:^(?: {4}\S| {6})[^\n]*\n)+)", re.MULTILINE | re.DOTALL
)


class Block(NamedTuple):
    """A code block: its language (empty for an indented block) and its text."""

    language: str
    text: str


def blocks(page: str) -> list[Block]:
    """Return the code blocks of a page, fenced and indented ones."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        Block(match[1] or "", match[2] or re.sub(r"^ {4}", "", match[3] or "", flags=re.MULTILINE))
        for match in _BLOCK.finditer(text)
    ]


def commands(page: str) -> list[list[str]]:
    """Return the words of every command in the code blocks of a page.

    A line is a command if it begins with the name of a program that `check` knows. In a block with
    prompts, only the lines with a prompt are commands.
    """
    found = []
    for language, text in blocks(page):
        if language not in ("", "sh"):
            continue
        lines = text.replace("\\\n", " ").splitlines()
        if any(line.startswith("$ ") for line in lines):
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        for line in lines:
            words = _words(line)
            if words and (_script(words[0]) or Path(words[0]).name in _CHECKS):
                found.append(words)
    return found


def _words(line: str) -> list[str]:
    """Return the words of a line's last command, without redirections and `&`."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:  # a line of output with an apostrophe is not a command
        return []
    if "|" in words:
        words = words[words.index("|") + 1 :]
    end = next((index for index, word in enumerate(words) if word in (">", "<", "&")), None)
    return words[:end]


def _script(word: str) -> Script | None:
    return BY_NAME.get(Path(word).name.removesuffix(".sh"))


def check(words: Sequence[str]) -> None:
    """Raise AssertionError unless a command can be run: its options, its files and its modules."""
    script = _script(words[0])
    if script is not None:
        _check_script(script, words[1:])
    else:
        _CHECKS[Path(words[0]).name](words[1:])


def _check_program(words: Sequence[str]) -> None:
    name, *arguments = words
    if name in BY_COMMAND:
        _check_script(BY_COMMAND[name], arguments)
        return
    _parse(own_parser(name, arguments), arguments)


def _parse(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> None:
    try:
        parser.parse_args(list(arguments))
    except SystemExit as end:
        raise AssertionError(f"{parser.prog}: does not accept {arguments}") from end


def _check_script(script: Script, arguments: Sequence[str]) -> None:
    tool = import_module(f"coordinator_server.kafka_tools.{script.module}").TOOL
    if isinstance(tool, ToolSpec):
        options = parse_options((*tool.options, HELP, VERSION), arguments)
        assert not [one.name for one in tool.options if one.instead and options.has(one.name)]
    elif isinstance(tool, command_tools.CommandTool):
        command_tools.parse(tool, arguments)
    else:
        _parse(tool.parser(), arguments)


def _check_module(words: Sequence[str]) -> None:
    """Check `python -m MODULE`; other uses of Python need no check."""
    if words[0] == "-m":
        assert find_spec(words[1]) is not None, f"no module {words[1]}"


def _check_target(words: Sequence[str]) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert words[0] in targets, f"no target {words[0]}"


def _check_paths(words: Sequence[str]) -> None:
    for word in words:
        if word.startswith("tests/"):
            assert (ROOT / word).exists(), f"no file {word}"


_CHECKS = {
    PROGRAM: _check_program,
    "make": _check_target,
    "pytest": _check_paths,
    "python": _check_module,
}


def inline_code(page: str) -> Iterator[str]:
    """Yield the inline code of a page that begins with the name of a program."""
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.M | re.S)
    for code in re.findall(r"`([^`\n]+)`", text):
        if code.split(" ")[0] in (PROGRAM, "make"):
            yield code
