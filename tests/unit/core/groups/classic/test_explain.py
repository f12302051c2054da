"""The record of a rebalance: its cause and course, one test per trigger."""

from __future__ import annotations

from protocol.errors import ErrorCode
from tests.unit.core.groups.classic.explained import (
    ExplainedGroup,
    assignment,
    cause,
    client,
    gone,
    joined,
    moves,
    stayed,
    straggler,
)
from tests.unit.core.groups.context import leave, subscription

E = ErrorCode
START_MS = 1_000_000


def test_a_member_joins_an_empty_group() -> None:
    """The first rebalance waits for more members during the initial delay."""
    group = ExplainedGroup(initial_rebalance_delay_ms=1_000)
    a, b = group.member("A"), group.member("B")
    a.join(reason="started")
    group.broker.advance(400)
    b.join()
    group.broker.advance(1_600)
    a.learn()
    b.learn()
    group.broker.advance(30)
    group.assign({a: (0, 1), b: (2, 3)})
    assert group.record() == group.expected(
        START_MS,
        **cause("member joined", a, reason="started"),
        also=[cause("member joined", b) | {"after_ms": 400}],
        generation_before=0,
        generation=1,
        protocol_before=None,
        leader_before=None,
        leader=a.id,
        initial_delay_ms=2_000,
        sync_ms=30,
        members_joined=2,
        members_after=2,
        stragglers=[straggler(b, 400)],
        partitions=moves(added=4),
        members=[joined(a, (0, 1)), joined(b, (2, 3), rejoined_ms=400)],
    )


def test_a_member_joins_a_stable_group() -> None:
    """The rebalance record has each member's rejoin time and the moved partitions."""
    group = ExplainedGroup()
    a, b = group.settled({"A": (0, 1, 2), "B": (3, 4, 5)})
    c = group.member("C")
    c.join()
    group.broker.advance(40)
    b.join()
    group.broker.advance(1)
    a.join()
    b.learn()
    c.learn()
    group.broker.advance(3)
    group.assign({a: (0, 1), b: (3, 4), c: (2, 5)})
    assert group.record() == group.expected(
        START_MS,
        **cause("member joined", c),
        generation_before=1,
        generation=2,
        leader_before=a.id,
        leader=a.id,
        join_ms=41,
        sync_ms=3,
        members_before=2,
        members_rejoined=2,
        members_joined=1,
        members_after=3,
        stragglers=[straggler(a, 41), straggler(b, 40)],
        partitions=moves(moved=2, kept=4),
        members=[
            stayed(a, (0, 1, 2), (0, 1), rejoined_ms=41),
            stayed(b, (3, 4, 5), (3, 4), rejoined_ms=40),
            joined(c, (2, 5)),
        ],
    )


def test_a_member_leaves() -> None:
    """The rebalance record has the reason that the leaving member gave, and the new leader."""
    group = ExplainedGroup()
    a, b = group.settled({"A": (0, 1), "B": (2,)})
    a.leave("closing")
    b.join()
    group.assign({b: (0, 2)})
    assert group.record() == group.expected(
        START_MS,
        **cause("member left", a, reason="closing"),
        generation_before=1,
        generation=2,
        leader_before=a.id,
        leader=b.id,
        members_before=2,
        members_rejoined=1,
        members_after=1,
        partitions=moves(moved=1, revoked=1, kept=1),
        members=[gone(a, (0, 1)), stayed(b, (2,), (0, 2))],
    )


def test_the_last_member_leaves() -> None:
    """When the last member leaves, the rebalance ends with an empty group without a leader."""
    group = ExplainedGroup()
    (a,) = group.settled({"A": (0, 1)})
    a.leave()
    assert group.record() == group.expected(
        START_MS,
        **cause("member left", a),
        outcome="empty",
        generation_before=1,
        generation=2,
        protocol=None,
        leader_before=a.id,
        leader=None,
        members_before=1,
        members_after=0,
        partitions=moves(revoked=2),
        members=[gone(a, (0, 1))],
    )


