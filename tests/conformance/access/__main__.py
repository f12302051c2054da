"""Record Kafka's answers to the matrix, or compare our broker with them.

    python -m tests.conformance.access record
    python -m tests.conformance.access compare [--only 'Metadata*']
    python -m tests.conformance.access show    [--only 'Metadata*']

`record` starts a new Kafka twice, plays all cells in another order the second time, and keeps the
answers that were equal. Answers that differ are listed as unstable; there must be none.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from fnmatch import fnmatch
from pathlib import Path
from time import monotonic
from typing import Any

from tests.conformance.access.brokers import our_broker, their_broker
from tests.conformance.access.matrix import CASES, Key, cells_of, play
from tests.conformance.access.record import differences, read, write


def main() -> int:
    """Run the command line and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance.access",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=("record", "compare", "show"))
    parser.add_argument("--only", metavar="GLOB", default="*")
    arguments = parser.parse_args()
    command = {"record": _record, "compare": _compare, "show": _show}[arguments.command]
    return command(arguments.only)


def _record(only: str) -> int:
    first, second = (_theirs(only, seed) for seed in (None, 1))
    unstable = differences(first, second)
    for key, (one, other) in unstable.items():
        print("unstable", key, one, other, sep="\n  ")
    kept = {key: answer for key, answer in first.items() if key not in unstable}
    if only != "*":
        kept = read() | kept
    write(kept)
    print(f"{len(kept)} cells kept, {len(unstable)} unstable")
    return 1 if unstable else 0


def _theirs(only: str, seed: int | None) -> dict[Key, Any]:
    with (
        tempfile.TemporaryDirectory() as directory,
        their_broker(Path(directory)) as address,
    ):
        return _play(address, only, seed)


def _play(address: tuple[str, int], only: str, seed: int | None = None) -> dict[Key, Any]:
    cells = cells_of(case for case in CASES if fnmatch(case.name, only))
    start = monotonic()
    answers = play(address, cells, seed)
    print(f"{len(cells)} cells in {monotonic() - start:.0f} s", flush=True)
    return answers


def _compare(only: str) -> int:
    with tempfile.TemporaryDirectory() as directory, our_broker(Path(directory)) as address:
        answers = _play(address, only)
    differing = differences(read(), answers)
    for key, (expected, actual) in differing.items():
        print(*key)
        print("  Kafka", json.dumps(expected, sort_keys=True))
        print("  ours ", json.dumps(actual, sort_keys=True))
    print(f"{len(answers)} cells, {len(differing)} differ")
    return 1 if differing else 0


def _show(only: str) -> int:
    for key, answer in read().items():
        if fnmatch(key[0], only):
            print(*key, json.dumps(answer, sort_keys=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
