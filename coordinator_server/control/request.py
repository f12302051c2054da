"""A request to the control server.

The table of routes is in `routes`. Handlers, such as the functions in `clock`, `topics` and
`groups`, depend on this module only, not on the table.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.control.errors import (
    ControlError,
    natural_number,
    refuse_both,
    refuse_others,
)
from coordinator_server.control.json_steps import read
from coordinator_server.control.route import ControlRoute
from coordinator_server.security.principal import ANONYMOUS

if TYPE_CHECKING:
    from coordinator_server.cluster import Cluster
    from coordinator_server.control.state import ControlState
    from coordinator_server.runtime.topic import CoordinatorTopic
    from coordinator_server.security.principal import Principal
    from coordinator_server.steps import Computation, Steps
    from coordinator_server.topics.topic import Partition

__all__ = [
    "Content",
    "ControlError",
    "ControlRequest",
    "ControlRoute",
    "EventStream",
    "check_loaded",
    "check_running",
    "check_size",
    "natural_number",
    "refuse_both",
    "refuse_others",
    "unloaded",
]

MOST_TOKENS = 100_000
"""Limit of strings, lists, objects and commas in a body, which bounds the memory of its values."""

_COUNTED_BYTES = 1 << 20


class Content(NamedTuple):
    """A response that is not JSON: its bytes, content type and further headers."""

    body: bytes | bytearray
    content_type: str
    headers: Mapping[str, str] = {}


class EventStream(NamedTuple):
    """A response that has no end: `parts` yields its bytes until the client disconnects."""

    content_type: str
    parts: AsyncGenerator[bytes, None]


class ControlRequest(NamedTuple):
    """One request: `parameters` from the path, by name, and the `query` parameters.

    `values` has the values of all query parameters of the route. `user` is the principal of a
    request with a login, otherwise None, and then everything is allowed. `headers` are by
    lower-case name. `client_host` is the address of the client as Kafka writes it.
    """

    cluster: Cluster
    parameters: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes
    headers: Mapping[str, str] = {}
    values: Mapping[str, Any] = {}
    route: ControlRoute | None = None
    user: Principal | None = None
    state: ControlState | None = None
    client_host: str = "/127.0.0.1"

    async def shaped(self) -> dict[str, Any]:
        """Return the body as a JSON object of the route's shape, {} if the body is empty.

        The body is read in two steps, and checked in many. Raises ControlError.
        """
        from coordinator_server.control.pace import in_steps
        from coordinator_server.control.schema import shape_named, shape_steps

        assert self.route is not None
        value = await in_steps(self._object())
        error = await in_steps(shape_steps(value, shape_named(self.route.body)))
        if error is not None:
            raise ControlError(400, error)
        return value

    def _object(self) -> Computation[dict[str, Any]]:
        try:
            value = yield from read(self.body or b"{}")
        except ValueError as error:
            raise ControlError(400, f"the body is not JSON: {error}") from error
        if not isinstance(value, dict):
            raise ControlError(400, "the body is not a JSON object")
        return value

    @property
    def principal(self) -> Principal:
        """The user of the request, or Kafka's anonymous user without a login."""
        return self.user or ANONYMOUS

    @property
    def asker(self) -> dict[str, str]:
        """The user, if the request has a login, and the address of the client: for the log."""
        user = {} if self.user is None else {"user": str(self.user)}
        return {**user, "remote": self.client_host.removeprefix("/")}

    # --- access -----------------------------------------------------------------------------------

    def allows(self, operation: str, resource_type: str, name: str) -> bool:
        """Return whether the user may do an operation on a resource; True without a login."""
        authorizer = self.cluster.security.authorizer if self.user is not None else None
        if authorizer is None:
            return True
        from coordinator_server.security.acl import Operation, ResourceType

        assert self.user is not None
        return authorizer.allows(
            self.user, self.client_host, Operation[operation], ResourceType[resource_type], name
        )

    def require(self, operation: str, resource_type: str, name: str) -> None:
        """Raise ControlError unless the user may do an operation on a resource."""
        if not self.allows(operation, resource_type, name):
            self._log_denial(operation, resource_type, name)
            what = f"{operation} on {resource_type} {name}"
            raise ControlError(403, f"{self.user} may not do that: no ACL allows {what}")

    def _log_denial(self, operation: str, resource_type: str, name: str) -> None:
        from coordinator_server.security.access import log_denial
        from coordinator_server.security.acl import Operation, ResourceType

        api = "control" if self.route is None else f"{self.route.method} {self.route.path}"
        log_denial(self, Operation[operation], ResourceType[resource_type], name, api)

    def sees_topic(self, name: str) -> bool:
        """Return whether the user may see a topic."""
        return self.allows("DESCRIBE", "TOPIC", name)

    def sees_topics(self, names: Iterable[str]) -> bool:
        """Return whether the user may see all of these topics."""
        return self.user is None or all(self.sees_topic(name) for name in names)

    def sees_group(self, group_id: str) -> bool:
        """Return whether the user may see a group."""
        return self.allows("DESCRIBE", "GROUP", group_id)


def check_running(cluster: Cluster) -> None:
    """Raise ControlError (503) if no broker runs."""
    if not cluster.brokers:
        text = "no broker runs: start one with POST /brokers/ID/start or `ctl brokers start ID`"
        raise ControlError(503, text)


def check_loaded(cluster: Cluster, topic: CoordinatorTopic, key: str, what: str) -> None:
    """Raise ControlError (503) with the reason unless the coordinator of a key has loaded it.

    `topic` is the coordinator's topic, `what` names the key. A key of a topic that does not exist
    yet needs no load.
    """
    if topic.partitions:
        reason = _why_unavailable(cluster, topic, topic.partition_of(key))
        if reason:
            raise ControlError(503, f"{what}: {reason}")


def _why_unavailable(cluster: Cluster, topic: CoordinatorTopic, partition: Partition) -> str:
    broker = cluster.brokers.get(partition.leader_id)
    coordinator = None if broker is None else broker.coordinator_of(topic.name)
    if coordinator is None:
        return f"COORDINATOR_NOT_AVAILABLE: no broker leads {topic.name}-{partition.index}"
    return coordinator.why_unavailable(partition.index)


def unloaded(cluster: Cluster, topic: CoordinatorTopic) -> dict[str, list[str]]:
    """Return {"not_loaded": reasons} for the partitions that no coordinator has loaded.

    The result is {} if everything is loaded.
    """
    reasons = (_why_unavailable(cluster, topic, partition) for partition in topic.partitions)
    not_loaded = list(filter(None, reasons))
    return {"not_loaded": not_loaded} if not_loaded else {}


def check_size(body: bytes) -> Steps:
    """Raise ControlError (413) in steps if JSON in a body has more than MOST_TOKENS tokens."""
    count = position = 0
    while position < len(body):
        quote = body.find(b'"', position)
        end = len(body) if quote < 0 else quote
        count += 1
        for start in range(position, end, _COUNTED_BYTES):
            part = body[start : min(start + _COUNTED_BYTES, end)]
            count += part.count(b"[") + part.count(b"{") + part.count(b",")
            yield
        if count > MOST_TOKENS:
            text = f"the body has more than {MOST_TOKENS} strings, lists, objects and commas"
            raise ControlError(413, text)
        position = end + 1
        while quote >= 0:  # to the end of the string: a quote after an even number of backslashes
            quote = body.find(b'"', position)
            text_before = body[position:quote]
            position = len(body) if quote < 0 else quote + 1
            yield
            if not (len(text_before) - len(text_before.rstrip(b"\\"))) % 2:
                break
