"""Clients that give every view something to show: groups of each kind, a transaction, records."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from confluent_kafka import Consumer, Producer, ShareConsumer

from tests.clients.support import set_group_configs
from tests.support import Broker

TOPIC, PAID, SHARED = "orders", "payments", "jobs"
CLASSIC, MODERN, IDLE, SHARE = "billing", "mail", "reports", "workers"
TRANSACTION = "teller"


VIEWS: tuple[tuple[str, ...], ...] = (
    (),
    ("groups",),
    ("groups", CLASSIC),
    ("groups", MODERN),
    ("groups", SHARE),
    ("groups", IDLE),
    ("topics",),
    ("topics", TOPIC),
    ("records", TOPIC),
    ("transactions",),
    ("transactions", TRANSACTION),
    ("connections",),
    ("clock",),
    ("settings",),
    ("security",),
    ("connect",),
    ("login",),
)
"""Every view of the page with this workload, by the parts of its link."""


LOCK_MS = 3_600_000
SETTINGS = {
    "group.share.max.record.lock.duration.ms": LOCK_MS,
    "group.share.record.lock.duration.ms": LOCK_MS,
}
"""Settings of the broker, so that acquired records stay acquired."""


class Polled:
    """A consumer that is polled in a thread of its own until it is closed."""

    def __init__(self, consumer: Any, poll: Callable[[], object]) -> None:
        self._consumer = consumer
        self._poll = poll
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_closed.is_set():
            self._poll()
        self._consumer.close()

    def close(self) -> None:
        """Leave the group; a second call does nothing."""
        self._is_closed.set()
        self._thread.join(30)


def consumer(
    bootstrap: str, group: str, client_id: str, topic: str = TOPIC, **settings: Any
) -> Polled:
    """Start a consumer of a group; settings have `_` for `.`."""
    own = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": client_id,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 200,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    own.subscribe([topic])
    return Polled(own, lambda: own.poll(0.2))


def share_consumer(bootstrap: str, group: str, topic: str = SHARED) -> Polled:
    """Start a member of a share group that acquires records and never acknowledges them."""
    own = ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": "worker-1",
            "share.acknowledgement.mode": "explicit",
        }
    )
    own.subscribe([topic])
    acquired: list[object] = []

    def poll() -> None:
        # Stop polling once records are acquired: the next poll would fail, because they are not
        # acknowledged.
        if acquired:
            time.sleep(0.1)
        else:
            acquired.extend(own.poll(0.2) or ())

    return Polled(own, poll)


def open_transaction(bootstrap: str, name: str, topic: str = PAID) -> Producer:
    """Begin a transaction with one record, and leave it open."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": f"{name}-client",
            "transactional.id": name,
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"1")
    producer.flush()
    return producer


@contextmanager
def workload(broker: Broker) -> Iterator[None]:
    """Run clients of every kind until the end of the context."""
    bootstrap = broker.bootstrap_servers
    broker.create_topic(TOPIC, 3)
    for topic in (PAID, SHARED):
        broker.create_topic(topic, 1)
    broker.produce(TOPIC, *[f'{{"order": {number}}}' for number in range(30)])
    broker.produce(SHARED, "a", "b")
    places: list[Any] = [{"topic": TOPIC, "partition": index, "offset": 0} for index in range(3)]
    broker.api.offsets_set(IDLE, {"offsets": places})
    broker.api.quotas_alter({"entity": {"user": "bob"}, "set": {"producer_byte_rate": 1e6}})
    set_group_configs(bootstrap, SHARE, {"share.auto.offset.reset": "earliest"})
    with ExitStack() as stack:
        for polled in (
            consumer(bootstrap, CLASSIC, "billing-1"),
            consumer(bootstrap, CLASSIC, "billing-2"),
            consumer(bootstrap, MODERN, "mail-1", group_protocol="consumer"),
            share_consumer(bootstrap, SHARE),
        ):
            stack.callback(polled.close)
        producer = open_transaction(bootstrap, TRANSACTION)
        for group, members in ((CLASSIC, 2), (MODERN, 1), (SHARE, 1)):
            broker.wait_for_group(group, members=members)
        yield
        producer.abort_transaction()
