"""docs/pipeline.md has only valid commands, and mentions every option."""

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
    """Return the words of every command on the page."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.split(line) for line in lines if line]


def test_every_command_is_understood() -> None:
    """The command line's parser accepts every command of the page."""
    found = commands()
    assert {words[2] for words in found} == {"run", "stream", "report"}
    for words in found:
        assert words[:2] == COMMAND
        parser().parse_args(words[2:])


def test_every_option_is_told() -> None:
    """The page mentions every option of all three commands."""
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
    """The page names every package that workers need."""
    assert all(f"`{package}`" in PAGE for package in NEEDED.values())
