"""The data directory: topics, checkpoints, clean and unclean stops, adoption, crash points."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from protocol.errors import ErrorCode
from storage.checkpoints import parse_topic_id, read_offsets, topic_id_text
from storage.disk import write_atomically
from storage.errors import DataDirectoryLockedError, StorageError
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.maintenance import maintenance_steps
from storage.memory_disk import Crash, MemoryDisk
from storage.retention import advance_log_start_offset
from storage.topic_catalogue import PartitionLeadership, TopicRecord
from tests.unit.storage.support import (
    NOW_MS,
    batch,
    change_topic,
    delete_topic,
    flip,
    open_log,
    open_manager,
    overwrite,
    values_of,
)

A, B = bytes([1]) * 16, bytes([2]) * 16


def rounds(manager: LogManager) -> list[object]:
    """Run one round of maintenance; return its events."""
    return [event for event in maintenance_steps(manager, NOW_MS) if event is not None]


def test_topics_survive_a_restart() -> None:
    """Names, ids, partition counts and configs of topics survive a restart."""
    disk = MemoryDisk()
    manager = open_manager(disk)
    manager.create_topic("a", A, 3, {"retention.ms": "5"})
    manager.create_topic("b", B, 1, {})
    change_topic(manager, "b", partition_count=4)
    change_topic(manager, "a", configs={"segment.bytes": "2000000"})
    manager.close()
    again = open_manager(disk)
    assert again.clean_start
    a, b = again.topics().values()
    assert a[:4] == ("a", A, 3, {"segment.bytes": "2000000"})
    assert (b.name, b.topic_id, b.partition_count) == ("b", B, 4)
    assert again.log("a", 0).config.segment_bytes == 2000000
    assert again.adopted_topics == []


def test_new_configs_of_a_topic_are_computed_once_for_logs_with_the_same_defaults() -> None:
    """New configs are computed once for all open logs with the same defaults.

    A topic with thousands of open logs thus takes new configs within one step.
    """
    manager = open_manager(MemoryDisk())
    brokers = LogConfig(retention_ms=1), LogConfig(retention_ms=2)
    manager.defaults_of = lambda _, partition: brokers[partition % 2]
    manager.create_topic("a", A, 4, {})
    logs = [manager.log("a", partition) for partition in range(4)]
    change_topic(manager, "a", configs={"segment.bytes": "2000000"})
    assert [log.config.retention_ms for log in logs] == [1, 2, 1, 2]
    assert {log.config.segment_bytes for log in logs} == {2000000}
    assert len({id(log.config) for log in logs}) == 2


def test_a_closed_manager_changes_nothing() -> None:
    """Every change of a closed manager raises StorageError.

    Another manager may have opened the directory meanwhile.
    """
    disk = MemoryDisk()
    manager = open_manager(disk)
    manager.create_topic("a", A, 2, {})
    manager.log("a", 0).append(batch(b"x"), NOW_MS)
    manager.delete_topics(["a"])
    manager.create_topic("b", B, 1, {})
    deletions = manager.finish_deletions()
    manager.close()
    before = len(disk.operations)
    changes: list[Callable[[], object]] = [
        lambda: next(deletions),
        lambda: manager.create_topic("c", A, 1, {}),
        lambda: manager.catalogue.put_group_configs({"g": {"x": "1"}}),
        lambda: manager.security_state.change("quotas", put=[{"entity": []}]),
        lambda: list(manager.checkpoint_log_starts([("b", 0)])),
    ]
    for change in changes:
        with pytest.raises(StorageError):
            change()
    assert len(disk.operations) == before


def test_who_leads_survives_a_restart() -> None:
    """With several brokers the leader, epoch and replicas of each partition survive a restart."""
    disk = MemoryDisk()
    manager = open_manager(disk)
    first, second = PartitionLeadership(1, 0, (1, 2)), PartitionLeadership(-1, 7, (2,))
    manager.create_topics([TopicRecord("a", A, 1, {}, (first,)), TopicRecord("b", B, 1, {})])
    change_topic(manager, "a", partition_count=2, leadership=(first, second))
    manager.close()
    again = open_manager(disk)
    assert again.topics()["a"].leadership == (first, second)
    assert again.topics()["b"].leadership == ()
    change_topic(again, "b", leadership=(second,))
    again.close()
    assert open_manager(disk).topics()["b"].leadership == (second,)


def test_creating_a_topic_is_one_small_file() -> None:
    """Creating fifty partitions costs as much as creating one.

    The directory of a partition is created with its first record.
    """
    disk = MemoryDisk()
    manager = open_manager(disk)
    manager.create_topic("first", B, 1, {})
    before = len(disk.operations)
    manager.create_topic("__consumer_offsets", A, 50, {"cleanup.policy": "compact"})
    assert disk.operations[before:] == [
        ("append", "data/topics.json"),
        ("sync", "data/topics.json"),
    ]
    manager.log("__consumer_offsets", 7).append(batch(), NOW_MS)
    on_disk = [one for one in manager.partitions() if manager.is_on_disk(*one)]
    assert on_disk == [("__consumer_offsets", 7)]


def test_records_survive_a_clean_stop_and_a_kill() -> None:
    """Appended records survive a clean stop and a kill; only the kill causes a scan."""
    disk = MemoryDisk()
    manager = open_manager(disk)
    manager.create_topic("a", A, 2, {})
    manager.log("a", 1).append(batch(b"1"), NOW_MS)
    manager.close()
    manager = open_manager(disk)
    assert manager.clean_start
    assert values_of(manager.log("a", 1)) == [(0, b"1")]
    manager.log("a", 1).append(batch(b"2"), NOW_MS)
    disk.processes_died()
    manager = open_manager(disk)
    assert not manager.clean_start
    assert manager.recovery_reports == []
    assert values_of(manager.log("a", 1)) == [(0, b"1"), (1, b"2")]


def test_no_log_is_opened_after_a_clean_stop() -> None:
    """After a clean stop no log can be opened, because the lock is released."""
    manager = open_manager(MemoryDisk())
    manager.create_topic("a", A, 1, {})
    manager.log("a", 0)
    manager.close()
    with pytest.raises(StorageError, match="closed"):
        manager.log("a", 0)


def test_recovery_is_reported() -> None:
    """After a kill the partitions are recovered at once, and the truncation is reported."""
    disk = MemoryDisk()
    manager = open_manager(disk)
    manager.create_topic("a", A, 2, {})
    for value in (b"1", b"2"):
        manager.log("a", 1).append(batch(value), NOW_MS)
    disk.processes_died()
    flip(disk, f"data/a-1/{0:020d}.log", 100)
    manager = open_manager(disk)
    (report,) = manager.recovery_reports
    assert (report.topic, report.partition, report.offset) == ("a", 1, 1)
    assert "CRC" in report.reason


def test_files_have_kafkas_layout() -> None:
    """meta.properties, the checkpoints and the clean shutdown mark have Kafka's format."""
    disk = MemoryDisk()
    manager = open_manager(disk)
    manager.create_topic("a", A, 1, {})
    log = manager.log("a", 0)
    for _ in range(5):
        log.append(batch(), NOW_MS)
    advance_log_start_offset(log, 2)
    manager.close()
    assert b"version=1\n" in disk.read_file("data/meta.properties")
    assert b"cluster.id=c\n" in disk.read_file("data/meta.properties")
    assert b"node.id=1\n" in disk.read_file("data/meta.properties")
    assert disk.read_file("data/recovery-point-offset-checkpoint") == b"0\n1\na 0 5\n"
    assert disk.read_file("data/replication-offset-checkpoint") == b"0\n1\na 0 5\n"
    assert disk.read_file("data/log-start-offset-checkpoint") == b"0\n1\na 0 2\n"
    assert disk.exists("data/.kafka_cleanshutdown")
    metadata = disk.read_file("data/a-0/partition.metadata").decode()
    assert metadata == f"version: 0\ntopic_id: {topic_id_text(A)}"
    again = open_manager(disk)
    assert not disk.exists("data/.kafka_cleanshutdown")
    assert again.log("a", 0).log_start_offset == 2


