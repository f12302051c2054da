"""The catalogue of topics: appends, crashes, compaction, old files."""

from __future__ import annotations

import json
import stat
from collections import deque
from pathlib import Path

import pytest

from storage.checkpoints import topic_id_text
from storage.errors import StorageError
from storage.local_disk import LocalDisk
from storage.memory_disk import Crash, MemoryDisk
from storage.topic_catalogue import PartitionLeadership, TopicCatalogue, TopicRecord
from tests.unit.storage.support import overwrite

PATH = "data/topics.json"


def record(name: str, **configs: str) -> TopicRecord:
    """Return a topic with two partitions."""
    return TopicRecord(name, name.encode().ljust(16, b"-"), 2, configs)


def fresh() -> MemoryDisk:
    """Return a disk with an empty data directory."""
    disk = MemoryDisk()
    disk.mkdir("data")
    disk.sync_directory("")
    return disk


def state(catalogue: TopicCatalogue) -> tuple[object, ...]:
    """Return the state that a start would find."""
    return catalogue.topics, catalogue.deleting, catalogue.next_producer_id


def test_a_change_is_one_line_whatever_there_is() -> None:
    """The topics of one request are one line; existing topics are not written again."""
    disk = fresh()
    catalogue = TopicCatalogue(disk, "data")
    catalogue.put([record(f"t{number}") for number in range(500)])
    before, operations = disk.size(PATH), len(disk.operations)
    catalogue.put([record("a"), record("b")])
    assert disk.operations[operations:] == [("append", PATH), ("sync", PATH)]
    added = disk.read_file(PATH)[before:]
    assert added.count(b"\n") == 1
    assert [change["topic"]["name"] for change in json.loads(added)] == ["a", "b"]


def test_everything_is_found_again() -> None:
    """Topics with configs and leadership, unfinished deletions and producer ids are read again."""
    disk = fresh()
    catalogue = TopicCatalogue(disk, "data")
    led = record("led")._replace(leadership=(PartitionLeadership(1, 3, (1, 2)),))
    catalogue.put([record("kept"), record("gone", **{"retention.ms": "5"}), record("left"), led])
    catalogue.begin_deletion(["gone", "left"])
    catalogue.end_deletion("gone")
    assert catalogue.take_producer_ids(1000) == 0
    again = TopicCatalogue(disk, "data")
    assert state(again) == state(catalogue)
    assert list(again.deleting) == ["left"]
    assert again.topics["led"] == led
    assert again.take_producer_ids(1) == 1000


@pytest.mark.parametrize("tail", [b"[", b'[{"topic":{"na', b"\0\0\0\n", b'\0\0"a"}}]\n'])
def test_a_torn_tail_is_cut(tail: bytes) -> None:
    """The torn tail of a crashed write is ignored, and removed by the next write."""
    disk = fresh()
    TopicCatalogue(disk, "data").put([record("a")])
    overwrite(disk, PATH, disk.read_file(PATH) + tail)
    catalogue = TopicCatalogue(disk, "data")
    assert list(catalogue.topics) == ["a"]
    assert catalogue.dropped_bytes == len(tail)
    catalogue.put([record("b")])
    assert list(TopicCatalogue(disk, "data").topics) == ["a", "b"]
    for line in disk.read_file(PATH).splitlines():
        json.loads(line)


def test_reading_changes_nothing() -> None:
    """Reading changes nothing, not even a torn tail, as tools read a running broker's catalogue."""
    disk = fresh()
    TopicCatalogue(disk, "data").put([record("a")])
    overwrite(disk, PATH, disk.read_file(PATH) + b"[")
    operations = len(disk.operations)
    TopicCatalogue(disk, "data")
    assert len(disk.operations) == operations


@pytest.mark.parametrize(
    ("tail", "why"),
    [
        (b'[{"topic"\n', r"line 4, column 10: Expecting ':' delimiter"),
        (b'[{"topic":{"name":"b"}}]\n', "line 4: no field 'topic_id'"),
        (b'[{"odd":1}]\n', "line 4: an unknown change: odd"),
    ],
)
def test_a_damaged_last_line_stops_the_start(tail: bytes, why: str) -> None:
    """A damaged complete last line stops the start, because the line was acknowledged.

    The error has the line number and the reason.
    """
    disk = fresh()
    TopicCatalogue(disk, "data").put([record("a")])
    overwrite(disk, PATH, disk.read_file(PATH) + tail)
    with pytest.raises(StorageError, match=rf"topics\.json is damaged \({why}\)"):
        TopicCatalogue(disk, "data")


def test_a_damaged_line_stops_the_start() -> None:
    """A damaged line before the last line stops the start, because it was acknowledged."""
    disk = fresh()
    catalogue = TopicCatalogue(disk, "data")
    catalogue.put([record("a")])
    catalogue.put([record("b")])
    overwrite(disk, PATH, disk.read_file(PATH).replace(b'"name":"a"', b'"name:"a"'))
    with pytest.raises(StorageError, match=r"topics\.json is damaged"):
        TopicCatalogue(disk, "data")


