"""JoinGroup in every state: rejoins, newcomers, ids given out, protocols."""

from __future__ import annotations

from tests.conformance.stage import Area, Member, Stage

AREA = Area("joins")
MOVING = ["preparing", "completing", "stable"]


@AREA.each(state=MOVING, who=["leader", "follower"], metadata=["same", "changed"])
def rejoin(t: Stage, state: str, who: str, metadata: str) -> None:
    """The {who} joins again in {state} with {metadata} metadata: is it answered, who rebalances?"""
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
    """Someone joins in {state} with a member id that is not of the group."""
    t.reach(state, "A")
    ghost = t.member("X")
    ghost.join_now(member_id="ghost")
    ghost.join_now(member_id="ghost", group_instance_id="i-X", note="with an instance id")
    ghost.join_now(member_id="ghost", protocols=[], note="without protocols")
    t.state()


@AREA.each(state=["empty", "preparing", "completing", "stable"])
def former_member(t: Stage, state: str) -> None:
    """A member that left comes back in {state} with its old id, then without one."""
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
    """A newcomer of v{version} joins while nobody has synced: what do the others see?"""
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
    """Two newcomers join one after the other while a SyncGroup is parked: one rebalance or two?"""
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
    """The leader asks for the same generation again while followers wait for its assignment."""
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
    """A follower that rejoins without need may sync again and gets its assignment."""
    _, b = t.reach("stable", "A", "B")
    b.join_now()
    b.sync_now()
    b.hb()
    t.state()


@AREA.scenario
def parked_join_asked_again_on_another_connection(t: Stage) -> None:
    """A parked member sends its JoinGroup again from another connection: what of the first one?"""
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
    """A parked newcomer, which knows its id, asks again from another connection."""
    (a,) = t.reach("preparing", "A")
    again = t.newcomer.join(note="again", conn=t.conn())
    t.parked(t.waiting, again)
    t.got(a.join(), again)
    t.parked(t.waiting)
    t.state()


@AREA.scenario
def restart_without_leave(t: Stage) -> None:
    """A dynamic member forgets its id and joins as new: its former self holds the round up."""
    a, b = t.reach("stable", "A", "B")
    b.id = ""
    old = t.describe()["members"]
    b.join_now(note="asks for an id")
    join = b.join(note="with the new id")
    joins = [join, a.join()]
    t.parked(*joins)
    t.rec("members known", len(old) + 1 == len(t.describe()["members"]))
    t.state()


# Ids given out and not used yet


@AREA.each(end=["joins", "leaves", "is refused"])
def pending_id_holds_the_round(t: Stage, end: str) -> None:
    """All others wait, an id is still to come: the round ends when its owner {end}."""
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
    """Two ids are to come: the round ends with the second."""
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
    """An id given out in {state} does not disturb; used, it starts a rebalance."""
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
    """The id was given while there were members; they leave; the id joins the empty group."""
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
    """The only member leaves while an id is to come, in PreparingRebalance."""
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
    """An id that v5 gave is used by a JoinGroup of v{version}."""
    a = t.member("A")
    a.join_now()
    a.join_now(v=version)
    a.sync_now()
    t.state()


@AREA.scenario
def pending_id_used_twice(t: Stage) -> None:
    """The same id joins from two connections, one after the other."""
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
    """Two ids are given by an empty group: the first to join does not wait for the second."""
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
    """Members A, B, .. in a Stable group; each letter of a string is a protocol, best first."""
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
    """A follower comes back with one protocol of two: the round chooses that one."""
    a, b = _with_protocols(t, "xy", "xy")
    join = a.join()
    t.parked(join)
    b.protos = _named("y")
    t.end_round([join], b)


@AREA.scenario
def foreign_protocol_while_others_are_parked(t: Stage) -> None:
    """A follower comes back with a protocol that nobody else has: refused, and it may try again."""
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
    """Parked members have narrowed their protocols: may the next one narrow to the other?"""
    a, b = _with_protocols(t, "xy", "xy")
    a.protos = _named("x")
    join = a.join()
    t.parked(join)
    b.join_now(protocols=[{"name": "y", "metadata": b""}], note="y only")
    t.end_round([join], b)


@AREA.scenario
def newcomer_without_common_protocol_in_each_phase(t: Stage) -> None:
    """A newcomer that shares no protocol is refused while preparing and completing."""
    (a,) = t.reach("preparing", "A")
    x = t.member("X", v=3, protos=_named("z"))
    x.join_now(note="preparing")
    t.got(a.join(), t.waiting)
    x.join_now(note="completing")
    t.state()


@AREA.scenario
def old_member_decides_the_type_while_newcomer_waits(t: Stage) -> None:
    """The first member leaves while a newcomer waits: the type stays the newcomer's."""
    (a,) = t.reach("preparing", "A")
    a.leave()
    t.got(t.waiting)
    x = t.member("X", v=3, ptype="connect", protos=_named("range"))
    x.join_now(note="another type")
    t.newcomer.sync_now()
    t.state()


@AREA.each(first=["connect", "consumer"], second=["consumer", "connect"])
def type_of_an_empty_group(t: Stage, first: str, second: str) -> None:
    """A group of type {first} empties and is joined with type {second}."""
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
    """Joins that an empty group refuses leave its type and generation alone."""
    t.reach("empty", "A")
    x = t.member("X", v=3, ptype="")
    x.join_now(note="no type")
    x.join_now(protocol_type="connect", protocols=[], note="no protocols")
    t.state()


TIES = [("ab", "ba"), ("ba", "ab"), ("xy", "yx"), ("yx", "xy"), ("zp", "pz"), ("pz", "zp")]


@AREA.each(votes=["-".join(one) for one in TIES])
def protocol_tie(t: Stage, votes: str) -> None:
    """Two members prefer different protocols ({votes}, leader first): which one is chosen?"""
    a, b = _with_protocols(t, *votes.split("-"))
    join = a.join()
    t.parked(join)
    t.end_round([join], b)


@AREA.each(
    names=["range,roundrobin", "roundrobin,range", "range,cooperative-sticky", "sticky,range"]
)
def protocol_tie_of_real_names(t: Stage, names: str) -> None:
    """One member prefers the first, the other the second of {names}: which one is chosen?"""
    first, second = names.split(",")
    members = t.reach(
        "stable",
        t.member("A", protos=_named(first, second)),
        t.member("B", protos=_named(second, first)),
    )
    t.rec("chosen", [one.proto for one in members])


@AREA.scenario
def protocol_majority(t: Stage) -> None:
    """Two of three prefer the second protocol of the leader."""
    a, b, c = _with_protocols(t, "xy", "yx", "yx")
    t.rec("chosen", [one.proto for one in (a, b, c)])
    c.leave()
    a.protos = _named("x", "y")
    join = a.join()
    t.parked(join)
    t.end_round([join], b)


# Who leads, and the generation


@AREA.scenario
def generation_counts_over_empty(t: Stage) -> None:
    """Generations go on after the group was empty; an emptied group counts one up itself."""
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
    """The leader leaves and joins anew: the other one leads now."""
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
    """A sole member that rejoins gets a generation each time, also without syncing in between."""
    (a,) = t.reach("stable", "A")
    a.join_now(note="from Stable")
    a.join_now(note="from CompletingRebalance")
    a.protos = [("range", b"changed")]
    a.join_now(note="from CompletingRebalance, changed")
    t.state()
