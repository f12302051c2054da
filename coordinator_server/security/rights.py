"""The results of a request's access checks, for the handler that builds the response.

Authorization runs before the handler and removes refused entries from the request. The handler
places their response entries beside its own, and leaves out what the client may not see, so that a
response is built once.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from coordinator_server.topics.operations import (
    CLUSTER_OPERATIONS,
    GROUP_OPERATIONS,
    TOPIC_OPERATIONS,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator_server.security.access import Access

Entry = TypeVar("Entry")
_NOTHING: Mapping[int, Any] = MappingProxyType({})


class Rights:
    """The rights of a client without an authorizer: everything is allowed.

    `refused` has the response entries of refused request entries, by index in the request (for
    Metadata, in the order of the response). `refused_within` has the response entries of refused
    topics in groups, by index of the group among the groups that are left in the request.
    """

    __slots__ = ()

    is_restricted = False
    """Whether an authorizer restricts the client."""

    refused = _NOTHING
    refused_within: Mapping[int, list[Any]] = _NOTHING

    def allows(self, *names: str | None) -> bool:
        """Return whether the client may see or use a resource.

        The check of the API (`security.checks`) specifies the names and the operation.
        """
        return True

    def topic_operations(self, name: str) -> int:
        """Return the operations that the client may do on a topic, as bits (KIP-430)."""
        return TOPIC_OPERATIONS

    def group_operations(self, group_id: str) -> int:
        """Return the operations that the client may do on a group, as bits."""
        return GROUP_OPERATIONS

    def cluster_operations(self) -> int:
        """Return the operations that the client may do on the cluster, as bits."""
        return CLUSTER_OPERATIONS

    def before(self, results: list[Entry]) -> list[Entry]:
        """Return the refused entries, followed by the results."""
        return [*self.refused.values(), *results] if self.refused else results

    def after(self, results: list[Entry]) -> list[Entry]:
        """Return the results, followed by the refused entries."""
        return [*results, *self.refused.values()] if self.refused else results

    def in_order(self, results: list[Entry]) -> Generator[None, None, list[Entry]]:
        """Return refused entries and results in the order of the request, in steps."""
        if not self.refused:
            return results
        merged: list[Entry] = []
        for refusal, result in self.each(results):
            merged.append(result if refusal is None else refusal)
            yield
        return merged

    def each(self, entries: Iterable[Entry]) -> Iterator[tuple[Any, Any]]:
        """Yield (None, entry) for each entry and (refusal, None) in place of each refused entry."""
        refused, number = self.refused, 0
        for entry in entries:
            while number in refused:
                yield refused[number], None
                number += 1
            yield None, entry
            number += 1
        while number in refused:
            yield refused[number], None
            number += 1


UNRESTRICTED = Rights()


class GrantedRights(Rights):
    """The rights that the authorizer grants to the client of one request.

    The check of the API sets `refused`, `refused_within` and `allowed`. Without `allowed`, no
    resource is allowed.
    """

    __slots__ = ("_access", "allowed", "refused", "refused_within")

    is_restricted = True

    def __init__(self, access: Access) -> None:
        self._access = access
        self.refused = _NOTHING
        self.refused_within: Mapping[int, list[Any]] = _NOTHING
        self.allowed: Callable[..., bool] | None = None

    def allows(self, *names: str | None) -> bool:
        """Return whether the client may see or use a resource, by the check of the API."""
        return self.allowed is not None and self.allowed(*names)

    def topic_operations(self, name: str) -> int:
        """Return the operations that the client may do on a topic, as bits."""
        return self._access.topic_operations(name)

    def group_operations(self, group_id: str) -> int:
        """Return the operations that the client may do on a group, as bits."""
        return self._access.group_operations(group_id)

    def cluster_operations(self) -> int:
        """Return the operations that the client may do on the cluster, as bits.

        Returns 0 without DESCRIBE on the cluster.
        """
        return self._access.cluster_operations()
