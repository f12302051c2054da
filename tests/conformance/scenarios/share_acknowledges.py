"""Acknowledgements: types, ranges, permitted senders, and the stored state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.conformance import share_looks as looks
from tests.conformance.share_setups import group, reader, readers
from tests.conformance.shares import (
    ACCEPT,
    CLOSE,
    GAP,
    RECORD_LIMIT,
    REJECT,
    RELEASE,
    RENEW,
    Place,
    Range,
    ShareMember,
    produce,
)
from tests.conformance.stage import Area, Stage

AREA = Area("share_acknowledges")

_KINDS = {"gap": GAP, "accept": ACCEPT, "release": RELEASE, "reject": REJECT}
_BY = ["fetch", "acknowledge"]
_NOTHING: dict[str, Any] = {"max_bytes": 0, "min_bytes": 0, "max_records": 0}


def _say(member: ShareMember, by: str, ranges: Sequence[Range], note: str = "") -> None:
    """Acknowledge in a ShareAcknowledge, or in a ShareFetch for no records."""
    if by == "fetch":
        member.nothing(note=note, acks=ranges, max_records=0)
    else:
        member.acknowledge(ranges, note)


@AREA.each(kind=list(_KINDS), by=_BY)
def whole_batch(t: Stage, kind: str, by: str) -> None:
    """A whole batch is acknowledged with {kind} in {by}: what are the new state and records?"""
    place, a = reader(t, (3, 2))
    a.fetch(place, batch_size=3)
    _say(a, by, [(0, 2, _KINDS[kind])])
    looks.stored(t, place)
    looks.offsets(t)
    a.nothing()


@AREA.each(kind=list(_KINDS), part=["start", "middle", "end"])
def part_of_a_batch(t: Stage, kind: str, part: str) -> None:
    """The {part} of a batch is acknowledged with {kind}, then the rest is accepted."""
    place, a = reader(t)
    a.fetch(place)
    first, last = {"start": (0, 1), "middle": (2, 2), "end": (3, 4)}[part]
    a.acknowledge([(first, last, _KINDS[kind])])
    looks.stored(t, place)
    looks.offsets(t)
    rest = [one for one in ((0, first - 1), (last + 1, 4)) if one[0] <= one[1]]
    a.acknowledge([(*one, ACCEPT) for one in rest])
    looks.stored(t, place)
    a.nothing()


@AREA.each(
    types=["1 2 3 0 1", "2 2 2 2 2", "1 1 1 1 1", "3 1 3 1 3"],
    version=[1, 2],
)
def type_of_each_offset(t: Stage, types: str, version: int) -> None:
    """ShareAcknowledge {version} has one type for each of five offsets: {types}."""
    place, a = reader(t)
    a.fetch(place)
    a.acknowledge([(0, 4, [int(one) for one in types.split()])], version=version)
    looks.stored(t, place)
    looks.offsets(t)
    a.nothing()


@AREA.each(
    types=["none", "1 1", "1 1 1 1", "1 1 1 1 1 1", "4", "5", "-1", "1 1 9 1 1"],
    version=[1, 2],
)
def types_that_do_not_fit(t: Stage, types: str, version: int) -> None:
    """Five offsets have too few, too many or unknown types: '{types}', v{version}."""
    place, a = reader(t)
    a.fetch(place)
    kinds = [] if types == "none" else [int(one) for one in types.split()]
    a.acknowledge([(0, 4, kinds)], version=version)
    a.acknowledge([(0, 4, ACCEPT)], "right")


@AREA.each(first_last=["3 1", "-1 1", "0 5", "5 5", "4 6", "2147483648 2147483649"], by=_BY)
def ranges_that_do_not_fit(t: Stage, first_last: str, by: str) -> None:
    """Offsets 0-4 are acquired, and {first_last} are acknowledged in {by}."""
    place, a = reader(t)
    a.fetch(place)
    first, last = (int(one) for one in first_last.split())
    _say(a, by, [(first, last, ACCEPT)])
    looks.stored(t, place)
    _say(a, by, [(0, 4, ACCEPT)], "right")
    looks.stored(t, place)


@AREA.each(case=["in order", "out of order", "overlapping", "the same twice", "touching"])
def several_ranges(t: Stage, case: str) -> None:
    """One request has two ranges of one partition: {case}."""
    place, a = reader(t)
    a.fetch(place)
    ranges = {
        "in order": [(0, 1, ACCEPT), (3, 4, RELEASE)],
        "out of order": [(3, 4, RELEASE), (0, 1, ACCEPT)],
        "overlapping": [(0, 2, ACCEPT), (2, 4, RELEASE)],
        "the same twice": [(0, 4, ACCEPT), (0, 4, ACCEPT)],
        "touching": [(0, 1, ACCEPT), (2, 4, RELEASE)],
    }[case]
    a.acknowledge(ranges)
    looks.stored(t, place)
    a.nothing()


@AREA.scenario
def one_range_of_two_is_wrong(t: Stage) -> None:
    """If the second of two ranges is not acquired, the first one is not acknowledged either."""
    place, a, b = readers(t, (2, 2, 2))
    a.fetch(place, max_records=1)
    b.fetch(place, max_records=1)
    a.acknowledge([(0, 1, ACCEPT), (2, 3, ACCEPT)], "of its own and of B's")
    looks.stored(t, place)
    a.acknowledge([(0, 1, ACCEPT), (4, 5, ACCEPT)], "of its own and of nobody's")
    looks.stored(t, place)
    a.acknowledge([(0, 1, ACCEPT)], "of its own")
    looks.stored(t, place)


@AREA.scenario
def ranges_over_several_batches(t: Stage) -> None:
    """One range covers three batches acquired in three fetches."""
    place, a = reader(t, (2, 2, 2))
    for _ in range(3):
        a.fetch(place, max_records=1)
    a.acknowledge([(1, 4, ACCEPT)])
    looks.stored(t, place)
    a.acknowledge([(0, 0, RELEASE), (5, 5, REJECT)])
    looks.stored(t, place)
    a.nothing()


@AREA.each(kind=list(_KINDS))
def acknowledged_twice(t: Stage, kind: str) -> None:
    """A range is acknowledged twice with {kind}; the start of the partition does not move."""
    place, a = reader(t, (2, 2))
    a.fetch(place, batch_size=2)
    a.acknowledge([(2, 3, _KINDS[kind])])
    a.acknowledge([(2, 3, _KINDS[kind])], "again")
    a.acknowledge([(2, 2, ACCEPT)], "a part of it")
    looks.stored(t, place)


@AREA.each(kind=["accept", "reject", "gap"])
def acknowledged_twice_at_the_start(t: Stage, kind: str) -> None:
    """A range below the current start of the partition is acknowledged with {kind}."""
    place, a = reader(t, (2, 2))
    a.fetch(place, batch_size=2)
    a.acknowledge([(0, 1, _KINDS[kind])])
    a.acknowledge([(0, 1, _KINDS[kind])], "again")
    a.acknowledge([(0, 3, RELEASE)], "with what is not below")
    looks.stored(t, place)
    a.nothing()


@AREA.each(kind=list(_KINDS), by=_BY)
def of_another_member(t: Stage, kind: str, by: str) -> None:
    """Member B acknowledges A's records with {kind} in {by}; then A acknowledges them."""
    place, a, b = readers(t)
    a.fetch(place)
    b.nothing(place)
    b.home = place
    _say(b, by, [(0, 4, _KINDS[kind])])
    a.acknowledge([(0, 4, ACCEPT)])
    looks.stored(t, place)


