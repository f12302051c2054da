"""Tables `data_loss_forecast` and `replay_plan`."""

from __future__ import annotations

from pipeline import schema
from pipeline.inputs import Questions
from pipeline.tables import data_loss_forecast, replay_plan
from tests.pipeline.frames import bronze, rows_of
from tests.pipeline.tables.offset_rows import AT_MS, batch, commit, ends, generation, records

WINDOW_MS = 100_000
HORIZON_MS = 50_000


def reader(topic: str, group: str = "g") -> tuple[str, str, int]:
    """Return the key of a reader of partition 0."""
    return (group, topic, 0)


# Every log gets 500 offsets per window (5 per second) and has a record at each offset.
LOSS_COMMITS = (
    commit(1, reader("slow"), 100, -80_000),
    commit(2, reader("slow"), 300, -40_000),
    commit(3, reader("fast"), 100, -20_000),
    commit(4, reader("fast"), 300, -5000),
    commit(5, reader("stuck"), 100, -90_000),
    commit(6, reader("calm"), 100, -90_000),
    commit(7, reader("read"), 501, -90_000),
    commit(8, reader("lost"), 100, -90_000),
    commit(9, reader("for_ever"), 100, -90_000),
    commit(10, reader("control"), 501, -90_000),
    commit(11, reader("overdue"), 100, -90_000),
    commit(12, reader("nowhere"), 1, -90_000),
    # The only member of group `ended` read 14 records per second and left a minute before the
    # instant.
    commit(13, reader("dead", "ended"), 0, -95_000),
    commit(14, reader("dead", "ended"), 350, -70_000),
    generation(15, "ended", -60_000),
    generation(20, "g", -9000, [(["calm"], {"calm": [1]})]),
)


def _log(topic: str, *places: tuple[int, int]) -> list[dict[str, object]]:
    return records(topic, 0, (0, -200_000), *places, (500, -1000))


LOSS_RECORDS = [
    *_log("slow", (300, -60_000)),
    *_log("fast", (300, -60_000)),
    *_log("stuck", (100, -70_000)),
    *_log("calm", (100, -70_000)),
    *_log("read"),
    *_log("lost", (100, -70_000)),
    *_log("for_ever", (100, -70_000)),
    *_log("control"),
    *_log("overdue", (100, -70_000)),
    *_log("dead", (350, -60_000)),
]
LOSS_ENDS = [
    ends("slow", 0, 0, 501, retention_ms=150_000),
    ends("fast", 0, 0, 501, retention_ms=99_000),
    ends("stuck", 0, 100, 501, retention_ms=119_999),
    ends("calm", 0, 100, 501, retention_ms=120_000),
    ends("calm", 1, 0, 0, retention_ms=120_000),
    ends("read", 0, 501, 501, retention_ms=120_000),
    ends("lost", 0, 200, 501, retention_ms=120_000),
    ends("for_ever", 0, 100, 501),
    ends("control", 0, 401, 502, retention_ms=120_000),
    ends("overdue", 0, 100, 501, retention_ms=60_000),
    ends("dead", 0, 0, 501, retention_ms=109_000),
]
FULL = 401 / 401
# Columns: topic, lag, used, retention, slack, loss, catch up, verdict.
LOSS_EXPECTED = [
    # The loss is exactly at the horizon.
    ("calm", 401, FULL, 120_000, 50_000, 50_000, None, "safe"),
    # Only a control record is unread: the slack is the whole retention, and no data can be lost.
    ("control", 1, 1 / 101, 120_000, 120_000, None, None, "safe"),
    # Group `fast` reads 10 records/s while 5/s are written, so it needs 40.2 s for its lag of 201.
    # Its records expire earlier, in 39 s.
    ("fast", 201, 201 / 501, 99_000, 39_000, 39_000, 201 / 5, "at_risk"),
    ("for_ever", 401, FULL, None, None, None, None, "unknown"),
    ("lost", 401, 401 / 301, 120_000, None, None, None, "losing"),
    ("nowhere", None, None, None, None, None, None, "unknown"),
    ("overdue", 401, FULL, 60_000, -10_000, -10_000, None, "at_risk"),
    ("read", 0, None, 120_000, 120_000, None, 0.0, "safe"),
    # Group `slow` reads as fast as records are written and never catches up. Its records expire
    # only after the horizon.
    ("slow", 201, 201 / 501, 150_000, 90_000, 90_000, None, "safe"),
    ("stuck", 401, FULL, 119_999, 49_999, 49_999, None, "at_risk"),
]


