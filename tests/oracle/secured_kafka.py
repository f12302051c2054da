"""A Kafka with a listener for each security protocol."""

from __future__ import annotations

from pathlib import Path

from tests.oracle.kafka_process import Kafka
from tests.secured import LISTENERS, Secured


class SecuredKafka(Secured):
    """A broker of Kafka's."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._kafka = Kafka(directory, self._settings(), listeners=LISTENERS)

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        """Host and port of each of LISTENERS."""
        return self._kafka.addresses

    @property
    def plain_server(self) -> str:
        """HOST:PORT of a listener without security."""
        return self._kafka.bootstrap_servers

    def start(self) -> None:
        """Start it, with the user's SCRAM credentials."""
        self._kafka.start()
        self._make_users()

    def end(self) -> None:
        """Whatever state it is in, it ends now."""
        self._kafka.end()
