"""The examples, copied and run."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

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
