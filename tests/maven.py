"""Java libraries of a test, brought by Maven into a directory of the checkout, once."""

from __future__ import annotations

import subprocess
from pathlib import Path


def fetch(pom: Path, directory: Path, *properties: str) -> Path:
    """The directory with the jars that a pom names, and those that they need."""
    complete = directory / ".complete"
    if not complete.exists():
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
        command += [f"-DoutputDirectory={directory}", "-DincludeScope=runtime"]
        done = subprocess.run(
            [*command, *(f"-D{one}" for one in properties)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"Maven failed: {done.stdout[-2000:]}"
        complete.touch()
    return directory
