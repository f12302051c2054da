"""The authorizer: Kafka's StandardAuthorizer.

A super user may do everything. Otherwise a matching deny ACL takes precedence over all allow ACLs,
regardless of pattern, host or principal. An allow ACL is required, unless the resource has no ACLs
and `allow.everyone.if.no.acl.found` is set. Results are cached until an ACL changes, because
clients need the same checks for every heartbeat and fetch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from coordinator_server.security.acl import (
    ANY_USER,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from coordinator_server.security.acl_index import AclIndex

if TYPE_CHECKING:
    from coordinator_server.security.principal import Principal

MAX_CACHED_ANSWERS = 20_000
_HARD_CODED_NAME = "hardcode"
"""The resource name that Kafka uses to check access to a resource type in general."""

_ALLOWED_BY: Mapping[Operation, frozenset[Operation]] = {
    operation: frozenset((operation, Operation.ALL)) for operation in Operation
} | {
    Operation.DESCRIBE: frozenset(
        (
            Operation.ALL,
            Operation.DESCRIBE,
            Operation.READ,
            Operation.WRITE,
            Operation.DELETE,
            Operation.ALTER,
        )
    ),
    Operation.DESCRIBE_CONFIGS: frozenset(
        (Operation.ALL, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
    ),
}
"""Operation -> operations whose allow ACL implies it. Deny ACLs imply no other operation."""


class Authorizer:
    """The ACLs and the authorization decisions.

    `super_users` are principals such as "User:admin". Hosts are addresses in Java's notation, with
    or without the leading slash of `Connection.client_host`.
    """

    def __init__(
        self,
        super_users: Iterable[str] = (),
        *,
        allows_everyone_without_acl: bool = False,
        acls: Iterable[Acl] = (),
    ) -> None:
        self._super_users = frozenset(super_users)
        self._allows_everyone_without_acl = allows_everyone_without_acl
        self._index = AclIndex()
        self._answers: dict[tuple[Principal, str, int, int, str], bool] = {}
        for acl in acls:
            self._index.add(acl)

    # --- decisions --------------------------------------------------------------------------------

    def allows(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        """Return whether a principal at a host may do an operation on a resource."""
        key = (principal, host, operation, resource_type, name)
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) >= MAX_CACHED_ANSWERS:
                self._answers.clear()
            answer = self._answer(str(principal), host.removeprefix("/"), *key[2:])
            self._answers[key] = answer
        return answer

    def _answer(
        self,
        principal: str,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        if principal in self._super_users:
            return True
        hosts = (host, WILDCARD)
        allowed_by = _ALLOWED_BY[operation]
        has_acls = is_allowed = False
        for by_principal in self._index.matching(resource_type, name):
            has_acls = True
            for acls in (by_principal.get(principal, ()), by_principal.get(ANY_USER, ())):
                for acl in acls:
                    if acl.host not in hosts:
                        continue
                    if acl.permission is Permission.ALLOW:
                        is_allowed = is_allowed or acl.operation in allowed_by
                    elif acl.operation in (operation, Operation.ALL):
                        return False
        return is_allowed or (not has_acls and self._allows_everyone_without_acl)

    def allows_by_resource_type(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Return whether a principal may do an operation on at least one resource of a type.

        Source: Authorizer.authorizeByResourceType, which ignores implied operations.
        """
        if self.allows(principal, host, operation, resource_type, _HARD_CODED_NAME):
            return True
        hosts = (host.removeprefix("/"), WILDCARD)
        operations = (operation, Operation.ALL)
        allowed: list[Acl] = []
        denied: set[tuple[PatternType, str]] = set()
        for acl in self._index.of_principals(resource_type, (str(principal), ANY_USER)):
            if acl.host in hosts and acl.operation in operations:
                if acl.permission is Permission.ALLOW:
                    allowed.append(acl)
                else:
                    denied.add((acl.pattern_type, acl.name))
        every_one = (PatternType.LITERAL, WILDCARD)
        if every_one in denied:
            return False
        return any(
            (acl.pattern_type, acl.name) == every_one or not _is_dominated(acl, denied)
            for acl in allowed
        )

    def operations(
        self, principal: Principal, host: str, resource_type: ResourceType, name: str
    ) -> int:
        """Return the operations that a principal may do on a resource, as bits (KIP-430)."""
        bits = 0
        for operation in SUPPORTED_OPERATIONS[resource_type]:
            if self.allows(principal, host, operation, resource_type, name):
                bits |= 1 << operation
        return bits

    # --- the ACLs ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._index)

    def __contains__(self, acl: Acl) -> bool:
        return acl in self._index

    @property
    def acls(self) -> list[Acl]:
        """All ACLs, oldest first."""
        return list(self._index)

    def change(self, *, added: Iterable[Acl] = (), removed: Iterable[Acl] = ()) -> None:
        """Add ACLs and remove existing ones."""
        for acl in removed:
            self._index.remove(acl)
        for acl in added:
            self._index.add(acl)
        self._answers.clear()

    def clear(self) -> None:
        """Remove all ACLs."""
        self._index.clear()
        self._answers.clear()


def _is_dominated(acl: Acl, denied: set[tuple[PatternType, str]]) -> bool:
    """Return whether deny ACLs for the same name or a prefix cover everything an ACL allows."""
    if acl.pattern_type is PatternType.LITERAL and (PatternType.LITERAL, acl.name) in denied:
        return True
    return any(
        (PatternType.PREFIXED, acl.name[:length]) in denied
        for length in range(1, len(acl.name) + 1)
    )
