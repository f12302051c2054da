"""JoinGroup: member ids, checks, protocols, rejoins, the size limit."""

from dataclasses import replace
from typing import Any

import pytest

from coordinator_server.core.groups.classic.state import GroupState
from protocol.apis.join_group import JoinGroupRequestProtocol
from protocol.errors import ErrorCode
from tests.unit.core.groups.context import GroupContext, commit, leave, subscription

E = ErrorCode


@pytest.mark.parametrize("version", range(10))
def test_the_first_member_leads_generation_one(version: int) -> None:
    """At every version a sole member leads generation 1 and gets itself as the only member."""
    context = GroupContext()
    (member,) = context.completing("A", version=version)
    response = member.joins[-1].response
    assert response.generation_id == 1
    assert response.leader == response.member_id == member.id
    assert [one.member_id for one in response.members] == [member.id]
    assert response.members[0].metadata == subscription("meta-A")
    assert (response.protocol_type, response.protocol_name) == ("consumer", "range")
    assert context.state == "CompletingRebalance"


def test_since_v4_a_dynamic_member_has_to_come_back_with_an_id() -> None:
    """Since v4 a dynamic member first gets MEMBER_ID_REQUIRED with its id.

    The group then exists, Empty and without a type.
    """
    context = GroupContext()
    member = context.member("A", version=4)
    answer = member.join()
    assert answer.error is E.MEMBER_ID_REQUIRED
    assert answer.response.member_id == "A-1"
    assert answer.response.protocol_name == ""
    described = context.broker.describe()
    assert (described.group_state, described.protocol_type) == ("Empty", "")
    assert len(context.broker.log) == 1


def test_protocol_name_of_an_error_is_null_since_v7() -> None:
    """In a JoinGroup error the protocol name is "" before v7 and null from v7 on."""
    context = GroupContext()
    assert context.member("A", version=7).join().response.protocol_name is None
    assert context.member("A", version=6).join().response.protocol_name == ""


def test_a_client_without_a_client_id_gets_an_id_all_the_same() -> None:
    """A null client id gives a member id with an empty prefix."""
    context = GroupContext()
    member = context.member("A", version=4)
    member.name = None  # type: ignore[assignment]  # a null client id
    assert member.join().response.member_id == "-1"
    member.join()
    context.broker.advance(0)
    assert context.broker.describe().members[0].client_id == ""


@pytest.mark.parametrize(
    ("changes", "error", "echoed", "state"),
    [
        ({"group_id": ""}, E.INVALID_GROUP_ID, "", "Dead"),
        ({"session_timeout_ms": 5_999}, E.INVALID_SESSION_TIMEOUT, "", "Dead"),
        ({"session_timeout_ms": 1_800_001}, E.INVALID_SESSION_TIMEOUT, "", "Dead"),
        ({"member_id": "ghost"}, E.UNKNOWN_MEMBER_ID, "ghost", "Dead"),
        ({"protocol_type": ""}, E.INCONSISTENT_GROUP_PROTOCOL, "", "Empty"),
        ({"protocols": []}, E.INCONSISTENT_GROUP_PROTOCOL, "", "Empty"),
    ],
)
def test_refusals_of_a_first_join(
    changes: dict[str, Any], error: ErrorCode, echoed: str, state: str
) -> None:
    """Each invalid first join gets its error, and only some of them create the group."""
    context = GroupContext()
    answer = context.member("A").join(**changes)
    assert answer.error is error
    assert answer.response.member_id == echoed
    assert (answer.response.generation_id, answer.response.leader) == (-1, "")
    assert context.state == state


@pytest.mark.parametrize("session_timeout_ms", [6_000, 1_800_000])
def test_session_timeouts_at_the_bounds_are_fine(session_timeout_ms: int) -> None:
    """JoinGroup accepts the smallest and the largest allowed session timeout."""
    assert GroupContext().completing("A", session_ms=session_timeout_ms)


def test_a_member_id_of_nobody_is_unknown_in_every_state() -> None:
    """An unknown member id gets UNKNOWN_MEMBER_ID with the same id, in every state."""
    for prepare in ("empty", "preparing", "completing", "stable"):
        context = GroupContext()
        getattr(context, prepare)(*(() if prepare == "empty" else ("A",)))
        answer = context.member("X", version=5).join(member_id="ghost")
        assert answer.error is E.UNKNOWN_MEMBER_ID
        assert answer.response.member_id == "ghost"


def test_members_must_share_a_protocol() -> None:
    """A member with another type or no common protocol is refused before it gets an id."""
    context = GroupContext()
    (a,) = context.stable("A")
    for version in (3, 5):
        other = context.member("B", version=version, protocols=[("roundrobin", b"")])
        assert other.join().error is E.INCONSISTENT_GROUP_PROTOCOL
        typed = context.member("C", version=version, protocol_type="connect")
        assert typed.join().error is E.INCONSISTENT_GROUP_PROTOCOL
    assert a.heartbeat() is E.NONE
    assert context.state == GroupState.STABLE


