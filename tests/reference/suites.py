"""Record our recorded suites again from another release of Kafka, in a separate directory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.conformance.access import record as access
from tests.conformance.access.brokers import their_broker
from tests.conformance.access.case import Cell
from tests.conformance.access.comparable import comparable
from tests.conformance.access.matrix import CASES as CELLS
from tests.conformance.access.matrix import Key, cells_of, play
from tests.conformance.answers import Answers
from tests.conformance.kafka_cluster import kafka_cluster
from tests.conformance.odd_batches import recorded as odd_batches
from tests.conformance.odd_batches.cases import CASES as BATCHES
from tests.conformance.odd_batches.play import Player as BatchPlayer
from tests.conformance.runner import Player, all_scenarios
from tests.conformance.stage import Scenario
from tests.oracle import segments as kafka_segments
from tests.oracle.kafka_process import Kafka
from tests.reference import tables
from tests.reference.report import Recording
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
_PATIENCE, _MORE_PATIENCE = 1.5, 2.5
_CALM_JOBS = 2


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


def scenarios(out: Path, work: Path) -> Recording:
    """Record the scenarios with one broker and those with three."""
    before = Answers.recorded().kept
    parts = []
    for profiles in _PROFILES:
        with kafkas(work / profiles, profiles) as addresses:
            for jobs, is_alone in ((8, False), (1, True)):
                wanted = [one for one in all_scenarios() if one.area.startswith(_ALONE) == is_alone]
                parts.append(_played(partial(Player, addresses, jobs), wanted, before))
                print(f"  profiles {profiles}: {_counts(parts[-1])}", flush=True)
    with kafka_cluster(work / "cluster") as cluster:
        parts.append(_played(partial(Player.in_cluster, cluster), all_scenarios(), before))
        print(f"  three brokers: {_counts(parts[-1])}", flush=True)
    kept = {name: steps for part in parts for name, steps in part.kept.items()}
    unstable = {name for part in parts for name in part.unstable}
    Answers(kept, sorted(unstable)).write_all(out)
    return Recording(before, kept, unstable)


def _played(
    player: Callable[..., Player], wanted: Sequence[Scenario], before: Mapping[str, Any]
) -> Answers:
    """Play scenarios twice. Play those that varied or differ twice more, on a calmer machine.

    The later answers count: a busy machine can delay a response beyond a scenario's wait.
    """
    first = player(patience=_PATIENCE)
    found = Answers.gather([first.play(wanted) for _ in range(_TIMES)])
    doubted = {name for name, one in found.kept.items() if before.get(name) != one}
    doubted |= set(found.unstable)
    again = [one for one in wanted if one.name in doubted]
    if not again:
        return found
    calm = player(patience=_MORE_PATIENCE).with_jobs(_CALM_JOBS)
    return Answers.gather([calm.play(again) for _ in range(_TIMES)]).over(found)


def _counts(answers: Answers) -> str:
    return f"{len(answers.kept)} scenarios, {len(answers.unstable)} not the same each time"


def access_matrix(out: Path, work: Path) -> Recording:
    """Record the access matrix, without the versions that the release does not serve."""
    work.mkdir()
    with their_broker(work) as address:
        served = tables.served_versions(f"{address[0]}:{address[1]}")
        answers = play(address, [one for one in cells_of(CELLS) if is_served(one, served)])
    access.write(answers, out / "access.json.gz")
    before = {key: one for key, one in access.read().items() if key in answers}
    return Recording(_comparable(before), _comparable(answers))


def is_served(cell: Cell, served: Mapping[int, tuple[int, int]]) -> bool:
    """Return whether a broker with these first and last versions by API key serves the cell."""
    first, last = served.get(cell.case.spec.key, (1, 0))
    return first <= cell.version <= last


def _comparable(answers: Mapping[Key, Any]) -> dict[str, Any]:
    return {" ".join(map(str, key)): comparable(key[0], one) for key, one in answers.items()}


def damaged_batches(out: Path, work: Path) -> Recording:
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
    return Recording(odd_batches.read(), answers)


def tools(out: Path, _: Path) -> Recording:
    """Record the options of the command-line tools, and their output with our broker."""
    before: dict[str, Any] = {}
    now: dict[str, Any] = {}
    for area in AREAS:
        record_tools(area, out)
        texts = (area.read_recorded(), json.loads((out / area.recorded).read_text()))
        for found, cases in zip((before, now), texts, strict=True):
            found |= {f"{area.cases}: {one.pop('case')}": one for one in cases}
    record_json_texts(out)
    before |= json_texts.read_recorded()
    now |= json.loads((out / json_texts.RECORDED.name).read_text())
    with OfficialTools() as official:
        options = listed_options(official)
    (out / OPTIONS.name).write_text(json.dumps(options, indent=1) + "\n")
    listed = (json.loads(OPTIONS.read_text()), options)
    for found, calls in zip((before, now), listed, strict=True):
        found |= {f"{call} --{one}": "listed" for call, names in calls.items() for one in names}
    return Recording(before, now)


def segments(out: Path, work: Path) -> Recording:
    """Record the log segments, and compare groups and formats of records."""
    kafka_segments.record(out / "segments", work)
    return Recording(
        kafka_segments.facts(kafka_segments.SEGMENTS), kafka_segments.facts(out / "segments")
    )


Suite = Callable[[Path, Path], Recording]


def repeated(record: Suite) -> Suite:
    """Return a suite that is recorded once more if anything differs, and tells what varied."""

    def suite(out: Path, work: Path) -> Recording:
        work.mkdir(parents=True)
        first = record(out, work / "first")
        if not first.differing:
            return first
        (work / "again").mkdir()
        second = record(work / "again", work / "second")
        varied = {name for name in first.differing if first.now.get(name) != second.now.get(name)}
        return first._replace(unstable=varied)

    return suite


SUITES: Mapping[str, Suite] = {
    "scenarios": scenarios,
    "access": repeated(access_matrix),
    "batches": repeated(damaged_batches),
    "tools": repeated(tools),
    "segments": repeated(segments),
}
"""Suites by name.

Each takes a directory for its files and one for its brokers, and returns what is recorded before
and now.
"""