def test_topic_ids_are_printed_as_kafka_does() -> None:
    """The topic id of the recorded partition.metadata is parsed and formatted as in Kafka."""
    assert topic_id_text(parse_topic_id("PtPPtT3tSAmCrXqTXg-nVQ")) == "PtPPtT3tSAmCrXqTXg-nVQ"
    with pytest.raises(ValueError, match="no topic id"):
        parse_topic_id("AAAA")


def test_a_second_broker_is_refused() -> None:
    """A second broker is refused until the first broker closes or dies."""
    disk = MemoryDisk()
    manager = open_manager(disk)
    with pytest.raises(DataDirectoryLockedError, match="in use by another broker"):
        open_manager(disk)
    manager.close()
    open_manager(disk)
    disk.processes_died()
    open_manager(disk)


def test_a_foreign_directory_is_refused() -> None:
    """The data directory of another node is refused and unlocked."""
    disk = MemoryDisk()
    open_manager(disk).close()
    with pytest.raises(StorageError, match="belongs to node 1, not 2"):
        LogManager.open(disk, "data", LogConfig(), node_id=2)
    assert LogManager.open(disk, "data", LogConfig()).cluster_id == "c"


@pytest.mark.parametrize("contents", ["", "x", "cluster.id=\nversion=1\n", "cluster.id=c\n"])
def test_a_damaged_meta_properties_is_refused(contents: str) -> None:
    """A meta.properties without cluster id or version is refused and left unchanged."""
    disk = MemoryDisk()
    open_manager(disk).close()
    write_atomically(disk, "data/meta.properties", contents.encode())
    with pytest.raises(StorageError, match=r"meta\.properties is damaged, it has no cluster\.id"):
        open_manager(disk)
    assert disk.read_file("data/meta.properties") == contents.encode()
    disk.unlink("data/meta.properties")
    assert open_manager(disk).cluster_id == "c"


