"""No request holds up the heartbeats of other connections: all APIs, their largest arrays."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from benchmarks.largest_requests import (
    HEAD,
    SETTINGS,
    WITHOUT_ARRAYS,
    Case,
    Figure,
    array_cases,
    heart,
    large_arrays,
    large_work,
    measured,
)
from protocol.registry import SPECS, ApiSpec
from tests.support import Broker

WORST_MS = 100


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_every_api_is_measured(spec: ApiSpec) -> None:
    """Each API has a case, unless its request has no array."""
    assert bool(list(large_arrays(spec, 1))) != (spec.name in WITHOUT_ARRAYS)


Key = tuple[str, str]


def late(
    count: int, topics: int, *, oldest: bool, only: Collection[Key] | None = None
) -> dict[Key, Figure]:
    """The requests, all or some, that held up a heartbeat for more than WORST_MS."""
    print(HEAD)
    found: dict[Key, Figure] = {}
    looked_at = 0

    def look(case: Case) -> None:
        nonlocal looked_at
        looked_at += 1
        figure = measured(broker, probe, case)
        print(figure)
        assert figure.answer_bytes, f"not answered: {figure}"
        if figure.worst_ms > WORST_MS:
            found[figure.api, figure.what] = figure

    with Broker(SETTINGS) as broker, heart(broker) as probe:
        for case in array_cases(count, oldest=oldest):
            if only is None or (case.api, case.what) in only:
                look(case)
        if only is None or looked_at < len(only):
            for case in large_work(broker, topics):  # these need what the ones before have made
                look(case)
    return found


def check(count: int, topics: int, *, oldest: bool) -> None:
    """What is late twice is no noise of the machine."""
    found = late(count, topics, oldest=oldest)
    if found:
        again = late(count, topics, oldest=oldest, only=found)
        assert not [str(figure) for key, figure in again.items() if key in found]


@pytest.mark.alone
@pytest.mark.parametrize(
    ("count", "topics", "oldest"),
    [(20_000, 5_000, False), pytest.param(60_000, 50_000, True, marks=pytest.mark.slow)],
)
def test_large_requests_do_not_hold_up_heartbeats(count: int, topics: int, oldest: bool) -> None:
    """A heartbeat on another connection is answered within 100 ms."""
    check(count, topics, oldest=oldest)
