"""What happens to logs without anybody asking: retention, compaction, recovery, checkpoints."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from coordinator_server.events import INFO, LOG
from coordinator_server.topics.manager import Partition
from coordinator_server.topics.upkeep import (
    FIRST_RETENTION_DELAY_MS,
    FIRST_ROUND_DELAY_MS,
    PAUSE_MS,
    SLICE_MS,
)
from protocol.batch import Record, build_batch
from tests.unit.topics.fakes import START_MS, FakeBroker, batch

HOUR_MS = 3_600_000


@pytest.fixture
def log_text() -> Iterator[io.StringIO]:
    """What the broker writes to its log."""
    stream = io.StringIO()
    LOG.configure("json", INFO, stream)
    yield stream
    LOG.configure()


def partition(broker: FakeBroker, name: str) -> Partition:
    """The first partition of a topic."""
    found = broker.topics.partition(name, 0)
    assert found is not None
    return found


def rounds_until_idle(broker: FakeBroker) -> int:
    """Let time pass until a round is done; how many steps it took."""
    steps = 0
    while True:
        wait_ms = broker.topics.upkeep()
        steps += 1
        if wait_ms != PAUSE_MS and steps > 1:
            return steps
        broker.scheduler.advance(wait_ms)


def test_old_segments_go() -> None:
    """Records older than retention.ms are deleted and the log starts later."""
    broker = FakeBroker()
    configs = {"retention.ms": str(HOUR_MS), "segment.ms": "1000"}
    broker.topics.create("t", 1, configs)
    for hours in range(4):
        time_ms = START_MS + hours * HOUR_MS
        partition(broker, "t").append(batch(b"x", times_ms=[time_ms]), time_ms)
    broker.clock.time_ms = START_MS + 3 * HOUR_MS + HOUR_MS // 2
    rounds_until_idle(broker)
    assert partition(broker, "t").log.log_start_offset == 3


def test_compacted_logs_keep_the_last_record_of_a_key() -> None:
    """After a round only the last value of a key is left in the sealed segments."""
    broker = FakeBroker()
    configs = {"cleanup.policy": "compact", "internal.segment.bytes": "300"}
    broker.topics.create("t", 1, configs)
    for number in range(20):
        partition(broker, "t").append(batch(b"%d" % number), START_MS)
    before = partition(broker, "t").log.size_bytes
    rounds_until_idle(broker)
    assert partition(broker, "t").log.size_bytes < before
    assert partition(broker, "t").log.log_end_offset == 20


def test_a_round_is_cut_into_slices() -> None:
    """When a slice is over the next step is wanted after a pause, and the round goes on."""
    broker = FakeBroker()
    for number in range(5):
        broker.topics.create(f"t{number}", 1, {})
        partition(broker, f"t{number}").append(batch(b"x"), START_MS)
    wait_ms = broker.topics.upkeep()
    broker.clock.time_ms += wait_ms
    now_ms = broker.clock.now_ms

    def slow_clock() -> int:
        broker.clock.time_ms += SLICE_MS
        return now_ms()

    broker.clock.now_ms = slow_clock  # type: ignore[method-assign]  # every look costs a slice
    steps = 1
    while broker.topics.upkeep() == PAUSE_MS:
        steps += 1
    assert steps >= 5


def test_rounds_follow_the_settings() -> None:
    """A round begins after the shorter of the two intervals, the first soon after the start."""
    broker = FakeBroker(log_retention_check_interval_ms="700")
    assert broker.topics.upkeep() == 700
    broker.scheduler.advance(300)
    assert broker.topics.upkeep() == 400
    broker.scheduler.advance(400)
    assert broker.topics.upkeep() == 700
    assert FakeBroker().topics.upkeep() == FIRST_ROUND_DELAY_MS


def test_a_failing_disk_is_reported(log_text: io.StringIO) -> None:
    """An error of one round is logged, and the next round comes."""
    broker = FakeBroker(log_retention_check_interval_ms="700")
    broker.topics.create("t", 1, {})
    partition(broker, "t").append(batch(b"x"), START_MS)
    broker.scheduler.advance(broker.topics.upkeep())
    broker.disk.fail_at(0)
    assert broker.topics.upkeep() == 700
    assert '"event": "log.failed"' in log_text.getvalue()


def test_what_recovery_cut_is_told(log_text: io.StringIO) -> None:
    """After a crash that tore a batch the log says where it was cut."""
    broker = FakeBroker()
    broker.topics.create("t", 1, {})
    partition(broker, "t").append(batch(b"a"), START_MS)
    file = broker.disk.open("/data/t-0/00000000000000000000.log")
    file.append([batch(b"b")[:30]])
    broker.disk.processes_died()
    again = FakeBroker(broker.disk)
    assert partition(again, "t").log.log_end_offset == 1
    text = log_text.getvalue()
    assert '"event": "log.recovered"' in text
    assert '"bytes_cut": 30' in text


def test_the_round_of_the_start_compacts_the_internal_logs() -> None:
    """An offsets log with half a mebibyte of old commits is compacted soon after the start."""
    broker = FakeBroker()
    topic = broker.topics.create_internal("__consumer_offsets")
    log = topic.partitions[0].log
    for _ in range(700):
        records = [Record(0, START_MS, b"key", bytes(1000))]
        log.append_own(build_batch(records), START_MS)
    size_bytes = log.size_bytes
    broker.scheduler.advance(FIRST_ROUND_DELAY_MS)
    while broker.topics.upkeep() == PAUSE_MS:
        broker.scheduler.advance(PAUSE_MS)
    assert log.size_bytes < size_bytes / 100


def test_old_records_are_deleted_at_the_interval_of_retention() -> None:
    """Not by the rounds in between: records with old timestamps can be read for a while."""
    broker = FakeBroker()
    log = broker.topics.create("old", 1, {"retention.ms": "1000"}).partitions[0].log
    log.append(batch(b"value", times_ms=[START_MS - 10_000]), START_MS)

    def rounds_until(elapsed_ms: int) -> None:
        while broker.clock.time_ms < START_MS + elapsed_ms:
            broker.scheduler.advance(max(broker.topics.upkeep(), 1))

    rounds_until(FIRST_RETENTION_DELAY_MS - 1000)
    assert log.log_start_offset == 0
    rounds_until(FIRST_RETENTION_DELAY_MS + 16_000)
    assert log.log_start_offset == 1
    log.append(batch(b"value", times_ms=[START_MS - 10_000]), START_MS)
    rounds_until(300_000)
    assert log.log_start_offset == 1
    rounds_until(350_000)
    assert log.log_start_offset == 2
