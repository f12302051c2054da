"""LeaveGroup in every state, by member id and by instance id, for one or many members."""

from __future__ import annotations

from typing import Any

from tests.conformance.members import Member
from tests.conformance.stage import Area, Stage

AREA = Area("leaves")


def identity(member_id: str, instance_id: str | None = None) -> dict[str, Any]:
    """Return one entry of a LeaveGroup request."""
    return {"member_id": member_id, "group_instance_id": instance_id}


def leave(t: Stage, label: str, *identities: dict[str, Any], version: int = 5) -> None:
    """Send LeaveGroup from a connection of no member."""
    t.call(
        t.ctl,
        "LeaveGroup",
        version,
        {"group_id": t.g, "members": list(identities)},
        f"leave {label}",
    )


@AREA.each(
    state=["preparing", "completing", "stable"],
    who=["leader", "follower"],
    by=["member", "instance", "both"],
)
def static_member(t: Stage, state: str, who: str, by: str) -> None:
    """A static {who} is removed in {state}, named by {by}."""
    a, b = t.reach(state, *t.static("A", "B"))
    actor, other = (a, b) if who == "leader" else (b, a)
    leave(
        t,
        who,
        identity("" if by == "instance" else actor.id, None if by == "member" else actor.inst),
    )
    t.state()
    actor.hb()
    other.hb()
    if state == "preparing" and who == "leader":
        t.end_round_of_any_leader([t.waiting], other)
    else:
        t.end_round([t.waiting] if state == "preparing" else [], other)


@AREA.each(state=["preparing", "completing", "stable"], who=["leader", "follower"])
def during_parked_join(t: Stage, state: str, who: str) -> None:
    """Member B waits in a JoinGroup from {state}: what does B get when the {who} leaves?"""
    a, b = t.reach(state, "A", "B")
    b.protos = [("range", b"changed")]
    join = b.join()
    t.parked(join)
    if who == "leader":
        a.leave()
        t.end_round_of_any_leader([t.waiting, join] if state == "preparing" else [join])
    else:
        b.leave()
        t.got(join)
        t.end_round([t.waiting] if state == "preparing" else [], a)


@AREA.each(state=["completing", "stable"])
def newcomer_leaves_before_the_round_ends(t: Stage, state: str) -> None:
    """The newcomer that started the rebalance in {state} leaves."""
    a, b = t.reach(state, "A", "B")
    newcomer = t.member("N")
    newcomer.join_now()
    join = newcomer.join()
    t.parked(join)
    newcomer.leave(v=4)
    t.got(join)
    t.state()
    a.hb()
    t.end_round([], a, b)


@AREA.scenario
def straggler_leaves_instead_of_joining(t: Stage) -> None:
    """All but one member wait; the missing member leaves, which ends the rebalance."""
    a, b, c = t.reach("stable", "A", "B", "C")
    joins = [a.join()]
    t.until("PreparingRebalance")
    joins.append(c.join())
    t.parked(*joins)
    b.leave(v=3)
    t.got(*joins)
    t.state()


@AREA.scenario
def all_leave_while_parked(t: Stage) -> None:
    """Both members leave while they wait: their JoinGroups are answered, the group is empty."""
    a, b = t.reach("preparing", "A", "B")
    joins = t.rejoin(a)
    t.parked(t.waiting, *joins)
    leave(t, "all three", identity(a.id), identity(b.id), identity(t.newcomer.id))
    t.got(t.waiting, *joins)
    t.state()
    a.hb()


@AREA.scenario
def last_one_leaves_while_preparing(t: Stage) -> None:
    """The group becomes empty during a rebalance, and a member joins at once."""
    (a,) = t.reach("preparing", "A")
    t.newcomer.leave()
    t.got(t.waiting)
    a.leave()
    t.state()
    x = t.member("X", v=3)
    x.join_now()
    x.sync_now()
    t.state()


@AREA.scenario
def last_one_leaves_while_completing(t: Stage) -> None:
    """The only member leaves before it has synced."""
    (a,) = t.reach("completing", "A")
    a.leave()
    t.state()
    a.sync_now()
    a.join_now()


# Lists


