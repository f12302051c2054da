"""Members, leader and the protocol vote."""

import pytest

from coordinator_server.coordinator.operations import PendingRequest
from coordinator_server.core.groups.classic.join_group import JOIN_GROUP
from coordinator_server.core.groups.classic.member import (
    SHARED_BYTES,
    SHARED_LENGTH,
    MemberMetadata,
    Protocols,
    shared_protocols,
)
from coordinator_server.core.groups.classic.membership import ClassicMembership
from coordinator_server.core.groups.effects import Reply
from protocol.apis.join_group import JoinGroupRequest, JoinGroupResponse
from tests.harness.one_group import Answer


def member(name: str, *protocols: str, instance_id: str | None = None) -> MemberMetadata:
    """Return a member that supports `protocols`."""
    return MemberMetadata(
        name,
        group_instance_id=instance_id,
        client_id="",
        client_host="",
        rebalance_timeout_ms=len(name) * 10,
        session_timeout_ms=10,
        protocols=tuple((protocol, protocol.encode()) for protocol in protocols or ("range",)),
    )


def membership(*members: MemberMetadata) -> ClassicMembership:
    """Return a membership of `members`."""
    made = ClassicMembership()
    for one in members:
        made.add(one)
    return made


def parked() -> Reply[JoinGroupResponse]:
    """Return the reply to a JoinGroup."""
    request = JoinGroupRequest(group_id="g")
    return PendingRequest(JOIN_GROUP, Answer(request), request)


@pytest.mark.parametrize(
    ("lists", "selected"),
    [
        ([["x"]], "x"),
        ([["x", "y"], ["y", "x"], ["y", "x"]], "y"),
        ([["z", "x", "y"], ["z", "x", "y"], ["y", "x"]], "x"),
        ([["x", "y"], ["y", "x"]], "x"),
        ([["y", "x"], ["x", "y"]], "x"),
        ([["sticky", "range"], ["range", "sticky"]], "sticky"),
        ([["cooperative-sticky", "range"], ["range", "cooperative-sticky"]], "range"),
        ([["roundrobin", "range"], ["range", "roundrobin"]], "range"),
        ([["a", "q"], ["q", "a"]], "a"),
        ([["x", "x"]], "x"),
    ],
)
def test_the_vote(lists: list[list[str]], selected: str) -> None:
    """Each member votes for its first protocol that all members support; ties end as in Kafka."""
    made = membership(*(member(f"m{index}", *names) for index, names in enumerate(lists)))
    assert made.selected_protocol() == selected


def test_no_common_protocol_is_a_bug() -> None:
    """A vote without candidates fails an assertion: no member can lack a common protocol."""
    with pytest.raises(AssertionError):
        membership(member("a", "x"), member("b", "y")).selected_protocol()


def test_support_follows_every_change() -> None:
    """The set of common protocols stays correct when members join, change and leave."""
    a, b = member("a", "x", "y"), member("b", "x")
    made = membership(a, b)
    assert made.supports_any(["x"])
    assert not made.supports_any(["y"])
    made.set_protocols(b, (("y", b""),))
    assert made.supports_any(["y"])
    assert not made.supports_any(["x", "nothing"])
    made.remove(b)
    assert made.supports_any(["x"])
    made.remove(a)
    assert made._supported == {}


def test_support_ends_with_the_last_member_that_lists_a_protocol() -> None:
    """A protocol that no member lists any more is forgotten."""
    a, b, c = member("a", "x", "z", "z"), member("b", "x"), member("c", "x", "y")
    made = membership(a, b, c)
    made.remove(c)
    assert made._supported == {"x": 2, "z": 1}
    made.remove(b)
    assert made._supported == {"x": 1, "z": 1}


def test_the_first_member_leads_and_the_longest_follows() -> None:
    """When the leader leaves, the longest-standing member leads; an empty group has no leader."""
    a, b, c = member("a"), member("b"), member("c")
    made = membership(a, b, c)
    leaders = [made.leader_id]
    for one in (b, a, c):
        made.remove(one)
        leaders.append(made.leader_id)
    assert leaders == ["a", "a", "c", None]
    assert not made.elect_joined_leader()


def test_a_leader_that_has_not_joined_is_replaced() -> None:
    """A leader that has not rejoined is replaced by the first rejoined member, if any."""
    a, b, c = member("a"), member("b"), member("c")
    made = membership(a, b, c)
    found = [made.elect_joined_leader()]
    made.park_join(c, parked())
    found += [made.elect_joined_leader(), made.elect_joined_leader()]
    assert found == [False, True, True]
    assert made.leader_id == "c"


def test_parked_joins_are_counted_once() -> None:
    """Parking a join again replaces the request; the member is counted once."""
    a, b = member("a"), member("b")
    made = membership(a, b)
    first, second = parked(), parked()
    assert made.park_join(a, first) is None
    assert made.park_join(a, second) is first
    joined = [made.all_joined]
    made.park_join(b, parked())
    joined.append(made.all_joined)
    assert joined == [False, True]
    assert made.take_join(a) is second
    assert made.take_join(a) is None
    assert made.awaiting_join == 1


def test_a_renamed_member_keeps_its_place() -> None:
    """A member with a new id keeps its position, instance id and leadership."""
    a, b = member("a", instance_id="i"), member("b", instance_id="j")
    made = membership(a, b)
    made.rename(a, "c")
    assert list(made.members) == ["c", "b"]
    assert made.static_ids == {"i": "c", "j": "b"}
    assert made.leader_id == "c"
    made.rename(b, "d")
    assert made.leader_id == "c"
    made.remove(b)
    assert made.static_ids == {"i": "c"}


def test_the_longest_rebalance_timeout_counts() -> None:
    """A group's rebalance timeout is the longest rebalance timeout of its members."""
    assert membership(member("a"), member("bbb"), member("cc")).rebalance_timeout_ms == 30
    assert ClassicMembership().rebalance_timeout_ms == 0


def test_metadata_of_a_protocol() -> None:
    """A member has metadata for each of its protocols, and none for other protocols."""
    one = member("a", "x", "y")
    assert [one.metadata_for(name) for name in ("y", "z", None)] == [b"y", b"", b""]


def protocols_of(count: int, size: int) -> Protocols:
    """Return a new list of `count` protocols, with metadata of `size` bytes."""
    return tuple((f"protocol-{number}", bytes(size)) for number in range(count))


@pytest.mark.parametrize(
    ("count", "size", "shared"),
    [(2, 100, True), (1, SHARED_BYTES, False), (SHARED_LENGTH + 1, 0, False)],
)
def test_members_share_equal_protocols(count: int, size: int, shared: bool) -> None:
    """Equal protocol lists are one shared object, unless they are long."""
    first = shared_protocols(protocols_of(count, size))
    second = shared_protocols(protocols_of(count, size))
    assert first == second
    assert (first is second) == shared
