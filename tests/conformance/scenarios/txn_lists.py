"""DescribeTransactions and ListTransactions with every filter (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

from typing import Any

from tests.conformance.producers import Producer, error
from tests.conformance.stage import Area, Stage

AREA = Area("txn_lists")


def listed(t: Stage, label: str, v: int = 2, **filters: Any) -> None:
    """Send ListTransactions; record [error, unknown states, the scenario's transactional ids]."""
    body = {"state_filters": [], "producer_id_filters": [], **filters}
    answer = t.raw("ListTransactions", v, body)
    own = sorted(
        [t.sub(one["transactional_id"]), t.producer(one["producer_id"]), one["transaction_state"]]
        for one in answer["transaction_states"]
        if one["transactional_id"].startswith(t.g)
    )
    unknown = sorted(answer["unknown_state_filters"])
    t.rec(f"ListTransactions v{v} {label}", [error(answer["error_code"]), unknown, own])


def cast(t: Stage, protocol: int = 1) -> list[Producer]:
    """Return producers E, O, C, A: empty, ongoing, committed and aborted, unrecorded."""
    empty, ongoing, committed, aborted = (Producer(t, name, protocol).started() for name in "EOCA")
    for one in (ongoing, committed, aborted):
        t.setup(one.begin)
    t.setup(committed.commit)
    t.setup(aborted.abort)
    return [empty, ongoing, committed, aborted]


@AREA.each(v=range(3))
def by_state(t: Stage, v: int) -> None:
    """ListTransactions v{v} filters by one state, several, and unknown states."""
    cast(t)
    listed(t, "all", v)
    for state in (
        "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort",
        "Dead", "PrepareEpochFence", "ongoing", "ONGOING", "", "Nonsense",
    ):  # fmt: skip
        listed(t, f"state {state!r}", v, state_filters=[state])
    listed(t, "two states", v, state_filters=["Ongoing", "CompleteAbort"])
    listed(t, "the same twice", v, state_filters=["Ongoing", "Ongoing"])
    listed(t, "one known, two unknown", v, state_filters=["Empty", "What", "ever", "What"])


@AREA.each(v=range(3))
def by_producer(t: Stage, v: int) -> None:
    """ListTransactions v{v} filters by known and unknown producer ids, and with a state."""
    empty, ongoing, committed, _ = cast(t)
    listed(t, "all", v)
    ids = {"E": empty.producer_id, "O": ongoing.producer_id, "C": committed.producer_id}
    listed(t, "one", v, producer_id_filters=[ids["O"]])
    listed(t, "two", v, producer_id_filters=[ids["O"], ids["C"]])
    listed(t, "unknown", v, producer_id_filters=[1 << 50])
    listed(t, "negative", v, producer_id_filters=[-1])
    listed(t, "and state", v, producer_id_filters=list(ids.values()), state_filters=["Ongoing"])
    listed(t, "and unknown state", v, producer_id_filters=[ids["E"]], state_filters=["no"])


@AREA.each(v=[1, 2])
def by_duration(t: Stage, v: int) -> None:
    """ListTransactions v{v} filters by duration, which includes ended transactions."""
    cast(t)
    t.sleep(0.3)
    listed(t, "-1", v, duration_filter=-1)
    listed(t, "-5", v, duration_filter=-5)
    listed(t, "0", v, duration_filter=0)
    listed(t, "10", v, duration_filter=10)
    listed(t, "100000", v, duration_filter=100_000)
    listed(t, "0 and Empty", v, duration_filter=0, state_filters=["Empty"])
    listed(t, "100000 and Ongoing", v, duration_filter=100_000, state_filters=["Ongoing"])


@AREA.scenario
def by_pattern(t: Stage) -> None:
    """ListTransactions v2 filters by regular expression (RE2), which must match the whole id."""
    cast(t)
    for label, pattern in (
        ("null", None),
        ("empty", ""),
        ("whole", f"{t.g}-E"),
        ("begin of it", f"{t.g}-"),
        ("end of it", "E$"),
        ("class", f"{t.g}-[EO]"),
        ("anything", f"{t.g}.*"),
        ("other case", f"(?i){t.g}-o"),
        ("anchored", f"^{t.g}-C$"),
        ("invalid", "("),
        ("look-ahead", f"{t.g}-(?=E).*"),
        ("back reference", r"(.)\1"),
        ("matches nothing", "no such id"),
    ):
        listed(t, label, transactional_id_pattern=pattern)
    every: dict[str, Any] = {
        "transactional_id_pattern": f"{t.g}.*",
        "state_filters": ["Empty", "Ongoing"],
    }
    listed(t, "and states", **every)
    listed(t, "invalid and unknown state", transactional_id_pattern="(", state_filters=["no"])


@AREA.each(protocol=[1, 2])
def described(t: Stage, protocol: int) -> None:
    """DescribeTransactions of v{protocol} names all states, and unknown, empty, repeated ids."""
    producers = cast(t, protocol)
    t.producer(producers[0].producer_id)
    for one in producers:
        one.look()
    names = [one.transactional_id for one in producers]
    unknown = f"{t.g}-unknown"
    t.name_it(unknown, "<unknown>")
    describe(t, "all", names)
    describe(t, "unknown", [unknown])
    describe(t, "empty name", [""])
    describe(t, "known, unknown, empty", [names[0], unknown, ""])
    describe(t, "twice", [names[1], names[1]])
    describe(t, "none", [])


def describe(t: Stage, label: str, names: list[str]) -> None:
    """Send DescribeTransactions; record all fields without times, sorted."""
    answer = t.raw("DescribeTransactions", 0, {"transactional_ids": names})
    shown = []
    for one in answer["transaction_states"]:
        start_ms = one["transaction_start_time_ms"]
        shown.append(
            [
                t.sub(one["transactional_id"]),
                error(one["error_code"]),
                one["transaction_state"],
                one["transaction_timeout_ms"],
                "a time" if start_ms > 0 else start_ms,
                t.producer(one["producer_id"]) if one["producer_id"] else 0,
                one["producer_epoch"],
                [[t.sub(topic["topic"]), topic["partitions"]] for topic in one["topics"]],
            ]
        )
    t.rec(f"DescribeTransactions {label}", sorted(shown, key=str))


@AREA.scenario
def coordinators(t: Stage) -> None:
    """FindCoordinator names known, unknown and empty transactional ids, singly and in a batch."""
    p = Producer(t).started()
    unknown = f"{t.g}-unknown"
    t.name_it(unknown, "<unknown>")
    for version in (1, 3):
        for key in (p.transactional_id, unknown, ""):
            answer = t.raw("FindCoordinator", version, {"key": key, "key_type": 1})
            shown = [error(answer["error_code"]), answer["node_id"] >= 0]
            t.rec(f"FindCoordinator v{version} {t.sub(key)!r}", shown)
    for version in (4, 6):
        keys = [p.transactional_id, unknown, ""]
        answer = t.raw("FindCoordinator", version, {"coordinator_keys": keys, "key_type": 1})
        found = [
            [t.sub(one["key"]), error(one["error_code"]), one["node_id"] >= 0]
            for one in answer["coordinators"]
        ]
        t.rec(f"FindCoordinator v{version}", sorted(found))
