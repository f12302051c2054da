"""Share groups in `lag`: their positions are in the records of `__share_group_state`."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline import schema
from pipeline.inputs import Questions
from pipeline.sources.share_state import state_of
from pipeline.tables import data_loss_forecast, lag, rates
from protocol.share_state_log import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareStateValue,
    ShareUpdateKey,
    ShareUpdateValue,
    encode_share_state_key,
    encode_share_state_value,
)
from tests.pipeline.frames import bronze, rows_of
from tests.pipeline.tables.offset_rows import AT_MS, commit, ends, generation, records

TOPIC_ID = bytes(range(16))
TEXT_ID = "AAECAwQFBgcICQoLDA0ODw"
UNSET = -1


def snapshot(start: int, delivered: int) -> ShareSnapshotValue:
    """Return a snapshot of a share partition."""
    return ShareSnapshotValue(
        snapshot_epoch=1,
        state_epoch=1,
        leader_epoch=0,
        start_offset=start,
        delivery_complete_count=delivered,
        create_timestamp=0,
        write_timestamp=0,
        state_batches=[],
    )


def update(start: int, delivered: int) -> ShareUpdateValue:
    """Return an update of a share partition."""
    return ShareUpdateValue(
        snapshot_epoch=1,
        leader_epoch=0,
        start_offset=start,
        delivery_complete_count=delivered,
        state_batches=[],
    )


def written(
    offset: int, after_ms: int, value: ShareStateValue | None, group: str = "shared"
) -> dict[str, Any]:
    """Return a record's row of `share_state`, decoded from its bytes."""
    kind = ShareUpdateKey if isinstance(value, ShareUpdateValue) else ShareSnapshotKey
    key = kind(group_id=group, topic_id=TOPIC_ID, partition=0)
    state = state_of(
        {
            "log_partition": 3,
            "log_offset": offset,
            "log_timestamp_ms": AT_MS + after_ms,
            "key": encode_share_state_key(key),
            "value": None if value is None else encode_share_state_value(value),
        }
    )
    assert state is not None
    return {**state, "topic": "t"}


@pytest.mark.parametrize(
    ("states", "position", "behind"),
    [
        # The update moves the start offset; three records behind it are delivered.
        ([(1, snapshot(2, 0)), (2, update(4, 3))], 4, 3),
        # The update leaves the start offset where it is.
        ([(1, snapshot(2, 0)), (2, update(UNSET, 5))], 2, 3),
        # Before Kafka 4.3, the number of delivered records is unknown.
        ([(1, snapshot(2, UNSET))], 2, None),
        ([(1, snapshot(2, 0)), (2, None), (3, snapshot(9, 1))], 9, 0),
    ],
)
def test_the_lag_of_a_share_group(
    states: list[tuple[int, ShareStateValue | None]], position: int, behind: int | None
) -> None:
    """Lag is what Kafka's tool shows: log end - start offset - delivered offsets."""
    rows = [written(offset, -1000 * (10 - offset), value) for offset, value in states]
    made = bronze(
        share_state=rows,
        topic_records=records("t", 0, *((offset, -5000) for offset in range(10))),
        partition_ends=[ends("t", 0, 0, 10, topic_id=TEXT_ID)],
    )
    names = ("group", "source", "kind", "committed_offset", "lag", "state")
    found = rows_of(lag.make(made, Questions(AT_MS)), schema.LAG, *names)
    assert found == [("shared", "share", "share", position, behind, "OK")]


def test_a_removed_or_uninitialized_share_partition_has_no_row() -> None:
    """A tombstone removes the state; without a start offset nobody has read; old ids are gone."""
    made = bronze(
        share_state=[
            written(1, -9000, snapshot(2, 0)),
            written(2, -8000, None),
            written(3, -8000, snapshot(UNSET, UNSET), group="new"),
            {**written(4, -8000, snapshot(2, 0), group="old"), "topic_id": "OLD"},
        ],
        partition_ends=[ends("t", 0, 0, 10, topic_id=TEXT_ID)],
    )
    assert rows_of(lag.make(made, Questions(AT_MS)), schema.LAG) == []


def test_pace_and_loss_of_a_share_group() -> None:
    """A share group has a pace, an age and a forecast of loss, like a group that commits."""
    made = bronze(
        share_state=[
            written(1, -3_700_000, snapshot(0, 0)),
            written(2, -100_000, snapshot(3600, 0)),
        ],
        topic_records=records("t", 0, *((n, -4_000_000 + 1000 * n) for n in range(4000))),
        partition_ends=[ends("t", 0, 0, 4000, topic_id=TEXT_ID, retention_ms=1_000_000)],
    )
    asked = Questions(AT_MS)
    assert rows_of(rates.make(made, asked), schema.RATES, "consumed_per_second", "lag") == [
        (1.0, 400)
    ]
    assert rows_of(lag.make(made, asked), schema.LAG, "oldest_unread_age_ms") == [(400_000,)]
    loss = data_loss_forecast.make(made, asked)
    assert rows_of(loss, schema.DATA_LOSS_FORECAST, "slack_ms") == [(600_000,)]


def test_every_reader_has_a_kind() -> None:
    """The kind is the type of the group's last generation; a group without members is `simple`."""
    epoch = {"kind": "streams_group_metadata", "record_type": 17, "members": None}
    made = bronze(
        offsets_log=[
            commit(1, ("classic", "t", 0), 1, -100),
            generation(2, "classic", -200, [(["t"], {"t": [0]})]),
            commit(3, ("streams", "t", 0), 1, -100),
            {**generation(4, "streams", -200, []), **epoch},
            commit(5, ("simple", "t", 0), 1, -100),
        ],
        partition_ends=[ends("t", 0, 0, 10)],
    )
    found = dict(rows_of(lag.make(made, Questions(AT_MS)), schema.LAG, "group", "kind"))
    assert found == {"classic": "classic", "streams": "streams", "simple": "simple"}


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, b""), (b"\x00\x07", b""), (b"\x00\x00\x00", b""), (b"", None)],
)
def test_malformed_records_are_left_out(key: bytes | None, value: bytes | None) -> None:
    """A record whose bytes are not a share state has no row."""
    place = {"log_partition": 0, "log_offset": 0, "log_timestamp_ms": 0}
    assert state_of({**place, "key": key, "value": value}) is None
