"""The table of benchmark stages, whose functions must exist in the broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.stages import BORDERS, OUTSIDE, Border, MissingBorderError, Stopwatch, owner_of


@pytest.mark.parametrize("border", BORDERS, ids=lambda border: border.name)
def test_every_border_of_a_stage_is_a_function_of_the_broker(border: Border) -> None:
    """`python -m benchmarks.stages` finds each function that starts a stage."""
    owner, name = owner_of(border)
    assert callable(getattr(owner, name))


def test_a_border_that_is_gone_is_named() -> None:
    """If a wrapped function was renamed, the error names its stage."""
    gone = Border("decode", "protocol.codec", "decode_quickly")
    with pytest.raises(
        MissingBorderError, match=r"protocol\.codec has no decode_quickly.*'decode'"
    ):
        owner_of(gone)


def test_what_a_stage_calls_is_taken_off_its_time() -> None:
    """The CPU time of a stage excludes the stages that it calls, also for generators."""
    stopwatch = Stopwatch()
    work = stopwatch.wrapped("work", lambda: sum(range(200_000)))
    idle = stopwatch.wrapped("idle", work)

    def steps() -> Iterator[None]:
        yield work()

    idle()
    for _ in stopwatch.wrapped("steps", steps)():
        pass
    assert stopwatch.entered == {"idle": 1, "work": 2, "steps": 3}
    assert stopwatch.left_to == {OUTSIDE: 4, "idle": 1, "steps": 1}
    spent_ns = stopwatch.spent_ns
    assert spent_ns["work"] > spent_ns["idle"] + spent_ns["steps"]