def test_a_directory_keeps_its_cluster_id() -> None:
    """A given cluster id is used for a new directory; an existing directory keeps its id."""
    disk = MemoryDisk()
    open_manager(disk).close()
    assert LogManager.open(disk, "data", LogConfig(), cluster_id="d").cluster_id == "c"


def test_bad_requests_change_nothing() -> None:
    """An existing name, an unknown topic and an invalid config are refused with Kafka's codes.

    Nothing is changed.
    """
    disk = MemoryDisk()
    manager = open_manager(disk)
    manager.create_topic("a", A, 1, {})
    before = len(disk.operations)
    with pytest.raises(StorageError) as exists:
        manager.create_topic("a", B, 1, {})
    assert exists.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    for bad in ({"retention.ms": "x"}, {"retention.mss": "1"}):
        with pytest.raises(StorageError) as config:
            manager.create_topic("b", B, 1, bad)
        assert config.value.code is ErrorCode.INVALID_CONFIG
    for ask in (
        lambda: manager.log("a", 1),
        lambda: manager.log("a", -1),
        lambda: manager.log("b", 0),
        lambda: delete_topic(manager, "b"),
        lambda: change_topic(manager, "b", configs={}),
    ):
        with pytest.raises(StorageError) as unknown:
            ask()
        assert unknown.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(disk.operations) == before


def test_a_deleted_topic_is_gone_at_once_and_its_files_with_maintenance() -> None:
    """A deleted topic's name is free at once, and maintenance removes the files.

    A new topic of that name is empty.
    """
    disk = MemoryDisk()
    manager = open_manager(disk)
    name = "n" * 249
    manager.create_topic(name, A, 2, {})
    old = manager.log(name, 1)
    old.append(batch(), NOW_MS)
    delete_topic(manager, name)
    with pytest.raises(StorageError):
        old.append(batch(), NOW_MS)
    assert manager.topics() == {}
    manager.create_topic(name, B, 2, {})
    assert manager.log(name, 1).log_end_offset == 0
    assert any(entry.endswith("-delete") for entry in disk.listdir("data"))
    assert rounds(manager) == []
    assert not any(entry.endswith("-delete") for entry in disk.listdir("data"))
    assert all(len(path.rpartition("/")[2]) <= 255 for _, path in disk.operations)


def test_a_kafka_directory_is_adopted() -> None:
    """Partition directories that the catalogue lacks become topics, except the metadata log.

    The directories must have a partition.metadata.
    """
    disk = MemoryDisk()
    manager = open_manager(disk)
    for name in ("a", "__consumer_offsets", "__share_group_state", "__cluster_metadata"):
        manager.create_topic(name, A, 3, {})
        manager.log(name, 2).append(batch(name.encode()), NOW_MS)
    manager.close()
    disk.unlink("data/topics.json")
    disk.mkdir("data/no-number")
    disk.mkdir("data/unknown-0")
    manager = open_manager(disk)
    assert manager.adopted_topics == ["__consumer_offsets", "__share_group_state", "a"]
    assert manager.topics()["a"] == ("a", A, 3, {}, ())
    assert manager.topics()["__consumer_offsets"].configs["cleanup.policy"] == "compact"
    kept = manager.topics()["__share_group_state"].configs
    assert (kept["cleanup.policy"], kept["retention.ms"]) == ("delete", "-1")
    assert values_of(manager.log("a", 2)) == [(0, b"a")]
    assert disk.exists("data/unknown-0")
    assert disk.exists("data/__cluster_metadata-2")


