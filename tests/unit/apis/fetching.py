"""Fetch requests to a broker without sockets."""

from __future__ import annotations

from typing import Any

from protocol.apis.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from tests.harness.broker import MemoryBroker
from tests.harness.client import SentRequest
from tests.harness.records import batch

MIB = 1 << 20


SMALL = batch(b"x" * 20)


Partition = tuple[str, int, int] | tuple[str, int, int, int]


def broker(**overrides: Any) -> MemoryBroker:
    """Return a broker with topics "t" (two partitions) and "u"."""
    made = MemoryBroker(**overrides)
    made.topics.create("t", 2, {})
    made.topics.create("u", 1, {})
    return made


def fill(made: MemoryBroker, topic: str, partition: int, count: int = 1) -> None:
    """Append small batches of one record, and wake waiting fetches."""
    there = made.topics.partition(topic, partition)
    assert there is not None
    for _ in range(count):
        there.append(SMALL, made.clock.now_ms())
    made.turn()


def request(made: MemoryBroker, *partitions: Partition, **fields: Any) -> FetchRequest:
    """Return a request for (topic, partition, offset[, max bytes]), by name and by id."""
    topics = []
    for name, partition, offset, *limit in partitions:
        topic = made.topics.topic(name)
        topics.append(
            FetchTopic(
                topic=name,
                topic_id=topic.topic_id if topic is not None else b"?" * 16,
                partitions=[
                    FetchPartition(
                        partition=partition,
                        fetch_offset=offset,
                        partition_max_bytes=limit[0] if limit else MIB,
                    )
                ],
            )
        )
    return FetchRequest(topics=topics, **fields)


def ask(made: MemoryBroker, *partitions: Partition, version: int = 12, **fields: Any) -> Any:
    """Return the response to a request that does not wait."""
    return made.ask(request(made, *partitions, **fields), version)


def park(made: MemoryBroker, *partitions: Partition, **fields: Any) -> SentRequest:
    """Send a request that must wait, 500 ms by default; return its call."""
    fields = {"max_wait_ms": 500, "min_bytes": 1} | fields
    call = made.send(request(made, *partitions, **fields), 12)
    assert call.replies == []
    return call


class Session:
    """A consumer that fetches incrementally."""

    def __init__(self, made: MemoryBroker, *partitions: Partition, version: int = 12) -> None:
        self.made = made
        self.version = version
        self.first = ask(made, *partitions, version=version, session_epoch=0)
        self.id = self.first.session_id
        self.epoch = 0

    def ask(self, *partitions: Partition, forget: tuple[tuple[str, int], ...] = ()) -> Any:
        """Return the next response of the session."""
        self.epoch += 1
        forgotten = [ForgottenTopic(topic=name, partitions=[index]) for name, index in forget]
        return ask(
            self.made,
            *partitions,
            version=self.version,
            session_id=self.id,
            session_epoch=self.epoch,
            forgotten_topics_data=forgotten,
        )
