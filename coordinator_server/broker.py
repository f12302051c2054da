"""One broker of the process: its coordinators, its fetch sessions and its settings.

Handlers get a `Broker` and find everything they need on it. A broker owns no socket (see
`net.socket_server`), so tests can use one without a network. `composition` builds brokers; state
that all brokers share is in `shared_state`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.config.coordinator_configs import group_settings, transaction_settings
from coordinator_server.net.addresses import BrokerEndpoint
from coordinator_server.topics.creation_errors import CreationErrors
from coordinator_server.topics.names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from coordinator_server.config.config import Config
    from coordinator_server.coordinator.group_coordinator import GroupCoordinator
    from coordinator_server.coordinator.share_coordinator import ShareCoordinator
    from coordinator_server.coordinator.share_partition_manager import SharePartitionManager
    from coordinator_server.coordinator.transaction_coordinator import TransactionCoordinator
    from coordinator_server.fetch.session import FetchSessionCache
    from coordinator_server.net.connection import Connection
    from coordinator_server.on_demand import OnDemand
    from coordinator_server.runtime.coordinator import CoordinatorRuntime
    from coordinator_server.shared_state import SharedState
    from coordinator_server.telemetry.instances import ClientInstances

_STOPPING: set[asyncio.Task[None]] = set()
"""References to the tasks that stop brokers; the event loop holds only weak ones."""


class BrokerParts(NamedTuple):
    """The parts of one broker. Parts for share groups and telemetry are built when needed."""

    groups: GroupCoordinator
    transactions: TransactionCoordinator
    fetch_sessions: FetchSessionCache
    share_states: OnDemand[ShareCoordinator]
    share_partitions: OnDemand[SharePartitionManager]
    new_client_instances: Callable[[], ClientInstances]


class Broker:
    """One broker. Call `start` before use and `shutting_down` at the end; it cannot be restarted.

    `config` holds the settings of this broker, with its own id and ports. `stop_broker` stops a
    broker of the process by its id.
    """

    def __init__(
        self,
        config: Config,
        shared: SharedState,
        parts: BrokerParts,
        stop_broker: Callable[[int], Coroutine[Any, Any, None]],
    ) -> None:
        self.config = config
        self.node_id = config.node_id
        self.clock, self.client_clock, self.machine_clock = shared.clocks
        self.cluster_id = shared.cluster_id
        self.topics = shared.topics
        self.recent_deletions = shared.recent_deletions
        self.group_configs = shared.group_configs
        self.telemetry = shared.telemetry
        self.dynamic_configs = shared.dynamic_configs
        self.security = shared.security
        self.producer_ids = shared.producer_ids
        self.fetch_purgatory = shared.fetch_purgatory
        self.step_runner = shared.step_runner
        self.markers = shared.markers
        self.creation_errors = CreationErrors()
        self.groups = parts.groups
        self.transactions = parts.transactions
        self.fetch_sessions = parts.fetch_sessions
        self._share_states = parts.share_states
        self._share_partitions = parts.share_partitions
        self._new_client_instances = parts.new_client_instances
        self._client_instances: ClientInstances | None = None
        self._shared = shared
        self._stop_broker = stop_broker

    def start(self) -> None:
        """Start loading the state of the coordinators. Needs a running event loop."""
        self.groups.start()
        self.transactions.start()
        if self._shared.share_state_topic.partitions:
            self._share_states.get()

    def settings_changed(self) -> None:
        """Apply settings that have changed at run time."""
        self.groups.settings_changed(group_settings(self.config))
        self.transactions.settings = transaction_settings(self.config)

    def shutting_down(self) -> None:
        """Answer pending requests of the coordinators, so that the connections can be closed."""
        self._share_partitions.close()
        self._share_states.close()
        self.transactions.stop()
        self.groups.stop()

    def forget(self) -> None:
        """Drop all coordinator state and fetch sessions; the topics are about to be deleted."""
        if self._share_partitions.built is not None:
            self._share_partitions.built.forget()
        if self._share_states.built is not None:
            self._share_states.built.emigrate_all()
        self.transactions.emigrate_all()
        self.groups.emigrate_all()
        self.fetch_sessions.clear()
        self._client_instances = None

    def disconnected(self, connection: Connection) -> None:
        """Release the state of a connection that has ended."""
        if self._share_partitions.built is not None:
            self._share_partitions.built.disconnected(connection)
        if self._client_instances is not None:
            self._client_instances.disconnected(connection)

    @property
    def client_instances(self) -> ClientInstances:
        """The client instances that get their metrics subscriptions from this broker (KIP-714)."""
        if self._client_instances is None:
            self._client_instances = self._new_client_instances()
        return self._client_instances

    @property
    def share_partitions(self) -> SharePartitionManager:
        """The share partitions that this broker leads."""
        return self._share_partitions.get()

    @property
    def built_share_partitions(self) -> SharePartitionManager | None:
        """`share_partitions`, or None before the first share group uses this broker."""
        return self._share_partitions.built

    @property
    def share_states(self) -> ShareCoordinator:
        """The share coordinator of this broker, which stores the state of share partitions."""
        return self._share_states.get()

    def coordinator_of(self, topic_name: str) -> CoordinatorRuntime[Any, Any] | None:
        """Return the coordinator whose state is in this topic; None for other topics."""
        if topic_name == OFFSETS_TOPIC:
            return self.groups
        if topic_name == TRANSACTIONS_TOPIC:
            return self.transactions
        return self.share_states if topic_name == SHARE_STATE_TOPIC else None

    # --- addresses that clients get ---------------------------------------------------------------

    @property
    def controller_id(self) -> int:
        """The id of the broker that Metadata names as the controller."""
        return self._shared.running.controller_id

    def endpoints(
        self, connection: Connection, *, with_stopped: bool = False
    ) -> list[BrokerEndpoint]:
        """Return the brokers' addresses for the client of a connection.

        Stopped brokers are included only if `with_stopped`. Brokers that lack the client's listener
        are left out.
        """
        nodes: Iterable[int] = self._shared.running
        if with_stopped:
            nodes = filter(self.topics.broker_ids.__contains__, self._shared.configs)
        endpoints = (self._endpoint(node_id, connection) for node_id in nodes)
        return [endpoint for endpoint in endpoints if endpoint is not None]

    def endpoint(self, node_id: int, connection: Connection) -> BrokerEndpoint | None:
        """Return a broker's address for the client of a connection.

        None if the broker is stopped or lacks the client's listener.
        """
        if node_id not in self._shared.running:
            return None
        return self._endpoint(node_id, connection)

    def _endpoint(self, node_id: int, connection: Connection) -> BrokerEndpoint | None:
        address = self._shared.address_book.find(connection, node_id, self.node_id)
        if address is None:
            return None
        is_stopped = node_id not in self._shared.running
        return BrokerEndpoint(node_id, *address, is_stopped, self.topics.racks.get(node_id))

    def unregister(self, node_id: int) -> None:
        """Unregister a broker until it is started again, and stop it if it runs."""
        self.topics.leadership.unregister(node_id)
        if node_id in self._shared.running:
            task = asyncio.get_running_loop().create_task(self._stop_broker(node_id))
            _STOPPING.add(task)
            task.add_done_callback(_STOPPING.discard)

    def advertised_listeners(self, connection: Connection) -> str:
        """Return this broker's `advertised.listeners` as the client of a connection sees it."""
        return self._shared.address_book.advertised_listeners(connection, self.node_id)
