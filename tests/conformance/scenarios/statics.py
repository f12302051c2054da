"""Static members: replaced in every state, fenced, removed, late (KIP-345, KIP-814)."""

from __future__ import annotations

from tests.conformance.members import Member
from tests.conformance.stage import Area, Stage

AREA = Area("statics")


def _every_request(t: Stage, member: Member, note: str) -> None:
    """Send every request of a fenced member; none may succeed."""
    member.hb(note=note)
    member.hb(note=f"{note}, without instance", group_instance_id=None)
    member.sync_now(note=note)
    member.join_now(note=note)
    member.commit([(t.t1, 0, 66)], note=note)
    member.leave(v=3, note=note)


@AREA.each(state=["preparing", "completing", "stable"], who=["leader", "follower"])
def restart(t: Stage, state: str, who: str) -> None:
    """The static {who} restarts in {state}; then its old id is fenced in every request."""
    a, b = t.reach(state, *t.static("A", "B", v=9))
    actor, other = (a, b) if who == "leader" else (b, a)
    new = t.again(actor, "X")
    join = new.join(note="restarted")
    t.parked(join)
    t.state()
    _every_request(t, actor, "former self")
    other.hb()
    if not join.reported:
        parked = [t.waiting] if state == "preparing" else []
        t.end_round([*parked, join], other)
    t.offs()


@AREA.each(who=["leader", "follower"])
def restart_while_sync_is_parked(t: Stage, who: str) -> None:
    """What do members get if the static {who} restarts while B waits in SyncGroup?"""
    a, b = t.reach("completing", *t.static("A", "B"))
    sync = b.sync()
    t.parked(sync)
    new = t.again(a if who == "leader" else b, "X")
    join = new.join(note="restarted")
    t.got(sync)
    t.parked(join)
    t.state()
    t.end_round([join], b if who == "leader" else a)


@AREA.scenario
def leader_restarts_after_it_synced_while_followers_are_late(t: Stage) -> None:
    """The leader syncs and restarts before the follower has fetched its assignment."""
    a, b = t.reach("completing", *t.static("A", "B", v=9))
    a.sync_now()
    new = t.again(a, "X")
    new.join_now(note="restarted")
    b.sync_now()
    new.leader = False
    new.sync_now()
    t.state()


@AREA.scenario
def three_incarnations(t: Stage) -> None:
    """A member restarts twice in a row in Stable, and its last id is valid."""
    a, b = t.reach("stable", *t.static("A", "B", v=9))
    x = t.again(b, "X")
    x.join_now(note="second")
    y = t.again(b, "Y")
    y.join_now(note="third")
    b.hb(note="first")
    x.hb(note="second")
    y.hb(note="third")
    y.sync_now(v=5)
    a.hb()
    t.state()


@AREA.scenario
def three_incarnations_while_parked(t: Stage) -> None:
    """A member restarts twice during a rebalance, and each parked JoinGroup is fenced."""
    a, b = t.reach("stable", *t.static("A", "B"))
    b.protos = [("range", b"changed")]
    first = b.join()
    t.parked(first)
    second = t.again(b, "X").join(note="second")
    t.got(first)
    third = t.again(b, "Y").join(note="third")
    t.got(second)
    t.parked(third)
    t.end_round([third], a)


@AREA.scenario
def old_leader_syncs_after_its_restart(t: Stage) -> None:
    """The replaced leader syncs with the assignment that it was computing."""
    a, b = t.reach("completing", *t.static("A", "B"))
    join = t.again(a, "X").join(note="restarted")
    t.parked(join)
    a.sync_now(note="former self")
    a.sync_now(note="former self, without instance", group_instance_id=None)
    t.end_round([join], b)


@AREA.scenario
def restarted_leader_leads_the_next_round(t: Stage) -> None:
    """A leader restarts without a rebalance, and gets the members when a newcomer joins."""
    a, b = t.reach("stable", *t.static("A", "B", v=9))
    x = t.again(a, "X")
    x.join_now(note="restarted")
    newcomer = t.member("N", v=3)
    join = newcomer.join()
    t.parked(join)
    x.hb()
    t.end_round([join], x, b)