def test_a_sole_member_cannot_change_to_another_protocol() -> None:
    """A sole member cannot replace its protocols: they must match its old protocols.

    The response has the member's id.
    """
    context = GroupContext()
    (a,) = context.stable("A")
    answer = a.join(protocols=[JoinGroupRequestProtocol(name="sticky", metadata=b"")])
    assert answer.error is E.INCONSISTENT_GROUP_PROTOCOL
    assert answer.response.member_id == a.id


def test_an_empty_group_may_change_its_type() -> None:
    """The first member of an empty group sets its protocol type."""
    context = GroupContext()
    context.empty()
    (b,) = context.stable(context.member("B", protocol_type="connect", protocols=[("c", b"")]))
    assert b.generation == 3
    assert context.broker.describe().protocol_type == "connect"


def test_a_group_of_commits_becomes_one_with_members() -> None:
    """The first member gives a group of offset commits its protocol type; no record is written."""
    context = GroupContext()
    commit(context.broker, ("one", 0, 5))
    context.completing("A")
    assert len(context.broker.log) == 1
    assert context.broker.describe().protocol_type == "consumer"


def test_a_leader_that_rejoins_always_rebalances() -> None:
    """A leader that rejoins starts a rebalance, because it may know of new topics."""
    context = GroupContext()
    a, b = context.stable("A", "B")
    answer = a.join()
    assert answer.parked
    assert b.heartbeat() is E.REBALANCE_IN_PROGRESS
    assert b.join().response.generation_id == 2
    assert len(answer.response.members) == 2


def test_a_follower_that_rejoins_unchanged_gets_the_present_generation() -> None:
    """A follower that rejoins unchanged gets the current generation, and no session renewal."""
    context = GroupContext()
    a, b = context.stable("A", "B")
    context.broker.advance(6_000)
    assert a.heartbeat() is E.NONE
    response = b.join().response
    assert (response.generation_id, response.members) == (1, [])
    assert context.state == GroupState.STABLE
    context.broker.advance(5_000)
    assert b.heartbeat() is E.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    "protocols", [[("range", b"new")], [("y", b"2"), ("range", b"")], [("range", b""), ("y", b"3")]]
)
def test_changed_metadata_or_order_rebalances(protocols: list[tuple[str, bytes]]) -> None:
    """A follower's new metadata, order or list of protocols starts a rebalance."""
    context = GroupContext()
    lists = [("range", b""), ("y", b"2")]
    _, b = context.stable("A", "B", protocols=lists)
    b.protocols = protocols
    assert b.join().parked
    assert context.state == GroupState.PREPARING_REBALANCE


def test_changed_timeouts_are_no_change() -> None:
    """Another session or rebalance timeout alone starts no rebalance."""
    context = GroupContext()
    _, b = context.stable("A", "B")
    assert b.join(session_timeout_ms=20_000, rebalance_timeout_ms=1).error is E.NONE
    assert context.state == GroupState.STABLE


def test_rejoins_while_completing() -> None:
    """In the sync phase an unchanged rejoin gets the current generation.

    Changed metadata starts a rebalance. The response to the leader lists the members.
    """
    context = GroupContext()
    a, b = context.completing("A", "B")
    assert len(a.join().response.members) == 2
    assert b.join().response.members == []
    sync = b.sync()
    assert b.join().response.generation_id == 1
    assert sync.parked
    b.protocols = [("range", b"new")]
    assert b.join().parked
    assert sync.error is E.REBALANCE_IN_PROGRESS


def test_an_id_given_out_is_no_member_yet() -> None:
    """With a pending member id heartbeat, sync and commit are refused."""
    context = GroupContext()
    member = context.member("N", version=5)
    member.join()
    assert member.heartbeat(generation_id=0) is E.UNKNOWN_MEMBER_ID
    assert member.sync(generation_id=0).error is E.UNKNOWN_MEMBER_ID
    assert member.commit(("one", 0, 1), generation_id_or_member_epoch=0) == [E.UNKNOWN_MEMBER_ID]
    assert context.completing(member) == [member]


def test_an_id_given_out_cannot_be_used_by_a_static_member() -> None:
    """A static member with a pending id gets UNKNOWN_SERVER_ERROR, as in Kafka.

    The pending id stays valid.
    """
    context = GroupContext()
    member = context.member("N", version=5)
    member.join()
    answer = member.join(group_instance_id="i")
    assert (answer.error, answer.response.member_id) == (E.UNKNOWN_SERVER_ERROR, "")
    member.join()
    context.broker.advance(0)
    member.learn()
    assert member.generation == 1


