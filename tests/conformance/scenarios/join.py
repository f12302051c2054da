"""JoinGroup: scenarios that need code, such as Kafka's random choice of a leader."""

from __future__ import annotations

from tests.conformance.stage import Area, Stage

AREA = Area("join")


@AREA.scenario
def same_protocol_named_twice(t: Stage) -> None:
    """A JoinGroup names a protocol twice."""
    a = t.member("A", v=3, protos=[("range", b"first"), ("range", b"second")])
    t.parked(a.join(), window=1.5)
    t.state()


@AREA.scenario
def pipelined_join_and_sync(t: Stage) -> None:
    """JoinGroup, SyncGroup and Heartbeat are sent on one connection without waiting."""
    (a,) = t.stable("A")
    join = a.join()
    sync = a.sync(generation_id=2, note="sent along")
    body = {"group_id": t.g, "generation_id": 2, "member_id": a.id}
    beat = t.send(a.c, "Heartbeat", 3, body, "A Heartbeat v3 (same connection)")
    t.got(join, sync, beat)


@AREA.scenario
def leader_left_one_of_the_rest_leads(t: Stage) -> None:
    """After the leader has left, another member leads: in Kafka, the first one in a hash map."""
    a, b, c = t.stable("A", "B", "C")
    a.leave()
    t.state()
    second = c.join()
    t.parked(second)
    first = b.join()
    t.setup(t.got, first, second)
    t.rec("generation", [b.gen, c.gen])
    t.rec("exactly one leader", b.leader != c.leader)
    t.rec("only the leader sees the members", sorted([len(b.seen), len(c.seen)]))
    leader, follower = (b, c) if b.leader else (c, b)
    syncs = [follower.sync(), leader.sync()]
    t.setup(t.got, *syncs)
    t.state()
