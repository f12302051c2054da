"""docs/pipeline.md: its commands are commands, and every option stands there."""

from __future__ import annotations

import argparse
import re
import shlex

from pipeline.options import parser
from pipeline.shipping import NEEDED
from tests.support import ROOT

PAGE = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
COMMAND = ["coordinator-server", "pipeline"]


def commands() -> list[list[str]]:
    """The words of every command of the page."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.split(line) for line in lines if line]


def test_every_command_is_understood() -> None:
    """Each one is parsed as the command line parses it; a wrong word would end the test."""
    found = commands()
    assert {words[2] for words in found} == {"run", "stream", "report"}
    for words in found:
        assert words[:2] == COMMAND
        parser().parse_args(words[2:])


def test_every_option_is_told() -> None:
    """Of all three commands."""
    top = parser()
    (choices,) = (
        action for action in top._actions if isinstance(action, argparse._SubParsersAction)
    )
    options = {
        name
        for command in choices.choices.values()
        for action in command._actions
        for name in action.option_strings
    } - {"-h", "--help"}
    assert len(options) > 15
    assert {name for name in options if name not in PAGE} == set()


def test_what_workers_need_is_told() -> None:
    """By the names under which it is installed."""
    assert all(f"`{package}`" in PAGE for package in NEEDED.values())
