"""Payment alerts: three payments with one card within a minute raise an alert.

    python payments.py 127.0.0.1:9092

Payments are JSON, `{"card": "4711", "cents": 1250}`, keyed by card, so all payments with one card
are in one partition. The time of a payment is the record's timestamp. Its offset is stored for the
next commit once the alerts that it caused are delivered.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict, deque
from typing import Any

import confluent_kafka

PAYMENTS, ALERTS = "payments", "alerts"
GROUP = "payment-alerts"
WINDOW_MS = 60_000
PAYMENTS_IN_WINDOW = 3


class Windows:
    """The times of each card's latest payments, in milliseconds."""

    def __init__(self) -> None:
        self._times_ms: defaultdict[str, deque[int]] = defaultdict(deque)

    def add(self, card: str, time_ms: int) -> bool:
        """Record a payment and return whether it is one too many."""
        times_ms = self._times_ms[card]
        times_ms.append(time_ms)
        while times_ms[0] <= time_ms - WINDOW_MS:
            times_ms.popleft()
        return len(times_ms) >= PAYMENTS_IN_WINDOW


class PaymentAlerts:
    """A consumer and a producer; `run_once` processes one batch."""

    def __init__(self, bootstrap_servers: str, **consumer_options: Any) -> None:
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": True,
                "enable.auto.offset.store": False,
                **consumer_options,
            }
        )
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True}
        )
        self._windows = Windows()
        self._undelivered: list[str] = []
        self._consumer.subscribe([PAYMENTS])

    def run_once(self, timeout_seconds: float = 0.5, most: int = 100) -> int:
        """Process up to `most` payments that arrive within `timeout_seconds`; return their number.

        Raises RuntimeError if an alert cannot be delivered; the payments are then read again.
        """
        payments = []
        for message in self._consumer.consume(most, timeout_seconds):
            if message.error() is None:
                payments.append(message)
                self._look_at(message)
        self._producer.flush()
        if self._undelivered:
            raise RuntimeError(f"alerts not delivered: {self._undelivered}")
        for message in payments:
            try:
                self._consumer.store_offsets(message)
            except confluent_kafka.KafkaException:
                # The partition was revoked meanwhile; its new owner reads the payment again.
                continue
        return len(payments)

    def close(self) -> None:
        """Leave the group, which commits the stored offsets."""
        self._consumer.close()

    def _look_at(self, message: Any) -> None:
        card = json.loads(message.value())["card"]
        _, time_ms = message.timestamp()
        if self._windows.add(card, time_ms):
            alert = json.dumps({"card": card, "time_ms": time_ms})
            self._producer.produce(ALERTS, alert, key=card, on_delivery=self._on_delivery)

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is not None:
            self._undelivered.append(str(error))


def main() -> None:
    """Run until Ctrl-C."""
    alerts = PaymentAlerts(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092")
    try:
        while True:
            alerts.run_once()
    except KeyboardInterrupt:
        alerts.close()


if __name__ == "__main__":
    main()
