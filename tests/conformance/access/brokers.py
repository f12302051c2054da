"""The two brokers for the matrix, a Kafka and ours, with the same settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coordinator_server.config.authorizer_settings import AUTHORIZER_CLASS
from tests.conformance.access.connection import PASSWORD
from tests.conformance.access.matrix import all_users
from tests.oracle.kafka_process import Kafka
from tests.support import Serve, address_of

_LISTENER = "USERS"
_SETTINGS = {
    "authorizer.class.name": AUTHORIZER_CLASS,
    "super.users": "User:admin;User:ANONYMOUS",
    "num.partitions": "1",
    "delegation.token.secret.key": PASSWORD,
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.session.timeout.ms": "900000",
    "group.consumer.max.session.timeout.ms": "900000",
    "group.share.assignment.interval.ms": "0",
    "group.share.session.timeout.ms": "900000",
    "group.share.max.session.timeout.ms": "900000",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.session.timeout.ms": "900000",
    "group.streams.max.session.timeout.ms": "900000",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def _settings() -> dict[str, str]:
    users = " ".join(f'user_{name}="{PASSWORD}"' for name in all_users())
    prefix = f"listener.name.{_LISTENER.lower()}"
    return _SETTINGS | {
        f"{prefix}.sasl.enabled.mechanisms": "PLAIN",
        f"{prefix}.plain.sasl.jaas.config": f"{_MODULE} {users};",
    }


@contextmanager
def their_broker(directory: Path) -> Iterator[tuple[str, int]]:
    """Run a Kafka and yield the address of its listener for users."""
    listeners = {_LISTENER: "SASL_PLAINTEXT"}
    kafka = Kafka(directory, _settings(), listeners=listeners, takes_telemetry=True)
    try:
        kafka.start()
        yield kafka.addresses[_LISTENER]
    finally:
        kafka.end()


@contextmanager
def our_broker(directory: Path) -> Iterator[tuple[str, int]]:
    """Run our broker and yield the address of its listener for users."""
    settings = _settings() | {
        "listener.security.protocol.map": f"{_LISTENER}:SASL_PLAINTEXT",
        "listeners": f"{_LISTENER}://127.0.0.1:0",
        "inter.broker.listener.name": _LISTENER,
        "node.id": "1",
    }
    path = directory / "matrix.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    with Serve("--ephemeral", "--config", str(path), listener=None) as broker:
        yield address_of(broker.bootstrap_servers)
        assert "Traceback" not in broker.log, broker.log[-3000:]
