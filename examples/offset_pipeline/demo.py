"""A complete run: a broker with a small workload, the pipeline on its log, and the report.

    python demo.py DIR          # `make pipeline` runs this with DIR = .pipeline

The broker writes to DIR/log, the pipeline to DIR/out. Both directories are emptied first.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PIPELINE = (sys.executable, "-m", "coordinator_server", "pipeline")


def run(*command: str | Path) -> str:
    """Run a command and return its output. If the command fails, exit with its code."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout


def main() -> None:
    """Create the workload, the tables and the report."""
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
