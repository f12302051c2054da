"""The maintenance of logs: retention, compaction, recovery, checkpoints, and their events."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Iterator

import pytest

from coordinator_server.events.log import LOG
from coordinator_server.events.vocabulary import DEBUG, INFO, VOCABULARY
from coordinator_server.maintenance.scheduler import (
    FIRST_RETENTION_DELAY_MS,
    FIRST_ROUND_DELAY_MS,
    OWN_LOGS_MS,
    PAUSE_MS,
    SLICE_MS,
    MaintenanceScheduler,
)
from coordinator_server.topics.topic import Partition
from protocol.batch import Record, build_batch
from storage.errors import StorageError
from storage.own_logs import RETRY_MS, OwnLogs
from storage.partition_log import PartitionLog
from tests.harness.broker import MemoryBroker
from tests.harness.clock import START_MS
from tests.harness.records import batch

HOUR_MS = 3_600_000


@pytest.fixture
def log_text() -> Iterator[io.StringIO]:
    """Return the broker's log output."""
    stream = io.StringIO()
    LOG.configure("json", INFO, stream)
    yield stream
    LOG.configure()


def partition(broker: MemoryBroker, name: str) -> Partition:
    """Return the first partition of a topic."""
    found = broker.topics.partition(name, 0)
    assert found is not None
    return found


def rounds_until_idle(broker: MemoryBroker) -> int:
    """Advance the time until a round is complete; return the number of steps."""
    steps = 0
    while True:
        wait_ms = broker.topics.maintenance_step()
        steps += 1
        if wait_ms != PAUSE_MS and steps > 1:
            return steps
        broker.advance(wait_ms)


def test_old_segments_go() -> None:
    """Records older than retention.ms are deleted, and the log start offset moves."""
    broker = MemoryBroker(runs_maintenance=False)
    configs = {"retention.ms": str(HOUR_MS), "segment.ms": "1000"}
    broker.topics.create("t", 1, configs)
    for hours in range(4):
        time_ms = START_MS + hours * HOUR_MS
        partition(broker, "t").append(batch(b"x", times_ms=[time_ms]), time_ms)
    broker.clock.time_ms = START_MS + 3 * HOUR_MS + HOUR_MS // 2
    rounds_until_idle(broker)
    assert partition(broker, "t").log.log_start_offset == 3


def test_compacted_logs_keep_the_last_record_of_a_key() -> None:
    """After a round the sealed segments have only the last record of each key."""
    broker = MemoryBroker(runs_maintenance=False)
    configs = {"cleanup.policy": "compact", "internal.segment.bytes": "300"}
    broker.topics.create("t", 1, configs)
    for number in range(20):
        partition(broker, "t").append(batch(b"%d" % number), START_MS)
    before = partition(broker, "t").log.size_bytes
    rounds_until_idle(broker)
    assert partition(broker, "t").log.size_bytes < before
    assert partition(broker, "t").log.log_end_offset == 20


def test_silent_producers_are_forgotten() -> None:
    """Idle producers are expired every producer.id.expiration.check.interval.ms."""
    broker = MemoryBroker(
        runs_maintenance=False,
        producer_id_expiration_ms="5000",
        producer_id_expiration_check_interval_ms="4000",
    )
    broker.topics.create("t", 1, {})
    log = partition(broker, "t").log
    sent = build_batch([Record(0, START_MS, b"k", b"v")], producer_id=7, producer_epoch=0)
    log.append_own(sent, START_MS)
    while True:
        wait_ms = broker.topics.maintenance_step()
        if 7 not in log.producers.entries:
            break
        broker.advance(wait_ms)
    assert broker.clock.time_ms == START_MS + 8000, "the second look is the first one after 5 s"


def test_what_a_round_does_is_logged_at_level_debug(log_text: io.StringIO) -> None:
    """Deleted segments and compactions are logged at level debug."""
    for level, expected in ((INFO, {}), (DEBUG, {"old": "segment.deleted", "c": "log.compacted"})):
        LOG.configure("json", level, log_text)
        broker = MemoryBroker(runs_maintenance=False)
        broker.topics.create("old", 1, {"retention.ms": "1000", "segment.ms": "1000"})
        partition(broker, "old").append(batch(b"x", times_ms=[START_MS - 10_000]), START_MS)
        configs = {"cleanup.policy": "compact", "internal.segment.bytes": "300"}
        broker.topics.create("c", 1, configs)
        for number in range(20):
            partition(broker, "c").append(batch(b"%d" % number), START_MS)
        log_text.truncate(log_text.seek(0))
        broker.advance(FIRST_RETENTION_DELAY_MS)
        rounds_until_idle(broker)
        events = map(json.loads, log_text.getvalue().splitlines())
        of_topics = {event["topic"]: event for event in events}
        assert {topic: event["event"] for topic, event in of_topics.items()} == expected
    for event in of_topics.values():
        assert event["level"] == "debug"
        assert {"topic", "partition", *VOCABULARY[event["event"]].fields} <= set(event)


