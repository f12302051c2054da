"""Record the suites from another release of Kafka, into a separate directory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.conformance.access import record as access
from tests.conformance.access.brokers import their_broker
from tests.conformance.access.case import Cell
from tests.conformance.access.comparable import comparable
from tests.conformance.access.matrix import CASES as CELLS
from tests.conformance.access.matrix import Key, cells_of, play
from tests.conformance.odd_batches import recorded as odd_batches
from tests.conformance.odd_batches.cases import CASES as BATCHES
from tests.conformance.odd_batches.play import Player as BatchPlayer
from tests.oracle import segments as kafka_segments
from tests.oracle.kafka_process import Kafka
from tests.reference import tables
from tests.reference.report import Recording
from tests.reference.scenarios import scenarios
from tests.scripts import json_texts
from tests.scripts.options import RECORDED as OPTIONS
from tests.scripts.options import listed_options
from tests.scripts.player import AREAS, OfficialTools
from tests.scripts.record import record as record_tools
from tests.scripts.record import record_json_texts
from tests.support import address_of


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
    """Return a suite that records twice if answers differ, to find answers that vary by chance."""

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
