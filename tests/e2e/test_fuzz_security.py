"""Fuzzing of security: its parsers, and listeners with TLS and SASL in the real process.

FUZZ_INPUTS and FUZZ_SEED choose another long run.
"""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import pytest

from tests.e2e.fuzz_parsers import Report, fuzz, shares, table
from tests.e2e.fuzz_surfaces import SURFACES
from tests.machine import slowness

SEED = int(os.environ.get("FUZZ_SEED", "3"))
INPUTS = int(os.environ.get("FUZZ_INPUTS", "1000000"))
SOME_INPUTS = 15_000
PART = 4000
MOST_GROWN_MB = 200
ENOUGH = 1000
"""Inputs of a surface among which there is a good one."""
NEVER_ACCEPTED = {"scram_final"}
"""Whose good inputs nobody can make by chance."""


def check(reports: list[Report]) -> None:
    """No problem, little memory, and inputs of both kinds for each surface."""
    print(table(reports))
    assert [problem for one in reports for problem in one.problems][:9] == [], f"seed {SEED}"
    assert max(one.grown_mb for one in reports) < MOST_GROWN_MB
    for name in SURFACES:
        of_surface = [one for one in reports if one.name == name]
        assert sum(one.refused for one in of_surface) > 0, name
        if name not in NEVER_ACCEPTED and sum(one.inputs for one in of_surface) >= ENOUGH:
            assert sum(one.accepted for one in of_surface) > 0, name


def test_parsers_bear_some_inputs() -> None:
    """Each refuses what it cannot read by its own errors, at once, in little memory."""
    work = partial(fuzz, seed=SEED, slowness=slowness())
    check([work(name, count) for name, count in shares(SOME_INPUTS)])


@pytest.mark.slow
def test_parsers_bear_many_inputs() -> None:
    """The same with all of a long run's inputs but those over sockets, on two processors."""
    work = partial(fuzz, slowness=slowness())
    parts = [
        (name, min(PART, count - begun), SEED * 1000 + begun // PART)
        for name, count in shares(INPUTS)
        for begun in range(0, count, PART)
    ]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context, max_tasks_per_child=40) as pool:
        reports = list(pool.map(work, *zip(*parts, strict=True)))
    merged = [_merged([one for one in reports if one.name == name]) for name in SURFACES]
    check(merged)
    assert sum(one.inputs for one in merged) >= INPUTS


def _merged(reports: list[Report]) -> Report:
    """The reports of a surface's parts as one."""
    return Report(
        reports[0].name,
        sum(one.accepted for one in reports),
        sum(one.refused for one in reports),
        max(one.slowest for one in reports),
        max(one.grown_mb for one in reports),
        [problem for one in reports for problem in one.problems],
    )
