"""A broker's limit of share sessions, which is 4 in profile B."""

from __future__ import annotations

from tests.conformance.share_setups import reader
from tests.conformance.shares import ACCEPT, ShareMember
from tests.conformance.stage import Area, Stage

AREA = Area("share_limits", profile="b")


@AREA.scenario
def more_sessions_than_allowed(t: Stage) -> None:
    """A fifth session is refused, after its wait time, until another session ends."""
    place, a = reader(t)
    a.fetch(place)
    others = [ShareMember(t, name, place) for name in "BCDE"]
    for one in others:
        one.nothing(place)
    pending = others[3].fetching(place, wait_ms=600)
    t.parked(pending)
    others[3].fetched(pending)
    a.fetch(place, note="opens its own anew", share_session_epoch=0, wait_ms=50)
    others[0].close()
    others[3].nothing(place, note="after another has closed")
    others[1].disconnect()
    others[0].nothing(place, note="after another is gone")
    a.acknowledge([(0, 4, ACCEPT)])
