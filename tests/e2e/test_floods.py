"""During floods of handshakes and logins, connected clients are still served."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import quantiles

import pytest

from tests.e2e.neighbours import Wait, first_bug
from tests.floods import FLOODS, flood
from tests.machine import slowness, stolen_seconds
from tests.secured import SecuredBroker
from tests.support import API_VERSIONS_REQUEST, wait_for

SECONDS = 5.0
MOST_SECONDS = 0.1


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker with listeners for all floods."""
    broker = SecuredBroker(tmp_path_factory.mktemp("secured"), log_level="error")
    try:
        broker.start()
        yield broker
        assert first_bug(broker.serve.log) == ""
    finally:
        broker.end()


def waits(broker: SecuredBroker, seconds: float) -> list[Wait]:
    """Return the waits of a plaintext client for each of its responses."""

    def now() -> Wait:
        return Wait(time.monotonic(), stolen_seconds(), broker.serve.cpu_seconds())

    found = []
    with broker.serve.connect() as wire:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            before = now()
            wire.ask(API_VERSIONS_REQUEST)
            found.append(Wait(*(one - other for one, other in zip(now(), before, strict=True))))
            time.sleep(0.002)
    return found


@pytest.mark.nightly
@pytest.mark.alone
@pytest.mark.real_time
@pytest.mark.parametrize("name", FLOODS)
def test_neighbours_of_a_flood(broker: SecuredBroker, name: str) -> None:
    """A neighbour of a flood waits less than 100 ms at p99, and the broker works in short steps."""
    quiet = waits(broker, 1)
    with flood(name, broker) as done:
        wait_for(lambda: done.value > 50, "the flood comes")
        before = done.value
        busy = waits(broker, SECONDS)
        count = done.value - before
    p99, quiet_p99 = (
        quantiles([one.seconds - one.stolen_seconds for one in part], n=100)[98]
        for part in (busy, quiet)
    )
    longest_cpu = max(one.cpu_seconds for one in busy)
    print(
        f"{name}: {count / SECONDS:,.0f} a second; p99 {p99 * 1000:.1f} ms, quiet "
        f"{quiet_p99 * 1000:.1f}, the broker's longest work {longest_cpu * 1000:.1f}"
    )
    assert count > 100
    assert p99 < MOST_SECONDS
    assert longest_cpu < MOST_SECONDS * slowness()
