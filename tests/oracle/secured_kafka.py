"""A Kafka with a listener for each security protocol."""

from __future__ import annotations

from pathlib import Path

from tests.oracle.kafka_process import Kafka
from tests.secured import LISTENERS, Secured


class SecuredKafka(Secured):
    """A Kafka broker with all secured listeners."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._kafka = Kafka(directory, self._settings(), listeners=LISTENERS)

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        """Return host and port of each listener in LISTENERS."""
        return self._kafka.addresses

    @property
    def plain_server(self) -> str:
        """Return HOST:PORT of the listener without security."""
        return self._kafka.bootstrap_servers

    def start(self) -> None:
        """Start the broker with the user's SCRAM credentials."""
        self._kafka.start()
        self._make_users()

    def end(self) -> None:
        """End the broker immediately, in any state."""
        self._kafka.end()