def test_a_round_is_cut_into_slices() -> None:
    """A round runs in slices with pauses in between."""
    broker = MemoryBroker(runs_maintenance=False)
    for number in range(5):
        broker.topics.create(f"t{number}", 1, {})
        partition(broker, f"t{number}").append(batch(b"x"), START_MS)
    looks = itertools.count()
    scheduler = MaintenanceScheduler(  # each read of the machine's clock advances it by a slice
        broker.logs, broker.config, broker.clock, lambda: next(looks) * SLICE_MS / 1000
    )
    broker.clock.time_ms += scheduler.step()
    steps = 1
    while scheduler.step() == PAUSE_MS:
        assert scheduler.is_working
        steps += 1
    assert steps >= 5
    assert not scheduler.is_working


def test_rounds_follow_the_settings() -> None:
    """Rounds follow the shorter of the two intervals; the first round is soon after the start."""
    broker = MemoryBroker(runs_maintenance=False, log_retention_check_interval_ms="700")
    assert broker.topics.maintenance_step() == 700
    broker.advance(300)
    assert broker.topics.maintenance_step() == 400
    broker.advance(400)
    assert broker.topics.maintenance_step() == 700
    assert MemoryBroker(runs_maintenance=False).topics.maintenance_step() == FIRST_ROUND_DELAY_MS


def test_a_failing_disk_is_reported(log_text: io.StringIO) -> None:
    """A disk error in a round is logged, and the next round takes place."""
    broker = MemoryBroker(runs_maintenance=False, log_retention_check_interval_ms="700")
    broker.topics.create("t", 1, {})
    partition(broker, "t").append(batch(b"x"), START_MS)
    broker.advance(broker.topics.maintenance_step())
    broker.disk.fail_at(0)
    assert broker.topics.maintenance_step() == 700
    assert '"event": "log.failed"' in log_text.getvalue()


def test_what_recovery_cut_is_told(log_text: io.StringIO) -> None:
    """After a crash that tore a batch, the log says where recovery truncated it."""
    broker = MemoryBroker(runs_maintenance=False)
    broker.topics.create("t", 1, {})
    partition(broker, "t").append(batch(b"a"), START_MS)
    file = broker.disk.open("/data/t-0/00000000000000000000.log")
    file.append([batch(b"b")[:30]])
    broker.disk.processes_died()
    again = MemoryBroker(broker.disk, runs_maintenance=False)
    assert partition(again, "t").log.log_end_offset == 1
    text = log_text.getvalue()
    assert '"event": "log.recovered"' in text
    assert '"bytes_cut": 30' in text


def test_the_round_of_the_start_compacts_the_internal_logs() -> None:
    """An offsets log with 512 KiB of old commits is compacted soon after the start."""
    broker = MemoryBroker(runs_maintenance=False)
    topic = broker.topics.create_internal("__consumer_offsets")
    log = topic.partitions[0].log
    for _ in range(700):
        records = [Record(0, START_MS, b"key", bytes(1000))]
        log.append_own(build_batch(records), START_MS)
    size_bytes = log.size_bytes
    broker.advance(FIRST_ROUND_DELAY_MS)
    while broker.topics.maintenance_step() == PAUSE_MS:
        broker.advance(PAUSE_MS)
    assert log.size_bytes < size_bytes / 100


def test_old_records_are_deleted_at_the_interval_of_retention() -> None:
    """Old records are deleted only at the retention interval, not in the rounds in between.

    Records with old timestamps can thus be read for a while.
    """
    broker = MemoryBroker(runs_maintenance=False)
    log = broker.topics.create("old", 1, {"retention.ms": "1000"}).partitions[0].log
    log.append(batch(b"value", times_ms=[START_MS - 10_000]), START_MS)

    def rounds_until(elapsed_ms: int) -> None:
        while broker.clock.time_ms < START_MS + elapsed_ms:
            broker.advance(max(broker.topics.maintenance_step(), 1))

    rounds_until(FIRST_RETENTION_DELAY_MS - 1000)
    assert log.log_start_offset == 0
    rounds_until(FIRST_RETENTION_DELAY_MS + 16_000)
    assert log.log_start_offset == 1
    log.append(batch(b"value", times_ms=[START_MS - 10_000]), START_MS)
    rounds_until(300_000)
    assert log.log_start_offset == 1
    rounds_until(350_000)
    assert log.log_start_offset == 2


