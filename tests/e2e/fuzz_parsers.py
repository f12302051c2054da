"""Fuzzing of what reads the texts and files of security, without a broker.

A `Surface` makes inputs from good ones (tests.e2e.mutations) and hands them to a parser, which may
refuse them by the errors that it documents and by no other, within a time and a memory.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from tests.e2e.fuzz_surfaces import SURFACES
from tests.e2e.mutations import Mutator, Surface

MOST_SECONDS = 0.1
MOST_GROWTH_MB = 64
_ATTEMPTS = 4
_LOOKED_AT_SECONDS = 0.0005
_SHOWN = 300


class Slow(NamedTuple):
    """The input that took longest, and how long in seconds of CPU."""

    seconds: float = 0.0
    shown: str = ""


@dataclass
class Report:
    """What came of a surface's inputs.

    `problems` are the inputs that were too much for the parser; `grown_mb` is by how much the
    largest memory of the process grew.
    """

    name: str
    accepted: int = 0
    refused: int = 0
    slowest: Slow = field(default_factory=Slow)
    grown_mb: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def inputs(self) -> int:
        """How many there were."""
        return self.accepted + self.refused + len(self.problems)


def fuzz(name: str, count: int, seed: int, slowness: float = 1.0) -> Report:
    """Hand so many inputs to a surface; the time is that of a quiet machine times `slowness`."""
    surface = SURFACES[name]()
    mutator = Mutator((seed, name))
    report = Report(name)
    began_mb = before_mb = _largest_mb()
    most_seconds = MOST_SECONDS * slowness
    for _ in range(count):
        value = surface.make(mutator)
        seconds = _hand(surface, value, report)
        if seconds > report.slowest.seconds:
            # What else the machine does, and a garbage collection, is not the input's.
            attempts = _ATTEMPTS if seconds > most_seconds / 2 else 1
            seconds = min([seconds, *(_timed(surface, value) for _ in range(attempts))])
            if seconds > report.slowest.seconds:
                report.slowest = Slow(seconds, _show(value))
            if seconds > most_seconds:
                report.problems.append(f"{seconds:.3f} s: {_show(value)}")
        if seconds > _LOOKED_AT_SECONDS:  # much memory takes time, too
            now_mb = _largest_mb()
            if now_mb - before_mb > MOST_GROWTH_MB:
                report.problems.append(f"{now_mb - before_mb:.0f} MiB: {_show(value)}")
            before_mb = now_mb
    report.grown_mb = _largest_mb() - began_mb
    return report


def _hand(surface: Surface, value: Any, report: Report) -> float:
    """How long an input takes; what it does is counted."""
    began = time.thread_time()
    try:
        surface.parse(value)
        report.accepted += 1
    except surface.refusals:
        report.refused += 1
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        report.problems.append(f"{type(error).__name__}: {error}"[:_SHOWN] + f": {_show(value)}")
    return time.thread_time() - began


def _timed(surface: Surface, value: Any) -> float:
    return _hand(surface, value, Report(surface.name))


def _largest_mb() -> float:
    """The largest resident memory so far in MiB; 0 where the system does not tell.

    Not that of getrusage, which begins with what the parent process had.
    """
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0


def _show(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}... ({len(shown)} characters)"


def shares(total: int) -> list[tuple[str, int]]:
    """How many of so many inputs each surface gets, those with the most work first."""
    costs = {name: make().share for name, make in SURFACES.items()}
    whole = sum(costs.values())
    return [(name, ceil(total * share / whole)) for name, share in costs.items()]


def table(reports: Sequence[Report]) -> str:
    """The reports, one line each."""
    return "\n".join(
        f"{one.name:28} {one.inputs:8} inputs, {one.accepted:8} accepted, slowest "
        f"{one.slowest.seconds * 1000:7.2f} ms, {one.grown_mb:5.0f} MiB more"
        for one in reports
    )
