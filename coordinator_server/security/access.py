"""The access rights of one client, for request handlers."""

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
        """The principal of the client."""

    @property
    def client_host(self) -> str:
        """The address of the client."""


MOST_LOGGED = 20
"""Maximum number of denials logged per request."""

MOST_LOGGED_CHARACTERS = 249
"""Maximum length of a logged resource name, which is the maximum of a topic name."""


def log_denial(
    client: PeerConnection, operation: Operation, resource_type: ResourceType, name: str, api: str
) -> None:
    """Log a denied operation of a client (the logger kafka.authorizer.logger)."""
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
    """Escape client-supplied text that contains unprintable characters, such as terminal codes."""
    return text if text.isprintable() else ascii(text)[1:-1]


class Access:
    """The authorizer, bound to one client.

    With `api`, denials are logged for a request of this API. Without `api` they are not logged, for
    filtering lists or choosing the next check (Kafka's logIfDenied).
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
        """The same access rights, without logging denials."""
        return Access(self._authorizer, self._client)

    def allows(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Return whether the client may do an operation on a resource."""
        if self._authorizer.allows(self._principal, self._host, operation, resource_type, name):
            return True
        self.log(operation, resource_type, name)
        return False

    def log(self, operation: Operation, resource_type: ResourceType, name: str) -> None:
        """Log a denied operation, up to MOST_LOGGED per request."""
        if self._api is not None and self._denials < MOST_LOGGED:
            self._denials += 1
            log_denial(self._client, operation, resource_type, name, self._api)

    def topic(self, operation: Operation, name: str) -> bool:
        """Return whether the client may do an operation on a topic."""
        return self.allows(operation, ResourceType.TOPIC, name)

    def group(self, operation: Operation, group_id: str) -> bool:
        """Return whether the client may do an operation on a group."""
        return self.allows(operation, ResourceType.GROUP, group_id)

    def cluster(self, operation: Operation) -> bool:
        """Return whether the client may do an operation on the cluster."""
        return self.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def any_of(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Return whether the client may do an operation on at least one resource of a type."""
        return self._authorizer.allows_by_resource_type(
            self._principal, self._host, operation, resource_type
        )

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """Return the operations that the client may do on a resource, as bits (KIP-430)."""
        return self._authorizer.operations(self._principal, self._host, resource_type, name)

    def topic_operations(self, name: str) -> int:
        """Return the operations that the client may do on a topic, as bits."""
        return self.operations(ResourceType.TOPIC, name)

    def group_operations(self, group_id: str) -> int:
        """Return the operations that the client may do on a group, as bits."""
        return self.operations(ResourceType.GROUP, group_id)

    def cluster_operations(self) -> int:
        """Return the operations that the client may do on the cluster, as bits.

        Returns 0 without DESCRIBE on the cluster.
        """
        if not self.cluster(Operation.DESCRIBE):
            return 0
        return self.operations(ResourceType.CLUSTER, CLUSTER_NAME)
