"""The authorizer: the effect of ACLs, and their persistence."""

from __future__ import annotations

import pytest

from coordinator_server.config.config import Config
from coordinator_server.security.access import MOST_LOGGED, MOST_LOGGED_CHARACTERS, Access
from coordinator_server.security.acl import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    cannot_be,
    creation_problem,
    from_code,
)
from coordinator_server.security.authorizer import AclIndex, Authorizer, load_authorizer
from coordinator_server.security.principal import ANONYMOUS, Principal, user
from coordinator_server.security.security import Security
from coordinator_server.steps import run_all
from storage.errors import StorageError
from storage.memory_disk import MemoryDisk
from storage.security_state import SecurityState
from tests.harness.clock import ManualClock
from tests.unit.reports import Reports
from tests.unit.security.acl_worlds import worlds

ALICE = user("alice")
HOST = "/127.0.0.1"
CLASS = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def acl(
    name: str = "t",
    operation: Operation = Operation.READ,
    *,
    permission: Permission = Permission.ALLOW,
    pattern_type: PatternType = PatternType.LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    resource_type: ResourceType = ResourceType.TOPIC,
) -> Acl:
    """Return an ACL."""
    return Acl(resource_type, name, pattern_type, principal, host, operation, permission)


def may(
    authorizer: Authorizer,
    name: str = "t",
    operation: Operation = Operation.READ,
    principal: Principal = ALICE,
    host: str = HOST,
) -> bool:
    """Return whether a topic may be used."""
    return authorizer.allows(principal, host, operation, ResourceType.TOPIC, name)


def found(authorizer: Authorizer, wanted: AclFilter) -> list[Acl]:
    """Return the ACLs that a filter selects, oldest first."""
    return [one for one in authorizer.acls if wanted.matches(one)]


def every() -> AclFilter:
    """Return the filter that selects every ACL."""
    return AclFilter(
        ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY
    )


def test_nobody_may_do_what_no_acl_allows() -> None:
    """Without a matching ACL access is denied.

    A setting can allow access to resources without any ACL.
    """
    assert not may(Authorizer())
    lenient = Authorizer(allows_everyone_without_acl=True, acls=[acl("other")])
    assert may(lenient)
    assert not may(lenient, "other", Operation.WRITE)


def test_a_super_user_may_do_everything() -> None:
    """A super user may do everything despite ACLs; a principal of another type may not."""
    authorizer = Authorizer(["User:alice"], acls=[acl(permission=Permission.DENY)])
    assert may(authorizer)
    assert not may(authorizer, principal=Principal("Group", "alice"))


def test_a_denial_wins() -> None:
    """DENY takes precedence over ALLOW, by prefix, name or wildcard."""
    for denied in (
        acl(permission=Permission.DENY),
        acl("*", permission=Permission.DENY, principal="User:*"),
        acl("", permission=Permission.DENY)._replace(
            name="t", pattern_type=PatternType.PREFIXED, operation=Operation.ALL
        ),
    ):
        assert not may(Authorizer(acls=[acl(), acl("*"), denied]))
    other_host = acl(permission=Permission.DENY, host="10.0.0.1")
    other_operation = acl("t", Operation.WRITE, permission=Permission.DENY)
    assert may(Authorizer(acls=[acl(), other_host, other_operation]))


def test_what_is_implied() -> None:
    """READ and some other operations imply DESCRIBE; ALTER_CONFIGS implies DESCRIBE_CONFIGS.

    A denied operation implies nothing.
    """
    authorizer = Authorizer(acls=[acl(), acl("c", Operation.ALTER_CONFIGS)])
    assert may(authorizer, "t", Operation.DESCRIBE)
    assert not may(authorizer, "t", Operation.WRITE)
    assert may(authorizer, "c", Operation.DESCRIBE_CONFIGS)
    denied = Authorizer(acls=[acl(permission=Permission.DENY), acl("t", Operation.DESCRIBE)])
    assert may(denied, "t", Operation.DESCRIBE)


def test_the_wildcard_passes_by_names_that_begin_with_it() -> None:
    """The wildcard does not match names that start with `*`, as in Kafka."""
    authorizer = Authorizer(acls=[acl("*")])
    assert may(authorizer, "*")
    assert may(authorizer, "a")
    assert not may(authorizer, "*a")