@AREA.scenario
def of_another_member_in_a_split_batch(t: Stage) -> None:
    """Two members acquire parts of a batch, and each acknowledges more than its own."""
    place, a, b = readers(t)
    a.fetch(place, share_acquire_mode=RECORD_LIMIT, max_records=2)
    b.fetch(place, share_acquire_mode=RECORD_LIMIT, max_records=3)
    a.acknowledge([(0, 4, ACCEPT)])
    b.acknowledge([(0, 4, ACCEPT)])
    looks.stored(t, place)
    a.acknowledge([(0, 1, ACCEPT)])
    b.acknowledge([(2, 4, RELEASE)])
    looks.stored(t, place)


@AREA.scenario
def not_acquired(t: Stage) -> None:
    """Records that were never acquired, or were released, are acknowledged."""
    place, a = reader(t, (2, 2))
    a.fetch(place, max_records=1)
    a.acknowledge([(2, 3, ACCEPT)], "nobody's")
    a.acknowledge([(0, 1, RELEASE)])
    a.acknowledge([(0, 1, ACCEPT)], "released")
    looks.stored(t, place)


@AREA.scenario
def in_the_fetch_that_brings_more(t: Stage) -> None:
    """A fetch acknowledges and acquires at once, and gets the released records again."""
    place, a = reader(t, (2, 2, 2))
    a.fetch(place, max_records=1)
    a.fetch(acks=[(0, 1, ACCEPT)], max_records=1)
    a.fetch(acks=[(2, 3, RELEASE)], max_records=1)
    a.fetch(acks=[(2, 2, REJECT), (3, 3, ACCEPT)])
    a.nothing(acks=[(4, 5, ACCEPT)])
    looks.stored(t, place)


