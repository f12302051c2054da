"""Tables `offset_commits` and `current_offsets`."""

from __future__ import annotations

import datetime

from pipeline import schema
from pipeline.inputs import Questions
from pipeline.tables import current_offsets, offset_commits
from tests.pipeline.frames import bronze, rows_of
from tests.pipeline.tables.offset_rows import AT_MS, commit, generation, removal

DAY = datetime.date(2023, 11, 14)
READER = ("readers", "orders", 0)

LOG = (
    commit(10, READER, 5, -9000, topic_id="AAAAAAAAAAAAAAAAAAAAAQ"),
    commit(11, READER, 7, -8000, leader_epoch=3, metadata="note"),
    commit(12, ("other", "orders", 0), 1, -8000, value_version=1, expire_timestamp_ms=AT_MS + 5),
    generation(13, "readers", -7000),
    removal(14, READER, -6000),
    commit(15, READER, 2, -5000),
    # A key is committed again after its removal; log offsets, not timestamps, give the order.
    commit(16, READER, 3, -5500),
    commit(17, ("gone", "orders", 0), 9, -4000),
    removal(18, ("gone", "orders", 0), -3000),
    commit(19, ("other", "orders", 0), 4, -2000, problem="value ends early"),
    commit(20, ("late", "orders", 0), 6, 1000),
    removal(21, ("other", "orders", 0), 2000),
)


def test_every_commit_and_removal_is_an_event() -> None:
    """Every commit and removal has a row; undecodable records and other types have none."""
    made = offset_commits.make(bronze(offsets_log=LOG), Questions(AT_MS))
    orders = ("orders", 0)
    tombstone = ("tombstone", None, None, None, None, None, None, 0)
    expected = [
        (
            *("readers", *orders, "commit", 5, 0, "", AT_MS - 9000, None),
            *("AAAAAAAAAAAAAAAAAAAAAQ", 0, 10, AT_MS - 9000, DAY),
        ),
        (
            *("readers", *orders, "commit", 7, 3, "note", AT_MS - 8000, None),
            *(None, 0, 11, AT_MS - 8000, DAY),
        ),
        (
            *("other", *orders, "commit", 1, 0, "", AT_MS - 8000, AT_MS + 5),
            *(None, 0, 12, AT_MS - 8000, DAY),
        ),
        ("readers", *orders, *tombstone, 14, AT_MS - 6000, DAY),
        (
            "readers",
            *orders,
            "commit",
            2,
            0,
            "",
            AT_MS - 5000,
            None,
            None,
            0,
            15,
            AT_MS - 5000,
            DAY,
        ),
        (
            "readers",
            *orders,
            "commit",
            3,
            0,
            "",
            AT_MS - 5500,
            None,
            None,
            0,
            16,
            AT_MS - 5500,
            DAY,
        ),
        ("gone", *orders, "commit", 9, 0, "", AT_MS - 4000, None, None, 0, 17, AT_MS - 4000, DAY),
        ("gone", *orders, *tombstone, 18, AT_MS - 3000, DAY),
        ("late", *orders, "commit", 6, 0, "", AT_MS + 1000, None, None, 0, 20, AT_MS + 1000, DAY),
        ("other", *orders, *tombstone, 21, AT_MS + 2000, DAY),
    ]
    assert rows_of(made, schema.OFFSET_COMMITS) == expected


def test_the_day_is_that_of_utc() -> None:
    """`day` changes at midnight UTC."""
    midnight = datetime.datetime(2024, 3, 1, tzinfo=datetime.UTC)
    at_ms = int(midnight.timestamp() * 1000)
    log = [commit(one, READER, 1, at_ms - AT_MS - 1 + one) for one in (0, 1)]
    made = offset_commits.make(bronze(offsets_log=log), Questions(AT_MS))
    assert rows_of(made, schema.OFFSET_COMMITS, "day") == [
        (datetime.date(2024, 2, 29),),
        (datetime.date(2024, 3, 1),),
    ]


def test_a_tombstone_ends_the_life_of_a_key() -> None:
    """The last commit counts unless a tombstone follows; `commits` restarts after a tombstone."""
    made = bronze(offsets_log=LOG)
    assert rows_of(current_offsets.make(made, Questions(AT_MS)), schema.CURRENT_OFFSETS) == [
        ("late", "orders", 0, 6, 0, "", AT_MS + 1000, None, 1, 20),
        ("readers", "orders", 0, 3, 0, "", AT_MS - 5500, None, 2, 16),
    ]
    past = rows_of(current_offsets.make(made, Questions(AT_MS, past=True)), schema.CURRENT_OFFSETS)
    assert past == [
        ("other", "orders", 0, 1, 0, "", AT_MS - 8000, AT_MS + 5, 1, 12),
        ("readers", "orders", 0, 3, 0, "", AT_MS - 5500, None, 2, 16),
    ]
    earlier = Questions(AT_MS - 8000, past=True)
    assert rows_of(current_offsets.make(made, earlier), schema.CURRENT_OFFSETS) == [
        ("other", "orders", 0, 1, 0, "", AT_MS - 8000, AT_MS + 5, 1, 12),
        ("readers", "orders", 0, 7, 3, "note", AT_MS - 8000, None, 2, 11),
    ]