@AREA.scenario
def list_names_a_static_member_twice(t: Stage) -> None:
    """One request names the same member by its id and by its instance id."""
    _, b = t.reach("stable", *t.static("A", "B"))
    leave(t, "B twice", identity(b.id), identity("", "i-B"))
    t.state()
    leave(t, "A twice by instance", identity("", "i-A"), identity("", "i-A"))
    t.state()


@AREA.scenario
def list_of_all_kinds(t: Stage) -> None:
    """One request names known, unknown, fenced, pending and no members, with ordered results."""
    a, b, _ = t.reach("stable", *t.static("A", "B"), t.member("C"))
    x = t.member("X")
    x.join_now()
    leave(
        t,
        "of all kinds",
        identity("ghost"),
        identity(a.id, "i-B"),
        identity(x.id),
        identity("", "i-none"),
        identity(""),
        identity("", ""),
        identity(b.id, "i-B"),
        identity(x.id),
    )
    t.state()


@AREA.scenario
def list_of_refused_ones_only_while_preparing(t: Stage) -> None:
    """A LeaveGroup that removes no member does not complete the parked JoinGroup."""
    (a,) = t.reach("preparing", "A")
    leave(t, "nobody", identity("ghost"), identity(a.id, "i-none"), identity(""))
    t.parked(t.waiting)
    leave(t, "empty list")
    t.parked(t.waiting)
    t.end_round([t.waiting], a)


@AREA.each(state=["completing", "stable"])
def list_of_a_pending_id_only(t: Stage, state: str) -> None:
    """Does the leave of a pending member id in {state} start a rebalance?"""
    a, _ = t.reach(state, "A", "B")
    x = t.member("X")
    x.join_now()
    leave(t, "pending", identity(x.id))
    t.state()
    a.hb()
    x.join_now(note="with the id that left")


@AREA.each(version=[0, 2, 3, 5])
def pending_id_of_an_empty_group(t: Stage, version: int) -> None:
    """The pending member id that created the group leaves (v{version})."""
    x = t.member("X")
    x.join_now()
    x.leave(v=version)
    t.state()
    x.leave(v=version, note="again")
    x.join_now(note="with the id that left")


@AREA.scenario
def pending_id_with_an_instance_id(t: Stage) -> None:
    """A pending member id leaves with an unknown instance id."""
    t.reach("stable", "A")
    x = t.member("X")
    x.join_now()
    leave(t, "pending with instance", identity(x.id, "i-none"))
    x.join_now(note="afterwards, with another type", protocol_type="connect")
    t.state()


@AREA.each(version=[0, 1, 2])
def old_version_of_a_static_member(t: Stage, version: int) -> None:
    """In v{version} without instance ids, a static member leaves by its member id."""
    a, b = t.reach("stable", *t.static("A", "B"))
    b.leave(v=version)
    t.state()
    a.hb()


@AREA.each(version=[0, 2, 3, 5])
def empty_group_id(t: Stage, version: int) -> None:
    """The group id is empty (v{version})."""
    x = t.member("X")
    x.id = "ghost"
    x.leave(v=version, group_id="")


@AREA.scenario
def reasons(t: Stage) -> None:
    """Any reason is accepted: none, empty, long, not ASCII."""
    a, b, c, d = t.reach("stable", "A", "B", "C", "D")
    for member, reason in zip((a, b, c, d), (None, "", "r" * 20_000, "späti ☕"), strict=True):
        leave(t, member.name, identity(member.id) | {"reason": reason})
    t.state()


@AREA.scenario
def after_leaving(t: Stage) -> None:
    """A member that has left sends every request to a group with members."""
    a, b = t.reach("stable", "A", "B")
    b.leave()
    t.got(a.join())
    a.sync_now()
    _every_request(t, b)


@AREA.scenario
def after_the_last_left(t: Stage) -> None:
    """The last member has left and sends every request to the empty group."""
    (a,) = t.reach("empty", "A")
    _every_request(t, a)


def _every_request(t: Stage, member: Member) -> None:
    member.hb()
    member.sync_now()
    member.sync_now(v=5, protocol_name="range")
    member.join_now()
    member.commit([(t.t1, 0, 1)])
    member.leave(v=3)
    t.offs()
    t.state()
