"""`verify-log`: intact data passes, and each kind of damage is reported."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator_server.tools.verify_log import LogVerification
from protocol.batch import Record, build_batch
from protocol.batch_header import read_header
from protocol.crc32c import crc32c
from storage.maintenance import maintenance_steps
from tests.conformance.odd_batches.encode import CODECS, Odd, Rec
from tests.unit.storage.support import NOW_MS, TOPIC_ID, keyed
from tests.unit.tools.support import SEGMENTS, flip, make_data_directory, open_manager, run


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an intact data directory, which tests must not change."""
    directory = tmp_path_factory.mktemp("whole")
    make_data_directory(directory)
    return directory


@pytest.fixture
def data(whole: Path, tmp_path: Path) -> Path:
    """Return a copy of the directory, to be damaged."""
    return Path(shutil.copytree(whole, tmp_path / "data"))


def test_what_our_storage_wrote_is_whole(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Segments of all codecs, indexes, snapshots and checkpoints pass `verify-log`.

    The output counts partitions, batches and records.
    """
    assert run("verify-log", whole) == 0
    out = capsys.readouterr().out
    assert out.startswith("2 partitions, ")
    assert "120 batches, 360 records" in out
    assert out.endswith("0 errors, 0 notes\n")
    verification = LogVerification(whole)
    findings = verification.run()
    assert findings.index_entries > 20
    assert findings.segments > 4
    assert verification.ends == {("t", 0): (0, 180), ("t", 1): (0, 180)}


def test_a_partition_can_be_checked_alone(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The directory of one partition can be checked alone."""
    assert run("verify-log", whole / "t-1") == 0
    assert capsys.readouterr().out.startswith("1 partitions, ")


def test_what_kafka_wrote_is_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kafka's segments pass `verify-log`; their missing indexes are notes."""
    assert run("verify-log", SEGMENTS) == 0
    out = capsys.readouterr().out
    assert "6 partitions, 6 segments, 77 batches, 102 records, 14769 bytes" in out
    assert "note: " in out


def test_a_compacted_log_is_whole(tmp_path: Path) -> None:
    """A compacted log, with gaps and rebuilt indexes, passes `verify-log`."""
    manager = open_manager(tmp_path, internal_segment_bytes="2048", index_interval_bytes="128")
    manager.create_topic("t", TOPIC_ID, 1, {"cleanup.policy": "compact"})
    log = manager.log("t", 0)
    for number in range(200):
        log.append(keyed((b"k%d" % (number % 7), b"v%d" % number * 9)), NOW_MS)
    log.roll(NOW_MS)
    assert not [step for step in maintenance_steps(manager, NOW_MS) if isinstance(step, Exception)]
    manager.close()
    findings = LogVerification(tmp_path).run()
    assert findings.errors == []
    assert findings.records < 50


def first_log(data: Path) -> Path:
    """Return the first segment of t-0."""
    return data / "t-0" / f"{0:020d}.log"


def second_log(data: Path) -> Path:
    """Return the second segment of t-0."""
    return sorted((data / "t-0").glob("*.log"))[1]


def flip_in_the_middle(data: Path) -> None:
    """Flip a bit of a record."""
    flip(first_log(data), 400)


def tear_the_tail(data: Path) -> None:
    """Cut the last bytes of a sealed segment."""
    path = second_log(data)
    path.write_bytes(path.read_bytes()[:-3])


def repeat_a_batch(data: Path) -> None:
    """Repeat a batch with the same offsets."""
    path = sorted((data / "t-0").glob("*.log"))[-1]
    contents = path.read_bytes()
    size = read_header(contents).size_bytes
    path.write_bytes(contents + contents[:size])


def rewrite_first_batch(data: Path, position: int, contents: bytes) -> None:
    """Put other bytes into the first batch, and correct the CRC."""
    path = first_log(data)
    log = bytearray(path.read_bytes())
    end = read_header(bytes(log)).size_bytes
    log[position : position + len(contents)] = contents
    log[17:21] = crc32c(bytes(log[21:end])).to_bytes(4, "big")
    path.write_bytes(log)


def test_batches_that_were_stored_unchecked_are_found(data: Path) -> None:
    """Invalid batches with a valid CRC are reported.

    The errors are a largest timestamp of -1 (sarama before 1.45.1), a wrong count, and an
    undecodable payload.
    """
    for position, contents, reason in (
        (35, b"\xff" * 8, "largest timestamp -1 in the header"),
        (57, b"\x00\x00\x00\x01", "after 1 records"),
        (21, b"\x00\x04", "zstd"),
    ):
        before = first_log(data).read_bytes()
        rewrite_first_batch(data, position, contents)
        assert any(reason in line for line in LogVerification(data).run().errors), reason
        first_log(data).write_bytes(before)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_offsets_that_do_not_rise_are_wrong_in_a_compressed_batch(
    codec: str, tmp_path: Path
) -> None:
    """Offsets that do not rise are an error in a compressed batch, and otherwise a note.

    Kafka and this broker accept any offsets in an uncompressed batch.
    """
    directory = tmp_path / "t-0"
    directory.mkdir()
    codecs = {"none": 0, **CODECS}
    odd = Odd((Rec(offset=0), Rec(offset=0), Rec(offset=0)), codec=codecs[codec])
    batch = odd.encode(NOW_MS)
    assert batch is not None
    (directory / f"{0:020d}.log").write_bytes(batch)
    findings = LogVerification(directory).run()
    found = {"none": findings.notes, "zstd": findings.errors}[codec]
    assert sum("a record of offset 0, 1 or more was due" in line for line in found) == 1
    assert not findings.errors or codec == "zstd"


def shift_an_offset_index(data: Path) -> None:
    """Let an index entry point into the middle of a batch."""
    path = first_log(data).with_suffix(".index")
    offset, position = struct.unpack(">ii", path.read_bytes()[:8])
    path.write_bytes(struct.pack(">ii", offset, position + 1) + path.read_bytes()[8:])


def point_an_index_at_another_batch(data: Path) -> None:
    """Change the offset of an index entry, so that its position belongs to another batch."""
    path = first_log(data).with_suffix(".index")
    offset, position = struct.unpack(">ii", path.read_bytes()[:8])
    path.write_bytes(struct.pack(">ii", offset - 1, position) + path.read_bytes()[8:])


def let_an_index_reach_too_far(data: Path) -> None:
    """Let an index entry point past the end of the log."""
    path = first_log(data).with_suffix(".index")
    path.write_bytes(path.read_bytes() + struct.pack(">ii", 9999, 99999))


def falsify_a_time_index(data: Path) -> None:
    """Give a time index entry a timestamp that its batch does not have."""
    path = first_log(data).with_suffix(".timeindex")
    timestamp_ms, offset = struct.unpack(">qi", path.read_bytes()[:12])
    path.write_bytes(struct.pack(">qi", timestamp_ms - 1, offset) + path.read_bytes()[12:])


def tear_an_index(data: Path) -> None:
    """Leave half an index entry."""
    path = first_log(data).with_suffix(".index")
    path.write_bytes(path.read_bytes()[:-3])


def falsify_an_epoch(data: Path) -> None:
    """Give the checkpoint another leader epoch than the batches."""
    (data / "t-0" / "leader-epoch-checkpoint").write_text("0\n1\n5 0\n")


def tear_an_epoch_checkpoint(data: Path) -> None:
    """Cut the checkpoint in the middle."""
    (data / "t-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n")


def damage_a_snapshot(data: Path) -> None:
    """Give a producer snapshot a wrong CRC."""
    flip(min((data / "t-0").glob("*.snapshot")), 12)


def count_too_many_records(data: Path) -> None:
    """Give a batch with a valid CRC a record count that is too high."""
    path = sorted((data / "t-0").glob("*.log"))[-1]
    good = build_batch([Record(500, NOW_MS, b"k", b"v")], leader_epoch=0).to_bytes()
    body = bytearray(good)
    body[60] = 2
    body[17:21] = crc32c(bytes(body[21:])).to_bytes(4, "big")
    path.write_bytes(path.read_bytes() + bytes(body))


def lose_the_topic_id(data: Path) -> None:
    """Empty the partition.metadata."""
    (data / "t-0" / "partition.metadata").write_text("version: 0\n")


def swap_the_topic_id(data: Path) -> None:
    """Give the directory the id of another topic of the same name."""
    (data / "t-0" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")


def damage_the_catalogue(data: Path) -> None:
    """Damage a line of topics.json before the last one."""
    path = data / "topics.json"
    path.write_text(path.read_text()[:-5] + "\n[]\n")


def damage_a_checkpoint(data: Path) -> None:
    """Give a checkpoint fewer entries than its count."""
    (data / "recovery-point-offset-checkpoint").write_text("0\n3\nt 0 1\n")


def empty_meta_properties(data: Path) -> None:
    """Remove the cluster id from meta.properties."""
    (data / "meta.properties").write_text("#\nversion=1\n")


DAMAGES: list[tuple[Callable[[Path], None], str]] = [
    (flip_in_the_middle, "CRC is"),
    (tear_the_tail, "torn batch"),
    (repeat_a_batch, "where 180 or more is due"),
    (shift_an_offset_index, "where no batch with that end begins"),
    (point_an_index_at_another_batch, "where no batch with that end begins"),
    (let_an_index_reach_too_far, "lies behind the end of the log"),
    (falsify_a_time_index, "whose batch has"),
    (tear_an_index, "of a torn entry"),
    (falsify_an_epoch, "the checkpoint says 5"),
    (tear_an_epoch_checkpoint, "leader-epoch-checkpoint: is damaged"),
    (damage_a_snapshot, "is no whole producer snapshot"),
    (count_too_many_records, "position "),
    (lose_the_topic_id, "names no topic id"),
    (swap_the_topic_id, "belongs to another topic"),
    (damage_the_catalogue, "topics.json"),
    (damage_a_checkpoint, "recovery-point-offset-checkpoint: is damaged"),
    (empty_meta_properties, "lacks cluster.id"),
]


@pytest.mark.parametrize(("harm", "said"), DAMAGES, ids=lambda one: getattr(one, "__name__", ""))
def test_damage_is_found(
    data: Path, harm: Callable[[Path], None], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each kind of damage gives an error with file and reason, and exit code 1."""
    harm(data)
    assert run("verify-log", data) == 1
    errors = [line for line in capsys.readouterr().out.splitlines() if line.startswith("ERROR: ")]
    assert any(said in line for line in errors), errors


def test_what_a_start_mends_is_a_note(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing index and the leftover of a compaction are notes, with exit code 0."""
    first_log(data).with_suffix(".index").unlink()
    (data / "t-0" / f"{0:020d}.log.cleaned").write_bytes(b"half")
    assert run("verify-log", data) == 0
    out = capsys.readouterr().out
    assert "note: " in out
    assert "0 errors, 2 notes" in out


def test_preallocated_indexes_are_whole(data: Path) -> None:
    """Zeros after the entries of an active segment's index, as Kafka leaves them, are accepted."""
    for suffix in (".index", ".timeindex"):
        path = first_log(data).with_suffix(suffix)
        path.write_bytes(path.read_bytes() + bytes(2400))
    assert LogVerification(data).run().errors == []


def test_a_directory_without_logs_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A directory without logs is an error, with exit code 2."""
    assert run("verify-log", tmp_path) == 2
    assert "no data directory" in capsys.readouterr().err
    assert run("verify-log", tmp_path / "missing") == 2
    assert "No such file" in capsys.readouterr().err
