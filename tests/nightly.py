"""Checks too long for each run of CI: `make nightly` runs all, each `.ci/run` one slice.

A slice is the unit tests on another Python, the lowest versions of the dependencies, random
sequences beside a Kafka, or a share of the tests marked `nightly`: comparisons with a running
Kafka, containers, a Spark cluster, long simulations, most deliberate bugs, long fuzzing.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence

from tests.oracle import kafka_process
from tests.support import ROOT

TEST_SLICES = 24
"""Into how many slices the tests marked `nightly` are divided, each of two to four minutes."""

FUZZ_SECONDS = 120
"""How long random sequences are drawn: the start of Kafka and the last shrinking come on top."""

_DAY_SECONDS = 86_400


def find_slices() -> dict[str, list[str]]:
    """Return the command of each slice that can run on this machine, by the name of the slice."""
    pythons = subprocess.run(
        ["tests/pythons.sh", "--list"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    slices = {"lowest": ["make", "test-lowest"]}
    for version in pythons.stdout.split():
        slices[f"python-{version}"] = ["tests/pythons.sh", version]
    if kafka_process.missing() is None:
        first = int(time.time()) // _DAY_SECONDS * 1000  # new fuzz sequences each day
        seconds = f"FUZZ_ARGUMENTS=--seconds {FUZZ_SECONDS}"
        slices["fuzz-kafka"] = ["make", "fuzz-kafka", f"SEEDS={first}-{first + 999}", seconds]
    for number in range(1, TEST_SLICES + 1):
        arguments = f"PYTEST_ARGUMENTS=--slice={number}/{TEST_SLICES} --durations=5"
        slices[f"tests-{number}"] = ["make", "test", "MARKERS=nightly", arguments]
    return slices


def select_slice(commit: str, names: Sequence[str]) -> str:
    """Return the slice that the commit's hash selects: over many commits each is selected."""
    return names[int(commit, 16) % len(names)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run slices one after the other; return 1 if one failed, after all of them have run."""
    slices = find_slices()
    parser = argparse.ArgumentParser(prog="python -m tests.nightly", description=__doc__)
    parser.add_argument("slices", nargs="*", metavar="SLICE", help=f"of {', '.join(slices)}")
    parser.add_argument("--commit", metavar="HASH", help="run the slice that this commit selects")
    options = parser.parse_args(arguments)
    names = options.slices or list(slices)
    if unknown := [name for name in names if name not in slices]:
        parser.error(f"unknown slice {unknown[0]!r}; the slices are {', '.join(slices)}")
    if options.commit:
        names = [select_slice(options.commit, list(slices))]
    print(f"nightly slices: {', '.join(names)} of {', '.join(slices)}", flush=True)
    failed = [
        name for name in names if subprocess.run(slices[name], cwd=ROOT, check=False).returncode
    ]
    if failed:
        print(f"nightly slices failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