def test_several_leave_at_once() -> None:
    """The first member of a LeaveGroup is the culprit; the other members are listed as well."""
    group = ExplainedGroup()
    a, b, c = group.settled({"A": (0,), "B": (1,), "C": (2,)})
    leave(group.broker, (b.id, None), (c.id, None), reason="sent away")
    a.join()
    group.assign({a: (0, 1, 2)})
    record = group.record()
    assert record["culprit"] == client(b)
    assert record["also"] == [cause("member left", c, reason="sent away") | {"after_ms": 0}]
    assert record["members_rejoined"] == 1


def test_a_session_expires() -> None:
    """The rebalance record names the expired member, its timeout, rejoined members and moves."""
    group = ExplainedGroup()
    a, b, c = group.settled({"A": (0, 1, 2, 3), "B": (4, 5, 6, 7), "C": (8, 9, 10, 11)})
    group.broker.advance(5_000)
    a.heartbeat()
    c.heartbeat()
    group.broker.advance(5_000)
    started_ms = group.broker.now_ms
    group.broker.advance(41)
    a.join()
    c.join()
    a.learn()
    group.assign({a: (0, 1, 2, 3, 4, 5), c: (6, 7, 8, 9, 10, 11)})
    assert group.record() == group.expected(
        started_ms,
        **cause("member expired", b, timeout_ms=10_000),
        generation_before=1,
        generation=2,
        leader_before=a.id,
        leader=a.id,
        join_ms=41,
        members_before=3,
        members_rejoined=2,
        members_after=2,
        stragglers=[straggler(a, 41), straggler(c, 41)],
        partitions=moves(moved=4, kept=8),
        members=[
            stayed(a, range(4), range(6), rejoined_ms=41),
            gone(b, range(4, 8)),
            stayed(c, range(8, 12), range(6, 12), rejoined_ms=41),
        ],
    )


def test_sessions_expire_while_everybody_is_asked_to_rejoin() -> None:
    """Sessions that expire in the join phase are further causes, and their members are dropped."""
    group = ExplainedGroup()
    a, b, c = group.settled({"A": (0,), "B": (1,), "C": (2,)}, rebalance_ms=60_000)
    a.join()
    group.broker.advance(5_000)
    c.heartbeat()
    group.broker.advance(10_000)
    a.learn()
    group.assign({a: (0, 1, 2)})
    record = group.record()
    assert record["trigger"] == "leader rejoined"
    assert record["also"] == [
        cause("member expired", b, timeout_ms=10_000) | {"after_ms": 10_000},
        cause("member expired", c, timeout_ms=10_000) | {"after_ms": 15_000},
    ]
    assert record["dropped"] == [{**client(one), "why": "session expired"} for one in (b, c)]
    assert (record["members_before"], record["members_rejoined"]) == (3, 1)
    assert record["join_ms"] == 15_000


def test_a_new_member_gives_up_waiting() -> None:
    """A new member that expires while it waits counts neither as joined nor as present."""
    group = ExplainedGroup(new_member_join_timeout_ms=20_000)
    a, b = group.settled({"A": (0,), "B": (1,)}, session_ms=60_000)
    c = group.member("C", session_ms=6_000)
    c.join()
    a.join()
    group.broker.advance(30_000)
    a.learn()
    group.assign({a: (0, 1)})
    record = group.record()
    new_id = record["culprit"]["member"]
    assert record["also"] == [
        cause("member expired", client(c, new_id), timeout_ms=20_000) | {"after_ms": 20_000}
    ]
    assert record["dropped"] == [
        {**client(c, new_id), "why": "session expired"},
        {**client(b), "why": "not rejoined"},
    ]
    assert (record["members_rejoined"], record["members_joined"]) == (1, 0)


def test_those_who_do_not_rejoin() -> None:
    """Dynamic members that do not rejoin are dropped; static members stay and are recorded."""
    group = ExplainedGroup()
    a, b = group.member("A", session_ms=60_000), group.member("B", session_ms=60_000)
    c = group.member("C", session_ms=60_000, instance_id="i")
    group.settled({a: (0,), b: (1,), c: (2,)})
    a.join()
    group.broker.advance(30_000)
    a.learn()
    a.sync({a.id: assignment(t=(0, 1)), c.id: assignment(t=(2,))})
    record = group.record()
    assert record["dropped"] == [{**client(b), "why": "not rejoined"}]
    assert record["members"] == [
        stayed(a, (0,), (0, 1)),
        gone(b, (1,)),
        stayed(c, (2,), (2,), rejoined_ms=None),
    ]
    assert (record["members_before"], record["members_rejoined"]) == (3, 1)
    assert record["members_after"] == 2