@AREA.scenario
def in_a_fetch_with_errors(t: Stage) -> None:
    """A fetch with refused acknowledgements still returns records."""
    place, a = reader(t, (2, 2))
    a.fetch(place, max_records=1)
    a.fetch(acks=[(1, 0, ACCEPT)])
    a.nothing(acks={(place[0], 9): [(0, 0, ACCEPT)]})
    a.nothing(note="goes on")


@AREA.scenario
def in_a_fetch_of_another_partition(t: Stage) -> None:
    """A fetch adds a partition and acknowledges in another one."""
    place, (a,) = group(t, "A", (2,), partitions=2)
    other = (place[0], 1)
    produce(t, other, 3)
    a.fetch(place)
    a.fetch(other, acks={place: [(0, 1, ACCEPT)]})
    a.nothing(acks={place: [(0, 1, ACCEPT)], other: [(0, 2, ACCEPT)]})
    looks.offsets(t)


@AREA.each(by=_BY)
def without_ranges(t: Stage, by: str) -> None:
    """A partition without acknowledgements is named in {by}, alone and beside another partition."""
    place, (a,) = group(t, "A", (2,), partitions=2)
    other = (place[0], 1)
    a.fetch(place, other)
    requests: list[dict[Place, list[Range]]] = [{place: []}, {place: [(0, 1, ACCEPT)], other: []}]
    for acks in requests:
        if by == "fetch":
            a.nothing(acks=acks)
        else:
            a.acknowledge(acks)
    looks.offsets(t)


@AREA.each(unknown=["partition", "topic"])
def of_what_is_not_there(t: Stage, unknown: str) -> None:
    """ShareAcknowledge has an unknown {unknown} beside a known one."""
    place, a = reader(t)
    a.fetch(place)
    strange: Place = (place[0], 4) if unknown == "partition" else (bytes(range(16)), 0)
    a.acknowledge({strange: [(0, 0, ACCEPT)]})
    a.acknowledge({place: [(0, 1, ACCEPT)], strange: [(0, 0, ACCEPT)]})
    looks.stored(t, place)


@AREA.each(name=["null", "empty"])
def names_that_are_none(t: Stage, name: str) -> None:
    """ShareAcknowledge has a {name} group id, and a {name} member id."""
    place, a = reader(t)
    a.fetch(place)
    value = None if name == "null" else ""
    a.acknowledge([(0, 0, ACCEPT)], f"{name} group", group_id=value)
    a.acknowledge([(0, 0, ACCEPT)], f"{name} member", member_id=value)
    a.acknowledge([(0, 0, ACCEPT)], "long member", member_id="m" * 37)
    a.acknowledge([(0, 0, ACCEPT)])


