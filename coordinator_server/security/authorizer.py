"""The authorizer: Kafka's StandardAuthorizer.

A super user may do everything. Otherwise a matching deny ACL takes precedence over all allow ACLs,
regardless of pattern, host or principal. An allow ACL is required, unless the resource has no ACLs
and `allow.everyone.if.no.acl.found` is set. Results are cached until an ACL changes, because
clients need the same checks for every heartbeat and fetch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from coordinator_server.config.authorizer_settings import split_super_users
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
from storage.errors import StorageError

if TYPE_CHECKING:
    from typing import Any

    from coordinator_server.config.config import Config
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

    # --- ACLs -------------------------------------------------------------------------------------

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


def load_authorizer(config: Config, entries: Iterable[Mapping[str, Any]]) -> Authorizer:
    """Return the authorizer with the stored ACLs. Raises StorageError if an ACL is corrupt."""
    try:
        acls = [Acl.from_entry(entry) for entry in entries]
    except (KeyError, TypeError) as error:
        raise StorageError(f"an ACL in the data directory is damaged ({error})") from error
    return Authorizer(
        split_super_users(config.text("super.users")),
        allows_everyone_without_acl=config.boolean("allow.everyone.if.no.acl.found"),
        acls=acls,
    )


ByPrincipal = dict[str, dict[Acl, None]]
"""The ACLs of a resource by principal, in insertion order."""


class _OfType:
    """The ACLs of one resource type."""

    __slots__ = ("lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, ByPrincipal] = {}
        self.prefixed: dict[str, ByPrincipal] = {}
        self.lengths: dict[int, int] = {}  # prefix length -> number of prefixes

    def add(self, acl: Acl) -> None:
        """Add an ACL that is not in the index."""
        if acl.pattern_type is PatternType.LITERAL:
            by_principal = self.literal.setdefault(acl.name, {})
        else:
            if acl.name not in self.prefixed:
                length = len(acl.name)
                self.lengths[length] = self.lengths.get(length, 0) + 1
            by_principal = self.prefixed.setdefault(acl.name, {})
        by_principal.setdefault(acl.principal, {})[acl] = None

    def remove(self, acl: Acl) -> None:
        """Remove an ACL that is in the index."""
        is_literal = acl.pattern_type is PatternType.LITERAL
        table = self.literal if is_literal else self.prefixed
        by_principal = table[acl.name]
        acls = by_principal[acl.principal]
        del acls[acl]
        if acls:
            return
        del by_principal[acl.principal]
        if by_principal:
            return
        del table[acl.name]
        if not is_literal:
            length = len(acl.name)
            self.lengths[length] -= 1
            if not self.lengths[length]:
                del self.lengths[length]

    def matching(self, name: str) -> Iterator[ByPrincipal]:
        """Yield the ACLs that apply to a name.

        The wildcard does not match names that begin with "*", such as "*a", because Kafka treats
        the wildcard as a literal prefix there.
        """
        if (exact := self.literal.get(name)) is not None:
            yield exact
        if not name.startswith(WILDCARD) and (every := self.literal.get(WILDCARD)) is not None:
            yield every
        for length in self.lengths:
            if length <= len(name) and (acls := self.prefixed.get(name[:length])) is not None:
                yield acls


class AclIndex:
    """A set of ACLs, indexed by resource so that a name's ACLs are found without a scan.

    Literal names and prefixes have a table each. A name matches a prefix if one of its leading
    substrings is a key of the prefix table, so one lookup per distinct prefix length is enough.
    Within a resource, ACLs are grouped by principal, because the resource "*" may have an ACL for
    each user. Kafka's StandardAuthorizerData scans a sorted set instead, with the same results.
    """

    def __init__(self) -> None:
        self._acls: dict[Acl, None] = {}
        self._by_type: dict[ResourceType, _OfType] = {}

    def __len__(self) -> int:
        return len(self._acls)

    def __contains__(self, acl: Acl) -> bool:
        return acl in self._acls

    def __iter__(self) -> Iterator[Acl]:
        """Yield all ACLs, oldest first."""
        return iter(self._acls)

    def add(self, acl: Acl) -> None:
        """Add an ACL, unless it is in the index."""
        if acl not in self._acls:
            self._acls[acl] = None
            self._by_type.setdefault(acl.resource_type, _OfType()).add(acl)

    def remove(self, acl: Acl) -> None:
        """Remove an ACL that is in the index."""
        del self._acls[acl]
        self._by_type[acl.resource_type].remove(acl)

    def clear(self) -> None:
        """Remove all ACLs."""
        self._acls.clear()
        self._by_type.clear()

    def matching(self, resource_type: ResourceType, name: str) -> Iterator[ByPrincipal]:
        """Yield the ACLs that apply to a resource, by principal, once per matching pattern."""
        of_type = self._by_type.get(resource_type)
        return iter(()) if of_type is None else of_type.matching(name)

    def of_principals(
        self, resource_type: ResourceType, principals: tuple[str, ...]
    ) -> Iterator[Acl]:
        """Yield the ACLs of these principals for any resource of a type."""
        of_type = self._by_type.get(resource_type)
        if of_type is None:
            return
        for table in (of_type.literal, of_type.prefixed):
            for by_principal in table.values():
                for principal in principals:
                    yield from by_principal.get(principal, ())
