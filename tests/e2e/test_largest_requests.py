"""No request of any API, even with its largest arrays, delays heartbeats of others."""

from __future__ import annotations

from collections.abc import Collection

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


PARTS = 4
Key = tuple[str, str]


def late(
    part: int, count: int, topics: int, *, oldest: bool, only: Collection[Key] | None = None
) -> dict[Key, Figure]:
    """Return the requests that delayed a heartbeat beyond WORST_MS.

    Part 0 sends the requests of `large_work`; each of the parts 1 to PARTS sends the largest arrays
    of every PARTS-th API. `only` restricts parts 1 to PARTS to some arrays.
    """
    print(HEAD)
    found: dict[Key, Figure] = {}
    with Broker(SETTINGS) as broker, heart(broker) as probe:
        # `only` does not restrict `large_work`, because each of its requests builds on the
        # previous ones.
        cases = (
            array_cases(count, SPECS[part - 1 :: PARTS], oldest=oldest)
            if part
            else large_work(broker, topics)
        )
        for case in cases:
            if part and only is not None and (case.api, case.what) not in only:
                continue
            figure = measured(broker, probe, case)
            print(figure)
            assert figure.answer_bytes, f"not answered: {figure}"
            if figure.worst_ms > WORST_MS:
                found[figure.api, figure.what] = figure
    return found


def check(part: int, count: int, topics: int, *, oldest: bool) -> None:
    """Check that no request is late twice; a single late one may be noise of the machine."""
    found = late(part, count, topics, oldest=oldest)
    if found:
        again = late(part, count, topics, oldest=oldest, only=found)
        assert not [str(figure) for key, figure in again.items() if key in found]


@pytest.mark.alone
@pytest.mark.parametrize(
    "part",
    [pytest.param(part, marks=[] if part == 3 else [pytest.mark.nightly]) for part in range(5)],
)
@pytest.mark.parametrize(
    ("count", "topics", "oldest"),
    [(20_000, 5_000, False), pytest.param(60_000, 50_000, True, marks=pytest.mark.nightly)],
)
def test_large_requests_do_not_hold_up_heartbeats(
    part: int, count: int, topics: int, oldest: bool
) -> None:
    """During a large request, a heartbeat on another connection is answered within 100 ms."""
    check(part, count, topics, oldest=oldest)
