"""Fuzzing of the parsers of security texts and files, without a broker.

A `Surface` derives inputs from valid ones (tests.e2e.mutations) and passes them to a parser. The
parser may refuse an input only with its documented errors, within a limit of time and memory.
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
    """The slowest input, and its CPU time in seconds."""

    seconds: float = 0.0
    shown: str = ""


@dataclass
class Report:
    """The outcomes of a surface's inputs.

    `problems` are inputs with an undocumented error or too high a cost; `grown_mb` is the growth of
    the process's peak memory.
    """

    name: str
    accepted: int = 0
    refused: int = 0
    slowest: Slow = field(default_factory=Slow)
    grown_mb: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def inputs(self) -> int:
        """Return the number of inputs."""
        return self.accepted + self.refused + len(self.problems)


def fuzz(name: str, count: int, seed: int, slowness: float = 1.0) -> Report:
    """Pass `count` inputs to a surface; the time limit is scaled by `slowness`."""
    surface = SURFACES[name]()
    mutator = Mutator((seed, name))
    report = Report(name)
    began_mb = before_mb = _largest_mb()
    most_seconds = MOST_SECONDS * slowness
    for _ in range(count):
        value = surface.make(mutator)
        seconds = _hand(surface, value, report)
        if seconds > report.slowest.seconds:
            # A high value may come from other processes or a garbage collection, so measure again.
            attempts = _ATTEMPTS if seconds > most_seconds / 2 else 1
            seconds = min([seconds, *(_timed(surface, value) for _ in range(attempts))])
            if seconds > report.slowest.seconds:
                report.slowest = Slow(seconds, _show(value))
            if seconds > most_seconds:
                report.problems.append(f"{seconds:.3f} s: {_show(value)}")
        # Check memory only after slow inputs: using much memory takes time.
        if seconds > _LOOKED_AT_SECONDS:
            now_mb = _largest_mb()
            if now_mb - before_mb > MOST_GROWTH_MB:
                report.problems.append(f"{now_mb - before_mb:.0f} MiB: {_show(value)}")
            before_mb = now_mb
    report.grown_mb = _largest_mb() - began_mb
    return report


def _hand(surface: Surface, value: Any, report: Report) -> float:
    """Return the CPU time of an input, and count its outcome in the report."""
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
    """Return the peak resident memory in MiB, or 0 if the system does not report it.

    getrusage cannot be used instead, because its value includes the parent process's peak.
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
    """Return how many of `total` inputs each surface gets, in proportion to its weight."""
    costs = {name: make().share for name, make in SURFACES.items()}
    whole = sum(costs.values())
    return [(name, ceil(total * share / whole)) for name, share in costs.items()]


def table(reports: Sequence[Report]) -> str:
    """Return a text with one line per report."""
    return "\n".join(
        f"{one.name:28} {one.inputs:8} inputs, {one.accepted:8} accepted, slowest "
        f"{one.slowest.seconds * 1000:7.2f} ms, {one.grown_mb:5.0f} MiB more"
        for one in reports
    )
