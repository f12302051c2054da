"""`python -m tests.protocol_coverage record` records the APIs in use, `print` writes the page."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.protocol_coverage.page import PAGE, SUITES, page, write_seen
from tests.support import ROOT

OBSERVED = Path(__file__).parent / "observed"
USES = ROOT / ".api-uses"
"""Holds the uses of each finished test file until all files have run."""
OK, FAILED, NO_TESTS = 0, 1, 5
"""Exit codes of pytest if it ran to its end; without tests, no test matches the markers."""


def record() -> int:
    """Run all test files of the suites, save the used APIs, and return OK or FAILED.

    This takes an hour. A recording that was interrupted continues with the first unfinished
    test file.
    """
    USES.mkdir(exist_ok=True)
    code = OK
    for path in suite_files():
        uses = USES / path.as_posix().replace("/", ".")
        if not uses.exists():
            code = max(code, _record_file(path, uses))
    write_seen(line for uses in sorted(USES.iterdir()) for line in uses.open())
    shutil.rmtree(USES)
    return code


def suite_files() -> list[Path]:
    """Return the paths of the suites' test files, relative to the root."""
    return [
        path.relative_to(ROOT)
        for suite in SUITES
        for path in sorted((ROOT / suite).rglob("test_*.py"))
    ]


def _record_file(path: Path, uses: Path) -> int:
    """Run a test file, write the APIs that it uses to `uses`, and return OK or FAILED.

    Raises SystemExit if pytest did not run to its end.
    """
    partial = USES.with_suffix(".partial")
    partial.write_text("")
    environment = {
        **os.environ,
        "API_USES": str(partial),
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(OBSERVED))),
    }
    command = (sys.executable, "-m", "pytest", "-q", "-n", "4", "-m", "not alone", str(path))
    code = subprocess.run(command, cwd=ROOT, env=environment).returncode
    if code not in (OK, FAILED, NO_TESTS):
        sys.exit(f"{path}: pytest ended early with exit code {code}")
    partial.replace(uses)
    return FAILED if code == FAILED else OK


def main() -> int:
    """Run the command given on the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.protocol_coverage", description=__doc__)
    parser.add_argument("what", choices=("record", "print"))
    code = record() if parser.parse_args().what == "record" else 0
    PAGE.write_text(page(), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
