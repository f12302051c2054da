"""The examples pass their tests when each folder is copied elsewhere and run with plain pytest."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

EXAMPLES = ("kafka_python_app", "aiokafka_app", "confluent_app", "rebalance_listener")


def run_copied(example: str, directory: Path, python: str | Path) -> None:
    """Copy an example and run its tests with an interpreter; fail with their output."""
    copy = directory / example
    shutil.copytree(
        ROOT / "examples" / example,
        copy,
        ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache"),
    )
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "PYTHON", "KAFKA_"))
    }
    done = subprocess.run(
        [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    assert " passed" in done.stdout, done.stdout


@pytest.mark.nightly
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_passes_its_tests_wherever_it_lies(example: str, tmp_path: Path) -> None:
    """A copied example passes its tests with the installed checkout."""
    run_copied(example, tmp_path, sys.executable)


def test_every_example_with_tests_is_run() -> None:
    """Every example folder with tests is in the list of this module."""
    found = {path.parent.name for path in (ROOT / "examples").glob("*/tests")}
    assert found == set(EXAMPLES)
