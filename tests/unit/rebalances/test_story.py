"""The sentence for each trigger, and the details below it, word by word."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_server.rebalances.schema import RebalanceRecord
from coordinator_server.rebalances.story import details, ranges, sentence, tell, time_of
from tests.unit.core.groups.classic.explained import EMPTY_RECORD

UUID = "01234567-89ab-cdef-0123-456789abcdef"


def client(name: str, instance: str | None = None, uuid: str = UUID) -> RebalanceRecord:
    """Return a client as named in records."""
    return {
        "member": f"{name}-{uuid}",
        "instance": instance,
        "client_id": name,
        "host": "/127.0.0.1",
    }


def record(trigger: str, **fields: Any) -> RebalanceRecord:
    """Return a record of generation 7 with c-2 as the culprit."""
    defaults = {
        "trigger": trigger,
        "culprit": client("c-2"),
        "generation_before": 6,
        "generation": 7,
        "started_ms": 1_785_924_902_123,
        "ended_ms": 1_785_924_902_167,
        "leader_before": None,
        "leader": None,
        "members_before": 3,
        "members_rejoined": 3,
        "members_after": 3,
        "join_ms": 41,
        "partitions": moves(4, 0, 0, 8),
    }
    return {**EMPTY_RECORD, **defaults, **fields}


def moves(moved: int, added: int, revoked: int, stayed: int) -> RebalanceRecord:
    """Return the counts of partitions by kind of change."""
    return {"moved": moved, "added": added, "revoked": revoked, "stayed": stayed}


def member(name: str, status: str = "stayed", **fields: Any) -> RebalanceRecord:
    """Return a member of the record."""
    defaults = {
        "member_before": f"{name}-{UUID}",
        "status": status,
        "rejoined_ms": 0,
        "partitions_before": {"t": [0, 1]},
        "partitions": {"t": [0, 1]},
        "topics_added": [],
        "topics_removed": [],
    }
    return {**client(name), **defaults, **fields}


TAIL = "3 of 3 members rejoined in 41 ms; 4 of 12 partitions moved"

SENTENCES: list[tuple[RebalanceRecord, str]] = [
    (
        record("member expired", timeout_ms=10_000, members_rejoined=2),
        "c-2 on /127.0.0.1 missed its session timeout of 10 000 ms; "
        "2 of 3 members rejoined in 41 ms; 4 of 12 partitions moved",
    ),
    (
        record("member joined", members_joined=1),
        "c-2 on /127.0.0.1 joined; 3 of 3 members rejoined, 1 joined in 41 ms; "
        "4 of 12 partitions moved",
    ),
    (
        record(
            "member joined",
            members_before=0,
            members_rejoined=0,
            members_joined=1,
            initial_delay_ms=3_000,
            join_ms=0,
            partitions=moves(0, 12, 0, 0),
        ),
        "c-2 on /127.0.0.1 joined; 1 member joined in 3 000 ms; 12 partitions added",
    ),
    (
        record("member left", reason="closing", members_rejoined=2),
        'c-2 on /127.0.0.1 left (reason: "closing"); 2 of 3 members rejoined in 41 ms; '
        "4 of 12 partitions moved",
    ),
    (
        record("static member replaced", culprit=client("c-2", "i-2")),
        f"static member i-2 on /127.0.0.1 came back under a new member id; {TAIL}",
    ),
    (
        record("metadata changed"),
        f"c-2 on /127.0.0.1 changed its metadata; {TAIL}",
    ),
    (
        record(
            "metadata changed",
            members=[member("c-2", topics_added=["new"], topics_removed=["old"])],
        ),
        f"c-2 on /127.0.0.1 changed its subscription (+new -old); {TAIL}",
    ),
    (
        record("leader rejoined"),
        f"the leader c-2 on /127.0.0.1 asked to assign anew; {TAIL}",
    ),
    (
        record("member never synced", timeout_ms=300_000),
        f"c-2 on /127.0.0.1 did not ask for its assignment within 300 000 ms; {TAIL}",
    ),
    (
        record("assignment not written", error="NOT_COORDINATOR"),
        "the assignment of the leader c-2 on /127.0.0.1 could not be written (NOT_COORDINATOR); "
        + TAIL,
    ),
    (
        record("over capacity after load", culprit=None),
        f"the group was loaded with more members than group.max.size; {TAIL}",
    ),
    (
        record("coordinator loaded", culprit=None, partitions=None),
        "the coordinator loaded the group; 3 members as before",
    ),
    (
        record("group deleted", culprit=None, outcome="dead", partitions=None),
        "the group was deleted",
    ),
    (
        record("group expired", culprit=None, outcome="dead", partitions=None),
        "the group ended, as it was empty and its offsets had expired",
    ),
    (
        record("a trigger of tomorrow"),
        f"c-2 on /127.0.0.1: a trigger of tomorrow; {TAIL}",
    ),
]


@pytest.mark.parametrize(("given", "told"), SENTENCES, ids=lambda one: str(one)[:40])
def test_the_sentence_of_a_trigger(given: RebalanceRecord, told: str) -> None:
    """The sentence for a rebalance has generation, actor, rejoined members and moved partitions."""
    assert sentence(given) == f"generation 7: {told}"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"outcome": "empty", "partitions": moves(0, 0, 12, 0)},
         "nobody is left; 12 partitions revoked"),
        ({"outcome": "empty", "partitions": moves(0, 0, 0, 0)}, "nobody is left"),
        ({"outcome": "superseded", "partitions": None, "sync_ms": 1_500},
         "3 of 3 members rejoined in 41 ms, but after 1 500 ms without an assignment it began "
         "anew"),
        ({"outcome": "unloaded", "partitions": None, "members_rejoined": 1},
         "1 of 3 members rejoined in 41 ms, then the coordinator let go of the group"),
        ({"outcome": "unloaded", "partitions": None, "members_before": 0, "join_ms": 5},
         "nobody came in 5 ms, then the coordinator let go of the group"),
        ({"partitions": moves(0, 0, 0, 1)},
         "3 of 3 members rejoined in 41 ms; 1 partition stayed"),
        ({"partitions": moves(0, 0, 0, 0)},
         "3 of 3 members rejoined in 41 ms; no partitions assigned"),
        ({"partitions": moves(0, 0, 2, 4)},
         "3 of 3 members rejoined in 41 ms; 2 of 6 partitions revoked"),
        ({"partitions": moves(1, 2, 3, 0)},
         "3 of 3 members rejoined in 41 ms; 1 of 6 partitions moved, 2 added, 3 revoked"),
        ({"partitions": None, "partitions_unknown": "protocol type connect"},
         "3 of 3 members rejoined in 41 ms; partitions unknown (protocol type connect)"),
    ],
)  # fmt: skip
def test_the_end_of_a_sentence(fields: RebalanceRecord, told: str) -> None:
    """The sentence for a rebalance ends with the outcome and the changes of partitions."""
    given = record("member left", **fields)
    assert sentence(given) == f"generation 7: c-2 on /127.0.0.1 left; {told}"


def test_a_story_has_its_time_and_its_details() -> None:
    """The time is UTC in ms; the indented details are those for which the record has a value."""
    given = record(
        "member expired",
        timeout_ms=10_000,
        initial_delay_ms=0,
        sync_ms=3,
        also=[
            {
                "trigger": "member left",
                "culprit": client("c-4"),
                "reason": "bye",
                "timeout_ms": None,
                "error": "",
                "after_ms": 12,
            }
        ],
        stragglers=[{**client("c-1"), "after_ms": 41}],
        dropped=[{**client("c-5"), "why": "not rejoined"}],
        leader_before=f"c-2-{UUID}",
        leader=f"c-1-{UUID}",
        protocol_before="range",
        protocol="sticky",
        members=[
            member("c-1", partitions={"t": [0, 1, 2, 5], "u": [3]}),
            member("c-2", "left", partitions=None, rejoined_ms=None),
            member("c-3", "joined", partitions_before=None, member_before=None, partitions={}),
            member("c-6", rejoined_ms=None),
            member("c-7", partitions_before=None, partitions=None),
        ],
    )
    assert tell(given) == [
        "2026-08-05 10:15:02.123Z  generation 7: c-2 on /127.0.0.1 missed its session timeout of "
        "10 000 ms; 3 of 3 members rejoined in 41 ms; 4 of 12 partitions moved",
        '    after 12 ms: c-4 on /127.0.0.1 left (reason: "bye")',
        "    last to join: c-1 after 41 ms",
        "    dropped: c-5 did not rejoin in time",
        "    waited: join 41 ms, sync 3 ms",
        "    leader: c-2 -> c-1",
        "    protocol: range -> sticky",
        "    c-1: t 0-1 -> t 0-2 5, u 3",
        "    c-2: t 0-1 -> gone",
        "    c-3: new -> nothing",
        "    c-6: t 0-1 (did not rejoin, keeps its place)",
    ]


def test_a_first_leader_and_protocol() -> None:
    """The first leader and protocol are shown without an arrow."""
    given = record("member joined", protocol_before=None, leader=f"c-9-{UUID}", join_ms=0)
    assert details(given) == ["leader: c-9-01234567", "protocol: range"]


def test_members_with_the_same_client_id() -> None:
    """Members with the same client id are distinguished by the start of their member ids."""
    other = "fedcba98-89ab-cdef-0123-456789abcdef"
    given = record(
        "member left",
        culprit=client("app"),
        stragglers=[{**client("app", uuid=other), "after_ms": 41}],
        join_ms=0,
    )
    assert sentence(given).startswith("generation 7: app-01234567 on /127.0.0.1 left; ")
    assert details(given) == ["last to join: app-fedcba98 after 41 ms"]


def test_a_static_member_is_one_member_under_two_ids() -> None:
    """A static member is named by its instance id; a changed member id is no change of leader."""
    before = f"s-{UUID}"
    after = "s-fedcba98-89ab-cdef-0123-456789abcdef"
    one = member("s", member_before=before, member=after, instance="i", rejoined_ms=0)
    given = record(
        "static member replaced",
        culprit={**client("s", "i"), "member": after},
        leader_before=before,
        leader=after,
        members=[one],
        join_ms=0,
    )
    assert details(given) == ["i: t 0-1"]


def test_a_client_without_a_client_id_or_host() -> None:
    """A client without a client id and host is shown by its member id alone."""
    nobody = {"member": f"x-{UUID}", "instance": None, "client_id": "", "host": ""}
    given = record("member left", culprit=nobody)
    assert sentence(given).startswith("generation 7: x-01234567 left; ")


def test_a_reason_cannot_play_tricks_on_the_terminal() -> None:
    """Control characters from clients are not shown."""
    given = record("member left", reason="\x1b[2Jboo\nboo")
    assert '(reason: "\N{REPLACEMENT CHARACTER}[2Jboo\N{REPLACEMENT CHARACTER}boo")' in (
        sentence(given)
    )


def test_a_shortened_record_says_so() -> None:
    """A shortened record says that its members are left out, and why."""
    given = record("member left", shortened=True, join_ms=0)
    assert details(given) == ["the record was too long, its members are left out"]


def test_a_reason_to_drop_that_is_not_known() -> None:
    """An unknown reason for dropping a member, from a newer broker, is shown."""
    given = record("member left", dropped=[{**client("c-5"), "why": "bored"}], join_ms=0)
    assert details(given) == ["dropped: c-5 (bored)"]


def test_partitions_in_short() -> None:
    """Partitions are printed as ranges."""
    assert ranges({"t": [0, 1, 2, 4, 6, 7], "u": [9]}) == "t 0-2 4 6-7, u 9"
    assert ranges({}) == ranges(None) == "nothing"


def test_a_time_that_no_calendar_knows() -> None:
    """A time outside of the calendar is shown as a number."""
    assert time_of(10**18) == f"{10**18} ms"
