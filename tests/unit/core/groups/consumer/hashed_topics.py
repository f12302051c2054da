"""Topics and their metadata hashes, computed by Kafka's own class (see tests/oracle)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.harness.one_group import SimulatedTopic, SimulatedTopicPartition


class HashedTopics:
    """A cluster that has only the given topics."""

    revision = created_revision = 1

    def __init__(
        self, topics: Sequence[SimulatedTopic], racks: Mapping[int, str] | None = None
    ) -> None:
        self._topics = topics
        self.racks = racks or {}

    def topic(self, name: str) -> SimulatedTopic | None:
        """Return the topic of this name."""
        return next((one for one in self._topics if one.name == name), None)

    def topic_by_id(self, topic_id: bytes) -> SimulatedTopic | None:
        """Return the topic of this id."""
        return next((one for one in self._topics if one.topic_id == topic_id), None)

    def listed_topics(self) -> Iterator[SimulatedTopic]:
        """Return every topic."""
        return iter(self._topics)


class Hashed(NamedTuple):
    """Topics, the racks of brokers, and Kafka's hash of both."""

    topics: list[SimulatedTopic]
    racks: dict[int, str]
    hashed: int


def _topic(name: str, most: int, least: int, *replicas: tuple[int, ...]) -> SimulatedTopic:
    """Return a topic with the replicas of its partitions; its id is in two halves, as in Java."""
    topic_id = b"".join(half.to_bytes(8, "big", signed=True) for half in (most, least))
    return SimulatedTopic(name, topic_id, tuple(map(SimulatedTopicPartition, replicas)))


RACKS = {1: "b", 2: "a", 3: "é", 4: "\U0001f600", 5: "\uffee"}
ONE = _topic("one", 1, 2, (1,))
TWO = _topic("two", -3, 4, (1, 2), (3,), (5, 4, 3, 1))
LARGE = _topic("large" * 20, 5, -6, *[(1,)] * 300)
ASTRAL = _topic("\U0001f600", 9, 10, (1, 1))
LATER = _topic("\uffee", 7, 8, (2,))
"""The name of this topic sorts before ASTRAL's name by code points, but after it in Java."""

CASES = [
    Hashed([ONE], {}, -3357890630506559390),
    Hashed([ONE], RACKS, 2929891510075161624),
    Hashed([ONE, TWO], {}, 8101868311839826849),
    Hashed([TWO, ONE], RACKS, 2239023060252245066),
    Hashed([LARGE], {}, 4136640629681202357),
    Hashed([LARGE, TWO], RACKS, 3545149887334199022),
    Hashed([LATER, ASTRAL], {}, 9030355269155253892),
    Hashed([LATER, ONE, ASTRAL, TWO, LARGE], RACKS, 5925931413598714992),
]
