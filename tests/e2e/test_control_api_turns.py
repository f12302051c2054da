"""Large requests of the control API leave the event loop to clients."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from coordinator_server.control.shapes import groups
from coordinator_server.testing.api import ControlApi
from tests.machine import slowness
from tests.support import API_VERSIONS_REQUEST, Broker, connect

MOST_SECONDS = 0.1
"""How long another client may wait while a request is served."""

RECORDS = 100_000
"""Records of one batch."""

LARGE = {"partitions": 1, "configs": {"max.message.bytes": "20000000"}}


@contextmanager
def pinged(broker: Broker) -> Iterator[list[float]]:
    """Ask the broker all the time; the list gets the time of each response in seconds."""
    waits: list[float] = []
    has_ended = threading.Event()

    def ping() -> None:
        with connect(broker.bootstrap_servers) as wire:
            while not has_ended.is_set():
                began_s = time.perf_counter()
                wire.ask(API_VERSIONS_REQUEST)
                waits.append(time.perf_counter() - began_s)
                time.sleep(0.001)

    thread = threading.Thread(target=ping)
    thread.start()
    try:
        yield waits
    finally:
        has_ended.set()
        thread.join()


def offsets_of(topic: str, count: int) -> groups.OffsetsToSet:
    """Return offset 0 of each partition, as a request commits it."""
    return {"offsets": [{"topic": topic, "partition": one, "offset": 0} for one in range(count)]}


def produce_batch(broker: Broker) -> None:
    """Write RECORDS records to `batch` in one compressed batch."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "compression.type": "zstd",
            "batch.num.messages": 1_000_000,
            "batch.size": 9_000_000,
            "linger.ms": 2000,
            "queue.buffering.max.messages": RECORDS,
            "message.max.bytes": 10_000_000,
        }
    )
    for _ in range(RECORDS):
        producer.produce("batch", b"x" * 20)
    assert producer.flush(60) == 0


@pytest.mark.alone
def test_large_answers_hold_nobody_up() -> None:
    """2 000 partitions, 10 000 offsets, and batches of 10 MB or 100 000 records delay no client.

    The best of three tries counts, because other processes also delay the client.
    """
    with Broker() as broker:
        api: ControlApi = broker.api
        broker.create_topic("wide", 2000)
        broker.produce("wide", *["v"] * 4000)
        api.control.call("POST", "/topics/large", body=LARGE)
        api.records_produce("large", {"records": [{"value": "x" * 10_000_000}], "format": "text"})
        broker.create_topic("wider", 10_000)
        api.offsets_set("g", offsets_of("wide", 2000))
        api.offsets_set("far", offsets_of("wider", 10_000))
        api.control.call("POST", "/topics/batch", body=LARGE)
        produce_batch(broker)
        last: groups.OffsetToSet = {"topic": "batch", "partition": 0, "offset": RECORDS - 2}
        numbers = iter(range(1, 100))
        requests: dict[str, Callable[[], object]] = {
            "partitions": lambda: api.partitions_list(limit=10_000),
            "lag": lambda: api.groups_lag("g"),
            "groups": lambda: api.groups_list(times=True),
            "browse": lambda: api.records_list("wide", limit=1000),
            "filter": lambda: api.records_list("wide", value="nothing"),
            "large": lambda: api.records_show("large", 0, 0),
            "hex": lambda: api.records_show("large", 0, 0, format="hex"),
            "whole": lambda: api.records_list("large", max_bytes=16 << 20),
            "topics": lambda: api.topics_list(filter="wide"),
            "set": lambda: api.offsets_set("new", offsets_of("wider", 10_000)),
            "reset": lambda: api.offsets_reset("far", {"to": "latest"}),
            "group": lambda: api.groups_show("far"),
            "produce": lambda: api.records_produce("wide", {"records": [{"value": "eA=="}] * 9000}),
            "skip": lambda: api.records_list("batch", offset=RECORDS - 2),
            "fetch": lambda: api.records_fetch("batch", 0, offset=RECORDS - 2),
            "show": lambda: api.records_show("batch", 0, RECORDS - 2),
            "age": lambda: (  # a new offset, which no earlier request has read
                api.offsets_set("age", {"offsets": [{**last, "offset": RECORDS - next(numbers)}]}),
                api.groups_lag("age"),
            ),
        }
        for name, request in requests.items():
            worst = []
            for _ in range(3):
                with pinged(broker) as waits:
                    request()
                worst.append(max(waits) / slowness())
                if worst[-1] <= MOST_SECONDS:
                    break
            assert min(worst) <= MOST_SECONDS, (name, worst)
