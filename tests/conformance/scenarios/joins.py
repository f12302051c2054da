"""JoinGroup in every state: rejoins, newcomers, pending member ids, protocols."""

from __future__ import annotations

from tests.conformance.members import Member
from tests.conformance.stage import Area, Stage

AREA = Area("joins")
MOVING = ["preparing", "completing", "stable"]


@AREA.each(state=MOVING, who=["leader", "follower"], metadata=["same", "changed"])
def rejoin(t: Stage, state: str, who: str, metadata: str) -> None:
    """Is the {who}'s JoinGroup in {state} with {metadata} metadata answered, and who rebalances?"""
    a, b = t.reach(state, "A", "B")
    actor, other = (a, b) if who == "leader" else (b, a)
    if metadata == "changed":
        actor.protos = [("range", b"changed")]
    answer = actor.join(note=metadata)
    t.parked(answer)
    t.state()
    other.hb()
    if not answer.reported:
        parked = [t.waiting] if state == "preparing" else []
        t.end_round([*parked, answer], other)


@AREA.each(state=["empty", "preparing", "completing", "stable"])
def ghost_joins(t: Stage, state: str) -> None:
    """A JoinGroup in {state} has a member id that is not in the group."""
    t.reach(state, "A")
    ghost = t.member("X")
    ghost.join_now(member_id="ghost")
    ghost.join_now(member_id="ghost", group_instance_id="i-X", note="with an instance id")
    ghost.join_now(member_id="ghost", protocols=[], note="without protocols")
    t.state()


@AREA.each(state=["empty", "preparing", "completing", "stable"])
def former_member(t: Stage, state: str) -> None:
    """A former member returns in {state} with its old id, then without an id."""
    a, b = t.reach("stable", "A", "B")
    t.setup(b.leave)
    if state == "empty":
        t.setup(a.leave)
    elif state != "preparing":
        t.setup(a.join_now)
        if state == "stable":
            t.setup(a.sync_now)
    b.join_now(note="old id")
    b.id = ""
    b.join_now(note="no id")
    t.state()
    b.leave(note="the new id")
    t.state()


@AREA.each(version=[0, 3])
def newcomer_while_completing_then_all_rejoin(t: Stage, version: int) -> None:
    """What do the others get if a v{version} newcomer joins before anyone has synced?"""
    a, b = t.reach("completing", "A", "B")
    newcomer = t.member("N", v=version)
    parked = newcomer.join()
    t.parked(parked)
    a.hb()
    a.sync_now()
    b.commit([(t.t1, 0, 1)])
    t.end_round([parked], a, b)
    t.sync_all(a, b, newcomer)
    t.state()


@AREA.scenario
def two_newcomers_while_completing(t: Stage) -> None:
    """Do two newcomers during a parked SyncGroup cause one rebalance or two?"""
    a, b = t.reach("completing", "A", "B")
    sync = b.sync()
    t.parked(sync)
    n, m = t.member("N", v=3), t.member("M", v=3)
    first = n.join()
    t.got(sync)
    second = m.join()
    t.parked(first, second)
    t.end_round([first, second], a, b)


@AREA.scenario
def leader_rejoins_after_followers_synced(t: Stage) -> None:
    """The leader rejoins in the same generation while followers wait for their assignment."""
    a, b = t.reach("completing", "A", "B")
    sync = b.sync()
    t.parked(sync)
    a.join_now(note="once more")
    t.parked(sync)
    t.got(a.sync(), sync)
    t.state()


@AREA.scenario
def follower_rejoins_changed_after_its_sync_is_parked(t: Stage) -> None:
    """A follower changes its metadata while its SyncGroup is parked on another connection."""
    a, b = t.reach("completing", "A", "B")
    sync = b.sync()
    t.parked(sync)
    b.protos = [("range", b"changed")]
    join = b.join(conn=t.conn())
    t.got(sync)
    t.parked(join)
    t.end_round([join], a)


@AREA.scenario
def follower_rejoins_unchanged_in_stable_then_syncs(t: Stage) -> None:
    """A follower that rejoins without need can sync again and gets its assignment."""
    _, b = t.reach("stable", "A", "B")
    b.join_now()
    b.sync_now()
    b.hb()
    t.state()


@AREA.scenario
def parked_join_asked_again_on_another_connection(t: Stage) -> None:
    """Is a parked JoinGroup answered if the member sends it again from another connection?"""
    a, b = t.reach("stable", "A", "B")
    first = b.join(protocols=[{"name": "range", "metadata": b"changed"}], note="first")
    t.parked(first)
    again = b.join(
        protocols=[{"name": "range", "metadata": b"changed twice"}], note="again", conn=t.conn()
    )
    t.parked(first, again)
    t.got(a.join(), again)
    t.parked(first)
    t.state()


@AREA.scenario
def parked_newcomer_asks_again(t: Stage) -> None:
    """A parked newcomer, which knows its id, sends JoinGroup again from another connection."""
    (a,) = t.reach("preparing", "A")
    again = t.newcomer.join(note="again", conn=t.conn())
    t.parked(t.waiting, again)
    t.got(a.join(), again)
    t.parked(t.waiting)
    t.state()


