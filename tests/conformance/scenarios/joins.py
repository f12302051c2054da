"""JoinGroup in every state: rejoins, newcomers, pending member ids, protocols."""

from __future__ import annotations

from tests.conformance.members import Member
from tests.conformance.stage import Area, Stage

AREA = Area("joins")


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