def test_a_member_id_that_nobody_uses() -> None:
    """An unused member id delays the join phase and is dropped like a member."""
    group = ExplainedGroup()
    (a,) = group.settled({"A": (0,)}, session_ms=60_000)
    given = group.member("D", version=4, session_ms=6_000).join().response.member_id
    a.join()
    group.broker.advance(6_000)
    a.learn()
    group.assign({a: (0,)})
    record = group.record()
    assert record["dropped"] == [
        {
            "member": given,
            "instance": None,
            "client_id": "",
            "host": "",
            "why": "member id never used",
        }
    ]
    assert record["join_ms"] == 6_000


def test_a_member_id_is_given_back_or_forgotten_in_peace() -> None:
    """A member id that is returned or expires outside of a join phase is not recorded."""
    group = ExplainedGroup()
    (a,) = group.settled({"A": (0,)}, session_ms=60_000)
    group.member("D", version=4, session_ms=6_000).join()
    group.broker.advance(6_000)
    assert a.heartbeat() is E.NONE
    assert group.records() == []


def test_a_member_changes_what_it_subscribes_to() -> None:
    """The rebalance record has the topics that a member has added to and removed from its list."""
    group = ExplainedGroup()
    a, b = group.settled({"A": (0,), "B": (1,)})
    b.protocols = [("range", subscription("other", "t"))]
    b.join()
    a.join()
    b.learn()
    group.assign({a: (0,), b: (1,)})
    assert group.record() == group.expected(
        START_MS,
        **cause("metadata changed", b),
        generation_before=1,
        generation=2,
        leader_before=a.id,
        leader=a.id,
        members_before=2,
        members_rejoined=2,
        members_after=2,
        partitions=moves(kept=2),
        members=[
            stayed(a, (0,), (0,)),
            stayed(b, (1,), (1,), topics_added=["other", "t"], topics_removed=["meta-B"]),
        ],
    )


def test_the_leader_rejoins() -> None:
    """A leader that rejoins a Stable group starts a rebalance."""
    group = ExplainedGroup()
    a, b = group.settled({"A": (0,), "B": (1,)})
    a.join(reason="the topic has grown")
    b.join()
    a.learn()
    group.assign({a: (0, 2), b: (1,)})
    assert group.record() == group.expected(
        START_MS,
        **cause("leader rejoined", a, reason="the topic has grown"),
        generation_before=1,
        generation=2,
        leader_before=a.id,
        leader=a.id,
        members_before=2,
        members_rejoined=2,
        members_after=2,
        partitions=moves(added=1, kept=2),
        members=[stayed(a, (0,), (0, 2)), stayed(b, (1,), (1,))],
    )


def test_a_static_member_is_replaced_while_the_group_completes() -> None:
    """Replacing a static member in the sync phase starts another rebalance; both are recorded."""
    group = ExplainedGroup()
    a, s = group.settled({"A": (0,), group.member("S", instance_id="i"): (1,)})
    old_id = s.id
    a.join()
    s.join()
    a.learn()
    s.learn()
    group.broker.advance(70)
    s.id = ""
    s.join()
    a.join()
    s.learn()
    group.assign({a: (0,), s: (1,)})
    overtaken, record = group.records()
    assert overtaken == group.expected(
        START_MS,
        **cause("leader rejoined", a),
        outcome="superseded",
        generation_before=1,
        generation=2,
        leader_before=a.id,
        leader=a.id,
        sync_ms=70,
        members_before=2,
        members_rejoined=2,
        members_after=2,
    )
    assert record == group.expected(
        START_MS + 70,
        **cause("static member replaced", s),
        generation_before=2,
        generation=3,
        leader_before=a.id,
        leader=a.id,
        members_before=2,
        members_rejoined=2,
        members_after=2,
        partitions=moves(kept=2),
        members=[stayed(a, (0,), (0,)), stayed(s, (1,), (1,), member_before=old_id)],
    )