@AREA.scenario
def restart_without_leave(t: Stage) -> None:
    """A dynamic member forgets its id and joins as new: its old id delays the rebalance."""
    a, b = t.reach("stable", "A", "B")
    b.id = ""
    old = t.describe()["members"]
    b.join_now(note="asks for an id")
    join = b.join(note="with the new id")
    joins = [join, a.join()]
    t.parked(*joins)
    t.rec("members known", len(old) + 1 == len(t.describe()["members"]))
    t.state()


# Pending member ids


@AREA.each(end=["joins", "leaves", "is refused"])
def pending_id_holds_the_round(t: Stage, end: str) -> None:
    """All members wait for a pending member id: the rebalance ends when its owner {end}."""
    (a,) = t.reach("preparing", "A")
    x = t.member("X")
    x.join_now()
    joins = [t.waiting, a.join()]
    t.parked(*joins)
    t.state()
    if end == "joins":
        joins.append(x.join())
    elif end == "leaves":
        x.leave(v=3)
    else:
        x.join_now(note="protocol nobody knows", protocols=[{"name": "y", "metadata": b""}])
        x.join_now(note="bad session timeout", session_timeout_ms=1)
        t.parked(*joins)
        joins.append(x.join(note="as it should be"))
    t.got(*joins)
    t.state()


@AREA.scenario
def two_pending_ids(t: Stage) -> None:
    """With two pending member ids the rebalance ends with the second."""
    (a,) = t.reach("preparing", "A")
    x, y = t.member("X"), t.member("Y")
    x.join_now()
    y.join_now()
    joins = [t.waiting, a.join(), y.join()]
    t.parked(*joins)
    x.leave(v=5)
    t.got(*joins)
    t.state()


@AREA.each(state=["completing", "stable"])
def pending_id_of_an_earlier_phase(t: Stage, state: str) -> None:
    """A pending member id from {state} delays nothing; its use starts a rebalance."""
    a, b = t.reach(state, "A", "B")
    x = t.member("X")
    x.join_now()
    a.hb()
    t.state()
    if state == "completing":
        t.sync_all(a, b)
    join = x.join()
    t.parked(join)
    a.hb()
    t.end_round([join], a, b)


@AREA.scenario
def pending_id_outlives_an_empty_group(t: Stage) -> None:
    """A pending member id joins after all members have left."""
    (a,) = t.reach("stable", "A")
    x = t.member("X")
    x.join_now()
    a.leave()
    t.state()
    x.join_now(note="with id")
    x.sync_now()
    t.state()


@AREA.scenario
def pending_id_keeps_a_leaving_group_from_empty(t: Stage) -> None:
    """The only member leaves in PreparingRebalance while a member id is pending."""
    (a,) = t.reach("preparing", "A")
    x = t.member("X")
    x.join_now()
    t.newcomer.leave(note="newcomer")
    t.got(t.waiting)
    a.leave()
    t.state()
    x.leave()
    t.state()


@AREA.each(version=[0, 3, 9])
def pending_id_joins_at_another_version(t: Stage, version: int) -> None:
    """A pending member id from v5 joins with v{version}."""
    a = t.member("A")
    a.join_now()
    a.join_now(v=version)
    a.sync_now()
    t.state()


@AREA.scenario
def pending_id_used_twice(t: Stage) -> None:
    """The same pending member id joins from two connections, one after the other."""
    (a,) = t.reach("stable", "A")
    x = t.member("X")
    x.join_now()
    first = x.join(note="first")
    t.parked(first)
    second = x.join(note="second", conn=t.conn())
    t.parked(first, second)
    t.got(a.join(), second)
    t.state()


@AREA.scenario
def pending_ids_of_one_client_in_an_empty_group(t: Stage) -> None:
    """Of two pending member ids of an empty group, the first to join does not wait."""
    x, y = t.member("X"), t.member("Y")
    x.join_now()
    y.join_now()
    x.join_now(note="with id")
    t.state()
    second = y.join(note="with id")
    t.parked(second)
    t.end_round([second], x)


# Protocols


def _with_protocols(t: Stage, *protocols: str) -> list[Member]:
    """Return members A, B, .. of a Stable group; a string's letters are protocols, best first."""
    return t.reach(
        "stable",
        *[
            t.member(name, protos=[(one, b"m") for one in wanted])
            for name, wanted in zip("ABCD", protocols, strict=False)
        ],
    )


def _named(*protocols: str) -> list[tuple[str, bytes]]:
    return [(one, b"m") for one in protocols]


@AREA.scenario
def another_protocol_while_others_are_parked(t: Stage) -> None:
    """A follower rejoins with one of two protocols, and the rebalance selects it."""
    a, b = _with_protocols(t, "xy", "xy")
    join = a.join()
    t.parked(join)
    b.protos = _named("y")
    t.end_round([join], b)


