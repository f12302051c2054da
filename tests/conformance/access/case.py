"""Cases and cells: a request, its resources, and its principal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from coordinator_server.security.acl import CLUSTER_NAME, Operation, ResourceType
from coordinator_server.security.checks.table import TABLE
from protocol.registry import SPEC_BY_NAME, ApiSpec

if TYPE_CHECKING:
    from tests.conformance.access.world import World

Fields = dict[str, Any]
"""Fields of a message in JSON form (`protocol.json_form`)."""

Need = tuple[Operation, ResourceType]
"""A check of the table, which applies to each of the cell's resources of that type."""


Request = Callable[["Cell", "World"], Fields]
"""Returns the fields of a cell's request."""


class Case(NamedTuple):
    """A request of an API, and the resources that it names.

    In names "@" stands for the cell, if cells must not share a resource. `prepare` creates the
    resources of all cells at once. `shown` has pairs (list field, name field) for lists of the
    answer that may contain entries of other cells; only the cell's own entries are compared, in
    sorted order.
    """

    name: str
    request: Request
    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    transactional_ids: Sequence[str] = ()
    users: Sequence[str] = ()
    tokens: Sequence[str] = ()
    prepare: Sequence[Callable[[World, Sequence[Cell]], None]] = ()
    versions: Iterable[int] | None = None
    shown: Sequence[tuple[str, str]] = ()

    @property
    def api(self) -> str:
        """Return the API's name: the case's name before its first dot."""
        return self.name.partition(".")[0]

    @property
    def spec(self) -> ApiSpec:
        """Return the spec of the API."""
        return SPEC_BY_NAME[self.api]

    @property
    def served_versions(self) -> list[int]:
        """Return the API versions at which the case is played."""
        lowest, highest = self.spec.min_version, self.spec.max_version
        if self.versions is None:
            return list(range(lowest, highest + 1))
        return sorted({version for version in self.versions if lowest <= version <= highest})

    @property
    def needs(self) -> list[Need]:
        """Return the API's checks from the authorization table for the case's resource types."""
        asked = dict.fromkeys(
            (check.operation, check.resource_type) for check in TABLE[self.api].all_checks
        )
        types = {ResourceType.CLUSTER} | {kind for kind, names in self._patterns.items() if names}
        return [need for need in asked if need[1] in types]

    @property
    def _patterns(self) -> dict[ResourceType, Sequence[str]]:
        return {
            ResourceType.TOPIC: self.topics,
            ResourceType.GROUP: self.groups,
            ResourceType.TRANSACTIONAL_ID: self.transactional_ids,
            ResourceType.USER: self.users,
            ResourceType.DELEGATION_TOKEN: self.tokens,
        }

    @property
    def host(self) -> str:
        """Return a loopback address that no other case has."""
        code = crc32(self.name.encode())
        return f"127.{1 + code % 250}.{(code >> 8) % 256}.{1 + (code >> 16) % 250}"


class Cell:
    """A case at one version with one grant."""

    def __init__(self, case: Case, version: int, grant: str) -> None:
        self.case = case
        self.version = version
        self.grant = grant

        def named(patterns: Sequence[str]) -> list[str]:
            return [one.replace("@", self.own_name) for one in patterns]

        self.topics = named(case.topics)
        self.groups = named(case.groups)
        self.transactional_ids = named(case.transactional_ids)

    @property
    def key(self) -> tuple[str, int, str]:
        """Return the key of the cell: case name, API version and grant."""
        return self.case.name, self.version, self.grant

    @property
    def own_name(self) -> str:
        """Return a name that no other cell has."""
        return f"{self.case.name}-{self.version}-{self.grant}"

    @property
    def user(self) -> str:
        """Return the user that sends the request."""
        if self.grant in ("none", "everyone"):
            return "nobody"
        if self.grant == "super":
            return "admin"
        return f"{self.case.name}_{self.grant}".replace(".", "_").replace("-", "_")

    @property
    def host(self) -> str:
        """Return the address from which the request comes."""
        return self.case.host if self.grant == "everyone" else "127.0.0.1"

    def names(self, resource_type: ResourceType) -> list[str]:
        """Return the names of the cell's resources of this type."""
        return {
            ResourceType.TOPIC: self.topics,
            ResourceType.GROUP: self.groups,
            ResourceType.TRANSACTIONAL_ID: self.transactional_ids,
            ResourceType.USER: list(self.case.users),
            ResourceType.DELEGATION_TOKEN: list(self.case.tokens),
            ResourceType.CLUSTER: [CLUSTER_NAME],
        }.get(resource_type, [])
