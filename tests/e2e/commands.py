"""Commands of coordinator-server and Kafka's scripts, run as users run them."""

from __future__ import annotations

import subprocess
import sys

from tests import forked
from tests.support import ROOT, Broker

EXPLAIN = (sys.executable, "-m", "coordinator_server", "explain")


def explain(broker: Broker | str, *arguments: str) -> tuple[int, list[str], str]:
    """Return exit code, lines of standard output, and standard error."""
    bootstrap = broker if isinstance(broker, str) else broker.bootstrap_servers.split(",")[0]
    done = forked.run([*EXPLAIN, *arguments, "--bootstrap-server", bootstrap], timeout=60)
    return done.returncode, done.stdout.splitlines(), done.stderr


HEALTHCHECK = ROOT / "coordinator_server" / "container" / "healthcheck.py"


def check(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the healthcheck like the image: by its path, without installed packages."""
    return subprocess.run(
        [sys.executable, "-I", "-S", str(HEALTHCHECK), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


WITHOUT_UVLOOP = (
    *(sys.executable, "-P", "-c"),
    "import sys; sys.modules['uvloop'] = None;from coordinator_server.__main__ import run; run()",
)


LIKE_WINDOWS = (sys.executable, "-P", str(ROOT / "tests" / "windows.py"))


COMMANDS = {"asyncio": WITHOUT_UVLOOP, "windows": LIKE_WINDOWS}
