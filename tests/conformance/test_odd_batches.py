"""Our broker answers and stores damaged and odd record batches like Kafka."""

from __future__ import annotations

import json

import pytest

from protocol import REFERENCE_VERSION
from tests.conformance.odd_batches.cases import CASES
from tests.conformance.odd_batches.play import Player
from tests.conformance.odd_batches.recorded import differences, read
from tests.support import Broker, address_of

EXPLAINED = {
    "frame: null": "Kafka does not answer at all: its handler fails.",
    "zstd: length too small": "ListOffsets finds the record; Kafka's reader stumbles over it.",
    "zstd: length too great": "Likewise.",
}
"""Cases that differ, with the reasons."""

LEAST = 400


def test_every_case_is_recorded() -> None:
    """Each case has a recorded answer, and each recorded answer has a case."""
    assert list(read()) == [case.name for case in CASES]
    assert len({case.topic for case in CASES}) == len(CASES) >= LEAST


@pytest.mark.real_time
def test_the_answers_are_those_of_kafka() -> None:
    """Produce, Fetch and ListOffsets answer like Kafka in every case.

    The test compares error, message, record errors, offsets and times of each Produce, the batches
    that Fetch returns, and the offsets that ListOffsets finds by time.
    """
    with Broker() as broker:
        player = Player(address_of(broker.bootstrap_servers))
        answers = player.play(CASES)
        player.close()
        assert "Traceback" not in broker.log, broker.log[-3000:]
    differing = {line.split("\n", 1)[0]: line for line in differences(read(), answers)}
    odd = [line for name, line in differing.items() if name not in EXPLAINED]
    assert not odd, f"{len(odd)} differ from Kafka {REFERENCE_VERSION}:\n" + "\n".join(odd[:20])
    assert differing.keys() == EXPLAINED.keys(), json.dumps(sorted(EXPLAINED.keys() - differing))


def test_a_topic_that_cannot_be_created_is_an_answer() -> None:
    """If Kafka refuses a case's topic config, the error is recorded and other cases are played."""
    known = CASES[0]
    unknown = known._replace(name="unknown", configs={"nonsense": "1"})
    with Broker() as broker:
        player = Player(address_of(broker.bootstrap_servers))
        answers = player.play([unknown, known])
        player.close()
    assert answers["unknown"] == {"topic": "INVALID_CONFIG: Unknown topic config name: nonsense"}
    assert answers[known.name] == read()[known.name]
