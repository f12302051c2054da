"""SyncGroup: repeated, late, of another generation, and interrupted while parked."""

from __future__ import annotations

from tests.conformance.connection import Pending
from tests.conformance.members import Member
from tests.conformance.stage import Area, Stage

AREA = Area("syncs")


@AREA.scenario
def follower_syncs_twice_on_two_connections(t: Stage) -> None:
    """Is a parked SyncGroup answered if the follower sends it again from another connection?"""
    a, b = t.reach("completing", "A", "B")
    first = b.sync(note="first")
    t.parked(first)
    again = b.sync(note="again", conn=t.conn())
    t.parked(first, again)
    t.got(a.sync(), again)
    t.parked(first)
    t.state()


@AREA.scenario
def follower_syncs_twice_on_one_connection(t: Stage) -> None:
    """The second of two pipelined SyncGroups waits for the answer to the first."""
    a, b = t.reach("completing", "A", "B")
    first, again = b.sync(note="first"), b.sync(note="again")
    t.parked(first)
    t.got(a.sync(), first, again)
    t.state()


@AREA.scenario
def leader_syncs_twice_on_one_connection(t: Stage) -> None:
    """The leader pipelines two different assignments, and the first one counts."""
    a, b = t.reach("completing", "A", "B")
    first = a.sync(note="first", assign={a.id: b"one", b.id: b"one"})
    again = a.sync(note="again", assign={a.id: b"two", b.id: b"two"})
    t.got(first, again)
    b.sync_now()
    t.state()


@AREA.scenario
def leader_syncs_again_in_stable(t: Stage) -> None:
    """A leader that sends another assignment in Stable gets the old one."""
    a, b = t.reach("stable", "A", "B")
    a.sync_now(assign={a.id: b"other", b.id: b"other"})
    b.sync_now()
    t.state()


@AREA.scenario
def follower_hands_in_an_assignment(t: Stage) -> None:
    """Assignments in a follower's SyncGroup are ignored."""
    a, b = t.reach("completing", "A", "B")
    sync = b.sync(assign={a.id: b"bad", b.id: b"bad"})
    t.parked(sync)
    t.got(a.sync(), sync)
    b.sync_now(assign={b.id: b"bad"}, note="once more")
    t.state()


@AREA.scenario
def assignment_of_unknown_and_missing_members(t: Stage) -> None:
    """The leader's assignments name an unknown member and omit an existing one."""
    a, b = t.reach("completing", "A", "B")
    sync = b.sync()
    t.parked(sync)
    t.got(a.sync(assign={a.id: b"mine", "ghost": b"ghost's"}), sync)
    t.state()


@AREA.scenario
def assignment_names_a_member_twice(t: Stage) -> None:
    """Which assignment counts if the leader names a member twice?"""
    a, b = t.reach("completing", "A", "B")
    twice = [
        {"member_id": b.id, "assignment": b"first"},
        {"member_id": a.id, "assignment": b"mine"},
        {"member_id": b.id, "assignment": b"second"},
    ]
    sync = b.sync()
    t.parked(sync)
    t.got(a.sync(assignments=twice), sync)
    t.state()


@AREA.scenario
def leader_of_one_syncs_without_assignments(t: Stage) -> None:
    """A sole leader sends no assignments and is Stable with an empty one."""
    (a,) = t.reach("completing", "A")
    a.sync_now(assign={})
    a.hb()
    t.state()


# Generations


@AREA.scenario
def late_sync_through_the_next_round(t: Stage) -> None:
    """A SyncGroup of the previous generation comes while preparing, completing, and in Stable."""
    a, b = t.reach("completing", "A", "B")
    old = b.gen
    b.protos = [("range", b"changed")]
    join = b.join()
    t.parked(join)
    a.sync_now(note="while preparing")
    t.got(a.join(), join)
    b.sync_now(generation_id=old, note="old generation, completing")
    a.sync_now(generation_id=old, note="old generation, leader, completing")
    t.state()
    t.sync_all(a, b)
    b.sync_now(generation_id=old, note="old generation, stable")
    t.state()


@AREA.each(state=["preparing", "completing", "stable"])
def sync_of_a_coming_generation(t: Stage, state: str) -> None:
    """In {state} leader and follower send SyncGroup with a future generation."""
    a, b = t.reach(state, "A", "B")
    a.sync_now(generation_id=a.gen + 1, note="next generation")
    b.sync_now(generation_id=b.gen + 1, note="next generation")
    b.sync_now(generation_id=-1, note="generation -1")
    t.state()


@AREA.scenario
def two_generations_in_flight(t: Stage) -> None:
    """Member B waits in a JoinGroup for generation 4 while A still works through generation 3."""
    a, b = t.reach("completing", "A", "B")
    sync = a.sync()
    t.got(sync)
    b.protos = [("range", b"changed")]
    join = b.join()
    t.parked(join)
    b.sync_now(conn=t.conn(), note="its old generation, while it waits")
    a.hb()
    a.commit([(t.t1, 0, 7)], note="old generation, preparing")
    t.got(a.join(), join)
    a.commit([(t.t1, 0, 8)], note="completing")
    a.commit([(t.t1, 0, 9)], gen=a.gen - 1, note="old generation, completing")
    a.hb(generation_id=a.gen - 1, note="old generation, completing")
    t.sync_all(a, b)
    t.offs()
    t.state()


