"""Acknowledgements: types, ranges, permitted senders, and the stored state."""

from __future__ import annotations

from collections.abc import Sequence

from tests.conformance.share_setups import readers
from tests.conformance.shares import (
    ACCEPT,
    RELEASE,
    RENEW,
    Range,
    ShareMember,
)
from tests.conformance.stage import Area, Stage

AREA = Area("share_acknowledges")


@AREA.scenario
def texts(t: Stage) -> None:
    """Which error messages do refused acknowledgements get?"""
    place, a, b = readers(t)
    a.fetch(place)
    b.nothing(place)
    b.home = place

    def text(member: ShareMember, ranges: Sequence[Range]) -> None:
        answer = t.setup(member.acknowledge, ranges)
        one = answer["responses"][0]["partitions"][0]
        t.rec(f"{member.name} {ranges}", [one["error_code"], one["error_message"]])

    text(a, [(1, 0, ACCEPT)])
    text(a, [(0, 0, [])])
    text(a, [(0, 4, RENEW)])
    text(a, [(0, 7, ACCEPT)])
    text(a, [(9, 9, ACCEPT)])
    text(b, [(0, 4, ACCEPT)])
    text(b, [(0, 1, ACCEPT)])
    text(a, [(1, 1, ACCEPT)])
    text(a, [(0, 2, ACCEPT)])
    text(b, [(2, 3, ACCEPT)])
    text(a, [(0, 4, RELEASE)])
