"""Kafka's scripts, run as users run them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from tests import forked

RUN = (sys.executable, "-m", "coordinator_server.container.scripts")


SECONDS = 0.3


"""The limit within which a script starts and does its work."""


def run(*arguments: str, command: Sequence[str] = RUN) -> subprocess.CompletedProcess[str]:
    """Run one script to its end."""
    return forked.run([*command, *arguments], timeout=60)