def offsets_logs(broker: MemoryBroker, partitions: int = 2) -> list[PartitionLog]:
    """Return the logs of an offsets topic, with some records that were cleaned before."""
    topic = broker.topics.create_internal("__consumer_offsets")
    logs = [one.log for one in topic.partitions[:partitions]]
    for log in logs:
        append_own(log, keys=100, count=200)
    return logs


def append_own(log: PartitionLog, keys: int, count: int) -> None:
    """Append records of 1 kB, one per batch, with repeating keys."""
    for number in range(count):
        log.append_own(build_batch([Record(0, START_MS, b"%d" % (number % keys), bytes(1000))]), 0)


def test_logs_of_the_broker_stay_within_twice_their_live_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Internal logs are compacted between rounds before they double in size."""
    monkeypatch.setattr("storage.own_logs.FLOOR_BYTES", 0)
    broker = MemoryBroker(runs_maintenance=False, log_cleaner_backoff_ms="100000000")
    logs = offsets_logs(broker)
    live = 100 * 1100
    broker.advance(FIRST_ROUND_DELAY_MS)
    largest = 0
    for _ in range(40):
        for log in logs:
            append_own(log, keys=100, count=20)
        for _ in range(400):
            broker.advance(max(1, min(broker.topics.maintenance_step(), OWN_LOGS_MS)))
            if not broker.topics.is_in_maintenance:
                break
        largest = max(largest, *(log.size_bytes for log in logs))
    assert live <= largest <= 2 * live


def test_below_the_floor_no_log_of_the_broker_is_compacted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Below a total size no internal log is compacted; above it, only the dirtiest logs are."""
    monkeypatch.setattr("storage.own_logs.FLOOR_BYTES", 700_000)
    broker = MemoryBroker(runs_maintenance=False, log_cleaner_backoff_ms="100000000")
    logs = offsets_logs(broker, partitions=3)  # each log has 220 000 bytes
    own_logs = OwnLogs(broker.logs)
    assert own_logs.due(START_MS) == []
    append_own(logs[1], keys=100, count=60)
    assert own_logs.due(START_MS) == [logs[1]]
    assert [step for step in own_logs.steps([logs[1]], START_MS) if step]
    assert own_logs.due(START_MS) == []


def test_under_pressure_slices_are_as_long_as_what_was_between_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When logs are near twice their size, compaction uses half of the time without pauses.

    Below this size a slice of compaction takes 1 ms.
    """
    monkeypatch.setattr("storage.own_logs.FLOOR_BYTES", 0)
    broker = MemoryBroker(runs_maintenance=False)
    seconds = 0.0

    def timer_s() -> float:
        nonlocal seconds
        seconds += 0.001  # each step takes a millisecond
        return seconds

    scheduler = MaintenanceScheduler(broker.logs, broker.config, broker.clock, timer_s)
    logs = offsets_logs(broker, partitions=4)
    broker.advance(FIRST_ROUND_DELAY_MS)
    pauses = set()
    slices = set()
    while True:
        seconds += 0.01  # the work of clients takes 10 ms
        began = seconds
        pauses.add(scheduler.step())
        slices.add(round(seconds - began, 3))
        if not scheduler.is_working:
            break
    assert 0 in pauses
    assert max(slices) == pytest.approx(0.01, abs=0.004)
    assert all(log.size_bytes < 150 * 1100 for log in logs)


def test_a_log_that_cannot_be_compacted_is_left_alone_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A log with a damaged batch is rarely reported, and not compacted again for a while."""
    monkeypatch.setattr("storage.own_logs.FLOOR_BYTES", 0)
    broker = MemoryBroker(runs_maintenance=False, log_cleaner_backoff_ms="100000000")
    (log,) = offsets_logs(broker, partitions=1)
    own_logs = OwnLogs(broker.logs)
    now_ms = broker.clock.now_ms()
    broker.disk.fail_at(0)
    due = own_logs.due(now_ms)
    assert due == [log]
    assert [type(step) for step in own_logs.steps(due, now_ms) if step] == [StorageError]
    assert own_logs.due(now_ms + RETRY_MS - 1) == []
    assert own_logs.due(now_ms + RETRY_MS) == [log]