def test_a_second_join_of_the_same_member_ends_the_first() -> None:
    """A second JoinGroup of a member answers the first; both requests get a response."""
    context = GroupContext()
    a, b = context.stable("A", "B")
    first = a.join()
    second = a.join()
    assert first.error is E.REBALANCE_IN_PROGRESS
    b.join()
    assert second.error is E.NONE


def test_group_max_size_counts_members_in_stable() -> None:
    """In Stable a member beyond group.max.size is refused without disturbing other members."""
    context = GroupContext()
    static = context.member("A", instance_id="i")
    members = context.stable(static, "B", "C", "D")
    for version in (3, 5):
        answer = context.member("E", version=version).join()
        assert (answer.error, answer.response.member_id) == (E.GROUP_MAX_SIZE_REACHED, "")
    restarted = context.member("X", instance_id="i", protocols=static.protocols)
    assert restarted.join().error is E.GROUP_MAX_SIZE_REACHED
    assert all(one.heartbeat() is E.NONE for one in members)
    assert members[1].join().error is E.NONE


def test_group_max_size_counts_waiting_members_while_preparing() -> None:
    """In a join phase the size limit counts only members that have joined.

    An old member that joins beyond the limit is removed, and so is its timer.
    """
    context = GroupContext()
    a, b, c, d = context.stable("A", "B", "C", "D")
    b.protocols = [("range", b"new")]
    parked = [b.join(), context.member("E").join(), a.join(), c.join()]
    parked.append(a.join())  # a waiting member may rejoin
    assert parked.pop(2).error is E.REBALANCE_IN_PROGRESS
    late = d.join()
    assert (late.error, late.response.member_id) == (E.GROUP_MAX_SIZE_REACHED, "")
    assert d.heartbeat() is E.UNKNOWN_MEMBER_ID
    assert all(answer.parked for answer in parked)
    context.broker.advance(30_000)
    assert parked[0].response.generation_id == 2


def test_group_max_size_forgets_a_pending_id() -> None:
    """A pending member id is dropped when the group has no room for it."""
    context = GroupContext(max_size=1)
    context.stable("A")
    broker = context.broker
    assert broker.group is not None
    with broker.one_drain():
        broker.group.environment = replace(
            broker.environment, settings=broker.settings._replace(max_size=2)
        )
        newcomer = context.member("N", version=5)
        pending = newcomer.join()
    newcomer.learn()
    assert pending.error is E.MEMBER_ID_REQUIRED
    broker.group.environment = broker.environment
    assert newcomer.join().error is E.GROUP_MAX_SIZE_REACHED
    assert broker.group.membership.pending == {}


def test_group_max_size_does_not_matter_to_an_empty_group() -> None:
    """The first member of a group is accepted whatever group.max.size is."""
    context = GroupContext(max_size=0, initial_rebalance_delay_ms=1)
    assert context.member("A").join().parked


def test_junk_metadata_does_not_wedge_the_group() -> None:
    """A member with unreadable metadata can join, and is treated as subscribed to all topics.

    Kafka never answers such a join.
    """
    for junk in (
        b"meta-A",
        b"\0\0\x7f\xff\xff\xff",
        b"\0\0\xff\xff\xff\xff",
        b"",
        b"\0",
        b"\xff\xff",
    ):
        context = GroupContext()
        context.stable("A", protocols=[("range", junk)])
        assert context.broker.group is not None
        assert context.broker.group.is_subscribed("anything")


def test_a_protocol_named_twice_counts_once() -> None:
    """If a JoinGroup names a protocol twice, the first metadata of the protocol is used.

    Kafka never answers such a join.
    """
    context = GroupContext()
    (a,) = context.completing("A", protocols=[("range", b"first"), ("range", b"second")])
    assert a.joins[-1].response.members[0].metadata == b"first"


def test_the_reason_of_a_join_is_told() -> None:
    """The event of a rebalance has the reason of the join (KIP-800)."""
    context = GroupContext()
    context.member("A").join(reason="because")
    fields = dict(context.broker.events)["group.rebalancing"]
    assert (fields["trigger"], fields["reason"]) == ("member joined", "because")


def test_a_member_that_joins_a_preparing_group_without_members() -> None:
    """In a join phase whose members have all left, any protocol of the fixed type is accepted."""
    context = GroupContext(initial_rebalance_delay_ms=1_000)
    first = context.member("A", version=5)
    first.join()
    first.join()
    leave(context.broker, (first.id, None))
    assert context.state == GroupState.PREPARING_REBALANCE
    assert context.member("B", protocols=[("other", b"")]).join().parked
    refused = context.member("C", protocol_type="connect").join()
    assert refused.error is E.INCONSISTENT_GROUP_PROTOCOL