def test_a_directory_of_another_topic_is_set_aside() -> None:
    """A directory with the metadata of another topic id is renamed, neither read nor removed."""
    disk = MemoryDisk()
    manager = open_manager(disk)
    manager.create_topic("a", A, 1, {})
    manager.log("a", 0).append(batch(), NOW_MS)
    manager.close()
    overwrite(disk, "data/a-0/partition.metadata", f"topic_id: {topic_id_text(B)}".encode())
    manager = open_manager(disk)
    assert manager.log("a", 0).log_end_offset == 0
    assert manager.stray_directories == [f"data/a-0.{B.hex()}-stray"]
    assert disk.exists(f"data/a-0.{B.hex()}-stray/{0:020d}.log")


@pytest.mark.parametrize("contents", [b"", b"{", b"[]", b'{"version": 9}', b'{"version": 1}'])
def test_a_damaged_catalogue_stops_the_start(contents: bytes) -> None:
    """A damaged catalogue stops the start with advice, so that no topic is lost silently."""
    disk = MemoryDisk()
    open_manager(disk).close()
    overwrite(disk, "data/topics.json", contents)
    with pytest.raises(StorageError, match=r"topics\.json is damaged"):
        open_manager(disk)
    disk.unlink("data/topics.json")
    open_manager(disk)


@pytest.mark.parametrize(
    "contents", [b"", b"0\n1\n", b"1\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0 x\n"]
)
def test_damaged_checkpoints_read_as_empty(contents: bytes) -> None:
    """An incomplete checkpoint is ignored, and recovery reads everything."""
    disk = MemoryDisk()
    manager = open_manager(disk)
    manager.create_topic("a", A, 1, {})
    manager.log("a", 0).append(batch(b"1"), NOW_MS)
    manager.close()
    disk.unlink("data/.kafka_cleanshutdown")
    overwrite(disk, "data/recovery-point-offset-checkpoint", contents)
    assert read_offsets(disk, "data/recovery-point-offset-checkpoint") == {}
    assert values_of(open_manager(disk).log("a", 0)) == [(0, b"1")]


def test_a_stale_recovery_point_is_harmless() -> None:
    """A recovery point beyond the log end is lowered to the log end."""
    disk = MemoryDisk()
    log = open_log(disk)
    log.append(batch(b"1"), NOW_MS)
    again = open_log(disk, recovery_point=99)
    assert values_of(again) == [(0, b"1")]
    assert again.recovery_point == 1


def test_producer_ids_are_never_given_twice() -> None:
    """Producer id blocks are consecutive, also after a kill; a failed write assigns no block."""
    disk = MemoryDisk()
    manager = open_manager(disk)
    assert manager.next_producer_ids(1000) == 0
    disk.processes_died()
    manager = open_manager(disk)
    disk.fail_at(0)
    with pytest.raises(StorageError):
        manager.next_producer_ids(1000)
    assert manager.next_producer_ids(1000) == 1000


def test_one_bad_partition_does_not_stop_the_others() -> None:
    """A partition with unreadable files fails alone until the files are readable again.

    No clean mark is written while the partition fails.
    """
    disk = MemoryDisk()
    manager = open_manager(disk)
    manager.create_topic("a", A, 2, {})
    for partition in range(2):
        manager.log("a", partition).append(batch(b"v"), NOW_MS)
    disk.processes_died()
    bad = f"data/a-0/{0:020d}.log"
    disk.unreadable.add(bad)
    manager = open_manager(disk)
    assert list(manager.failures) == [("a", 0)]
    assert values_of(manager.log("a", 1)) == [(0, b"v")]
    (event,) = rounds(manager)
    assert isinstance(event, StorageError)
    with pytest.raises(StorageError):
        manager.log("a", 0)
    disk.unreadable.clear()
    assert values_of(manager.log("a", 0)) == [(0, b"v")]
    assert manager.failures == {}
    manager.close()
    assert disk.exists("data/.kafka_cleanshutdown")


