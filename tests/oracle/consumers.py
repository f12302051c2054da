"""Consumers that several comparisons with Kafka use."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import confluent_kafka


@contextmanager
def polled(consumers: list[confluent_kafka.Consumer]) -> Iterator[None]:
    """Poll the consumers in a thread within the context, so that they stay in their groups."""
    is_over = threading.Event()

    def poll() -> None:
        while not is_over.is_set():
            for consumer in consumers:
                consumer.poll(0.05)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
