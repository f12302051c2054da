"""An index of ACLs by resource: finds the ACLs of a name without scanning all ACLs.

Literal names and prefixes have a table each. A name matches a prefix if one of its leading
substrings is a key of the prefix table, so one lookup per distinct prefix length is enough. Within
a resource, ACLs are grouped by principal, because "*" may have one for everybody. Kafka's
StandardAuthorizerData scans a sorted set instead, with the same results.
"""

from __future__ import annotations

from collections.abc import Iterator

from coordinator_server.security.acl import WILDCARD, Acl, PatternType, ResourceType

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
            if length <= len(name) and (found := self.prefixed.get(name[:length])) is not None:
                yield found


class AclIndex:
    """A set of ACLs."""

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