def test_where_data_may_be_lost() -> None:
    """Each reader has the expected share of the log, earliest loss and verdict."""
    made = bronze(
        offsets_log=LOSS_COMMITS,
        topic_records=LOSS_RECORDS,
        partition_ends=LOSS_ENDS,
        spark_progress=[batch("fast", 0, 0, -40_000), batch("fast", 1, 300, -5000)],
    )
    expected = [
        ("g", topic, 0, lag, used, retention, slack, loss and AT_MS + loss, *more)
        for topic, lag, used, retention, slack, loss, *more in LOSS_EXPECTED
    ]
    unread = ("g", "calm", 1, None, None, 120_000, None, None, None, "unknown")
    expected.insert(1, unread)
    # Group `ended` has no reader any more, so it never catches up, however fast it read before.
    dead = (151, 151 / 501, 109_000, 49_000, AT_MS + 49_000, None, "at_risk")
    expected.insert(0, ("ended", "dead", 0, *dead))
    # The Spark query reads 7.5/s while 5/s are written, and catches up in 80.4 s.
    query = (201, 201 / 501, 99_000, 39_000, AT_MS + 39_000, 201 / 2.5, "at_risk")
    expected.append(("spark:q1", "fast", 0, *query))
    questions = Questions(
        AT_MS, window_ms=WINDOW_MS, patience_ms=30_000, loss_horizon_ms=HORIZON_MS
    )
    assert rows_of(data_loss_forecast.make(made, questions), schema.DATA_LOSS_FORECAST) == expected


REPLAY_COMMITS = (
    commit(1, reader("plain"), 3, -100),
    commit(2, reader("plain", "busy"), 0, -100),
    generation(3, "busy", -9000, [(["plain"], {"plain": [0], "fresh": [0]}), (["plain"], {})]),
    generation(4, "g", -9000),
    commit(5, reader("shuffled"), 0, -100),
    commit(6, reader("trimmed"), 7, -100),
    commit(7, reader("quiet"), 1, -100),
    commit(8, reader("unseen"), 1, -100),
    commit(9, reader("nowhere"), 1, -100),
    commit(10, reader("emptied"), 4, -100),
)
REPLAY_RECORDS = (
    *records("plain", 0, (0, -5000), (1, -4000), (2, -3000), (3, -2000), size=100),
    *records("plain", 0, (4, -1000), size=7),
    # Record 1 has the timestamp from which the replay starts. Record 3 has an earlier timestamp,
    # but a later offset, so the replay reads it as well.
    *records("shuffled", 0, (0, -5000), (1, -3000), (3, -3001), (4, -2000)),
    # Records 4 and 5 are in the bronze table, but no longer in the log.
    *records("trimmed", 0, (4, -2500), (5, -2400), (6, -2300), (7, -2200)),
    *records("quiet", 0, (0, -9000), (1, -8000)),
    *records("fresh", 0, (0, -9000)),
    *records("emptied", 0, (0, -1000)),
)
REPLAY_ENDS = (
    ends("plain", 0, 0, 5),
    ends("shuffled", 0, 0, 5),
    ends("trimmed", 0, 6, 8),
    ends("quiet", 0, 0, 3),
    ends("fresh", 0, 0, 1),
    ends("unseen", 0, 0, 9),
    ends("emptied", 0, 9, 9),
)
BUSY = (False, "the group is not empty: members 2")
FROM_MS = AT_MS - 3000
# Columns: group, topic, committed offset, target, change, records, bytes, allowed, refusal.
REPLAY_EXPECTED = [
    ("busy", "fresh", None, 1, None, 0, 0, *BUSY),
    ("busy", "plain", 0, 2, 2, 3, 207, *BUSY),
    ("g", "emptied", 4, 9, 5, 0, 0, True, None),
    ("g", "nowhere", 1, None, None, None, None, False, "the topic is not known"),
    ("g", "plain", 3, 2, -1, 3, 207, True, None),
    # No record is at or after the instant, so the target is the log end, after the control record.
    ("g", "quiet", 1, 3, 2, 0, 0, True, None),
    ("g", "shuffled", 0, 1, 1, 4, 30, True, None),
    ("g", "trimmed", 7, 6, -1, 2, 20, True, None),
    ("g", "unseen", 1, None, None, None, None, False, "the topic's records are not known"),
]


def test_what_a_replay_would_read() -> None:
    """Each partition has the expected target and size; groups with members are refused."""
    made = bronze(
        offsets_log=REPLAY_COMMITS,
        topic_records=REPLAY_RECORDS,
        partition_ends=REPLAY_ENDS,
        spark_progress=[batch("plain", 0, 3, -1000)],  # a Spark query has no offsets in Kafka
    )
    expected = [(group, topic, 0, FROM_MS, *more) for group, topic, *more in REPLAY_EXPECTED]
    plan = replay_plan.make(made, Questions(AT_MS, replay_from_ms=FROM_MS))
    assert rows_of(plan, schema.REPLAY_PLAN) == expected
    assert rows_of(replay_plan.make(made, Questions(AT_MS)), schema.REPLAY_PLAN) == []
