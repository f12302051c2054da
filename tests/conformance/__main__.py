"""Record what a broker answers to our scenarios, or compare it with what Kafka answered.

    python -m tests.conformance record  HOST:PORT --b HOST:PORT [--times 3]
    python -m tests.conformance record  --profile d=HOST:PORT .. [--times 3]
    python -m tests.conformance record  --cluster DIR [--times 3]
    python -m tests.conformance compare HOST:PORT --b HOST:PORT
    python -m tests.conformance compare --cluster DIR
    python -m tests.conformance show
    python -m tests.conformance list

HOST:PORT is a broker of profile A and --b one of profile B (profile-a.properties,
profile-b.properties); --profile names brokers of further profiles. With --cluster the scenarios of
profile C are played instead, in three brokers that are started with their data in DIR: Kafka's for
`record`, ours for `compare`.

--only 'statics.*' selects scenarios. `record` plays each scenario several times and keeps the
answers that were the same each time; the others are named as unstable. It rewrites the data files
and the JSON files; answers of scenarios that were not played stay.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conformance.answers import Answers
from tests.conformance.cluster import our_cluster
from tests.conformance.kafka_cluster import kafka_cluster
from tests.conformance.runner import Player, areas, differences, select
from tests.conformance.stage import Scenario


def main() -> int:
    """Run the command line and return the exit code."""
    arguments = _arguments()
    scenarios = select(arguments.only)
    if arguments.command == "list":
        for one in scenarios:
            print(f"{one.name}: {one.question}")
        return 0
    if arguments.command == "show":
        for name, steps in Answers.recorded().kept.items():
            if name in {one.name for one in scenarios}:
                print(name, *(f"    {label} => {result}" for label, result in steps), sep="\n")
        return 0
    with _player(arguments) as player:
        if arguments.command == "record":
            _record(arguments, player, scenarios)
            return 0
        return _compare(arguments, player, scenarios)


@contextmanager
def _player(arguments: argparse.Namespace) -> Iterator[Player]:
    directory, patience = arguments.cluster, arguments.patience
    if directory is None:
        addresses = {"a": arguments.broker, "b": arguments.b, **dict(arguments.profile)}
        yield Player(addresses, arguments.jobs, patience)
        return
    start = kafka_cluster if arguments.command == "record" else our_cluster
    with start(directory) as cluster:
        yield Player.in_cluster(cluster, patience)


def _record(arguments: argparse.Namespace, player: Player, scenarios: list[Scenario]) -> None:
    answers = Answers.gather([player.play(scenarios) for _ in range(arguments.times)])
    for name in answers.unstable:
        print("unstable", name)
    print(f"{len(answers.kept)} recorded, {len(answers.unstable)} unstable")
    answers.write_all()


def _compare(arguments: argparse.Namespace, player: Player, scenarios: list[Scenario]) -> int:
    answers = Answers.recorded()
    wanted = [one for one in scenarios if one.name in answers.kept]
    played = player.play_as_expected(wanted, answers.kept)
    failed = {name for name, steps in played.items() if steps != answers.kept[name]}
    for one in wanted:
        if one.name in failed:
            print("FAIL", one.name, f"({one.question})")
            print("\n".join(differences(answers.kept[one.name], played[one.name])))
    for area, (passed, count) in areas(played, failed).items():
        print(f"{area}: {passed} of {count}")
    print(f"{len(played) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("record", "compare", "show", "list"):
        command = commands.add_parser(name)
        command.add_argument("--only", action="append", metavar="GLOB")
        if name in ("record", "compare"):
            where = command.add_mutually_exclusive_group()
            where.add_argument("broker", metavar="HOST:PORT", nargs="?")
            where.add_argument("--cluster", type=Path, metavar="DIR")
            command.add_argument("--b", metavar="HOST:PORT", help="a broker of profile B")
            command.add_argument(
                "--profile", action="append", default=[], type=_profile, metavar="NAME=HOST:PORT"
            )
            command.add_argument("-j", "--jobs", type=int, default=8)
            command.add_argument("--patience", type=float, default=1.0)
        if name == "record":
            command.add_argument("--times", type=int, default=3)
    return parser.parse_args()


def _profile(text: str) -> tuple[str, str]:
    name, _, address = text.partition("=")
    return name, address


if __name__ == "__main__":
    sys.exit(main())
