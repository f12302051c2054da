"""Random frames sent to the real process: some in each run, a million in `make nightly`."""

from __future__ import annotations

import os

import pytest
import uvloop

from tests.e2e.fuzz import Fuzzer
from tests.e2e.neighbours import (
    MOST_RESIDENT_MB,
    Neighbour,
    check_waits,
    first_bug,
)
from tests.support import Broker

FRAMES = int(os.environ.get("FUZZ_FRAMES", "1000000"))
FRAMES_AT_ONCE = 250_000
SOME_FRAMES = 20_000
SEED = int(os.environ.get("FUZZ_SEED", "3"))


def test_random_frames_do_no_harm() -> None:
    """The broker stays up and small, no handler fails, and another client is always served."""
    check_frames(SOME_FRAMES, SEED)


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(0, FRAMES, FRAMES_AT_ONCE))
def test_very_many_random_frames_do_no_harm(first: int) -> None:
    """A million random frames do no harm either.

    FUZZ_FRAMES and FUZZ_SEED choose another long run.
    """
    check_frames(min(FRAMES_AT_ONCE, FRAMES - first), SEED + first)


def check_frames(frames: int, seed: int) -> None:
    """Send random frames to a broker; fail unless it serves a neighbour and stays small."""
    settings = {"group.initial.rebalance.delay.ms": "0", "auto.create.topics.enable": "false"}
    with Broker(settings) as broker:
        neighbour = Neighbour(broker)
        neighbour.start()
        fuzzer = Fuzzer(broker.address, seed)
        uvloop.run(fuzzer.run(frames))
        neighbour.end()
        assert fuzzer.handled >= frames
        assert fuzzer.answered > fuzzer.closed > 0
        assert first_bug(broker.log) == "", f"seed {seed}"
        check_waits(neighbour.waits)
        assert broker.resident_mb() < MOST_RESIDENT_MB