def test_a_static_member_is_replaced_while_everybody_is_asked_to_rejoin() -> None:
    """The rebalance record lists a static member once if it is replaced in the join phase."""
    group = ExplainedGroup()
    a, s = group.settled({"A": (0,), group.member("S", instance_id="i"): (1,)})
    c = group.member("C")
    c.join()
    s.join()
    group.broker.advance(50)
    s.id = ""
    s.join()
    a.join()
    s.learn()
    c.learn()
    group.assign({a: (0,), s: (1,), c: ()})
    record = group.record()
    assert record["also"] == [cause("static member replaced", s) | {"after_ms": 50}]
    assert (record["members_rejoined"], record["members_joined"]) == (2, 1)
    assert record["members"][2] == joined(c, ())


def test_a_follower_never_syncs() -> None:
    """A follower that does not sync is dropped from a Stable group at the rebalance timeout."""
    group = ExplainedGroup()
    a, b = group.completing("A", "B", session_ms=60_000)
    a.sync({a.id: assignment(t=(0,)), b.id: assignment(t=(1,))})
    group.broker.explained.clear()
    group.broker.advance(30_000)
    started_ms = group.broker.now_ms
    a.join()
    group.assign({a: (0, 1)})
    assert group.record() == group.expected(
        started_ms,
        **cause("member never synced", b, timeout_ms=30_000),
        generation_before=1,
        generation=2,
        leader_before=a.id,
        leader=a.id,
        members_before=2,
        members_rejoined=1,
        members_after=1,
        dropped=[{**client(b), "why": "never synced"}],
        partitions=moves(moved=1, kept=1),
        members=[stayed(a, (0,), (0, 1)), gone(b, (1,))],
    )


def test_the_leader_never_syncs() -> None:
    """A rebalance whose leader never syncs ends without an assignment; the old one stays valid."""
    group = ExplainedGroup()
    a, b = group.settled({"A": (0,), "B": (1,)}, session_ms=60_000)
    a.join()
    b.join()
    a.learn()
    b.sync()
    group.broker.advance(30_000)
    b.join()
    group.assign({b: (0, 1)})
    overtaken, record = group.records()
    assert (overtaken["outcome"], overtaken["sync_ms"]) == ("superseded", 30_000)
    assert (record["trigger"], record["culprit"]) == ("member never synced", client(a))
    assert record["members"] == [gone(a, (0,)), stayed(b, (1,), (0, 1))]
    assert (record["generation_before"], record["generation"]) == (2, 3)


def test_the_assignment_cannot_be_written() -> None:
    """A failed write of the assignment is recorded, and another rebalance follows."""
    group = ExplainedGroup()
    (a,) = group.settled({"A": (0,)})
    a.join()
    group.broker.append_error = lambda: E.NOT_ENOUGH_REPLICAS
    group.assign({a: (0,)})
    group.broker.append_error = lambda: E.NONE
    a.join()
    group.assign({a: (0,)})
    overtaken, record = group.records()
    assert overtaken["outcome"] == "superseded"
    assert record == group.expected(
        START_MS,
        **cause("assignment not written", a, error="COORDINATOR_NOT_AVAILABLE"),
        generation_before=2,
        generation=3,
        leader_before=a.id,
        leader=a.id,
        members_before=1,
        members_rejoined=1,
        members_after=1,
        partitions=moves(kept=1),
        members=[stayed(a, (0,), (0,))],
    )


def test_an_assignment_that_comes_too_late_was_never_held() -> None:
    """An assignment that a join overtakes is in the log, but not sent or in a rebalance record."""
    group = ExplainedGroup()
    (a,) = group.settled({"A": (0, 1)})
    b = group.member("B")
    a.join()
    with group.broker.one_drain():
        a.sync({a.id: assignment(t=(7,))})
        b.join()
    a.join()
    b.learn()
    group.assign({a: (0,), b: (1,)})
    _, record = group.records()
    assert record["members"] == [stayed(a, (0, 1), (0,)), joined(b, (1,))]


def test_a_group_is_loaded() -> None:
    """Loading a group is not a rebalance: the members keep their assignments."""
    group = ExplainedGroup()
    a, _ = group.settled({"A": (0,), "B": (1,)})
    group.broker.crash()
    assert group.record() == group.expected(
        START_MS,
        **cause("coordinator loaded"),
        generation_before=1,
        generation=1,
        leader_before=a.id,
        leader=a.id,
        members_before=2,
        members_after=2,
    )


