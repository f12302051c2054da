"""Loading a partition of the offsets topic: the last record of each key, and snapshots."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

from coordinator_server.coordinator.replay import OffsetsReplay, Restoring
from coordinator_server.coordinator.snapshot import Decoding, encode_groups
from coordinator_server.core.groups.classic.metadata import GroupMetadata
from coordinator_server.core.groups.group import Group
from coordinator_server.core.groups.records import (
    CoordinatorRecord,
    encode_record,
    offset_tombstone,
)
from protocol.batch import EncodedBatch, Record, build_batch
from protocol.compression import Compression
from protocol.consumer_group_records import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from protocol.control_record import EndMarker
from protocol.errors import ProtocolError
from protocol.offsets_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
    RecordedMember,
    encode_key,
    encode_value,
)
from protocol.streams_group_records import StreamsGroupMetadataKey, StreamsGroupMetadataValue
from storage.cleaner import Cleaning
from storage.log_config import LogConfig
from storage.memory_disk import MemoryDisk
from storage.partition_log import PartitionLog
from tests.harness.groups import GroupBroker
from tests.harness.one_group import blank_group, durable_state
from tests.unit.storage.support import DIRECTORY, NOW_MS, flip, open_log, own

Pair = tuple[bytes | None, bytes | None]


def new_group(group_id: str) -> GroupMetadata:
    """Return a blank group."""
    return blank_group(group_id)


def commit(group: str, partition: int, offset: int, **fields: Any) -> CoordinatorRecord:
    """Return the record of a committed offset of topic `t`."""
    value = OffsetCommitValue(offset=offset, commit_timestamp=NOW_MS, **fields)
    return OffsetCommitKey(group=group, topic="t", partition=partition), value


def described(group: str, *members: str) -> CoordinatorRecord:
    """Return the metadata record of a group."""
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol="range",
        leader=members[0],
        current_state_timestamp=NOW_MS,
        members=[
            RecordedMember(member_id=one, client_id="c", client_host="/h", session_timeout=1)
            for one in members
        ],
    )
    return GroupMetadataKey(group=group), value


def batch(
    pairs: Iterable[Pair], *, producer_id: int = -1, control: bool = False, compressed: bool = False
) -> EncodedBatch:
    """Return a batch of records; a batch with a producer id is transactional."""
    return build_batch(
        [Record(offset, NOW_MS, key, value) for offset, (key, value) in enumerate(pairs)],
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        transactional=producer_id >= 0,
        control=control,
        compression=Compression.GZIP if compressed else Compression.NONE,
    )


def marker(producer_id: int, *, commits: bool) -> EncodedBatch:
    """Return the marker of a transaction."""
    key = b"\0\0\0\1" if commits else b"\0\0\0\0"
    built = batch([(key, bytes(6))], producer_id=producer_id, control=True)
    return built._replace(marker=EndMarker(commits, 0))


def log_of(*batches: EncodedBatch) -> PartitionLog:
    """Return a log with these batches."""
    log = open_log(MemoryDisk())
    for one in batches:
        log.append_own(one, NOW_MS)
    return log


def plain(*records: CoordinatorRecord) -> EncodedBatch:
    """Return a non-transactional batch of records."""
    return batch([encode_record(record) for record in records])


def load(log: PartitionLog) -> tuple[dict[str, Group], OffsetsReplay, Restoring]:
    """Return the groups that are loaded from the log."""
    replay = OffsetsReplay(log)
    for _ in replay.steps():
        pass
    restoring = Restoring(new_group)
    for _ in restoring.steps(replay.latest.items()):
        pass
    return restoring.groups, replay, restoring


def offsets(log: PartitionLog, group: str = "g") -> dict[int, int]:
    """Return the committed offsets of topic `t` in the log."""
    groups, _, _ = load(log)
    found = groups[group].offsets.by_topic.get("t", {}) if group in groups else {}
    return {partition: value.offset for partition, value in found.items()}


def test_the_last_record_of_a_key_counts() -> None:
    """The last commit of a key wins, within and across batches, with and without metadata."""
    log = log_of(
        plain(commit("g", 0, 1), commit("g", 1, 1, metadata="m"), commit("h", 0, 9)),
        plain(commit("g", 1, 2), commit("g", 0, 2, metadata="m"), commit("g", 0, 3)),
        batch([encode_record(commit("g", 2, 5))], compressed=True),
    )
    assert offsets(log) == {0: 3, 1: 2, 2: 5}
    assert offsets(log, "h") == {0: 9}


def test_what_is_loaded_is_what_was_replayed_live() -> None:
    """Loading gives the same groups as replaying each record when it was written."""
    records = [
        commit("g", 0, 1),
        described("g", "m-1"),
        commit("g", 7, 2, leader_epoch=4, metadata="é", topic_id=bytes(range(16))),
        commit("g", 8, 2, expire_timestamp=NOW_MS + 5),
        described("g", "m-1", "m-2"),
        commit("gone", 0, 3),
        commit("g", 9, 3),
        offset_tombstone("g", "t", 9),
        offset_tombstone("gone", "t", 0),
        (GroupMetadataKey(group="gone"), None),
        commit("g", -1, 3),
        *[commit("g", 10 + n, n, topic_id=bytes([n % 2 + 1]) * 16) for n in range(6)],
        commit("g", 16, 7, metadata="m", topic_id=bytes([1]) * 16),
        commit("g", 17, 7, leader_epoch=3),
    ]
    live = new_group("g")
    for record in records:
        if getattr(record[0], "group", "") == "g":
            live.replay(record)
    groups, _, _ = load(log_of(*[plain(record) for record in records]))
    assert list(groups) == ["g"]
    assert durable_state(groups["g"]) == durable_state(live)
    assert not groups["g"].is_new


def test_offsets_of_a_topic_share_its_id() -> None:
    """All loaded offsets of a topic share one topic id object."""
    records = [commit("g", n, n, topic_id=bytes(range(16))) for n in range(5)]
    groups, _, _ = load(log_of(plain(*records)))
    loaded = groups["g"].offsets.by_topic["t"]
    assert {value.topic_id for value in loaded.values()} == {bytes(range(16))}
    assert len({id(value.topic_id) for value in loaded.values()}) == 1


def test_tombstones_end_what_came_before() -> None:
    """An offset that a tombstone removed may be committed again."""
    log = log_of(
        plain(commit("g", 0, 1), commit("g", 1, 1)),
        plain(offset_tombstone("g", "t", 0), offset_tombstone("g", "t", 1)),
        plain(commit("g", 1, 5)),
    )
    assert offsets(log) == {1: 5}


def test_a_transaction_counts_when_it_is_committed() -> None:
    """A transactional offset takes effect when its transaction is committed.

    A plain commit that follows the transactional offset in the log takes precedence.
    """
    one, two = [encode_record(commit("g", 0, 1))], [encode_record(commit("g", 1, 1))]
    assert offsets(log_of(batch(one, producer_id=5))) == {}
    assert offsets(log_of(batch(one, producer_id=5), marker(5, commits=False))) == {}
    assert offsets(log_of(batch(one, producer_id=5), marker(5, commits=True))) == {0: 1}
    log = log_of(
        plain(commit("g", 0, 0), commit("g", 1, 0)),
        batch(one, producer_id=5),
        batch(two, producer_id=6),
        plain(commit("g", 0, 7)),
        marker(6, commits=True),
        marker(5, commits=True),
        batch(one, producer_id=5),
        marker(5, commits=True),
    )
    assert offsets(log) == {0: 1, 1: 1}
    log = log_of(batch(one, producer_id=5), plain(commit("g", 0, 7)), marker(5, commits=True))
    assert offsets(log) == {0: 7}


def test_the_later_of_two_transactions_wins_whichever_ends_first() -> None:
    """If two transactions wrote a key, the later record in the log wins, not the later marker.

    The cleaner uses the same order.
    """
    one, two = [encode_record(commit("g", 0, 1))], [encode_record(commit("g", 0, 2))]
    for first, second in ((5, 6), (6, 5)):
        log = log_of(
            batch(one, producer_id=5),
            batch(two, producer_id=6),
            marker(first, commits=True),
            marker(second, commits=True),
        )
        assert offsets(log) == {0: 2}


def test_a_control_batch_that_compaction_emptied_ends_nothing() -> None:
    """Neither an emptied control batch nor an unknown control record ends a transaction."""
    emptied = build_batch(
        [], base_offset=0, producer_id=5, producer_epoch=0, transactional=True, control=True
    )
    other = batch([(b"\0\0\0\2", bytes(6))], producer_id=5, control=True)
    one = [encode_record(commit("g", 0, 1))]
    log = log_of(batch(one, producer_id=5), emptied, other, marker(5, commits=True))
    assert offsets(log) == {0: 1}


@pytest.mark.parametrize("seed", range(20))
def test_compaction_changes_no_group(seed: int) -> None:
    """Compaction at any time does not change the groups that are loaded from the log.

    The log has interleaved transactions (committed, aborted, open), plain commits and tombstones.
    """
    random = Random(seed)
    config = LogConfig(cleanup_policy=("compact",), segment_bytes=900, delete_retention_ms=10)
    log = open_log(MemoryDisk(), config)
    now_ms = NOW_MS
    for number in range(120):
        producer_id = random.randrange(3)
        record = commit("g", random.randrange(5), number)
        kind = random.random()
        if kind < 0.4:
            log.append_own(batch([encode_record(record)], producer_id=producer_id), NOW_MS)
        elif kind < 0.65:
            log.append_own(marker(producer_id, commits=random.random() < 0.5), NOW_MS)
        elif kind < 0.85:
            log.append_own(plain(record), NOW_MS)
        else:
            log.append_own(plain(offset_tombstone("g", "t", random.randrange(5))), NOW_MS)
        if random.random() < 0.1:
            before = offsets(log)
            log.roll(NOW_MS)
            now_ms += 7
            for _ in Cleaning(log, 0, now_ms).run():
                pass
            assert offsets(log) == before


def test_unknown_and_damaged_records_are_counted_and_left() -> None:
    """Unknown and damaged records are counted and skipped, and the last reason is kept."""
    no_value = encode_key(commit("g", 3, 0)[0])
    streams_group = encode_key(StreamsGroupMetadataKey(group_id="s"))
    epoch = encode_value(StreamsGroupMetadataValue(epoch=5), 0)
    log = log_of(
        plain(commit("g", 0, 1)),
        batch([(b"\0\x63", b"?"), (b"\0", b"?"), (None, b"?"), (no_value, b"")]),
        batch([(streams_group, epoch)]),
        plain(commit("g", 1, 1)),
    )
    groups, replay, restoring = load(log)
    assert offsets(log) == {0: 1, 1: 1}
    assert list(groups) == ["g", "s"]
    assert (replay.damaged, restoring.skipped) == (0, 4)
    assert restoring.last_reason
    count_too_high = bytearray(plain(commit("g", 2, 1)).to_bytes())
    count_too_high[60] = 9
    log.append_own(own(bytes(count_too_high)), NOW_MS)
    _, replay, _ = load(log)
    assert replay.damaged == 1
    assert "the batch at offset 7" in replay.last_reason


def test_a_batch_that_lost_its_length_ends_the_load() -> None:
    """A batch whose length was damaged on disk raises an error instead of an endless load."""
    disk = MemoryDisk()
    log = open_log(disk)
    first = log.append_own(plain(commit("g", 0, 1)), NOW_MS)
    second = log.append_own(plain(commit("g", 1, 1)), NOW_MS)
    assert (first.base_offset, second.base_offset) == (0, 1)
    flip(disk, f"{DIRECTORY}/{0:020d}.log", plain(commit("g", 0, 1)).header.size_bytes + 10)
    with pytest.raises(ProtocolError, match="no whole batch at offset 1"):
        load(log)


def test_offsets_of_very_old_brokers_count() -> None:
    """Offset records of very old brokers (key type 0) are loaded."""
    key = LegacyOffsetCommitKey(group="g", topic="t", partition=4)
    value = LegacyOffsetCommitValue(offset=11, metadata="", commit_timestamp=NOW_MS)
    assert offsets(log_of(batch([(encode_key(key), encode_value(value, 0))]))) == {4: 11}


def test_a_snapshot_holds_the_hard_state() -> None:
    """A snapshot restores groups exactly, also those without offsets or without a record."""
    groups, _, _ = load(
        log_of(
            plain(
                described("both", "m-1"),
                *[commit("both", partition, partition * 2**40) for partition in range(50)],
                commit("both", 50, 1, metadata="ü", leader_epoch=2, topic_id=bytes(range(16))),
                commit("both", 51, 1, expire_timestamp=NOW_MS),
                described("no offsets", "m-1"),
                commit("no record", 0, -1),
            )
        )
    )
    decoding = Decoding(encode_groups(groups.values()), new_group)
    steps = sum(1 for _ in decoding.steps())
    assert steps == 0
    assert {name: durable_state(group) for name, group in decoding.groups.items()} == {
        name: durable_state(group) for name, group in groups.items()
    }


def test_long_work_is_done_in_steps() -> None:
    """Many offsets are loaded in steps, from the log or from a snapshot."""
    log = log_of(*[plain(*[commit(f"g{n}", p, p) for p in range(1000)]) for n in range(5)])
    replay = OffsetsReplay(log)
    assert sum(1 for _ in replay.steps()) >= 2
    restoring = Restoring(new_group)
    assert sum(1 for _ in restoring.steps(replay.latest.items())) == 2
    decoding = Decoding(encode_groups(restoring.groups.values()), new_group)
    assert sum(1 for _ in decoding.steps()) == 2
    assert len(decoding.groups) == 5


def test_members_are_loaded_in_steps_too() -> None:
    """A snapshot with very many members is loaded in steps, even without offsets."""
    group: Group = new_group("g")
    for number in range(4000):
        key = ConsumerGroupMemberMetadataKey(group_id="g", member_id=str(number))
        group = group.replay((key, ConsumerGroupMemberMetadataValue()))
    decoding = Decoding(encode_groups([group]), new_group)
    assert sum(1 for _ in decoding.steps()) == 2
    assert decoding.groups["g"].member_count == 4000


def test_a_clean_stop_leaves_snapshots_for_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a clean stop groups are loaded from snapshots; after a kill, from the log."""
    disk = MemoryDisk()
    broker = GroupBroker(disk)
    broker.join("g")
    broker.commit("h", 5)
    broker.groups.stop()
    broker.topics.close()
    monkeypatch.setattr("coordinator_server.coordinator.offsets_partition.OffsetsReplay", None)
    broker = GroupBroker(disk)
    broker.turn()
    assert broker.committed("h") == 5
    assert len(broker.classic("g").membership.members) == 1
    broker.commit("h", 6)
    disk.processes_died()
    monkeypatch.undo()
    broker = GroupBroker(disk)
    broker.turn()
    assert broker.committed("h") == 6
    broker.groups.stop()
