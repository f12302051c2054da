"""Files with fault rules, and the documentation of the rules."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from coordinator_server.faults.file import read_rules
from coordinator_server.faults.rule import FIELDS, FaultError
from tests.support import ROOT

PAGE = (ROOT / "docs" / "faults.md").read_text()


def test_the_file_of_the_documentation_is_valid(tmp_path: Path) -> None:
    """The TOML of docs/faults.md has two rules."""
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    file = tmp_path / "faults.toml"
    file.write_text(text)
    assert [rule["api"] for rule in read_rules(str(file))] == ["OffsetCommit", "Fetch"]


def test_the_documentation_has_every_field() -> None:
    """Each field of a rule is explained on the page."""
    assert FIELDS.keys() <= set(re.findall(r"`([a-z_]+)`", PAGE))


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("faults.json", '[{"drop": "before"}, {"drop": "then"}]', "rule 2: drop='then' is neither"),
        ("faults.json", '{"faults": [1]}', "is not a list of rules called faults"),
        ("faults.json", '{"faults": [], "more": 1}', "is not a list of rules called faults"),
        ("faults.json", '"drop"', "is not a list of rules called faults"),
        ("faults.json", '[{"api": ["Fetch"], "drop": "before"}]', "rule 1: there is no API"),
        ("faults.json", '[{"drop": "before"}' + ', {"drop": "before"}' * 100 + "]", "101 rules"),
        ("faults.json", "[" * 200_000, "is nested too deeply"),
        ("faults.json", "[", "is not valid: Expecting value"),
        ("faults.toml", "faults = [", "is not valid: "),
        ("faults.yaml", "faults: [", "is not valid: while parsing"),
        ("faults.txt", "", "ends in none of .yaml, .json, .toml"),
    ],
)
def test_an_invalid_file_is_refused(tmp_path: Path, name: str, text: str, error: str) -> None:
    """The error names the file, and the rule if the file is readable."""
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(FaultError) as raised:
        read_rules(str(file))
    assert str(raised.value).startswith(str(file))
    assert error in str(raised.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """The error names the file."""
    with pytest.raises(FaultError, match=r"none\.json cannot be read"):
        read_rules(str(tmp_path / "none.json"))


def test_yaml_needs_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without PyYAML the error names the package, and the formats that need none."""
    monkeypatch.setitem(sys.modules, "yaml", None)
    file = tmp_path / "faults.yaml"
    file.write_text("[]")
    with pytest.raises(FaultError, match="YAML needs PyYAML; TOML and JSON need no package"):
        read_rules(str(file))