def test_a_group_is_loaded_with_too_many_members() -> None:
    """If a loaded group has too many members, the first members to rejoin stay."""
    group = ExplainedGroup()
    a, b, c = group.settled({"A": (0,), "B": (1,), "C": (2,)})
    group.broker.settings = group.broker.settings._replace(max_size=2)
    group.broker.crash()
    a.join()
    b.join()
    assert c.join().error is E.GROUP_MAX_SIZE_REACHED
    group.broker.advance(30_000)
    a.learn()
    b.learn()
    group.assign({a: (0, 2), b: (1,)})
    loaded, record = group.records()
    assert loaded["trigger"] == "coordinator loaded"
    assert (record["trigger"], record["culprit"]) == ("over capacity after load", None)
    assert record["dropped"] == [{**client(c), "why": "no room"}]
    assert record["members"] == [stayed(a, (0,), (0, 2)), stayed(b, (1,), (1,)), gone(c, (2,))]


def test_an_empty_group_is_loaded_in_silence() -> None:
    """Loading an empty group records nothing."""
    group = ExplainedGroup()
    group.empty()
    group.broker.explained.clear()
    group.broker.crash()
    assert group.records() == []


def test_the_group_is_let_go_in_the_middle() -> None:
    """A partition that moves away in a join phase ends the rebalance, and this is recorded."""
    group = ExplainedGroup()
    a, b = group.settled({"A": (0,), "B": (1,)})
    b.leave()
    group.broker.advance(20)
    group.broker.unload()
    assert group.record() == group.expected(
        START_MS,
        **cause("member left", b),
        outcome="unloaded",
        generation_before=1,
        generation=1,
        protocol=None,
        leader_before=a.id,
        leader=None,
        join_ms=20,
        members_before=2,
        members_after=0,
    )


def test_a_stable_group_is_let_go_in_silence() -> None:
    """Unloading a Stable group records nothing."""
    group = ExplainedGroup()
    group.settled({"A": (0,)})
    group.broker.unload()
    assert group.records() == []


def test_the_group_is_deleted() -> None:
    """The last rebalance record of a group says that the group was deleted."""
    group = ExplainedGroup()
    group.empty()
    group.broker.explained.clear()
    group.broker.delete()
    assert group.record() == group.expected(
        START_MS,
        **cause("group deleted"),
        outcome="dead",
        generation_before=2,
        generation=2,
        protocol_before=None,
        protocol=None,
        leader_before=None,
        leader=None,
        members_after=0,
    )


def test_the_group_expires() -> None:
    """An Empty group ends with the expiry of its last offset, and this is recorded."""
    group = ExplainedGroup()
    group.empty()
    group.broker.explained.clear()
    group.broker.expire_offsets()
    assert (record := group.record())["trigger"] == "group expired"
    assert record["outcome"] == "dead"


def test_other_protocols_have_no_partitions() -> None:
    """The rebalance record of a Kafka Connect group has all fields except partitions."""
    group = ExplainedGroup()
    a, b = group.settled({"A": (), "B": ()}, protocol_type="connect")
    a.leave()
    b.join()
    group.assign({b: (0,)})
    record = group.record()
    assert (record["partitions"], record["partitions_unknown"]) == (None, "protocol type connect")
    assert record["members"] == [
        gone(a, (), partitions_before=None),
        stayed(b, (), (), partitions_before=None, partitions=None),
    ]


def test_an_assignment_that_cannot_be_read() -> None:
    """An unreadable assignment is not an error; readable assignments are still recorded."""
    group = ExplainedGroup()
    a, b = group.settled({"A": (0,), "B": (1,)})
    a.join()
    b.join()
    a.learn()
    b.sync()
    a.sync({a.id: assignment(t=(0,)), b.id: b"\0\0\xff"})
    record = group.record()
    assert (record["partitions"], record["partitions_unknown"]) == (None, "cannot be read")
    assert record["members"] == [
        stayed(a, (0,), (0,)),
        stayed(b, (1,), (), partitions=None),
    ]
