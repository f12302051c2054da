"""The broker: one data directory, its topics, its groups, and what holds them together.

Handlers get a `Broker` and find everything they need on it. It owns no socket (see `server`), so a
test can have one without a network.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
from typing import TYPE_CHECKING

from coordinator_server.coordinator import GroupCoordinator
from coordinator_server.endpoint import Endpoint
from coordinator_server.offsets_topic import OffsetsTopic
from coordinator_server.topics.fetch_session import FetchSessionCache
from coordinator_server.topics.manager import TopicManager
from coordinator_server.topics.producer_ids import ProducerIdManager
from coordinator_server.topics.purgatory import Purgatory
from coordinator_server.topics.topic_configs import log_defaults
from storage.local_disk import LocalDisk
from storage.log_manager import LogManager

if TYPE_CHECKING:
    from coordinator_server.clock import Clock
    from coordinator_server.config import Config
    from coordinator_server.connection import Connection


class Broker:
    """One broker. `start` before use, `shutting_down` and `stop` at the end; one event loop.

    What is declared here is there once it is started.
    """

    topics: TopicManager
    groups: GroupCoordinator
    fetch_purgatory: Purgatory
    fetch_sessions: FetchSessionCache
    producer_ids: ProducerIdManager
    cluster_id: str

    def __init__(self, config: Config, clock: Clock) -> None:
        self.config = config
        self.clock = clock
        self.node_id = config.node_id
        self._advertised = config.advertised_listeners()
        self._temporary_directory: str | None = None
        self._logs: LogManager | None = None
        self._upkeep_timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Open the logs and begin to load the groups. Raises StorageError, ConfigError."""
        loop = asyncio.get_running_loop()
        config, clock = self.config, self.clock
        self._logs = LogManager.open(
            LocalDisk(durable=not config.ephemeral),
            self._data_directory(),
            log_defaults(config),
            node_id=self.node_id,
            now_ms=clock.now_ms(),
        )
        self.cluster_id = self._logs.cluster_id
        self.fetch_purgatory = Purgatory(loop, clock.now_ms)
        self.fetch_sessions = FetchSessionCache(
            config.integer("max.incremental.fetch.session.cache.slots"), _session_id
        )
        self.producer_ids = ProducerIdManager(self._logs.next_producer_ids)
        self.topics = TopicManager(
            self._logs,
            config,
            clock,
            node_ids=(self.node_id,),
            changed=self.fetch_purgatory.notify,
        )
        self.groups = GroupCoordinator(
            config, clock, self.topics, OffsetsTopic(self.topics), self.node_id
        )
        self.groups.start()
        self._upkeep()

    def shutting_down(self) -> None:
        """Answer what is parked, so that the connections can be closed."""
        if self._upkeep_timer is not None:
            self._upkeep_timer.cancel()
        self.groups.stop()
        self.fetch_purgatory.close()

    async def stop(self) -> None:
        """Close the logs as for a clean stop; what was ephemeral is removed."""
        self.topics.close()
        if self._temporary_directory is not None:
            shutil.rmtree(self._temporary_directory, ignore_errors=True)

    @property
    def controller_id(self) -> int:
        """The broker that clients are told to be the controller."""
        return self.node_id

    def endpoints(self, connection: Connection, *, with_stopped: bool = False) -> list[Endpoint]:
        """Where the client of a connection finds the brokers: by default where it reached us."""
        listener = self._advertised.get(connection.listener_name)
        if listener is None:
            return [Endpoint(self.node_id, *connection.local_address)]
        return [Endpoint(self.node_id, listener.host, listener.port)]

    def endpoint(self, node_id: int, connection: Connection) -> Endpoint | None:
        """Where the client of a connection finds one broker."""
        return self.endpoints(connection)[0] if node_id == self.node_id else None

    def _data_directory(self) -> str:
        if not self.config.ephemeral:
            return self.config.data_directory
        self._temporary_directory = tempfile.mkdtemp(prefix="coordinator-server-")
        return self._temporary_directory

    def _upkeep(self) -> None:
        """Have the logs do a step of their upkeep, and come back when they want the next one."""
        delay_ms = self.topics.upkeep()
        loop = asyncio.get_running_loop()
        self._upkeep_timer = loop.call_later(delay_ms / 1000, self._upkeep)


def _session_id() -> int:
    return secrets.randbelow(2**31 - 1) + 1