def story(disk: MemoryDisk, done: list[str]) -> None:
    """Create, write, grow, configure, delete and recreate topics; record the completed steps."""
    manager = open_manager(disk)
    manager.create_topic("a", A, 2, {})
    done.append("created")
    manager.log("a", 0).append(batch(b"1"), NOW_MS)
    done.append("appended")
    change_topic(manager, "a", partition_count=3)
    done.append("grown")
    change_topic(manager, "a", configs={"retention.ms": "7"})
    done.append("set")
    delete_topic(manager, "a")
    done.append("deleted")
    manager.create_topic("a", B, 1, {})
    done.append("recreated")
    for _ in maintenance_steps(manager, NOW_MS):
        pass
    manager.log("a", 0).append(batch(b"2"), NOW_MS)
    done.append("appended again")
    manager.close()


def check_story(disk: MemoryDisk, done: list[str], *, records_survive: bool) -> None:
    """Check that every completed step is present, and the interrupted step is whole or absent."""
    manager = open_manager(disk)
    topic = manager.topics().get("a")
    if "recreated" in done:
        assert topic is not None
        assert topic.topic_id == B
        if "appended again" in done and records_survive:
            assert values_of(manager.log("a", 0)) == [(0, b"2")]
    elif "deleted" in done:
        assert topic is None or topic.topic_id == B
    elif "created" in done and topic is not None:
        assert topic.partition_count == 3 or "grown" not in done
        assert topic.configs == {"retention.ms": "7"} or "set" not in done
        if "appended" in done and records_survive:
            assert values_of(manager.log("a", 0)) == [(0, b"1")]
    elif "created" in done:
        assert "set" in done, "only the deletion under way may have removed it"
    if topic is None:
        manager.create_topic("a", B, 1, {})
    for partition in range(manager.topics()["a"].partition_count):
        log = manager.log("a", partition)
        assert all(value in (b"1", b"2") for _, value in values_of(log))
        log.append(batch(b"new"), NOW_MS)
    manager.close()


@pytest.mark.parametrize("kind", ["kill", "power"])
@pytest.mark.parametrize("torn", [False, True])
def test_every_crash_point_of_topics(kind: str, torn: bool) -> None:
    """After a crash in any operation on topics the next start finds the old or the new state."""
    points = 0
    for operation in range(300):
        disk = MemoryDisk()
        disk.mkdir("data")
        disk.sync_directory("")
        disk.crash_at(operation, torn=torn)
        done: list[str] = []
        try:
            story(disk, done)
        except Crash:
            points += 1
        else:
            assert points > 60
            return
        if kind == "kill":
            disk.processes_died()
        else:
            disk.power_cut()
        check_story(disk, done, records_survive=kind == "kill")
    raise AssertionError("the loop did not reach the last operation")


@pytest.mark.parametrize("first_crash", range(15, 80, 5))
def test_every_crash_point_of_a_start_after_a_kill(first_crash: int) -> None:
    """A start that crashes during recovery is completed by the next start."""
    for operation in range(100):
        disk = MemoryDisk()
        disk.crash_at(first_crash)
        with pytest.raises(Crash):
            story(disk, [])
        disk.processes_died()
        disk.crash_at(operation, torn=True)
        try:
            open_manager(disk)
        except Crash:
            disk.processes_died()
            open_manager(disk).close()
        else:
            return
    raise AssertionError("the loop did not reach the last operation")


def test_hundreds_of_topics_open_fast() -> None:
    """A clean start does not read unused partitions."""
    disk = MemoryDisk()
    manager = open_manager(disk)
    for number in range(200):
        manager.create_topic(f"t{number}", A, 1, {})
        manager.log(f"t{number}", 0).append(batch(), NOW_MS)
    manager.close()
    before = disk.reads
    manager = open_manager(disk)
    assert disk.reads == before
    assert manager.log("t7", 0).log_end_offset == 1
    manager.close()
    assert len(read_offsets(disk, "data/recovery-point-offset-checkpoint")) == 200


def test_maintenance_syncs_by_flush_ms_and_sealed_segments_always() -> None:
    """Sealed segments are synced at once, the active segment after flush.ms.

    Each sync moves the recovery point.
    """
    disk = MemoryDisk()
    manager = open_manager(disk)
    manager.create_topic("a", A, 1, {"flush.ms": "1000"})
    log = manager.log("a", 0)
    log.append(batch(), NOW_MS)
    log.roll(NOW_MS)
    log.append(batch(), NOW_MS)
    for elapsed_ms, recovery_point in ((0, 1), (999, 1), (1000, 2)):
        assert not [event for event in maintenance_steps(manager, NOW_MS + elapsed_ms) if event]
        assert log.recovery_point == recovery_point
    assert disk.read_file("data/recovery-point-offset-checkpoint") == b"0\n1\na 0 2\n"


