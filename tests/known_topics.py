"""A start of kafka-python consumers that no busy machine upsets."""

from __future__ import annotations

from typing import Any

from tests.support import wait_for


def know_topics(consumer: Any) -> None:
    """Wait until a consumer knows the topics that it subscribes to; then its first poll may come.

    kafka-python 3.0.12 joins without waiting for metadata. A leader that has none assigns nothing,
    rejoins when it has some, and if the poll ends in the middle of that second join it never looks
    at the answer: it keeps no partitions and sends no heartbeats (`join_group_async` asks
    `need_rejoin`, which the change of metadata alone made true).
    """
    topics = sorted(consumer.subscription() or ())
    wait_for(lambda: all(map(consumer.partitions_for_topic, topics)), f"partitions of {topics}")
