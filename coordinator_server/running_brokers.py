"""RunningBrokers: the running brokers of the process, and look-ups of their coordinators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.topics.leadership import NOBODY

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.coordinator.group_coordinator import GroupCoordinator
    from coordinator_server.coordinator.share_coordinator import ShareCoordinator
    from coordinator_server.coordinator.transaction_coordinator import TransactionCoordinator
    from coordinator_server.core.groups.group import Group


class RunningBrokers(dict[int, "Broker"]):
    """The running brokers by node id, in ascending order of their ids."""

    def add(self, broker: Broker) -> None:
        """Add a broker that has started."""
        self[broker.node_id] = broker
        ascending = sorted(self.items())
        self.clear()
        self.update(ascending)

    @property
    def controller_id(self) -> int:
        """The broker that clients see as the controller; -1 when no broker runs."""
        return next(iter(self), NOBODY)

    def groups_of(self, node_id: int) -> GroupCoordinator | None:
        """Return the group coordinator of a broker; None if the broker is stopped."""
        broker = self.get(node_id)
        return None if broker is None else broker.groups

    def transactions_of(self, node_id: int) -> TransactionCoordinator | None:
        """Return the transaction coordinator of a broker; None if the broker is stopped."""
        broker = self.get(node_id)
        return None if broker is None else broker.transactions

    def share_states_of(self, node_id: int) -> ShareCoordinator | None:
        """Return the share coordinator of a broker; None if the broker is stopped."""
        broker = self.get(node_id)
        return None if broker is None else broker.share_states

    def group(self, group_id: str) -> Group | None:
        """Return the state of a group from the broker that coordinates the group, or None."""
        tasks = (broker.groups.tasks.get(group_id) for broker in self.values())
        return next((task.group for task in tasks if task is not None), None)
