"""What one client may do, for whoever serves its requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from coordinator_server.events.log import LOG
from coordinator_server.security.acl import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from coordinator_server.security.authorizer import Authorizer
    from coordinator_server.security.principal import Principal


class PeerConnection(Protocol):
    """The connection of a client."""

    @property
    def principal(self) -> Principal:
        """Who it is."""

    @property
    def client_host(self) -> str:
        """The address that it comes from."""


MOST_LOGGED = 20
"""Denials of one request."""

MOST_LOGGED_CHARACTERS = 249
"""Of the name of a resource: as long as a topic's may be."""


def log_denial(
    client: PeerConnection, operation: Operation, resource_type: ResourceType, name: str, api: str
) -> None:
    """Write that a client was refused what it asked for (the logger kafka.authorizer.logger)."""
    LOG.emit(
        "access.denied",
        principal=_printable(str(client.principal)),
        host=client.client_host.removeprefix("/"),
        operation=operation.name,
        resource_type=resource_type.name,
        resource=_printable(name[:MOST_LOGGED_CHARACTERS]),
        api=api,
    )


def _printable(text: str) -> str:
    """A text that a client chose, without signs that a terminal obeys."""
    return text if text.isprintable() else ascii(text)[1:-1]


class Access:
    """The authorizer, asked for one client.

    Denials are logged for a request of the API `api`; without it they are not, where a list is
    filtered, or where the answer only decides what is asked next (Kafka's logIfDenied).
    """

    __slots__ = ("_api", "_authorizer", "_client", "_denials", "_host", "_principal")

    def __init__(
        self, authorizer: Authorizer, client: PeerConnection, api: str | None = None
    ) -> None:
        self._authorizer = authorizer
        self._client = client
        self._principal = client.principal
        self._host = client.client_host
        self._api = api
        self._denials = 0

    @property
    def unlogged(self) -> Access:
        """The same, without a line for what is denied."""
        return Access(self._authorizer, self._client)

    def allows(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether it may do something to a resource."""
        if self._authorizer.allows(self._principal, self._host, operation, resource_type, name):
            return True
        self.log(operation, resource_type, name)
        return False

    def log(self, operation: Operation, resource_type: ResourceType, name: str) -> None:
        """Write that it was denied something, unless there were too many already."""
        if self._api is not None and self._denials < MOST_LOGGED:
            self._denials += 1
            log_denial(self._client, operation, resource_type, name, self._api)

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
