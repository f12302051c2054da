"""Table `abandoned_groups` has the expected rows for every reason and its edge case."""

from __future__ import annotations

from typing import Any

from pipeline import schema
from pipeline.inputs import DAY_MS, HOUR_MS, Questions
from pipeline.tables import abandoned_groups
from tests.pipeline.frames import bronze, rows_of
from tests.pipeline.tables.log_rows import commit, generation, member, removal

AT_MS = 100 * DAY_MS
UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"


def ago(hours: float) -> int:
    """Return the time in ms that lies `hours` before AT_MS, the time of the run."""
    return AT_MS - round(hours * HOUR_MS)


def log() -> list[dict[str, Any]]:
    """Return the records of `__consumer_offsets`.

    Producers write to topic `t` all the time and not to topic `quiet`. Topic `gone` was deleted.
    """

    def emptied(group: str, hours: float, offset: int = 20) -> dict[str, Any]:
        return generation(group, ago(hours), offset, 2)

    def live(group: str, hours: float) -> dict[str, Any]:
        return generation(group, ago(hours), 1, 1, member("m", {"t": [0]}))

    return [
        # Group `silent` has been silent for exactly a day. It committed three times for the same
        # partition, and compaction keeps one of these commits.
        *[commit("silent", ago(30 - number), 2 + number, "quiet-0", number) for number in range(3)],
        live("silent", 30), emptied("silent", 24), commit("silent", ago(25), 10, "quiet-1", 1),
        commit("silent", ago(25), 11, "quiet-1", None),
        # Three groups that do not count as silent: `recent` is one second short of a day,
        # `commits` committed recently, `alive` has a member.
        live("recent", 30), emptied("recent", 24 - 1 / 3600),
        commit("recent", ago(30), 3, "quiet-0", 1),
        live("commits", 30), emptied("commits", 29), commit("commits", ago(2), 30, "quiet-0", 1),
        live("alive", 300), commit("alive", ago(300), 3, "t-0", 1),
        # Neither group has a member, and topic `t` grows. `read` committed within the window,
        # `growing` did not.
        emptied("growing", 3), commit("growing", ago(2), 3, "t-0", 10),
        emptied("read", 3), commit("read", ago(0.5), 3, "t-0", 10),
        # The topic of group `topicless` was deleted, and so was one of the two topics of group
        # `half`.
        live("topicless", 3), commit("topicless", ago(2), 3, "gone-0", 10),
        live("half", 3), commit("half", ago(2), 3, "gone-0", 10),
        commit("half", ago(2), 4, "quiet-0", 1),
        # Groups with generated names, some with members and some without.
        emptied("console-consumer-48213", 1), live("console-consumer-7", 1),
        emptied("console-consumer-x", 1), emptied(f"test-{UUID}", 1),
        emptied(UUID.replace("-", ""), 1), emptied("spark-kafka-source-0f8fad5b-driver-0", 1),
        # A standalone consumer without members, silent for two days.
        commit("standalone", ago(48), 3, "quiet-0", 1),
        # Removed groups: `removed` has no offsets, `husk` has one offset.
        live("removed", 300), removal("removed", ago(299), 5),
        live("husk", 300), commit("husk", ago(300), 3, "quiet-0", 1), removal("husk", ago(299), 5),
    ]  # fmt: skip


def test_why_a_group_seems_abandoned() -> None:
    """Each abandoned group has a row with its reasons, times, client and kept bytes."""
    records = [
        {"topic": "t", "partition": 0, "offset": 99 - hours, "timestamp_ms": ago(hours / 4),
         "record_bytes": 1} for hours in range(100)
    ] + [
        {"topic": "quiet", "partition": number, "offset": 4, "timestamp_ms": ago(400),
         "record_bytes": 1} for number in range(2)
    ]  # fmt: skip
    ends = [
        {"topic": topic, "partition": number, "log_start": 0, "log_end": log_end, "source": "log"}
        for topic, number, log_end in (("t", 0, 100), ("quiet", 0, 5), ("quiet", 1, 5))
    ]
    frames = bronze(offsets_log=log(), topic_records=records, partition_ends=ends)
    made = abandoned_groups.make(frames, Questions(at_ms=AT_MS))
    known, nobody = ("client-m", "/10.0.0.1"), (None, None)

    def litter(group: str, family: str) -> tuple[Any, ...]:
        return (
            group, ["litter_name"], family, 0, None, ago(1), HOUR_MS, *nobody, 0, None, 100
        )  # fmt: skip

    assert rows_of(made, schema.ABANDONED_GROUPS) == [
        # Columns: group, reasons, family, members, last commit, empty since, silent, client,
        # offsets, lag, bytes.
        litter(UUID.replace("-", ""), "*"),
        litter("console-consumer-48213", "console-consumer-*"),
        ("growing", ["lag_grows_without_members"], None, 0, ago(2), ago(3), 2 * HOUR_MS, *nobody,
         1, 90, 200),
        ("husk", ["empty_and_silent"], None, None, ago(300), None, 299 * HOUR_MS, *known, 1, 4,
         100),
        ("silent", ["empty_and_silent"], None, 0, ago(28), ago(24), 24 * HOUR_MS, *known, 1, 3,
         200),
        litter("spark-kafka-source-0f8fad5b-driver-0", "spark-kafka-source-*"),
        ("standalone", ["empty_and_silent"], None, None, ago(48), None, 48 * HOUR_MS, *nobody, 1,
         4, 100),
        litter(f"test-{UUID}", "test-*"),
        ("topicless", ["topic_gone"], None, 1, ago(2), None, 2 * HOUR_MS, *known, 1, None, 200),
    ]  # fmt: skip
