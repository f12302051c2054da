"""SharedState: the state that all brokers of the process share.

All brokers share one log per partition, so when a broker stops, only leadership moves (see
`topics.leadership`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordinator_server.clock.broker_clock import BrokerClock
    from coordinator_server.clock.step_runner import StepRunner
    from coordinator_server.config.config import Config
    from coordinator_server.config.dynamic_configs import DynamicConfigs
    from coordinator_server.config.group_configs import GroupConfigs
    from coordinator_server.coordinator.markers import Markers
    from coordinator_server.coordinator.share_persister import LocalSharePersister
    from coordinator_server.counting.counts import Counts
    from coordinator_server.faults.faults import Faults
    from coordinator_server.fetch.purgatory import KeyedPurgatory
    from coordinator_server.maintenance.ephemeral import OwnDirectory
    from coordinator_server.maintenance.flusher import Flusher
    from coordinator_server.net.addresses import AddressBook
    from coordinator_server.on_demand import OnDemand
    from coordinator_server.rebalances.journal import RebalanceJournal
    from coordinator_server.running_brokers import RunningBrokers
    from coordinator_server.runtime.topic import CoordinatorTopic
    from coordinator_server.security.security import Security
    from coordinator_server.telemetry.telemetry import Telemetry
    from coordinator_server.topics.manager import TopicManager
    from coordinator_server.topics.producer_ids import ProducerIdManager
    from coordinator_server.topics.recent_deletions import RecentDeletions
    from coordinator_server.tracing.tracing import Tracing
    from storage.log_manager import LogManager


class Clocks(NamedTuple):
    """Three clocks, which are the same clock unless the process has virtual clocks.

    `broker` is the time of records and of the timers of groups and logs, `client` the time of
    clients' waits, `machine` the time of sockets. See `control.advance`.
    """

    broker: BrokerClock
    client: BrokerClock
    machine: BrokerClock


class SharedState(NamedTuple):
    """The parts that every broker of the process uses. `configs` are the settings by node id.

    `own_directory` is the directory of ephemeral data, or None. `share_persister` is the client of
    the share coordinators. `counts` is None without metrics, `tracing` None without
    OpenTelemetry.
    """

    cluster_id: str
    configs: Mapping[int, Config]
    clocks: Clocks
    step_runner: StepRunner
    running: RunningBrokers
    address_book: AddressBook
    own_directory: OwnDirectory | None
    flusher: Flusher
    topics: TopicManager
    recent_deletions: RecentDeletions
    fetch_purgatory: KeyedPurgatory
    producer_ids: ProducerIdManager
    dynamic_configs: DynamicConfigs
    group_configs: GroupConfigs
    telemetry: Telemetry
    security: Security
    offsets_topic: CoordinatorTopic
    transactions_topic: CoordinatorTopic
    share_state_topic: CoordinatorTopic
    markers: Markers
    journal: RebalanceJournal
    share_persister: OnDemand[LocalSharePersister]
    logs: LogManager
    counts: Counts | None
    tracing: Tracing | None
    faults: Faults
