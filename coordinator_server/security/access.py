"""What one client may do, for whoever serves its requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from coordinator_server.security.acl import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from coordinator_server.security.authorizer import Authorizer
    from coordinator_server.security.principal import Principal


class Client(Protocol):
    """The connection of a client."""

    @property
    def principal(self) -> Principal:
        """Who it is."""

    @property
    def client_host(self) -> str:
        """The address that it comes from."""


class Access:
    """The authorizer, asked for one client."""

    __slots__ = ("_authorizer", "_host", "_principal")

    def __init__(self, authorizer: Authorizer, client: Client) -> None:
        self._authorizer = authorizer
        self._principal = client.principal
        self._host = client.client_host

    def allows(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether it may do something to a resource."""
        return self._authorizer.allows(self._principal, self._host, operation, resource_type, name)

    def topic(self, operation: Operation, name: str) -> bool:
        """Whether it may do something to a topic."""
        return self.allows(operation, ResourceType.TOPIC, name)

    def group(self, operation: Operation, group_id: str) -> bool:
        """Whether it may do something to a group."""
        return self.allows(operation, ResourceType.GROUP, group_id)

    def cluster(self, operation: Operation) -> bool:
        """Whether it may do something to the cluster."""
        return self.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def any_of(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether it may do something to at least one resource of a type."""
        return self._authorizer.allows_by_resource_type(
            self._principal, self._host, operation, resource_type
        )

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """What it may do to a resource, as bits (KIP-430)."""
        return self._authorizer.operations(self._principal, self._host, resource_type, name)

    def cluster_operations(self) -> int:
        """What it may do to the cluster, as bits; nothing is told without DESCRIBE."""
        if not self.cluster(Operation.DESCRIBE):
            return 0
        return self.operations(ResourceType.CLUSTER, CLUSTER_NAME)