@AREA.each(by=_BY)
def renewed_without_the_flag(t: Stage, by: str) -> None:
    """Type renew comes in {by} without the flag, and the flag without type renew."""
    place, a = reader(t)
    a.fetch(place)
    if by == "fetch":
        a.fetch(acks=[(0, 4, RENEW)], wait_ms=0, **_NOTHING)
        a.fetch(acks=[(0, 1, ACCEPT)], is_renew_ack=True, wait_ms=0, **_NOTHING)
    else:
        a.acknowledge([(0, 4, RENEW)])
        a.acknowledge([(0, 1, ACCEPT)], renew=True)
    looks.stored(t, place)


@AREA.each(by=_BY)
def renewed(t: Stage, by: str) -> None:
    """Renewed in {by}: a batch, part of a batch, beside other types, by another member."""
    place, a, b = readers(t)
    a.fetch(place)
    b.nothing(place)
    b.home = place

    def say(member: ShareMember, ranges: Sequence[Range], note: str) -> None:
        if by == "fetch":
            member.fetch(note=note, acks=ranges, is_renew_ack=True, wait_ms=0, **_NOTHING)
        else:
            member.acknowledge(ranges, note, renew=True)

    say(a, [(0, 4, RENEW)], "all")
    say(a, [(1, 2, RENEW)], "a part")
    say(a, [(0, 4, [ACCEPT, RENEW, RENEW, RENEW, RELEASE])], "beside others")
    say(b, [(1, 1, RENEW)], "of another")
    say(a, [(0, 0, RENEW)], "accepted before")
    looks.stored(t, place)


@AREA.each(field=["max_bytes", "min_bytes", "max_records", "max_wait_ms"])
def renewing_fetches_bring_nothing(t: Stage, field: str) -> None:
    """A renewing fetch must request nothing; this one has {field} 1."""
    place, a = reader(t, (2, 2))
    a.fetch(place, max_records=1)
    fields: dict[str, Any] = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "max_wait_ms": 0}
    a.fetch(acks=[(0, 1, RENEW)], is_renew_ack=True, **fields | {field: 1})
    a.fetch(acks=[(0, 1, RENEW)], is_renew_ack=True, **fields)
    a.nothing(note="goes on")


@AREA.each(by=_BY)
def renewal_that_is_off(t: Stage, by: str) -> None:
    """With share.renew.acknowledge.enable=false, locks are renewed in {by}."""
    place, a = reader(t, share_renew_acknowledge_enable="false")
    a.fetch(place)
    if by == "fetch":
        a.fetch(acks=[(0, 4, RENEW)], is_renew_ack=True, wait_ms=0, **_NOTHING)
        a.fetch(acks=[(0, 0, RENEW)], is_renew_ack=True, wait_ms=0, **_NOTHING)
    else:
        a.acknowledge([(0, 4, RENEW)], renew=True)
        a.acknowledge([(0, 0, RENEW)], renew=True)
    a.acknowledge([(0, 4, ACCEPT)])


@AREA.scenario
def of_a_closed_session(t: Stage) -> None:
    """Records are acknowledged after their session was closed, and in a new session."""
    place, a = reader(t)
    a.fetch(place)
    a.close()
    a.acknowledge([(0, 4, ACCEPT)], share_session_epoch=1)
    a.acknowledge([(0, 4, ACCEPT)], share_session_epoch=CLOSE)
    a.nothing(place, max_records=0)
    a.acknowledge([(0, 4, ACCEPT)], "in the new one")
    looks.stored(t, place)
    a.fetch()


@AREA.scenario
def start_of_the_partition(t: Stage) -> None:
    """The start offset moves over accepted, rejected and gap offsets up to any other offset."""
    place, a = reader(t, (2, 2, 2, 2))
    a.fetch(place, batch_size=2)
    for ranges in ([(2, 3, ACCEPT)], [(4, 5, REJECT)], [(0, 0, GAP)], [(6, 7, RELEASE)]):
        a.acknowledge(ranges)
        looks.stored(t, place)
        looks.offsets(t)
    a.acknowledge([(1, 1, ACCEPT)])
    looks.stored(t, place)
    looks.offsets(t)


@AREA.scenario
def texts(t: Stage) -> None:
    """Which error messages have refused acknowledgements?"""
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