def test_every_failing_operation_of_a_deletion() -> None:
    """After a disk error in a deletion the topic is complete or gone, and its name is free.

    A new topic of that name is not mistaken for the deleted topic at a later start.
    """
    for operation in range(40):
        disk = MemoryDisk()
        manager = open_manager(disk)
        manager.create_topic("a", A, 2, {})
        for partition in range(2):
            manager.log("a", partition).append(batch(b"old"), NOW_MS)
        disk.fail_at(operation, torn=True)
        try:
            delete_topic(manager, "a")
        except StorageError:
            if "a" in manager.topics():
                assert values_of(manager.log("a", 1)) == [(0, b"old")]
                delete_topic(manager, "a")
            manager.create_topic("a", B, 2, {})
            manager.log("a", 1).append(batch(b"new"), NOW_MS)
            disk.processes_died()
            manager = open_manager(disk)
            assert values_of(manager.log("a", 1)) == [(0, b"new")]
            assert rounds(manager) == []
            assert values_of(manager.log("a", 1)) == [(0, b"new")]
        else:
            return
    raise AssertionError("the loop did not reach the last operation")


def grow(manager: LogManager) -> None:
    """Add a second partition."""
    change_topic(manager, "a", partition_count=2)


def create_b(manager: LogManager) -> None:
    """Create a second topic."""
    manager.create_topic("b", B, 1, {})


def set_retention(manager: LogManager) -> None:
    """Change a config."""
    change_topic(manager, "a", configs={"retention.ms": "1"})


def test_every_failing_operation_of_settings_and_growth() -> None:
    """A change of configs or partitions that cannot be written has no effect."""
    for operation in range(20):
        disk = MemoryDisk()
        manager = open_manager(disk)
        manager.create_topic("a", A, 1, {})
        disk.fail_at(operation)
        outcomes = []
        for change in (grow, create_b, set_retention):
            try:
                change(manager)
                outcomes.append(True)
            except StorageError:
                outcomes.append(False)
        topic = manager.topics()["a"]
        was_pending = disk.fault_is_pending
        disk.processes_died()
        again = open_manager(disk)
        assert again.topics() == manager.topics()
        assert list(again.topics()) == (["a", "b"] if outcomes[1] else ["a"])
        assert topic.partition_count == (2 if outcomes[0] else 1)
        if was_pending:
            return
    raise AssertionError("the loop did not reach the last operation")


def test_a_stop_that_fails_leaves_no_clean_mark() -> None:
    """If a partition cannot be closed, the lock is released and the next start runs recovery."""
    disk = MemoryDisk()
    manager = open_manager(disk)
    manager.create_topic("a", A, 2, {})
    for partition in range(2):
        manager.log("a", partition).append(batch(b"v"), NOW_MS)
    disk.fail_at(0)
    with pytest.raises(StorageError):
        manager.close()
    manager = open_manager(disk)
    assert not manager.clean_start
    assert values_of(manager.log("a", 0)) == [(0, b"v")]
    assert values_of(manager.log("a", 1)) == [(0, b"v")]


def test_a_failing_checkpoint_is_reported() -> None:
    """Maintenance reports checkpoints or deletions that fail, and continues."""
    disk = MemoryDisk()
    manager = open_manager(disk)
    manager.create_topic("a", A, 1, {})
    manager.log("a", 0).append(batch(), NOW_MS)
    disk.fail_at(0)
    assert [type(event) for event in rounds(manager)] == [StorageError]
    delete_topic(manager, "a")
    disk.fail_at(0)
    assert [type(event) for event in rounds(manager)] == [StorageError]
    assert rounds(manager) == []


def test_a_topic_deleted_while_others_are_removed() -> None:
    """The files of a topic deleted during a removal are removed too, by this or the next round."""
    disk = MemoryDisk()
    manager = open_manager(disk)
    for name in ("a", "b"):
        manager.create_topics([TopicRecord(name, name.encode() * 16, 1, {})])
        manager.log(name, 0).append(batch(b"v"), NOW_MS)
    for name, removing in (("a", None), ("b", manager.remove_deleted())):
        if removing is not None:
            next(removing)
        manager.delete_topics([name])
        list(manager.finish_deletions())
        if removing is not None:
            list(removing)
    list(manager.remove_deleted())
    assert not [name for name in disk.listdir("data") if name.endswith("-delete")]
