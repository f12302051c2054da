"""The records of a commit are the same whether encoded in one pass or one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coordinator_server.coordinator.offsets_partition import LEAST_OFFSET_BYTES, RecordsBuilder
from coordinator_server.core.groups.commit_layout import LARGEST_KEPT, CommitLayout, layout_of
from coordinator_server.core.groups.offsets import CommittedOffset
from coordinator_server.core.groups.records import OffsetRecords, encode_record
from protocol.offsets_log import GroupMetadataKey
from protocol.raw_records import raw_keys
from protocol.uniform_records import LEAST_RECORDS, uniform_keys

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
TOPIC_IDS = st.sampled_from([bytes(16), bytes(range(16))])
TOPICS = st.lists(
    st.tuples(
        st.text(max_size=70),
        TOPIC_IDS,
        st.lists(st.tuples(INT32, INT64, INT32), min_size=1, max_size=90, unique_by=lambda x: x[0]),
    ),
    min_size=1,
    max_size=4,
)


def section(*writes: OffsetRecords, one_by_one: bool = False) -> tuple[bytes, int]:
    """Return the encoded records of some writes, and their count."""
    builder = RecordsBuilder(1 << 24)
    for records in writes:
        builder.add(list(records) if one_by_one else records)
    assert not builder.is_full
    return builder.section(), builder.count


def commit(
    topics: list[tuple[str, bytes, list[tuple[int, int, int]]]], time_ms: int = 1
) -> OffsetRecords:
    """Return the records of a commit of (partition, offset, leader epoch), with their layout."""
    layout = CommitLayout(
        "group",
        tuple((name, topic_id, tuple(row[0] for row in rows)) for name, topic_id, rows in topics),
    )
    offsets = [
        (name, {row[0]: CommittedOffset(row[1], row[2], "", time_ms, -1, topic_id) for row in rows})
        for name, topic_id, rows in topics
    ]
    return OffsetRecords("group", offsets, layout)


@given(topics=TOPICS, time_ms=INT64)
def test_one_pass_gives_the_bytes_of_single_records(
    topics: list[tuple[str, bytes, list[tuple[int, int, int]]]], time_ms: int
) -> None:
    """Encoding in one pass gives the bytes of single records, also with a cached layout."""
    records = commit(topics, time_ms)
    expected = section(records, one_by_one=True)
    assert section(records) == section(records) == expected


def test_only_the_first_write_of_a_batch_uses_its_layout() -> None:
    """Only the first write of a batch uses its cached layout, whose offset deltas start at 0."""
    first, second = commit([("t", bytes(16), [(0, 5, 1)])]), commit([("t", bytes(16), [(1, 6, 2)])])
    assert section(first, second) == section(first, second, one_by_one=True)
    builder = RecordsBuilder(1 << 20)
    builder.add([(GroupMetadataKey(group="other"), None)])
    builder.add(first)
    assert builder.count == 2
    assert builder.key_set is None


def test_batches_with_the_same_keys_say_so() -> None:
    """Repeated commits of one consumer have the same key set; a batch of other keys has another."""
    rows = [(partition, 1, 1) for partition in range(20)]
    sets = []
    for topics in ([("t", bytes(16), rows)], [("u", bytes(16), rows)]):
        records = commit(topics)
        for _ in range(2):
            builder = RecordsBuilder(1 << 20)
            builder.add(records)
            sets.append(builder.key_set)
    assert sets[0] is sets[1] is not None
    assert sets[2] is sets[3] is not None
    assert sets[0] is not sets[2]


def test_a_batch_has_a_largest_size() -> None:
    """A builder reports that it is full instead of exceeding the maximum batch size."""
    records = commit([("t", bytes(16), [(partition, 1, 1) for partition in range(50)])])
    size = len(section(records)[0])
    for limit, is_full in ((size, False), (size - 1, True)):
        builder = RecordsBuilder(limit)
        builder.add(records)
        assert builder.is_full == is_full
    builder = RecordsBuilder(100)
    builder.add(list(records))
    assert builder.is_full


def test_no_record_is_smaller_than_the_bound() -> None:
    """No record is smaller than the bound, so a full builder refuses only records without room."""
    for offset in (CommittedOffset(0), CommittedOffset(0, expire_timestamp=1)):
        key, value = encode_record(next(iter(OffsetRecords("", [("t", {0: offset})]))))
        assert value is not None
        assert len(key) + len(value) >= LEAST_OFFSET_BYTES
    records = OffsetRecords("g", [("t", dict.fromkeys(range(100), CommittedOffset(0)))])
    builder = RecordsBuilder(100 * (LEAST_OFFSET_BYTES + 1) - 1)
    builder.add(records)
    assert builder.is_full
    assert builder.count == 0


def test_layouts_are_kept_for_the_next_commit() -> None:
    """Layouts are cached for the next commit, unless they are too large or name a topic twice."""
    known = (("t", bytes(16), (0, 1)),)
    assert layout_of("g", known) is layout_of("g", known)
    assert layout_of("g", known) is not layout_of("h", known)
    large = (("t", bytes(16), tuple(range(LARGEST_KEPT + 1))),)
    assert layout_of("g", large) is not layout_of("g", large)
    assert layout_of("g", (*known, ("t", bytes(16), (2,)))) is None


@given(
    count=st.integers(1, 300),
    name=st.text(max_size=100),
    damage=st.none() | st.tuples(st.integers(0), st.integers(0, 255)),
)
def test_keys_of_one_layout_are_those_that_parsing_gives(
    count: int, name: str, damage: tuple[int, int] | None
) -> None:
    """`uniform_keys` returns the parsed keys or None, even if a byte of the records is damaged."""
    encoded, _ = section(commit([(name, bytes(16), [(n, n, 0) for n in range(count)])]))
    if damage is not None:
        place, value = damage
        place %= len(encoded)
        encoded = encoded[:place] + bytes([value]) + encoded[place + 1 :]
    keys = uniform_keys(encoded, count)
    if damage is None:
        assert (keys is not None) == (count >= LEAST_RECORDS)
    if keys is not None:
        parsed = list(raw_keys(encoded, count))
        assert keys == [record[4] for record in parsed]
        assert [record[3] for record in parsed] == list(range(count))
        assert all(record[5] for record in parsed)
        assert parsed[-1][1] == len(encoded)