@AREA.scenario
def foreign_protocol_while_others_are_parked(t: Stage) -> None:
    """A follower rejoins with a protocol that no other member has, is refused, and retries."""
    a, b = _with_protocols(t, "xy", "xy")
    join = a.join()
    t.parked(join)
    b.join_now(protocols=[{"name": "z", "metadata": b""}], note="z only")
    b.join_now(protocol_type="connect", note="another type")
    b.join_now(protocols=[], note="no protocols")
    t.parked(join)
    t.end_round([join], b)


@AREA.scenario
def common_protocol_lost_by_rejoin(t: Stage) -> None:
    """May a member narrow its protocols to others than the parked members have?"""
    a, b = _with_protocols(t, "xy", "xy")
    a.protos = _named("x")
    join = a.join()
    t.parked(join)
    b.join_now(protocols=[{"name": "y", "metadata": b""}], note="y only")
    t.end_round([join], b)


@AREA.scenario
def newcomer_without_common_protocol_in_each_phase(t: Stage) -> None:
    """A newcomer without a common protocol is refused in both phases of a rebalance."""
    (a,) = t.reach("preparing", "A")
    x = t.member("X", v=3, protos=_named("z"))
    x.join_now(note="preparing")
    t.got(a.join(), t.waiting)
    x.join_now(note="completing")
    t.state()


@AREA.scenario
def old_member_decides_the_type_while_newcomer_waits(t: Stage) -> None:
    """The first member leaves while a newcomer waits: the type is the newcomer's."""
    (a,) = t.reach("preparing", "A")
    a.leave()
    t.got(t.waiting)
    x = t.member("X", v=3, ptype="connect", protos=_named("range"))
    x.join_now(note="another type")
    t.newcomer.sync_now()
    t.state()


@AREA.each(first=["connect", "consumer"], second=["consumer", "connect"])
def type_of_an_empty_group(t: Stage, first: str, second: str) -> None:
    """A group of type {first} becomes empty, and a member with type {second} joins."""
    a = t.member("A", v=3, ptype=first, protos=_named("range"))
    t.setup(a.join_now)
    t.setup(a.sync_now)
    a.leave()
    t.state()
    b = t.member("B", v=5, ptype=second, protos=_named("other"))
    b.join_now()
    t.state()
    b.join_now(note="with id")
    b.sync_now()
    t.state()


@AREA.scenario
def refused_joins_of_an_empty_group(t: Stage) -> None:
    """A refused JoinGroup does not change an empty group's type and generation."""
    t.reach("empty", "A")
    x = t.member("X", v=3, ptype="")
    x.join_now(note="no type")
    x.join_now(protocol_type="connect", protocols=[], note="no protocols")
    t.state()


TIES = [("ab", "ba"), ("ba", "ab"), ("xy", "yx"), ("yx", "xy"), ("zp", "pz"), ("pz", "zp")]


@AREA.each(votes=["-".join(one) for one in TIES])
def protocol_tie(t: Stage, votes: str) -> None:
    """Which protocol is selected if two members prefer different ones ({votes}, leader first)?"""
    a, b = _with_protocols(t, *votes.split("-"))
    join = a.join()
    t.parked(join)
    t.end_round([join], b)


@AREA.each(
    names=["range,roundrobin", "roundrobin,range", "range,cooperative-sticky", "sticky,range"]
)
def protocol_tie_of_real_names(t: Stage, names: str) -> None:
    """Which of {names} is selected if one member prefers the first, the other the second?"""
    first, second = names.split(",")
    members = t.reach(
        "stable",
        t.member("A", protos=_named(first, second)),
        t.member("B", protos=_named(second, first)),
    )
    t.rec("chosen", [one.proto for one in members])


@AREA.scenario
def protocol_majority(t: Stage) -> None:
    """Two of three members prefer the leader's second protocol."""
    a, b, c = _with_protocols(t, "xy", "yx", "yx")
    t.rec("chosen", [one.proto for one in (a, b, c)])
    c.leave()
    a.protos = _named("x", "y")
    join = a.join()
    t.parked(join)
    t.end_round([join], b)


# Leader and generation


@AREA.scenario
def generation_counts_over_empty(t: Stage) -> None:
    """Generations continue after the group was empty, and becoming empty raises the generation."""
    a = t.member("A", v=3)
    a.join_now()
    a.leave()
    t.state()
    a.id = ""
    a.join_now(note="anew")
    a.join_now(note="again")
    a.sync_now()
    t.state()


@AREA.scenario
def leader_left_and_came_back(t: Stage) -> None:
    """The leader leaves and rejoins as new: the other member leads."""
    a, b = t.reach("stable", "A", "B")
    a.leave()
    join = b.join()
    t.got(join)
    a.id = ""
    a.join_now(note="asks for an id")
    back = a.join(note="with the new id")
    t.parked(back)
    t.end_round([back], b)


@AREA.scenario
def lone_leader_rejoins_again_and_again(t: Stage) -> None:
    """A sole member gets a new generation with each rejoin, even without a SyncGroup between."""
    (a,) = t.reach("stable", "A")
    a.join_now(note="from Stable")
    a.join_now(note="from CompletingRebalance")
    a.protos = [("range", b"changed")]
    a.join_now(note="from CompletingRebalance, changed")
    t.state()
