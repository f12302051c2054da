"""Large requests of the control API leave the event loop to clients."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from coordinator_server.testing.api import ControlApi
from tests.machine import slowness
from tests.support import API_VERSIONS_REQUEST, Broker, connect

MOST_SECONDS = 0.1
"""How long another client may wait while a request is served."""

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


@pytest.mark.alone
def test_large_answers_hold_nobody_up() -> None:
    """2 000 partitions, 2 000 offsets and a value of 10 MB delay no other client by 100 ms.

    The best of three tries counts, because other processes also delay the client.
    """
    with Broker() as broker:
        api: ControlApi = broker.api
        broker.create_topic("wide", 2000)
        broker.produce("wide", *["v"] * 4000)
        api.control.call("POST", "/topics/large", body=LARGE)
        api.records_produce("large", {"records": [{"value": "x" * 10_000_000}], "format": "text"})
        api.offsets_set(
            "g",
            {"offsets": [{"topic": "wide", "partition": one, "offset": 0} for one in range(2000)]},
        )
        requests: dict[str, Callable[[], object]] = {
            "partitions": lambda: api.partitions_list(limit=10_000),
            "lag": lambda: api.groups_lag("g"),
            "groups": lambda: api.groups_list(times=True),
            "browse": lambda: api.records_list("wide", limit=1000),
            "filter": lambda: api.records_list("wide", value="nothing"),
            "large": lambda: api.records_show("large", 0, 0),
            "hex": lambda: api.records_show("large", 0, 0, format="hex"),
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
