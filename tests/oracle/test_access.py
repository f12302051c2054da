"""A running Kafka still gives the recorded answers of the access matrix."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.conformance.access.brokers import their_broker
from tests.conformance.access.matrix import CASES, cells_of, play
from tests.conformance.access.record import differences, read

SHARE = 20
"""Divisor: one in this many cells is played."""


@pytest.mark.nightly
def test_a_kafka_answers_as_recorded(tmp_path: Path) -> None:
    """Kafka answers a random sample of the matrix as recorded."""
    seed = random.randrange(10_000)
    cells = cells_of(CASES)
    chosen = set(random.Random(seed).sample(range(len(cells)), len(cells) // SHARE))
    with their_broker(tmp_path) as address:
        answers = play(address, [cell for number, cell in enumerate(cells) if number in chosen])
    assert differences(read(), answers) == {}, f"seed {seed}"
