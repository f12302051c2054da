"""The rights that the checks of a request pass to the request's handler."""

from __future__ import annotations

from coordinator_server.security.access import Access
from coordinator_server.security.acl import Acl, Operation, PatternType, Permission, ResourceType
from coordinator_server.security.authorizer import Authorizer
from coordinator_server.security.principal import user
from coordinator_server.security.rights import UNRESTRICTED, GrantedRights
from coordinator_server.steps import run_all
from coordinator_server.topics.operations import (
    CLUSTER_OPERATIONS,
    GROUP_OPERATIONS,
    TOPIC_OPERATIONS,
)


class Alice:
    """A client on this machine."""

    principal = user("alice")
    client_host = "/127.0.0.1"


def rights(*acls: Acl) -> GrantedRights:
    """Return the rights of alice under these ACLs."""
    return GrantedRights(Access(Authorizer(acls=acls), Alice(), "Metadata"))


def on(resource_type: ResourceType, name: str, operation: Operation) -> Acl:
    """Return an ACL that allows alice an operation."""
    return Acl(
        resource_type, name, PatternType.LITERAL, "User:alice", "*", operation, Permission.ALLOW
    )


def test_without_an_authorizer_everything_is_allowed_and_nothing_is_copied() -> None:
    """Without an authorizer the response has exactly the handler's results, without a copy."""
    results = ["a", "b"]
    assert not UNRESTRICTED.is_restricted
    assert UNRESTRICTED.allows("t")
    assert UNRESTRICTED.topic_operations("t") == TOPIC_OPERATIONS
    assert UNRESTRICTED.group_operations("g") == GROUP_OPERATIONS
    assert UNRESTRICTED.cluster_operations() == CLUSTER_OPERATIONS
    assert UNRESTRICTED.before(results) is results
    assert UNRESTRICTED.after(results) is results
    assert run_all(UNRESTRICTED.in_order(results)) is results
    assert list(UNRESTRICTED.each(results)) == [(None, "a"), (None, "b")]


def test_refused_entries_have_their_place_in_the_response() -> None:
    """Refused entries are placed before the results, after them, or in the order of the request."""
    granted = rights()
    granted.refused = {0: "R0", 1: "R1", 3: "R3", 5: "R5"}
    results = ["2", "4"]
    assert granted.before(results) == ["R0", "R1", "R3", "R5", "2", "4"]
    assert granted.after(results) == ["2", "4", "R0", "R1", "R3", "R5"]
    assert run_all(granted.in_order(results)) == ["R0", "R1", "2", "R3", "4", "R5"]
    assert results == ["2", "4"]
    assert [refusal or entry for refusal, entry in granted.each([])] == ["R0", "R1"]


def test_an_authorizer_restricts_operations_and_resources() -> None:
    """A check that sets no condition allows no resource."""
    granted = rights(
        on(ResourceType.TOPIC, "t", Operation.READ), on(ResourceType.GROUP, "g", Operation.DELETE)
    )
    assert granted.is_restricted
    assert granted.topic_operations("t") == 1 << Operation.READ | 1 << Operation.DESCRIBE
    assert granted.group_operations("g") == 1 << Operation.DELETE | 1 << Operation.DESCRIBE
    assert granted.cluster_operations() == 0
    assert not granted.allows("anything")
    granted.allowed = lambda *names: names == ("t", "u")
    assert granted.allows("t", "u")
    assert not granted.allows("t")
