"""No request holds up the heartbeats of other connections: all APIs, their largest arrays."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain

import pytest

from benchmarks.largest_requests import (
    HEAD,
    SETTINGS,
    WITHOUT_ARRAYS,
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
    """The requests, with `only` those of the arrays, that held up a heartbeat beyond WORST_MS."""
    print(HEAD)
    arrays = (
        case
        for case in array_cases(count, oldest=oldest)
        if only is None or (case.api, case.what) in only
    )
    found: dict[Key, Figure] = {}
    with Broker(SETTINGS) as broker, heart(broker) as probe:
        # Of the large work all is done each time: it needs what the requests before have made.
        for case in chain(arrays, large_work(broker, topics)):
            figure = measured(broker, probe, case)
            print(figure)
            assert figure.answer_bytes, f"not answered: {figure}"
            if figure.worst_ms > WORST_MS:
                found[figure.api, figure.what] = figure
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
    [(20_000, 5_000, False), pytest.param(60_000, 50_000, True, marks=pytest.mark.nightly)],
)
def test_large_requests_do_not_hold_up_heartbeats(count: int, topics: int, oldest: bool) -> None:
    """A heartbeat on another connection is answered within 100 ms."""
    check(count, topics, oldest=oldest)
