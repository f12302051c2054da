"""The examples pass their tests when each folder is copied elsewhere and run with plain pytest."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.e2e.examples import EXAMPLES, run_copied
from tests.support import ROOT


@pytest.mark.nightly
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_passes_its_tests_wherever_it_lies(example: str, tmp_path: Path) -> None:
    """A copied example passes its tests with the installed checkout."""
    run_copied(example, tmp_path, sys.executable)


def test_every_example_with_tests_is_run() -> None:
    """Every example folder with tests is in the list of this module."""
    found = {path.parent.name for path in (ROOT / "examples").glob("*/tests")}
    assert found == set(EXAMPLES)
