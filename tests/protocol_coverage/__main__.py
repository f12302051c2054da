"""`python -m tests.protocol_coverage record` records the APIs in use, `print` writes the page."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.protocol_coverage.page import PAGE, SUITES, page, write_seen
from tests.support import ROOT

OBSERVED = Path(__file__).parent / "observed"


def record() -> int:
    """Run all suites (half an hour), save the used APIs, and return pytest's exit code."""
    with tempfile.TemporaryDirectory() as directory:
        uses = Path(directory) / "uses"
        environment = {
            **os.environ,
            "API_USES": str(uses),
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(OBSERVED))),
        }
        command = (sys.executable, "-m", "pytest", "-q", "-n", "4", "-m", "not alone")
        code = subprocess.run((*command, *SUITES), cwd=ROOT, env=environment).returncode
        with uses.open() as lines:
            write_seen(lines)
    return code


def main() -> int:
    """Run the command given on the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.protocol_coverage", description=__doc__)
    parser.add_argument("what", choices=("record", "print"))
    code = record() if parser.parse_args().what == "record" else 0
    PAGE.write_text(page(), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
