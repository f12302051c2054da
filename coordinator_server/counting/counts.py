"""Counts of requests, connections and rebalances since the start, kept only with metrics.

Kafka: RequestMetrics, Selector.SelectorMetrics, GroupCoordinatorMetrics. The counts are plain
numbers, because updating a locked object of prometheus_client costs more than all counting here. A
scrape turns the numbers into metrics (`collect`). State, such as the number of groups, is not
counted but read by the scrape.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.explain import WITHOUT_REBALANCE, Absence, Trigger
from coordinator_server.counting.buckets import LAG_BOUNDS_S, PHASE_BOUNDS_S, Buckets
from coordinator_server.counting.connections import ClosedConnection, CountedConnection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from coordinator_server.core.groups.explain import Rebalance
    from coordinator_server.counting.traffic import Traffic
    from coordinator_server.net.connection import Connection

    Explain = Callable[[str, Rebalance], None]


_MOST_CLOSED = 100


class RebalanceKey(NamedTuple):
    """The labels of a counted rebalance: kind of group, cause and outcome."""

    kind: str
    cause: str
    outcome: str


class BrokerCounts:
    """The counts of one broker id; they continue when the broker is stopped and started again."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.closed_connections: Counter[str] = Counter()
        """Ended connections by listener."""
        self.recently_closed: deque[ClosedConnection] = deque(maxlen=_MOST_CLOSED)
        """The last ended connections of clients that used topics."""
        self.accepted_connections: Counter[str] = Counter()
        """Accepted connections by listener, at the last scrape."""
        self.rebalances: Counter[RebalanceKey] = Counter()
        self.phases: dict[tuple[str, str], Buckets] = {}
        """Durations of rebalance phases by kind of group and phase."""
        self.removed_members: Counter[tuple[str, str]] = Counter()
        """Members that the coordinator has removed, by kind of group and reason."""
        self.given_up: Counter[str] = Counter()
        """Records that share groups have given up, by cause."""
        self._traffic: Traffic | None = None

    @property
    def traffic(self) -> Traffic:
        """The counts of requests."""
        if self._traffic is None:
            from coordinator_server.counting.traffic import Traffic

            self._traffic = Traffic()
        return self._traffic

    def connection_lost(self, connection: Connection) -> None:
        """Count a connection that has ended."""
        self.closed_connections[connection.listener_name] += 1
        if isinstance(connection, CountedConnection) and (
            connection.topics_read or connection.topics_written
        ):
            self.recently_closed.append(ClosedConnection(connection))

    def counting(self, explain: Explain) -> Explain:
        """Return a function that counts a rebalance that has ended, and then calls `explain`."""

        def count_and_explain(group_id: str, rebalance: Rebalance) -> None:
            self._count(rebalance)
            explain(group_id, rebalance)

        return count_and_explain

    def _count(self, rebalance: Rebalance) -> None:
        from coordinator_server.rebalances.given_up import GivenUpAccount

        trigger, kind = rebalance.cause.trigger, rebalance.kind.value
        if isinstance(rebalance, GivenUpAccount):
            records = rebalance.records
            self.given_up[trigger.value] += records.last_offset - records.first_offset + 1
            return
        self._count_removed(kind, rebalance)
        if trigger in WITHOUT_REBALANCE:
            return
        self.rebalances[RebalanceKey(kind, trigger.value, rebalance.outcome.value)] += 1
        for phase, duration_ms in _phases(rebalance):
            buckets = self.phases.get((kind, phase))
            if buckets is None:
                buckets = self.phases[kind, phase] = Buckets(PHASE_BOUNDS_S)
            buckets.observe(duration_ms / 1000)

    def _count_removed(self, kind: str, rebalance: Rebalance) -> None:
        causes = [rebalance.cause, *(late.cause for late in rebalance.also)]
        expired = sum(cause.trigger is Trigger.MEMBER_EXPIRED for cause in causes)
        if expired:
            self.removed_members[kind, Absence.SESSION_EXPIRED.value] += expired
        for dropped in rebalance.dropped:
            # Expired members were counted above, by cause.
            if dropped.why is not Absence.SESSION_EXPIRED:
                self.removed_members[kind, dropped.why.value] += 1


class Counts:
    """The counts of all brokers of a process, by node id."""

    def __init__(self) -> None:
        self._brokers: dict[int, BrokerCounts] = {}
        self.loop_lag = Buckets(LAG_BOUNDS_S)
        """Delays of the timer that measures the event loop, from the first scrape on."""
        self.scraper: object = None
        """What the scrapes of these counts keep; None before the first scrape."""

    def of(self, node_id: int) -> BrokerCounts:
        """Return the counts of a broker."""
        counts = self._brokers.get(node_id)
        if counts is None:
            counts = self._brokers[node_id] = BrokerCounts(node_id)
        return counts

    def brokers(self) -> Iterable[BrokerCounts]:
        """Return the counts of every broker that has been started."""
        return tuple(self._brokers.values())

    def forget_closed(self) -> None:
        """Forget the recently closed connections."""
        for counts in self.brokers():
            counts.recently_closed.clear()


def _phases(rebalance: Rebalance) -> list[tuple[str, int]]:
    """Return the durations (ms) of the phases that a rebalance has reached."""
    from coordinator_server.core.groups.modern.account import EpochChange
    from coordinator_server.rebalances.record import times

    durations = times(rebalance)
    if isinstance(rebalance, EpochChange):
        names = ["assign"] if rebalance.assigned_ms is None else ["assign", "reconcile"]
    else:
        names = ["join"] if rebalance.joined_ms is None else ["join", "sync"]
        if rebalance.delay_ended_ms is not None:
            names.insert(0, "initial_delay")
    return [(name, durations[f"{name}_ms"]) for name in names]
