"""Record Kafka's answers to the odd batches, or compare our broker with them.

    python -m tests.conformance.odd_batches record
    python -m tests.conformance.odd_batches compare [--only 'zstd:*']
    python -m tests.conformance.odd_batches show    [--only 'zstd:*']

`record` plays all cases twice, each time with a new Kafka (ORACLE_JARS=DIR overrides its jars), and
keeps the answers that were equal. Others are listed as unstable; there must be none. With --only it
replaces the answers of those cases.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from fnmatch import fnmatch
from pathlib import Path

from tests.conformance.odd_batches.cases import CASES, Case
from tests.conformance.odd_batches.play import Answers, Player
from tests.conformance.odd_batches.recorded import differences, read, write
from tests.oracle.kafka_process import Kafka
from tests.support import Broker, address_of

_SETTINGS = {"transaction.state.log.num.partitions": "1"}


def main() -> int:
    """Run the command line and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance.odd_batches",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=("record", "compare", "show"))
    parser.add_argument("--only", metavar="GLOB", default="*")
    arguments = parser.parse_args()
    cases = [case for case in CASES if fnmatch(case.name, arguments.only)]
    return {"record": _record, "compare": _compare, "show": _show}[arguments.command](cases)


def _record(cases: list[Case]) -> int:
    answers, again = _theirs(cases), _theirs(cases)
    unstable = differences(answers, again)
    print("\n".join(f"unstable {line}" for line in unstable))
    kept = {name: answer for name, answer in answers.items() if again[name] == answer}
    write(kept if len(cases) == len(CASES) else read() | kept)
    print(f"{len(kept)} cases recorded, {len(unstable)} unstable")
    return 1 if unstable else 0


def _theirs(cases: list[Case]) -> Answers:
    with tempfile.TemporaryDirectory() as directory:
        kafka = Kafka(Path(directory), _SETTINGS)
        try:
            kafka.start()
            return _play(kafka.bootstrap_servers, cases)
        finally:
            kafka.end()


def _play(bootstrap_servers: str, cases: list[Case]) -> Answers:
    player = Player(address_of(bootstrap_servers))
    try:
        return player.play(cases)
    finally:
        player.close()


def _compare(cases: list[Case]) -> int:
    with Broker() as broker:
        answers = _play(broker.bootstrap_servers, cases)
    differing = differences(read(), answers)
    print("\n".join(differing))
    print(f"{len(answers)} cases, {len(differing)} differ")
    return 1 if differing else 0


def _show(cases: list[Case]) -> int:
    answers = read()
    for case in cases:
        print(case.name, json.dumps(answers.get(case.name), sort_keys=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
