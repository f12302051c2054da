"""One consumer of kafka-python in a process of its own: it polls until SIGTERM, then leaves.

python -m tests.e2e.member BOOTSTRAP GROUP TOPIC CLIENT_ID SESSION_TIMEOUT_MS
"""

import signal
import sys
from threading import Event

import kafka

from tests.known_topics import know_topics


def main(bootstrap: str, group: str, topic: str, client_id: str, session_timeout_ms: str) -> None:
    """Consume until asked to stop."""
    stopping = Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        client_id=client_id,
        session_timeout_ms=int(session_timeout_ms),
        heartbeat_interval_ms=200,
        partition_assignment_strategy=[kafka.coordinator.assignors.range.RangePartitionAssignor],
    )
    know_topics(consumer)
    while not stopping.is_set():
        consumer.poll(2_000)
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
