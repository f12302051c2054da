"""A request to the control server.

The table of routes is in `routes`. Handlers, such as the functions in `clock`, `topics` and
`groups`, depend on this module only, not on the table.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.control.errors import ControlError, natural_number, refuse_others
from coordinator_server.control.route import ControlRoute

if TYPE_CHECKING:
    from coordinator_server.cluster import Cluster
    from coordinator_server.control.state import ControlState
    from coordinator_server.security.principal import Principal
    from coordinator_server.steps import Computation

__all__ = [
    "Content",
    "ControlError",
    "ControlRequest",
    "ControlRoute",
    "EventStream",
    "natural_number",
    "refuse_others",
]


_LONG_BYTES = 256 * 1024
"""A body above this size is read in steps."""


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
    lower-case name.
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

    def json(self, *fields: str) -> dict[str, Any]:
        """Return the body as a JSON object with no other fields, {} if the body is empty.

        Raises ControlError.
        """
        return _checked(self._object(), fields)

    def json_in_steps(self, *fields: str) -> Computation[dict[str, Any]]:
        """Return the body like `json`, read in steps if it is long. Raises ControlError."""
        if len(self.body) <= _LONG_BYTES:
            return self.json(*fields)
        from coordinator_server.control.json_steps import read

        try:
            value = yield from read(self.body)
        except ValueError as error:
            raise ControlError(400, f"the body is not JSON: {error}") from error
        return _checked(value, fields)

    def shaped(self) -> dict[str, Any]:
        """Return the body as a JSON object of the route's shape. Raises ControlError."""
        from coordinator_server.control.schema import shape_error, shape_named

        assert self.route is not None
        value = self._object()
        error = shape_error(value, shape_named(self.route.body))
        if error is not None:
            raise ControlError(400, error)
        return value

    def _object(self) -> dict[str, Any]:
        try:
            value = json.loads(self.body or b"{}")
        except (ValueError, RecursionError) as error:
            raise ControlError(400, f"the body is not JSON: {error}") from error
        return _checked(value, None)

    # --- access -----------------------------------------------------------------------------------

    def allows(self, operation: str, resource_type: str, name: str) -> bool:
        """Return whether the user may do an operation on a resource; True without a login."""
        authorizer = self.cluster.security.authorizer if self.user is not None else None
        if authorizer is None:
            return True
        from coordinator_server.security.acl import Operation, ResourceType

        assert self.user is not None
        return authorizer.allows(
            self.user, "/127.0.0.1", Operation[operation], ResourceType[resource_type], name
        )

    def require(self, operation: str, resource_type: str, name: str) -> None:
        """Raise ControlError unless the user may do an operation on a resource."""
        if not self.allows(operation, resource_type, name):
            what = f"{operation} on {resource_type} {name}"
            raise ControlError(403, f"{self.user} may not do that: no ACL allows {what}")

    def sees_topic(self, name: str) -> bool:
        """Return whether the user may see a topic."""
        return self.allows("DESCRIBE", "TOPIC", name)

    def sees_group(self, group_id: str) -> bool:
        """Return whether the user may see a group."""
        return self.allows("DESCRIBE", "GROUP", group_id)


def _checked(value: Any, fields: tuple[str, ...] | None) -> dict[str, Any]:
    """Return an object without other fields than `fields`, if these are given.

    Raises ControlError.
    """
    if not isinstance(value, dict):
        raise ControlError(400, "the body is not a JSON object")
    if fields is not None:
        refuse_others("field of the body", value, fields)
    return value