def test_answers_are_kept_until_acls_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions are cached until ACLs change, up to a limit."""
    monkeypatch.setattr("coordinator_server.security.authorizer.MAX_CACHED_ANSWERS", 2)
    authorizer = Authorizer()
    for name in ("t", "t", "u", "v"):
        assert not may(authorizer, name)
    authorizer.change(added=[acl()])
    assert acl() in authorizer
    assert may(authorizer)
    authorizer.change(removed=[acl()])
    assert not may(authorizer)
    authorizer.change(added=[acl()])
    authorizer.clear()
    assert not len(authorizer)
    assert not may(authorizer)


def test_some_resource_of_a_type() -> None:
    """allows_by_resource_type is False if a DENY covers everything that is allowed."""

    def any_topic(*acls: Acl) -> bool:
        return Authorizer(acls=acls).allows_by_resource_type(
            ALICE, HOST, Operation.READ, ResourceType.TOPIC
        )

    prefixed = PatternType.PREFIXED
    deny = Permission.DENY
    assert not any_topic()
    assert any_topic(acl("*"))
    assert any_topic(acl())
    assert not any_topic(acl(), acl("*", permission=deny))
    assert not any_topic(acl(), acl(permission=deny))
    assert not any_topic(acl(), acl(permission=deny, pattern_type=prefixed))
    assert any_topic(acl("*"), acl("hardcode", permission=deny))
    assert any_topic(acl("tt", pattern_type=prefixed), acl("tt", permission=deny))
    assert not any_topic(acl(host="10.0.0.1"), acl("t", Operation.WRITE))


def test_authorized_operations_are_bits() -> None:
    """Authorized operations are bits of the operations that the resource supports."""
    authorizer = Authorizer(acls=[acl()])
    operations = authorizer.operations(ALICE, HOST, ResourceType.TOPIC, "t")
    assert operations == 1 << Operation.READ | 1 << Operation.DESCRIBE
    root = Authorizer(["User:ANONYMOUS"])
    assert root.operations(ANONYMOUS, HOST, ResourceType.TOPIC, "t") == 3576
    assert root.operations(ANONYMOUS, HOST, ResourceType.GROUP, "g") == 3400
    assert root.operations(ANONYMOUS, HOST, ResourceType.CLUSTER, "kafka-cluster") == 8096


def test_the_index_forgets_what_is_removed() -> None:
    """Removed ACLs leave nothing in the index, whatever the order."""
    for world in worlds(3, 60):
        index = AclIndex()
        for one in (*world.acls, *world.acls):
            index.add(one)
        assert len(index) == len(world.acls)
        assert list(index) == world.acls
        for one in reversed(world.acls):
            index.remove(one)
            assert one not in index
        for asked in world.questions:
            assert not list(index.matching(asked.resource_type, asked.name or "a"))
            assert not list(index.of_principals(asked.resource_type, (asked.principal, "User:*")))


def test_filters() -> None:
    """Filters select by every field; MATCH selects the ACLs that apply to a name."""
    acls = [
        acl("ab"),
        acl("a", pattern_type=PatternType.PREFIXED),
        acl("*", host="10.0.0.1"),
        acl("ab", Operation.WRITE, permission=Permission.DENY, principal="User:bob"),
        acl("ab", resource_type=ResourceType.GROUP),
    ]
    authorizer = Authorizer(acls=acls)
    assert found(authorizer, every()) == acls
    assert found(authorizer, every()._replace(name="ab")) == [acls[0], acls[3], acls[4]]
    match = every()._replace(resource_type=ResourceType.TOPIC, pattern_type=PatternType.MATCH)
    assert found(authorizer, match._replace(name="ab")) == acls[:4]
    assert found(authorizer, match._replace(name="b")) == [acls[2]]
    prefixed = every()._replace(pattern_type=PatternType.PREFIXED)
    assert found(authorizer, prefixed) == [acls[1]]
    assert found(authorizer, every()._replace(principal="User:bob")) == [acls[3]]
    assert found(authorizer, every()._replace(host="10.0.0.1")) == [acls[2]]
    assert found(authorizer, every()._replace(operation=Operation.WRITE)) == [acls[3]]
    assert found(authorizer, every()._replace(permission=Permission.DENY)) == [acls[3]]


def test_what_filters_may_not_be() -> None:
    """Filters of unknown types are refused with Kafka's texts."""
    assert every().problem() is None
    unknown = every()._replace(pattern_type=PatternType.UNKNOWN)
    assert unknown.problem() == "Unknown patternFilter."
    assert every()._replace(operation=Operation.UNKNOWN).problem() == "Unknown entryFilter."


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (acl(), None),
        (
            acl("c", resource_type=ResourceType.CLUSTER),
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        (acl(""), "Invalid empty resource name"),
        (acl(resource_type=ResourceType.UNKNOWN), "Invalid resourceType UNKNOWN"),
        (acl(pattern_type=PatternType.UNKNOWN), "Invalid patternType UNKNOWN"),
        (acl(operation=Operation.UNKNOWN), "Invalid operation UNKNOWN"),
        (acl(permission=Permission.UNKNOWN), "Invalid permissionType UNKNOWN"),
        (
            acl(principal="alice"),
            "Could not parse principal from `alice` (no colon is present separating the principal "
            "type from the principal name)",
        ),
    ],
)
def test_what_acls_may_not_be(wrong: Acl, problem: str | None) -> None:
    """Invalid ACLs are refused with Kafka's texts."""
    assert creation_problem(wrong) == problem


