"""Record our recorded suites again from another release of Kafka, in a separate directory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.conformance.access import record as access
from tests.conformance.access.brokers import their_broker
from tests.conformance.access.matrix import CASES as CELLS
from tests.conformance.access.matrix import cells_of, play
from tests.conformance.answers import Answers
from tests.conformance.kafka_cluster import kafka_cluster
from tests.conformance.odd_batches import recorded as odd_batches
from tests.conformance.odd_batches.cases import CASES as BATCHES
from tests.conformance.odd_batches.play import Player as BatchPlayer
from tests.conformance.runner import Player, all_scenarios
from tests.oracle.kafka_process import Kafka
from tests.scripts import json_texts
from tests.scripts.options import RECORDED as OPTIONS
from tests.scripts.options import listed_options
from tests.scripts.player import AREAS, OfficialTools
from tests.scripts.record import record as record_tools
from tests.scripts.record import record_json_texts
from tests.support import ROOT, address_of

CONFORMANCE = ROOT / "tests" / "conformance"
_PROFILES = ("ab", "de", "fgh", "ikt")
"""Profiles whose brokers run at the same time; more Kafkas would overload a small machine."""
_ALONE = ("txn_", "telemetry", "broker_configs")
"""Areas whose scenarios are played one at a time.

They change state that all scenarios share, and in Kafka transactions disturb each other.
"""
_TIMES = 2


@contextmanager
def kafkas(directory: Path, profiles: str) -> Iterator[dict[str, str | None]]:
    """Start a Kafka for each profile; yield their bootstrap servers by profile."""
    with ExitStack() as running:
        addresses: dict[str, str | None] = {}
        for name in profiles:
            lines = (CONFORMANCE / f"profile-{name}.properties").read_text().splitlines()
            pairs = (line.partition("=") for line in lines if line and line[0] != "#")
            (directory / name).mkdir(parents=True)
            settings = {key: value for key, _, value in pairs}
            takes_telemetry = "metric.reporters" in settings
            kafka = Kafka(directory / name, settings, takes_telemetry=takes_telemetry)
            running.callback(kafka.end)
            kafka.start()
            addresses[name] = kafka.bootstrap_servers
        yield addresses


def scenarios(out: Path, work: Path) -> list[str]:
    """Record the scenarios with one broker and those with three."""
    parts = []
    for profiles in _PROFILES:
        with kafkas(work / profiles, profiles) as addresses:
            for jobs, is_alone in ((8, False), (1, True)):
                wanted = [one for one in all_scenarios() if one.area.startswith(_ALONE) == is_alone]
                player = Player(addresses, jobs, patience=1.5)
                parts.append(Answers.gather([player.play(wanted) for _ in range(_TIMES)]))
    with kafka_cluster(work / "cluster") as cluster:
        player = Player.in_cluster(cluster, patience=1.5)
        parts.append(Answers.gather([player.play(all_scenarios()) for _ in range(_TIMES)]))
    kept = {name: steps for part in parts for name, steps in part.kept.items()}
    unstable = sorted({name for part in parts for name in part.unstable})
    before, now = Answers.recorded(), Answers(kept, unstable)
    now.write_all(out)
    unsteady = [name for name in unstable if name not in before.unstable]
    changed = [name for name in differing(before.kept, kept) if name not in unstable]
    return [*(f"{name}: not the same each time" for name in unsteady), *changed]


def access_matrix(out: Path, work: Path) -> list[str]:
    """Record the access matrix."""
    work.mkdir()
    with their_broker(work) as address:
        answers = play(address, cells_of(CELLS), None)
    access.write(answers, out / "access.json.gz")
    return [" ".join(map(str, key)) for key in access.differences(access.read(), answers)]


def damaged_batches(out: Path, work: Path) -> list[str]:
    """Record the answers to damaged batches."""
    work.mkdir()
    kafka = Kafka(work, {"transaction.state.log.num.partitions": "1"})
    try:
        kafka.start()
        player = BatchPlayer(address_of(kafka.bootstrap_servers))
        answers = player.play(BATCHES)
        player.close()
    finally:
        kafka.end()
    odd_batches.write(answers, out / "odd_batches.json")
    return differing(odd_batches.read(), answers)


def tools(out: Path, _: Path) -> list[str]:
    """Record the options of the command-line tools, and their output with our broker."""
    changed = []
    for area in AREAS:
        record_tools(area, out)
        before, now = (
            {case["case"]: case for case in cases}
            for cases in (area.read_recorded(), json.loads((out / area.recorded).read_text()))
        )
        changed += differing(before, now)
    record_json_texts(out)
    texts = json.loads((out / json_texts.RECORDED.name).read_text())
    changed += differing(json_texts.read_recorded(), texts)
    with OfficialTools() as official:
        options = listed_options(official)
    (out / OPTIONS.name).write_text(json.dumps(options, indent=1) + "\n")
    return changed + differing(json.loads(OPTIONS.read_text()), options)


Suite = Callable[[Path, Path], list[str]]

SUITES: Mapping[str, Suite] = {
    "scenarios": scenarios,
    "access": access_matrix,
    "batches": damaged_batches,
    "tools": tools,
}
"""Suites by name.

Each takes a directory for its files and one for its brokers, and returns the names that differ from
the project's recordings.
"""


def differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the names whose answers differ or exist on one side only."""
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
