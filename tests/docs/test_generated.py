"""Pictures, navigation, the command line and the manual pages match the sources."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from coordinator_server.cli import is_command
from coordinator_server.kafka_tools.script_names import SCRIPTS
from tests.docs import command_line, navigation, pictures
from tests.docs.snippets import PAGES
from tests.support import ROOT


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_a_picture_is_up_to_date(name: str) -> None:
    """The committed file is what `python -m tests.docs.pictures` draws."""
    text = (pictures.FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert text == pictures.PICTURES[name](), "run: python -m tests.docs.pictures"


def test_every_page_has_its_place() -> None:
    """The tables of docs/README.md and docs/decisions/README.md list every page once."""
    listed = []
    for page in navigation.PAGES_WITH_TABLES:
        text = navigation.with_toctrees(page, (ROOT / f"{page}.md").read_text(encoding="utf-8"))
        listed += re.findall(r"^/(.*)$", text, re.MULTILINE)
    every = {page.removesuffix(".md") for page in PAGES} | {"CHANGELOG"}
    assert sorted(listed) == sorted(every - {"docs/README"})


@pytest.fixture(scope="module")
def commands() -> list[command_line.Command]:
    """Every command of the reference."""
    return command_line.commands()


def test_the_reference_has_every_command(commands: list[command_line.Command]) -> None:
    """The broker's commands, the tools and Kafka's scripts have a section with their options."""
    names = [command.name.split(" ", 1)[1] for command in commands]
    assert all(map(is_command, names))
    assert {script.command for script in SCRIPTS} < set(names)
    assert len(names) == len(set(names)) > len(SCRIPTS) + 10
    text = command_line.markdown()
    for option in ("--dev-security DIR", "--reset-offsets", "--iterations", "--max-transaction"):
        assert f"`{option}" in text


def test_every_option_has_a_meaning(commands: list[command_line.Command]) -> None:
    """No option or argument of any command lacks its help text."""
    missing = [
        (command.name, entry.term)
        for top in commands
        for command in (top, *top.subcommands)
        for entries in command.entries.values()
        for entry in entries
        if not entry.meaning or entry.meaning.startswith("(default")
    ]
    assert missing == []


def test_manual_pages_are_well_formed(tmp_path: Path) -> None:
    """Each command has a page with known macros; groff, where installed, gives no warning."""
    command_line.main([str(tmp_path)])
    pages = sorted(tmp_path.glob("*.1"))
    assert len(pages) == len(command_line.commands()) + 1
    for page in pages:
        lines = page.read_text(encoding="utf-8").splitlines()
        macros = {line.split(" ")[0] for line in lines if line[:1] in (".", "'")}
        assert macros <= {".TH", ".SH", ".SS", ".PP", ".TP", ".B", ".BR", ".nf", ".fi"}
        assert {".SH NAME", ".SH SYNOPSIS", ".SH SEE ALSO"} <= set(lines)
        if shutil.which("groff"):
            groff = ["groff", "-man", "-Tutf8", "-ww", "-z", str(page)]
            done = subprocess.run(groff, capture_output=True, text=True, check=True)
            assert done.stderr == ""