@AREA.scenario
def sync_before_the_round_is_over(t: Stage) -> None:
    """A parked member syncs from another connection before its JoinGroup is answered."""
    a, b = t.reach("stable", "A", "B")
    join = a.join()
    t.parked(join)
    a.sync_now(conn=t.conn())
    b.sync_now()
    t.end_round([join], b)


# Interruptions of parked SyncGroups


def _two_wait(t: Stage) -> tuple[list[Member], list[Pending]]:
    """Return A, which leads and has not synced, and B and C, whose SyncGroups are parked."""
    a, b, c = t.reach("completing", "A", "B", "C")
    syncs = [b.sync(), c.sync()]
    t.parked(*syncs)
    return [a, b, c], syncs


@AREA.scenario
def interrupted_by_leaving_leader(t: Stage) -> None:
    """The leader leaves: the others must rejoin, and the rebalance continues without it."""
    (a, b, c), syncs = _two_wait(t)
    a.leave()
    t.got(*syncs)
    t.state()
    a.sync_now(note="after it left")
    t.end_round_of_any_leader([], b, c)


@AREA.scenario
def interrupted_by_changed_metadata_of_the_leader(t: Stage) -> None:
    """The leader rejoins with changed metadata instead of syncing."""
    (a, b, c), syncs = _two_wait(t)
    a.protos = [("range", b"changed")]
    join = a.join()
    t.got(*syncs)
    t.parked(join)
    t.end_round([join], b, c)


@AREA.scenario
def not_interrupted_by_harmless_requests(t: Stage) -> None:
    """Heartbeats and refused commits and joins do not affect parked SyncGroups."""
    (a, b, c), syncs = _two_wait(t)
    b.hb()
    c.hb(generation_id=0, note="old generation")
    a.commit([(t.t1, 0, 1)])
    t.member("X", v=3, protos=[("z", b"")]).join_now(note="no common protocol")
    t.member("Y").join_now(note="asks for an id")
    a.leave(v=3, members=[{"member_id": "ghost", "group_instance_id": None}])
    t.delete_groups()
    t.parked(*syncs)
    t.got(a.sync(), *syncs)
    t.state()


@AREA.scenario
def interrupted_by_newcomer_then_synced_late(t: Stage) -> None:
    """A newcomer interrupts parked SyncGroups, and a follower syncs again instead of joining."""
    (a, b, c), syncs = _two_wait(t)
    newcomer = t.member("N", v=3)
    join = newcomer.join()
    t.got(*syncs)
    b.sync_now(note="instead of joining")
    t.end_round([join], a, b, c)


@AREA.scenario
def parked_sync_of_one_that_leaves(t: Stage) -> None:
    """What happens to parked SyncGroups of B and C if B leaves?"""
    (a, b, c), syncs = _two_wait(t)
    b.leave()
    t.parked(*syncs)
    t.state()
    t.end_round([], a, c)


# Protocol type and name (KIP-559)


@AREA.each(state=["preparing", "completing", "stable"])
def wrong_protocol(t: Stage, state: str) -> None:
    """SyncGroup in {state} has a wrong protocol type or name, generation or member."""
    _, b = t.reach(state, "A", "B")
    b.sync_now(v=5, protocol_type="connect", note="wrong type")
    b.sync_now(v=5, protocol_name="other", protocol_type="consumer", note="wrong name")
    b.sync_now(v=5, protocol_name="other", generation_id=99, note="wrong name and generation")
    b.sync_now(v=5, protocol_name="other", member_id="ghost", note="wrong name and member")
    b.sync_now(v=5, protocol_name=None, generation_id=99, note="no name, wrong generation")
    t.state()


@AREA.scenario
def old_versions_need_no_protocol(t: Stage) -> None:
    """Up to v4 SyncGroup has no protocol and is accepted; the v5 response names the protocol."""
    a, b = t.reach("completing", t.member("A", v=9), t.member("B", v=9))
    t.got(a.sync(v=4), b.sync(v=0))
    b.sync_now(v=5)
    t.state()


# Static, pending and former members


@AREA.scenario
def instance_ids(t: Stage) -> None:
    """A static member's SyncGroup has its own, another's, no and an unknown instance id."""
    a, b = t.reach("completing", *t.static("A", "B"))
    b.sync_now(group_instance_id="i-A", note="instance of A")
    b.sync_now(group_instance_id="i-X", note="unknown instance")
    b.sync_now(member_id="", note="no member id")
    sync = b.sync(group_instance_id=None, note="no instance")
    t.parked(sync)
    t.got(a.sync(), sync)
    t.state()


@AREA.each(state=["empty", "preparing", "completing", "stable"])
def pending_id_syncs(t: Stage, state: str) -> None:
    """A pending member id syncs in {state}."""
    t.reach(state, "A", "B")
    x = t.member("X")
    x.join_now()
    x.sync_now(generation_id=2)
    x.sync_now(generation_id=-1, note="generation -1")
    t.state()


@AREA.scenario
def member_that_left_syncs(t: Stage) -> None:
    """A former member syncs while preparing, completing, in Stable and Empty."""
    a, b = t.reach("stable", "A", "B")
    b.leave()
    b.sync_now(note="preparing")
    t.got(a.join())
    b.sync_now(note="completing")
    a.sync_now()
    b.sync_now(note="stable")
    a.leave()
    b.sync_now(note="empty")
    a.sync_now(note="empty, the last one")
