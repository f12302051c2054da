"""The ACLs of a cell's principal, by the name of a grant.

The ACLs are derived from the API's checks in the authorization table, by default for all resources
of the cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from coordinator_server.security.acl import (
    ANY_USER,
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tests.conformance.access.case import Case, Cell, Need

HOST, OTHER_HOST = "127.0.0.1", "127.0.0.2"
_IMPLYING = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
_DESCRIBING = (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)


class _Acls:
    """Derives the ACLs of a cell."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.needs = cell.case.needs
        self.principal = f"User:{cell.user}"

    def acl(
        self,
        need: Need,
        name: str,
        *,
        host: str = WILDCARD,
        pattern: PatternType = PatternType.LITERAL,
        permission: Permission = Permission.ALLOW,
    ) -> Acl:
        operation, resource_type = need
        return Acl(resource_type, name, pattern, self.principal, host, operation, permission)

    def all(self, needs: Iterable[Need] | None = None, host: str = WILDCARD) -> Iterator[Acl]:
        """Yield an ACL for each check and each resource of its type."""
        for need in self.needs if needs is None else needs:
            for name in self.cell.names(need[1]):
                yield self.acl(need, name, host=host)

    def denied(self, need: Need, host: str = WILDCARD) -> Acl:
        """Return an ACL that denies a check for the first resource of its type."""
        name = self.cell.names(need[1])[0]
        return self.acl(need, name, host=host, permission=Permission.DENY)

    def each_second(self, first: int) -> Iterator[Acl]:
        """Yield ACLs for every second resource of each type, and none for the cluster."""
        for need in self.needs:
            if need[1] is not ResourceType.CLUSTER:
                for name in self.cell.names(need[1])[first::2]:
                    yield self.acl(need, name)

    def prefixes(self, permission: Permission = Permission.ALLOW) -> Iterator[Acl]:
        """Yield ACLs with prefixes of the names, and with the cluster's name."""
        for need in self.needs:
            if need[1] is ResourceType.CLUSTER:
                yield from self.all([need])
                continue
            if need[1] is ResourceType.DELEGATION_TOKEN:  # delegation token ids are random
                continue
            for name in self.cell.names(need[1]):
                yield self.acl(need, name[:-1], pattern=PatternType.PREFIXED, permission=permission)

    def wildcards(self, permission: Permission = Permission.ALLOW) -> Iterator[Acl]:
        """Yield ACLs with the wildcard name, and with the cluster's name."""
        for need in self.needs:
            name = CLUSTER_NAME if need[1] is ResourceType.CLUSTER else WILDCARD
            yield self.acl(need, name, permission=permission)

    def types(self) -> list[ResourceType]:
        """Return the resource types of the checks."""
        return list(dict.fromkeys(need[1] for need in self.needs))

    def implied(self) -> Iterator[Acl]:
        """Yield ACLs with an operation that implies the checked operation."""
        for number, (operation, resource_type) in enumerate(self.needs):
            implying = _IMPLYING.get(operation, (operation,))
            need = (implying[number % len(implying)], resource_type)
            yield from self.all([need])


Grant = Callable[[_Acls], Iterable[Acl]]


def _everyone(acls: _Acls) -> Iterator[Acl]:
    for acl in acls.all(host=acls.cell.case.host):
        yield acl._replace(principal=ANY_USER)


_COMMON: dict[str, Grant] = {
    "full": lambda acls: acls.all(),
    "describer": lambda acls: acls.all(
        [(operation, one) for one in acls.types() for operation in _DESCRIBING]
    ),
    "all-operations": lambda acls: acls.all([(Operation.ALL, one) for one in acls.types()]),
    "implied": _Acls.implied,
    "prefixed": _Acls.prefixes,
    "wildcard": _Acls.wildcards,
    "everyone": _everyone,
    "right-host": lambda acls: acls.all(host=HOST),
    "wrong-host": lambda acls: acls.all(host=OTHER_HOST),
    "deny-wildcard": lambda acls: [*acls.all(), *acls.wildcards(Permission.DENY)],
    "deny-all": lambda acls: [
        *acls.all(),
        *(acls.denied((Operation.ALL, one)) for one in acls.types()),
    ],
    "deny-other-host": lambda acls: [
        *acls.all(),
        *(acls.denied(need, host=OTHER_HOST) for need in acls.needs),
    ],
}


def grants_of(case: Case) -> dict[str, Grant]:
    """Return the grants with which a case is played."""
    grants: dict[str, Grant] = {"none": lambda acls: (), "super": lambda acls: ()}
    needs = case.needs
    if not needs:
        return grants
    grants |= _COMMON
    if max(map(len, (case.topics, case.groups, case.transactional_ids, case.users))) > 1:
        grants["odd"] = lambda acls: acls.each_second(0)
        grants["even"] = lambda acls: acls.each_second(1)
        grants["deny-prefix"] = lambda acls: [
            *acls.all(), *acls.prefixes(Permission.DENY)
        ]  # fmt: skip
    for number in range(len(needs)):
        grants |= _of_one(number, len(needs))
    return grants


def _of_one(number: int, count: int) -> dict[str, Grant]:
    """Return the grants that deny, omit or isolate the check with this index."""

    def rest(acls: _Acls) -> list[Need]:
        return [*acls.needs[:number], *acls.needs[number + 1 :]]

    grants: dict[str, Grant] = {
        f"deny-{number + 1}": lambda acls: [*acls.all(), acls.denied(acls.needs[number])]
    }
    if count > 1:
        grants[f"without-{number + 1}"] = lambda acls: acls.all(rest(acls))
    if count > 2:
        grants[f"only-{number + 1}"] = lambda acls: acls.all([acls.needs[number]])
        if 1 < number + 1 < count - 1:
            grants[f"first-{number + 1}"] = lambda acls: acls.all(acls.needs[: number + 1])
    return grants


def acls_of(cell: Cell) -> list[Acl]:
    """Return the ACLs of a cell's grant."""
    return list(grants_of(cell.case)[cell.grant](_Acls(cell)))