@AREA.each(version=[5, 7, 8, 9])
def restarted_leader_hands_in_another_assignment(t: Stage, version: int) -> None:
    """A leader of v{version} restarts in Stable and syncs with another assignment."""
    a, b = t.reach("stable", *t.static("A", "B", v=version))
    x = t.again(a, "X")
    x.join_now(note="restarted")
    x.sync_now(assign={x.id: b"new", b.id: b"new"})
    b.hb()
    b.sync_now()
    t.state()


@AREA.scenario
def restart_with_other_metadata_shows_later(t: Stage) -> None:
    """The leader sees a restart's changed metadata only in the next rebalance."""
    a, b = t.reach("stable", *t.static("A", "B", v=9))
    x = t.again(b, "X", protos=[("range", b"changed")])
    x.join_now(note="restarted with other metadata")
    x.join_now(note="its own id, unchanged")
    t.state()
    join = a.join()
    t.parked(join)
    t.end_round([join], x)


@AREA.scenario
def restart_that_changes_the_protocol(t: Stage) -> None:
    """A restart in Stable changes the selected protocol, which starts a rebalance."""
    both = [("x", b"m"), ("y", b"m")]
    a, b = t.reach("stable", *t.static("A", "B", v=9, protos=both))
    new = t.again(b, "X", protos=[("y", b"m")])
    join = new.join(note="y only")
    t.parked(join)
    a.hb()
    t.state()
    t.end_round([join], a)


@AREA.scenario
def restart_without_common_protocol(t: Stage) -> None:
    """A restart with a foreign protocol or type is refused, and the old id stays valid."""
    _, b = t.reach("stable", *t.static("A", "B"))
    new = t.again(b, "X", protos=[("foreign", b"m")])
    new.join_now(note="foreign protocol")
    new.join_now(note="another type", protocol_type="connect")
    new.join_now(note="no protocols", protocols=[])
    new.join_now(note="bad session timeout", session_timeout_ms=1)
    b.hb()
    t.state()


@AREA.scenario
def sole_member_restarts_with_another_protocol(t: Stage) -> None:
    """The only member restarts with a new protocol."""
    (a,) = t.reach("stable", *t.static("A"))
    t.again(a, "X", protos=[("other", b"m")]).join_now(note="another protocol")
    t.again(a, "Y").join_now(note="another type", protocol_type="connect")
    a.hb()
    t.state()


@AREA.each(state=["empty", "preparing", "completing", "stable"])
def newcomer_with_an_instance(t: Stage, state: str) -> None:
    """A new instance joins in {state} without MEMBER_ID_REQUIRED."""
    a, b = t.reach(state, "A", "B")
    x = t.member("X", inst="i-X", v=9)
    join = x.join()
    t.parked(join)
    t.state()
    if not join.reported:
        parked = [t.waiting] if state == "preparing" else []
        t.end_round([*parked, join], a, b)


@AREA.each(state=["preparing", "completing", "stable"])
def own_id_and_instance(t: Stage, state: str) -> None:
    """A static follower rejoins in {state} with its own id, unchanged."""
    a, b = t.reach(state, *t.static("A", "B", v=9))
    join = b.join()
    t.parked(join)
    b.hb()
    t.state()
    if not join.reported:
        t.end_round([t.waiting, join], a)


@AREA.scenario
def dynamic_member_claims_an_instance(t: Stage) -> None:
    """A dynamic member rejoins with a new instance id, then with another member's."""
    _, b = t.reach("stable", t.member("A", inst="i-A"), t.member("B"))
    b.join_now(group_instance_id="i-B", note="a new instance")
    b.join_now(group_instance_id="i-A", note="the instance of A")
    b.hb(group_instance_id="i-A", note="the instance of A")
    b.commit([(t.t1, 0, 1)], inst="i-A", note="the instance of A")
    b.hb()
    t.state()


@AREA.scenario
def swapped_ids(t: Stage) -> None:
    """Two static members use each other's member ids."""
    a, b = t.reach("stable", *t.static("A", "B"))
    a.hb(member_id=b.id)
    a.sync_now(member_id=b.id)
    a.join_now(member_id=b.id)
    a.commit([(t.t1, 0, 1)], member=b.id)
    a.leave(v=3, members=[{"member_id": b.id, "group_instance_id": "i-A"}])
    t.state()


