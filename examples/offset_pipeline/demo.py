"""From nothing to a report: a broker with a small workload, the pipeline on its log, the page.

    python demo.py DIR          # `make pipeline` does it with DIR = .pipeline

The broker's data go to DIR/log, what the pipeline makes to DIR/out; both are emptied first.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PIPELINE = (sys.executable, "-m", "coordinator_server", "pipeline")


def run(*command: str | Path) -> str:
    """Run a command and return what it prints; exits with its code if it fails."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout


def main() -> None:
    """Workload, tables, report."""
    directory = Path(sys.argv[1]).resolve()
    log, out = directory / "log", directory / "out"
    for folder in (log, out):
        shutil.rmtree(folder, ignore_errors=True)
    print("workload: three groups in half an hour, which pass in some seconds", flush=True)
    ended_ms = run(sys.executable, HERE / "workload.py", log).strip()
    run(*PIPELINE, "run", "--log-dir", log, "--out", out, "--at", ended_ms)
    metrics = directory / "metrics.prom"
    print(run(*PIPELINE, "report", "--out", out, "--prometheus", metrics), end="")


if __name__ == "__main__":
    main()
