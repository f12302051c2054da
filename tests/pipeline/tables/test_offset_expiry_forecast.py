"""Table `offset_expiry_forecast`: one group per rule of Kafka, compared with our broker as well."""

from __future__ import annotations

import json
from typing import Any

from coordinator_server.core.groups.classic.lifecycle import load_finished
from coordinator_server.core.groups.effects import Effects
from coordinator_server.core.groups.retention import expire_offsets
from coordinator_server.core.groups.settings import GroupSettings
from pipeline import schema
from pipeline.inputs import Questions
from pipeline.tables import offset_expiry_forecast
from protocol import offsets_log as log
from protocol.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from tests.harness.one_group import blank_group
from tests.pipeline.frames import bronze, rows_of
from tests.pipeline.tables.offset_rows import AT_MS, Row, commit, ends, generation, removal

RETENTION_MS = 1000
CHECK_MS = 100
READS_T = [(["t"], {"t": [0]})]
OWN: Row = {"value_version": 1, "expire_timestamp_ms": AT_MS + 50}


def details(kind: str, log_offset: int, group: str, **more: Any) -> Row:
    """Return a record of a KIP-848 group."""
    place = {"log_partition": 0, "log_offset": log_offset, "log_timestamp_ms": AT_MS - 9000}
    return {**place, "kind": kind, "tombstone": False, "group": group, **more}


def says(value: Any, key: Any = None) -> str:
    """Return key and value in the decoder's JSON."""
    return json.dumps({"key": key or {}, "value": value})


CLASSIC = (
    commit(10, ("simple", "t", 0), 5, -400),
    commit(11, ("simple", "own", 0), 5, -400, **OWN),
    generation(20, "emptied", -300),
    commit(21, ("emptied", "t", 0), 5, -2000),
    # The retention time starts when the group became empty. The later commit of a standalone
    # consumer does not restart it.
    commit(22, ("emptied", "u", 0), 1, -100),
    commit(23, ("emptied", "own", 0), 1, -100, **OWN),
    generation(30, "empty_since_when", -300, state_timestamp_ms=None),
    commit(31, ("empty_since_when", "t", 0), 5, -500),
    generation(40, "reading", -9000, [(["t"], {"t": [0]}), (["own"], {"own": [0]})]),
    commit(41, ("reading", "t", 0), 20, -9000),
    commit(42, ("reading", "u", 0), 5, -1500),
    # An offset of a subscribed topic does not expire, even with an expiry time of its own.
    commit(43, ("reading", "own", 0), 5, -9000, **OWN),
    commit(44, ("reading", "own_unread", 0), 5, -9000, **OWN),
    generation(50, "unreadable", -9000, [*READS_T, (None, {})]),
    commit(51, ("unreadable", "u", 0), 5, -9000),
    commit(52, ("unreadable", "own", 0), 5, -9000, **OWN),
    generation(60, "connect", -9000, [(None, {})], protocol_type="connect"),
    commit(61, ("connect", "t", 0), 1, -9000),
    commit(62, ("connect", "own", 0), 1, -9000, **OWN),
    generation(70, "connect_empty", -300, protocol_type="connect"),
    commit(71, ("connect_empty", "t", 0), 5, -9000),
    generation(80, "left_over", -9000, READS_T),
    generation(81, "left_over", -800, members=[], tombstone=True, protocol_type=None),
    commit(82, ("left_over", "t", 0), 5, -700),
    commit(83, ("removed", "t", 0), 5, -700),
    removal(84, ("removed", "t", 0), -600),
)
MEMBER = "consumer_group_member_metadata"
EXPRESSION = "consumer_group_regular_expression"
MODERN = (
    details("consumer_group_metadata", 100, "modern", generation=1),
    details(MEMBER, 101, "modern", member_id="m", details=says({"subscribedTopicNames": ["x"]})),
    details(MEMBER, 102, "modern", member_id="m", details=says({"subscribedTopicNames": ["t"]})),
    details(
        EXPRESSION,
        103,
        "modern",
        details=says({"topics": ["by_name"]}, {"regularExpression": "by.*"}),
    ),
    commit(104, ("modern", "t", 0), 5, -400),
    commit(105, ("modern", "x", 0), 5, -400),
    commit(106, ("modern", "by_name", 0), 5, -400),
    # In a KIP-848 group, the retention time starts at the commit, not when the group became empty.
    details("consumer_group_metadata", 110, "modern_empty", generation=2),
    details(MEMBER, 108, "modern_empty", member_id="m", details=says({"subscribedTopicNames": []})),
    details(MEMBER, 109, "modern_empty", member_id="m", details=says(None), tombstone=True),
    commit(111, ("modern_empty", "t", 0), 5, -400),
    # Group `changed` was classic and became a KIP-848 group.
    generation(120, "changed", -9000, [(["t"], {})]),
    generation(121, "changed", -8000, members=[], tombstone=True, protocol_type=None),
    details("consumer_group_metadata", 122, "changed", generation=2),
    details(MEMBER, 123, "changed", member_id="m", details=says({"subscribedTopicNames": ["u"]})),
    commit(124, ("changed", "t", 0), 5, -400),
    commit(125, ("changed", "u", 0), 5, -400),
)
NEVER = ("never", None, None)
# Columns: group, topic, committed offset, base, base_ms, expires_ms (relative to the instant).
EXPECTED: list[tuple[str, str, int, str, int | None, int | None]] = [
    ("simple", "t", 5, "commit", -400, 600),
    ("simple", "own", 5, "own", -400, 50),
    ("emptied", "t", 5, "empty", -300, 700),
    ("emptied", "u", 1, "empty", -300, 700),
    ("emptied", "own", 1, "own", -100, 50),
    ("empty_since_when", "t", 5, "commit", -500, 500),
    ("reading", "t", 20, *NEVER),
    ("reading", "u", 5, "commit", -1500, -500),
    ("reading", "own", 5, *NEVER),
    ("reading", "own_unread", 5, "own", -9000, 50),
    ("unreadable", "u", 5, *NEVER),
    ("unreadable", "own", 5, *NEVER),
    ("connect", "t", 1, *NEVER),
    ("connect", "own", 1, *NEVER),
    ("connect_empty", "t", 5, "empty", -300, 700),
    ("left_over", "t", 5, "commit", -700, 300),
    ("modern", "t", 5, *NEVER),
    ("modern", "x", 5, "commit", -400, 600),
    ("modern", "by_name", 5, *NEVER),
    ("modern_empty", "t", 5, "commit", -400, 600),
    ("changed", "t", 5, "commit", -400, 600),
    ("changed", "u", 5, *NEVER),
]
# For each offset: how many records a reset to the latest offset would skip, and how many a reset
# to the earliest offset would repeat. Topic `t` has records 2 to 8, the records of other topics
# are unknown.
RESETS = {("t", 5): (4, 3), ("t", 20): (0, 18), ("t", 1): (8, 0)}


