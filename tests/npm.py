"""Libraries of npm for tests. Each is downloaded once into the checkout, where git ignores it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.maven import one_at_a_time
from tests.support import ROOT


def library(name: str, version: str) -> Path:
    """Return the folder `node_modules` with a package of npm; download the package if needed."""
    folder = ROOT / f".{name}-{version}"
    complete = folder / ".complete"
    # A lock, because two concurrent npm processes would leave the folder incomplete.
    with one_at_a_time():
        if not complete.exists():
            options = ["--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder)]
            command = ["npm", "install", *options, f"{name}@{version}"]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{command}: {(done.stdout + done.stderr)[-2000:]}"
            complete.touch()
    return folder / "node_modules"
