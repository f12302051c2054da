"""pyproject.toml and its two lock files: everything is pinned, within tested bounds."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import Specifier
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.support import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
GROUPS: dict[str, list[Any]] = PYPROJECT["dependency-groups"]
EXTRAS: dict[str, list[str]] = PYPROJECT["project"]["optional-dependencies"]
CORE: list[str] = PYPROJECT["project"]["dependencies"]


def pins(name: str) -> dict[str, Version]:
    """Return name -> version of the packages that a lock file installs here."""
    lines = re.findall(r"^([^#\s].*)$", (ROOT / name).read_text(), re.MULTILINE)
    found: dict[str, Version] = {}
    for line in lines:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate():
            (pin,) = requirement.specifier
            assert pin.operator == "==", line
            found[canonicalize_name(requirement.name)] = Version(pin.version)
    return found


def of_group(name: str) -> Iterator[str]:
    """Yield the requirements of a dependency group, with included groups."""
    for entry in GROUPS[name]:
        if isinstance(entry, str):
            yield entry
        else:
            yield from of_group(entry["include-group"])


LOCKED_EXTRAS = [*EXTRAS["docs"], *EXTRAS["migrate"], *EXTRAS["pipeline"]]


@pytest.mark.parametrize("text", [*CORE, *LOCKED_EXTRAS, *of_group("dev")])
def test_everything_is_pinned_within_its_bounds(text: str) -> None:
    """requirements.lock has an allowed version of each package; `make lock` writes the file."""
    requirement = Requirement(text)
    version = pins("requirements.lock")[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(version)


@pytest.mark.parametrize("text", [*CORE, *EXTRAS["pipeline"], *of_group("test")])
def test_the_lowest_version_is_what_test_lowest_installs(text: str) -> None:
    """requirements-lowest.lock pins each lower bound itself."""
    requirement = Requirement(text)
    (lower,) = [one for one in requirement.specifier if one.operator == ">="]
    version = pins("requirements-lowest.lock")[canonicalize_name(requirement.name)]
    assert Specifier(f"=={lower.version}.*").contains(version), version