def test_acls_that_kafka_cannot_represent() -> None:
    """ANY and MATCH are allowed only in filters, not in ACLs."""
    assert not cannot_be(acl())
    assert cannot_be(acl(resource_type=ResourceType.ANY))
    assert cannot_be(acl(pattern_type=PatternType.MATCH))
    assert cannot_be(acl(operation=Operation.ANY))
    assert cannot_be(acl(permission=Permission.ANY))
    assert from_code(Operation, 3) is Operation.READ
    assert from_code(Operation, 99) is Operation.UNKNOWN


def secured(disk: MemoryDisk, **settings: str) -> Security:
    """Return security with an authorizer, kept on a disk."""
    overrides = {"authorizer.class.name": CLASS, **settings}
    return Security(
        Config(overrides=overrides), SecurityState(disk, "d"), ManualClock(), ManualClock()
    )


def test_acls_are_kept() -> None:
    """ACLs are stored in the data directory until they are removed or reset."""
    disk = MemoryDisk()
    disk.mkdir("d")
    security = secured(disk)
    run_all(security.change_acls(added=[acl(), acl("u")]))
    run_all(security.change_acls(removed=[acl()]))
    again = secured(disk, **{"super.users": "User:root; User:admin"})
    assert again.authorizer is not None
    assert again.authorizer.acls == [acl("u")]
    root = Access(again.authorizer, Client("root"), "X")
    alice = Access(again.authorizer, Client("alice"), "X")
    assert root.topic(Operation.WRITE, "u")
    assert root.group(Operation.READ, "g")
    assert root.cluster_operations() == 8096
    assert not alice.group(Operation.READ, "g")
    assert alice.any_of(Operation.READ, ResourceType.TOPIC)
    assert alice.cluster_operations() == 0
    again.forget()
    empty = secured(disk).authorizer
    assert empty is not None
    assert not empty.acls
    again.forget()


def test_changes_of_acls_may_overlap() -> None:
    """If two changes overlap, each in several steps, no change is applied twice."""
    disk = MemoryDisk()
    disk.mkdir("d")
    security = secured(disk)
    run_all(security.change_acls(added=[acl("old")]))
    adding = security.change_acls(added=[acl("a"), acl("b")], removed=[acl("old")])
    next(adding)
    run_all(security.change_acls(added=[acl("b")], removed=[acl("old")]))
    assert run_all(adding) == 1
    written = disk.read_file("d/security.changes")
    assert run_all(security.change_acls(added=[acl("a")], removed=[acl("old")])) == 0
    assert disk.read_file("d/security.changes") == written
    for one in (security, secured(disk)):
        assert one.authorizer is not None
        assert sorted(acl.name for acl in one.authorizer.acls) == ["a", "b"]


class Client:
    """A client on this machine."""

    client_host = HOST

    def __init__(self, name: str) -> None:
        self.principal = user(name)


def test_what_one_request_is_denied_is_told(reports: Reports) -> None:
    """The first denials of a request are logged with the start of each resource name.

    Denials of unlogged checks are left out.
    """
    access = Access(Authorizer(), Client("alice"), "Metadata")
    assert not access.unlogged.topic(Operation.READ, "t")
    assert not any(access.topic(Operation.READ, f"{number}{'x' * 400}") for number in range(50))
    assert len(reports.events) == MOST_LOGGED
    assert reports.events[1] == {
        "event": "access.denied",
        "principal": "User:alice",
        "host": HOST.removeprefix("/"),
        "operation": "READ",
        "resource_type": "TOPIC",
        "resource": f"1{'x' * (MOST_LOGGED_CHARACTERS - 1)}",
        "api": "Metadata",
    }


def test_signs_that_a_terminal_obeys_are_not_logged(reports: Reports) -> None:
    """Control characters in names, which clients choose, are not logged."""
    access = Access(Authorizer(), Client("alice\x1b[2J"), "JoinGroup")
    assert not access.group(Operation.READ, "g\x1b]0;\u0085\n\u4e2d")
    (event,) = reports.events
    assert event["principal"] == "User:alice\\x1b[2J"
    assert event["resource"] == "g\\x1b]0;\\x85\\n\\u4e2d"


def test_a_damaged_acl_is_told() -> None:
    """A damaged ACL stops the start of the broker, so that no ACL is lost silently."""
    with pytest.raises(StorageError, match=r"an ACL in the data directory is damaged"):
        load_authorizer(Config(), [{"resource_type": "TOPIC"}])
    with pytest.raises(StorageError, match=r"an ACL in the data directory is damaged"):
        load_authorizer(Config(), [{**acl().to_entry(), "name": 5}])


def test_without_an_authorizer_nobody_is_asked() -> None:
    """Without an authorizer no access is checked, and a reset has nothing to do."""
    disk = MemoryDisk()
    disk.mkdir("d")
    security = Security(Config(), SecurityState(disk, "d"), ManualClock(), ManualClock())
    assert security.authorizer is None
    security.forget()