@AREA.scenario
def back_after_being_sent_away(t: Stage) -> None:
    """A static member was removed by its instance id; its old id is unknown when it returns."""
    a, b = t.reach("stable", *t.static("A", "B"))
    away = [{"member_id": "", "group_instance_id": "i-B"}]
    a.leave(v=3, members=away, note="sends B away")
    b.hb()
    b.join_now(note="old id")
    b.id = ""
    join = b.join(note="no id")
    t.parked(join)
    t.end_round([join], a)


@AREA.scenario
def restart_after_the_group_emptied(t: Stage) -> None:
    """A static member returns to an empty group without an id, then with the old one."""
    (a,) = t.reach("empty", *t.static("A"))
    a.join_now(note="old id")
    new = t.again(a, "X")
    new.join_now(note="no id")
    new.sync_now()
    t.state()


@AREA.scenario
def restart_under_another_client_id(t: Stage) -> None:
    """What does DescribeGroups show of a member that restarts with another client id?"""
    _, b = t.reach("stable", *t.static("A", "B", v=9))
    new = t.again(b, "X", client_id="another-client")
    new.join_now(note="restarted")
    t.ask("DescribeGroups", 5, {"groups": [t.g]})


@AREA.scenario
def all_restart_one_after_the_other(t: Stage) -> None:
    """A rolling restart of a Stable group causes no rebalance."""
    a, b, c = t.reach("stable", *t.static("A", "B", "C", v=9))
    for member, name in ((c, "Z"), (b, "Y"), (a, "X")):
        new = t.again(member, name)
        new.join_now(note=f"{member.name} restarted")
        new.leader = False
        new.sync_now(v=5)
    t.state()


@AREA.scenario
def restart_during_the_join_of_another_restart(t: Stage) -> None:
    """Both members restart during a rebalance, which ends with their new ids."""
    a, b = t.reach("stable", *t.static("A", "B"))
    a.protos = [("range", b"changed")]
    old = a.join()
    t.parked(old)
    x = t.again(b, "X")
    first = x.join(note="B restarted")
    t.got(old, first)
    t.state()
    y = t.again(a, "Y")
    second = y.join(note="A restarted")
    t.parked(second)
    t.end_round([second], x)


@AREA.scenario
def restart_beside_a_newcomer(t: Stage) -> None:
    """A newcomer joins and a static member restarts in one rebalance."""
    a, b = t.reach("preparing", *t.static("A", "B"))
    x = t.again(b, "X")
    second = x.join(note="restarted")
    t.parked(t.waiting, second)
    b.hb()
    t.end_round([t.waiting, second], a)
    b.sync_now()
    t.sync_all(a, x, t.newcomer)
    t.state()


@AREA.scenario
def restart_and_leave_of_the_former_self(t: Stage) -> None:
    """The old id's LeaveGroup comes after the restart, and the new id stays."""
    a, b = t.reach("stable", *t.static("A", "B", v=9))
    x = t.again(b, "X")
    x.join_now(note="restarted")
    b.leave(v=5, note="former self")
    b.leave(v=1, note="former self, without instance")
    x.hb()
    a.hb()
    by_instance = [{"member_id": "", "group_instance_id": "i-B"}]
    a.leave(v=5, members=by_instance, note="sends the new self away")
    x.hb()
    t.end_round([], a)


@AREA.scenario
def commits_of_both_selves(t: Stage) -> None:
    """Old and new id commit in turn in Stable, and only the new id's offsets are stored."""
    _, b = t.reach("stable", *t.static("A", "B", v=9))
    b.commit([(t.t1, 0, 1)], note="before the restart")
    x = t.again(b, "X")
    x.join_now(note="restarted")
    b.commit([(t.t1, 0, 2)], note="former self")
    b.commit([(t.t1, 0, 3)], inst=None, note="former self, without instance")
    x.commit([(t.t1, 0, 4)], note="new self, before it syncs")
    t.commit([(t.t1, 0, 5)], gen=x.gen, member=x.id, label="new self, without instance")
    t.offs()