def test_when_offsets_expire() -> None:
    """Each offset has the expected base, expiry, and counts of skipped and repeated records."""
    made = bronze(offsets_log=[*CLASSIC, *MODERN], partition_ends=[ends("t", 0, 2, 9)])
    questions = Questions(
        AT_MS, offsets_retention_ms=RETENTION_MS, offsets_check_interval_ms=CHECK_MS
    )
    expected = []
    for group, topic, offset, base, base_at, expires in EXPECTED:
        times: tuple[int | None, ...] = (None, None, None, None)
        if base_at is not None and expires is not None:
            expires_ms = AT_MS + expires
            times = (AT_MS + base_at, expires_ms, expires_ms + CHECK_MS, expires)
        resets = RESETS.get((topic, offset), (None, None))
        expected.append((group, topic, 0, offset, base, *times, *resets))
    table = offset_expiry_forecast.make(made, questions)
    assert rows_of(table, schema.OFFSET_EXPIRY_FORECAST) == sorted(expected)


def test_the_broker_removes_them_at_that_very_time() -> None:
    """Our broker's coordinator removes each offset of these records at the forecast millisecond.

    It removes none a millisecond earlier, and offsets that never expire are kept for a hundred
    years.
    """
    classic = {row["group"] for row in CLASSIC}
    told = [row for row in EXPECTED if row[0] in classic]
    assert len(told) == 16
    for group, topic, _, _, _, expires in told:
        if expires is None:
            assert not _is_dropped(group, topic, AT_MS + 100 * 365 * 86_400_000), (group, topic)
        else:
            assert not _is_dropped(group, topic, AT_MS + expires - 1), (group, topic)
            assert _is_dropped(group, topic, AT_MS + expires), (group, topic)


def _is_dropped(group_id: str, topic: str, now_ms: int) -> bool:
    """Return whether the broker's check at `now_ms` removes the committed offset."""
    group = blank_group(group_id, GroupSettings(offsets_retention_ms=RETENTION_MS))
    for row in CLASSIC:
        if row["group"] == group_id:
            group.replay(_record(row))
    effects = Effects()
    load_finished(group, now_ms, effects)
    for _ in expire_offsets(group, now_ms, effects):
        pass
    keys = [key for write in effects.writes for key, _ in write.records]
    return topic in {key.topic for key in keys if isinstance(key, log.OffsetCommitKey)}


def _record(row: Row) -> Any:
    """Return the record from which a bronze row would be decoded."""
    if row["kind"] == "offset_commit":
        key = log.OffsetCommitKey(
            group=row["group"], topic=row["topic"], partition=row["partition"]
        )
        if row["tombstone"]:
            return key, None
        return key, log.OffsetCommitValue(
            offset=row["committed_offset"],
            metadata="",
            commit_timestamp=row["commit_timestamp_ms"],
            expire_timestamp=row.get("expire_timestamp_ms", -1),
        )
    group_key = log.GroupMetadataKey(group=row["group"])
    if row["tombstone"]:
        return group_key, None
    state_ms = row["state_timestamp_ms"]
    members = [
        log.RecordedMember(
            member_id=one["member_id"],
            client_id="client",
            client_host="/127.0.0.1",
            session_timeout=1000,
            subscription=_subscription(one["subscribed_topics"]),
            assignment=b"",
        )
        for one in row["members"]
    ]
    return group_key, log.GroupMetadataValue(
        protocol_type=row["protocol_type"],
        generation=1,
        protocol="range" if members else None,
        leader=members[0].member_id if members else None,
        current_state_timestamp=-1 if state_ms is None else state_ms,
        members=members,
    )


def _subscription(topics: list[str] | None) -> bytes:
    """Encode a subscription; for None, return bytes that are too short to be read."""
    if topics is None:
        return b"\0"
    return encode_subscription(
        ConsumerProtocolSubscription(topics=topics, user_data=None, owned_partitions=[])
    )
