"""Start kafka-python consumers reliably even on a busy machine."""

from __future__ import annotations

from typing import Any

from tests.support import wait_for


def know_topics(consumer: Any) -> None:
    """Wait until a consumer has metadata for the topics that it subscribes to.

    Call this before the first poll. kafka-python 3.0.12 joins without waiting for metadata. A
    leader without metadata assigns nothing and rejoins when the metadata arrives. If a poll ends in
    the middle of that second join, the consumer never reads the response: it keeps no partitions
    and sends no heartbeats (`join_group_async` checks `need_rejoin`, which only the change of
    metadata had set).
    """
    topics = sorted(consumer.subscription() or ())
    wait_for(lambda: all(map(consumer.partitions_for_topic, topics)), f"partitions of {topics}")