def test_an_old_file_is_read_and_replaced() -> None:
    """An old file (one JSON object) is read, and replaced by a log with the first change."""
    disk = fresh()
    entry = {"name": "a", "topic_id": topic_id_text(bytes(range(16))), "partitions": 3}
    old = {
        "version": 1,
        "next_producer_id": 2000,
        "topics": [{**entry, "configs": {"retention.ms": "7"}, "leadership": [[1, 2, [1]]]}],
        "deleting": [{**entry, "name": "b", "configs": {}}],
    }
    overwrite(disk, PATH, json.dumps(old).encode())
    catalogue = TopicCatalogue(disk, "data")
    assert catalogue.is_mostly_dead
    leadership = (PartitionLeadership(1, 2, (1,)),)
    expected = TopicRecord("a", bytes(range(16)), 3, {"retention.ms": "7"}, leadership)
    assert catalogue.topics == {"a": expected}
    assert list(catalogue.deleting) == ["b"]
    catalogue.put([record("c")])
    again = TopicCatalogue(disk, "data")
    assert state(again) == state(catalogue)
    assert again.next_producer_id == 2000
    assert disk.read_file(PATH).startswith(b'{"version":2}\n')


def test_a_mostly_dead_file_is_compacted() -> None:
    """After many changes the file is compacted in steps, without losing concurrent changes."""
    disk = fresh()
    catalogue = TopicCatalogue(disk, "data")
    catalogue.put([record(f"t{number}") for number in range(1500)])
    for number in range(4000):
        catalogue.put([record("t0", **{"retention.ms": str(number)})])
    catalogue.begin_deletion(["t1"])
    assert catalogue.is_mostly_dead
    before = disk.size(PATH)
    steps = catalogue.compaction_steps()
    next(steps)
    catalogue.put([record("between")])
    catalogue.end_deletion("t1")
    next(steps)
    catalogue.begin_deletion(["t2"])
    deque(steps, maxlen=0)
    assert disk.size(PATH) < before / 2
    assert not TopicCatalogue(disk, "data").is_mostly_dead
    catalogue.put([record("after")])
    assert state(TopicCatalogue(disk, "data")) == state(catalogue)
    assert {"between", "after"} < catalogue.topics.keys()


def test_a_write_that_fails_changes_nothing() -> None:
    """If a write fails, the topic exists neither now nor after a restart."""
    for operation in range(20):
        disk = fresh()
        catalogue = TopicCatalogue(disk, "data")
        catalogue.put([record("a")])
        disk.fail_at(operation, torn=True)
        try:
            catalogue.put([record("b")])
        except StorageError:
            assert list(catalogue.topics) == ["a"]
            assert list(TopicCatalogue(disk, "data").topics) == ["a"]
            catalogue.put([record("c")])
            assert list(TopicCatalogue(disk, "data").topics) == ["a", "c"]
        else:
            assert operation == 2
            break


@pytest.mark.parametrize("kind", ["kill", "power"])
@pytest.mark.parametrize("torn", [False, True])
def test_every_crash_point(kind: str, torn: bool) -> None:
    """After a crash in any operation, acknowledged requests have taken effect.

    A request that was not acknowledged has taken effect either completely or not at all.
    """
    for operation in range(200):
        disk = fresh()
        disk.crash_at(operation, torn=torn)
        done: set[str] = set()
        try:
            catalogue = TopicCatalogue(disk, "data")
            for name in ("a", "b"):
                catalogue.put([record(name), record(name + name)])
                done |= {name, name + name}
            deque(catalogue.compaction_steps(), maxlen=0)
            catalogue.begin_deletion(["a", "aa"])
            done -= {"a", "aa"}
            catalogue.put([record("c"), record("cc")])
            done |= {"c", "cc"}
        except Crash:
            pass
        else:
            assert operation > 15
            return
        if kind == "kill":
            disk.processes_died()
        else:
            disk.power_cut()
        names = TopicCatalogue(disk, "data").topics.keys()
        assert all((name in names) == (name + name in names) for name in "abc")
        assert done <= names or (done - names == {"a", "aa"} and "b" in done)
        later = TopicCatalogue(disk, "data")
        later.put([record("new")])
        assert TopicCatalogue(disk, "data").topics.keys() == {*names, "new"}
    raise AssertionError("the loop did not reach the last operation")


def test_nobody_else_may_read_passwords(tmp_path: Path) -> None:
    """The file is private from the first broker config on, also when it is rewritten."""

    def mode() -> int:
        return stat.S_IMODE((tmp_path / "topics.json").stat().st_mode)

    catalogue = TopicCatalogue(LocalDisk(), str(tmp_path))
    catalogue.put([record("a")])
    assert mode() == 0o644
    catalogue.put_broker_configs({"1": {"listener.name.x.ssl.key.password": "secret"}})
    assert mode() == 0o600
    catalogue = TopicCatalogue(LocalDisk(), str(tmp_path))
    deque(catalogue.compaction_steps())
    catalogue.put([record("b")])
    assert mode() == 0o600
