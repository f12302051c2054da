"""Record the scenarios from another release of Kafka, in parts that an interrupted run keeps."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, Self, TypeVar

from tests.conformance.answers import Answers
from tests.conformance.kafka_cluster import kafka_cluster
from tests.conformance.recording import UNFINISHED, Transcript
from tests.conformance.runner import Player, select
from tests.conformance.stage import Scenario
from tests.oracle.kafka_process import Kafka
from tests.reference.report import Recording
from tests.support import ROOT

CONFORMANCE = ROOT / "tests" / "conformance"
_PROFILES = ("ab", "de", "fgh", "ikt")
"""Profiles whose brokers run at the same time; more Kafkas would overload a small machine."""
_ALONE = ("txn_", "telemetry", "broker_configs")
"""Areas whose scenarios are played one at a time.

They change state that all scenarios share, and in Kafka transactions disturb each other.
"""
_TIMES = 2
_PATIENCE, _MORE_PATIENCE = 1.5, 2.5
_JOBS, _CALM_JOBS = 8, 2
_ERROR_NAME = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b")


class Part(NamedTuple):
    """Answers of scenarios that are played together.

    `ended` has the problem of each scenario that the release does not let play to its end, for
    instance because a setting of the scenario does not exist.
    """

    kept: dict[str, Transcript]
    unstable: list[str]
    ended: dict[str, str]

    @classmethod
    def read(cls, file: Path) -> Self | None:
        """Return the part that an earlier run has written, or None."""
        return cls(**json.loads(file.read_text())) if file.exists() else None

    def write(self, file: Path) -> None:
        """Write the part for the next run, atomically."""
        unfinished = file.with_suffix(".tmp")
        unfinished.write_text(json.dumps(self._asdict()))
        unfinished.rename(file)

    @property
    def names(self) -> set[str]:
        """Return the names of all scenarios of the part."""
        return {*self.kept, *self.unstable, *self.ended}

    @property
    def described(self) -> str:
        """Return the numbers of scenarios."""
        return (
            f"{len(self.kept)} scenarios, {len(self.unstable)} not the same each time, "
            f"{len(self.ended)} ended early"
        )


T = TypeVar("T")


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


def scenarios(out: Path, work: Path, only: Sequence[str] = ()) -> Recording:
    """Record the scenarios whose names match a glob of `only`; without globs, all scenarios.

    Each part is written to `out` when its scenarios have been played, and removed when all parts
    are there. The next run plays only the parts that an interrupted run has not written.
    """
    recorded = Answers.recorded().kept
    wanted = select(only)
    before = {one.name: recorded[one.name] for one in wanted if one.name in recorded}
    files, parts = [], []
    for title, some, play in _plan(work, wanted):
        if not some:
            continue
        files.append(out / f"part-{title}.json")
        part = Part.read(files[-1])
        state = "from an earlier run"
        if part is None or part.names != {one.name for one in some}:
            started = monotonic()
            part = play(some, before)
            part.write(files[-1])
            state = f"{monotonic() - started:.0f} s"
        parts.append(part)
        print(f"  {title}: {part.described}, {state}", flush=True)
    kept = {name: steps for part in parts for name, steps in part.kept.items()}
    unstable = {name for part in parts for name in part.unstable}
    Answers(kept, sorted(unstable)).write_all(out)
    for file in files:
        file.unlink()
    ended = {name: [[text, None]] for part in parts for name, text in part.ended.items()}
    return Recording(before, kept | ended, unstable)


Play = Callable[[Sequence[Scenario], Mapping[str, Any]], Part]


def _plan(work: Path, wanted: Sequence[Scenario]) -> Iterator[tuple[str, list[Scenario], Play]]:
    """Yield each part's title, scenarios, and the function that plays them.

    The brokers of a part start when the function is called, and end with the next profiles.
    """
    for profiles in _PROFILES:
        chosen = [one for one in wanted if one.profile in profiles]
        needed = "".join(sorted({one.profile for one in chosen}))
        with ExitStack() as running:
            start = cache(partial(_start, running, kafkas(work / profiles, needed)))
            for suffix, jobs in (("", _JOBS), ("-alone", 1)):
                is_alone = jobs == 1
                some = [one for one in chosen if one.area.startswith(_ALONE) == is_alone]
                yield f"{profiles}{suffix}", some, partial(_play_one, start, jobs)
    with ExitStack() as running:
        start_cluster = partial(_start, running, kafka_cluster(work / "cluster"))
        some = [one for one in wanted if one.profile == "c"]
        yield "cluster", some, partial(_play_c, start_cluster)


def _start(running: ExitStack, brokers: AbstractContextManager[T]) -> T:
    return running.enter_context(brokers)


def _play_one(start: Callable[[], Any], jobs: int, *some: Any) -> Part:
    return played(partial(Player, start(), jobs), *some)


def _play_c(start: Callable[[], Any], *some: Any) -> Part:
    return played(partial(Player.in_cluster, start()), *some)


def played(
    player: Callable[..., Player], wanted: Sequence[Scenario], before: Mapping[str, Any]
) -> Part:
    """Play scenarios twice; replay twice those whose answers vary or differ from the recording.

    The replay runs fewer scenarios at a time, and its answers count: on a busy machine a response
    can come after a scenario has stopped waiting.
    """
    first = player(patience=_PATIENCE)
    found = Answers.gather([first.play(wanted) for _ in range(_TIMES)])
    doubted = {name for name, one in found.kept.items() if before.get(name) != one}
    doubted |= set(found.unstable)
    again = [one for one in wanted if one.name in doubted]
    if not again:
        return Part(*found, {})
    calm = player(patience=_MORE_PATIENCE).with_jobs(_CALM_JOBS)
    runs = [calm.play(again) for _ in range(_TIMES)]
    kept, unstable = Answers.gather(runs).over(found)
    ended = {name: problem for name in unstable if (problem := _problem(runs, name))}
    return Part(kept, [name for name in unstable if name not in ended], ended)


def _problem(runs: Sequence[Mapping[str, Transcript]], name: str) -> str | None:
    """Return how the scenario ended early, if the problem was the same in all runs."""
    problems = set()
    for run in runs:
        label, text = run[name][-1] if run[name] else ("", "")
        if label not in UNFINISHED:
            return None
        kind, errors = text.partition(":")[0], dict.fromkeys(_ERROR_NAME.findall(text))
        problems.add(" ".join(["ended early:", label, kind, *errors]))
    return problems.pop() if len(problems) == 1 else None
