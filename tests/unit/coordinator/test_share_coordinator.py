"""The share coordinator: its log, timers, and crashes."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from random import Random

import pytest

from coordinator_server.core.share_partitions.persister import ShareState, StateBatch
from coordinator_server.core.share_state.coordinator_key import coordinator_key
from coordinator_server.core.share_state.records import ShareRecord, ShareSnapshot, ShareUpdate
from coordinator_server.core.share_state.shard import StateOutcome, StateWrite
from coordinator_server.steps import run_all
from coordinator_server.topics.names import SHARE_STATE_TOPIC
from protocol.batch import Record, build_batch
from protocol.errors import ErrorCode as E
from storage.errors import StorageError
from storage.flush import Done
from storage.memory_disk import Crash, MemoryDisk
from tests.harness.share_states import (
    ShareStateBroker,
    error_of,
    write_request,
)

SYNCED = {"log_flush_interval_messages": "1"}
MINUTE_MS = 60_000


class Keeper(ShareStateBroker):
    """A broker with the share state topic, whose requests are answered at once."""

    def __init__(self, disk: MemoryDisk | None = None, /, **overrides: str) -> None:
        super().__init__(disk, **overrides)
        assert self.share_states.ensure_topic() is E.NONE

    def initialize(self, partition: int = 0, start: int = 0) -> StateOutcome:
        """Initialize a share partition; return the outcome."""
        answers: list[StateOutcome] = []
        self.share_states.initialize(self.key(partition), 1, start, answers.append)
        if not answers:
            self.turn()
        return answers[0]

    def write(self, partition: int = 0, first: int = 0, leader_epoch: int = 0) -> StateOutcome:
        """Acknowledge ten records; return the outcome."""
        answers: list[StateOutcome] = []
        write = StateWrite(1, leader_epoch, -1, 0, [StateBatch(first, first + 9, 2, 1)])
        self.share_states.write(self.key(partition), write, answers.append)
        if not answers:
            self.turn()
        return answers[0]

    def read(self, partition: int = 0, leader_epoch: int = 0) -> ShareState:
        """Return the state."""
        answers: list[ShareState] = []
        self.share_states.read(self.key(partition), leader_epoch, answers.append)
        if not answers:
            self.turn()
        return answers[0]


def restarted(broker: ShareStateBroker, random: Random | None = None, /, **settings: str) -> Keeper:
    """Return a broker on the disk after a kill, or with `random` after a power cut."""
    if random is None:
        broker.disk.processes_died()
    else:
        broker.disk.power_cut(random)
    again = Keeper(broker.disk, **settings)
    again.turn()
    assert not again.share_states.is_loading
    return again


def test_batches_as_kafka_writes_them() -> None:
    """Each record is a batch without a producer, but with base sequence 0, as in Kafka."""
    broker = Keeper()
    broker.initialize()
    broker.write()
    first, second = broker.headers()
    for header in (first, second):
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, 0)
        assert (header.attributes, header.record_count) == (0, 1)
    assert first.base_timestamp_ms == broker.clock.now_ms()


def test_the_state_survives_a_restart() -> None:
    """After a restart the share-partition state is loaded from the log and can be written."""
    broker = Keeper()
    for partition in range(3):
        assert broker.initialize(partition) == StateOutcome(E.NONE)
    broker.write(1)
    broker.read(1, leader_epoch=3)
    before = [broker.read(partition, leader_epoch=3) for partition in range(3)]
    again = restarted(broker)
    assert [again.read(partition, leader_epoch=3) for partition in range(3)] == before
    assert again.read(1, leader_epoch=2).error is E.FENCED_LEADER_EPOCH
    assert again.write(1, 10, leader_epoch=3).error is E.NONE
    assert again.read(1, leader_epoch=3).batches == (StateBatch(0, 19, 2, 1),)
    assert again.is_replayed()


@pytest.mark.parametrize(("torn", "seed"), [(False, None), (True, None), (False, 1), (True, 2)])
def test_a_crash_anywhere(torn: bool, seed: int | None) -> None:
    """Acknowledged writes survive a kill at every disk operation.

    With a sync of every record they survive a power cut too; `seed` selects the surviving unsynced
    data.
    """
    settings = {} if seed is None else SYNCED
    points = 0
    while True:
        disk = MemoryDisk()
        broker = Keeper(disk, **settings)
        disk.crash_at(points, torn=torn)
        answered = []
        with suppress(Crash):
            answered.append(broker.initialize())
            for first in range(0, 50, 10):
                answered.append(broker.write(0, first))
        survived = disk.fault_is_pending
        again = restarted(broker, None if seed is None else Random(seed))
        if answered:
            end = 10 * (len(answered) - 1)
            batches = again.read().batches
            assert sum(one.last_offset - one.first_offset + 1 for one in batches) in (end, end + 10)
            assert again.write(0, 100).error is E.NONE
        else:
            assert again.read().error in (E.INVALID_REQUEST, E.NONE)
        assert again.is_replayed()
        if survived:
            break
        points += 1
    assert points >= 6


def test_an_append_that_fails_changes_nothing() -> None:
    """A failed append gives NOT_COORDINATOR and leaves the state unchanged."""
    broker = Keeper()
    broker.initialize()
    broker.write()
    before = broker.read()
    broker.disk.fail_at(0)
    assert broker.write(0, 10).error is E.NOT_COORDINATOR
    broker.disk.disarm()
    assert broker.read() == before
    assert broker.write(0, 20).error is E.NONE
    assert len(broker.records()) == 3
    assert broker.is_replayed()


def test_a_record_that_is_too_large() -> None:
    """A record that is too large gets a non-retriable error and leaves the state unchanged."""
    broker = Keeper()
    topic = broker.topics.topic(SHARE_STATE_TOPIC)
    assert topic is not None
    run_all(broker.topics.set_configs({topic: {**topic.configs, "max.message.bytes": "200"}}))
    broker.initialize()
    batches = [(20 * number, 20 * number, 2, 1) for number in range(20)]
    request = write_request(broker.t.topic_id, 0, *batches)
    error, message = error_of(broker.ask(request, 0))
    assert error is E.UNKNOWN_SERVER_ERROR
    assert message == f"Unable to write share group state: {E.MESSAGE_TOO_LARGE.message}"
    assert broker.read().batches == ()


class Flusher:
    """Syncs on request, in order."""

    def __init__(self, broker: Keeper) -> None:
        self._waiting: deque[Done] = deque()
        broker.logs.use(self)  # type: ignore[arg-type]  # a fake flusher

    def when_flushed(self, log: object, done: Done) -> None:
        """Queue the callback."""
        self._waiting.append(done)

    def flush(self, error: StorageError | None = None) -> None:
        """Call the callback that has waited longest."""
        self._waiting.popleft()(error)


def test_an_answer_waits_for_what_it_depends_on() -> None:
    """With a sync of every record, a read waits for the write before it."""
    broker = Keeper(**SYNCED)
    flusher = Flusher(broker)
    answers: list[object] = []
    broker.share_states.initialize(broker.key(), 1, 0, answers.append)
    broker.share_states.read(broker.key(), 0, answers.append)
    assert answers == []
    flusher.flush()
    assert answers == [StateOutcome(E.NONE)]
    flusher.flush(StorageError("no space"))
    refused = answers.pop()
    assert isinstance(refused, ShareState)
    assert refused.error is E.NOT_COORDINATOR
    assert refused.message == "Unable to read share group state: no space"


def test_a_persister_that_is_closed_waits_for_what_is_under_way() -> None:
    """Closing a persister lets the running call finish and refuses later calls."""
    broker = Keeper(**SYNCED)
    flusher = Flusher(broker)
    answers: list[E] = []
    broker.persister.initialize(broker.key(), 1, 0, answers.append)
    broker.persister.delete(broker.key(), answers.append)
    broker.persister.close()
    assert answers == []
    flusher.flush()
    assert answers == [E.NONE, E.COORDINATOR_NOT_AVAILABLE]


def test_a_partition_is_given_up_and_taken_over() -> None:
    """A lost partition is not served; when it returns, it is loaded again."""
    broker = Keeper()
    broker.initialize()
    broker.write()
    before = broker.read()
    led = broker.led()
    broker.share_states.emigrate(0)
    assert broker.read().error is E.NOT_COORDINATOR
    assert broker.write().error is E.NOT_COORDINATOR
    assert led.append([ShareSnapshot(broker.key(), None)]) is E.NOT_LEADER_OR_FOLLOWER
    assert led.prune() is None
    partition = broker.topics.partition(SHARE_STATE_TOPIC, 0)
    assert partition is not None
    broker.share_states.immigrate(partition)
    assert broker.share_states.is_loading
    assert broker.read().error is E.COORDINATOR_LOAD_IN_PROGRESS
    broker.turn()
    assert broker.read() == before


def test_a_stopped_coordinator() -> None:
    """A stopped coordinator serves nothing and has no timers."""
    broker = Keeper()
    broker.initialize()
    broker.share_states.stop()
    assert broker.read().error is E.COORDINATOR_NOT_AVAILABLE
    assert broker.share_states.ensure_topic() is E.COORDINATOR_NOT_AVAILABLE
    assert broker.clock.timers == []


def test_without_the_topic_nothing_is_known_any_more() -> None:
    """Deleting the internal topic drops all state; the next request creates the topic again."""
    broker = Keeper()
    broker.initialize()
    topic = broker.topics.topic(SHARE_STATE_TOPIC)
    assert topic is not None
    run_all(broker.topics.delete([topic]))
    assert len(broker.share_states.active()) == 0
    assert broker.read().error is E.INVALID_REQUEST
    assert broker.initialize().error is E.NONE


def test_the_state_of_a_deleted_topic_goes_with_it() -> None:
    """Deleting a topic writes tombstones for its share partitions and keeps all other state."""
    broker = Keeper()
    other = broker.topics.create("other", 30, {})
    broker.initialize()
    for partition in range(30):
        broker.share_states.initialize(
            broker.key()._replace(topic_id=other.topic_id, partition=partition), 1, 0, _ignore
        )
    run_all(broker.topics.delete([other]))
    broker.turn()
    assert len(broker.led().shard) == 1
    tombstones = [one for one in broker.records() if one[1] is None]
    assert len(tombstones) == 30
    assert [header.record_count for header in broker.headers()][-2:] == [20, 10]
    assert broker.read().error is E.NONE
    assert broker.is_replayed()


def test_what_is_out_of_date_is_deleted() -> None:
    """Every five minutes records below the oldest needed snapshot are deleted for good."""
    settings = {"share_coordinator_snapshot_update_records_per_snapshot": "2"}
    broker = Keeper(**settings)
    log = broker.topics.log(SHARE_STATE_TOPIC, 0)
    broker.advance(5 * MINUTE_MS)  # the coordinator has no records to delete
    broker.initialize()
    for first in range(0, 40, 10):
        broker.write(0, first)
    assert log.log_start_offset == 0
    broker.advance(5 * MINUTE_MS)
    assert log.log_start_offset == 3
    before = broker.read()
    assert [type(one) for one in broker.records()][:2] == [ShareSnapshot, ShareUpdate]
    again = restarted(broker, **settings)
    assert again.topics.log(SHARE_STATE_TOPIC, 0).log_start_offset == 3
    assert again.read() == before


def test_a_log_that_cannot_be_pruned_is_pruned_later() -> None:
    """A failed pruning of the log is retried later and has no other effect."""
    broker = Keeper(share_coordinator_snapshot_update_records_per_snapshot="0")
    broker.initialize()
    broker.write()
    log = broker.topics.log(SHARE_STATE_TOPIC, 0)
    end = log.log_end_offset
    log.log_end_offset = 0
    broker.share_states.prune()
    broker.turn()
    log.log_end_offset = end
    assert log.log_start_offset == 0
    broker.share_states.prune()
    broker.turn()
    assert log.log_start_offset == 1


def test_cold_share_partitions_hold_nothing_back() -> None:
    """Snapshots of idle share partitions are rewritten, so that older records can be deleted."""
    broker = Keeper(share_coordinator_snapshot_update_records_per_snapshot="1")
    log = broker.topics.log(SHARE_STATE_TOPIC, 0)
    broker.initialize(1)
    broker.initialize(0)
    for first in range(0, 60, 10):
        broker.write(0, first)
    # The coordinator prunes the log before it rewrites state.
    broker.advance(5 * MINUTE_MS)
    assert log.log_start_offset == 0
    rewritten = broker.records()[-2:]
    assert [one.key.partition for one in rewritten] == [1, 0]
    end = log.log_end_offset
    assert broker.headers()[-1].record_count == 2
    broker.advance(5 * MINUTE_MS)
    assert log.log_start_offset == end - 2
    broker.advance(50 * MINUTE_MS)  # without new writes, the coordinator does not rewrite state
    assert log.log_end_offset == end
    assert broker.read(1).error is E.NONE


def test_a_share_partition_may_be_gone_before_its_turn() -> None:
    """A share partition deleted between two rewriting steps stays deleted."""
    broker = Keeper()
    broker.initialize()
    broker.clock.time_ms += 5 * MINUTE_MS
    steps = broker.share_states._rewrite_cold()
    records = len(broker.records())
    shard = broker.led().shard
    keys = shard.cold_keys(broker.clock.now_ms(), 0)
    shard.cold_keys = lambda now_ms, interval_ms: keys  # type: ignore[method-assign]  # all of them
    broker.share_states.delete(broker.key(), _ignore)
    for _ in steps:
        pass
    assert len(broker.records()) == records + 1


def test_records_that_cannot_be_read_are_left_out() -> None:
    """Records that cannot be decoded, as from another writer, are skipped."""
    broker = Keeper()
    broker.initialize()
    partition = broker.topics.partition(SHARE_STATE_TOPIC, 0)
    assert partition is not None
    strange = [Record(0, 1, b"\x00\x07", b"?"), Record(1, 1, None, b"?")]
    partition.append_own(build_batch(strange), 1)
    broker.write()
    before = broker.read()
    again = restarted(broker)
    assert again.read() == before


def test_a_log_that_cannot_be_loaded() -> None:
    """The share partitions of a log that cannot be loaded have no coordinator."""
    broker = Keeper()
    broker.initialize()
    broker.share_states.emigrate(0)
    partition = broker.topics.partition(SHARE_STATE_TOPIC, 0)
    assert partition is not None
    partition.log.log_end_offset += 1
    broker.share_states.immigrate(partition)
    broker.turn()
    assert broker.read().error is E.NOT_COORDINATOR


def test_share_partitions_spread_over_the_topic() -> None:
    """Share partitions are distributed by the hash of their key; each has its own log and state."""
    broker = Keeper(share_coordinator_state_topic_num_partitions="4")
    homes: dict[int, set[int]] = {}
    for partition in range(4):
        broker.initialize(partition)
    for index in range(4):
        homes[index] = {one.key.partition for one in broker.records(index)}
    assert sorted(one for home in homes.values() for one in home) == [0, 1, 2, 3]
    assert len([home for home in homes.values() if home]) > 1
    again = restarted(broker, share_coordinator_state_topic_num_partitions="4")
    assert all(again.read(partition).error is E.NONE for partition in range(4))
    assert broker.share_states.coordinator_of(coordinator_key(broker.key())) == 1


def test_a_long_history_is_loaded_in_steps() -> None:
    """A log that needs more than one read is loaded in steps."""
    broker = Keeper()
    broker.initialize()
    records: list[ShareRecord] = [
        ShareUpdate(broker.key(), 0, 0, -1, (StateBatch(2 * n, 2 * n, 2, 1),)) for n in range(100)
    ]
    for _ in range(15):
        assert broker.led().append(records) is E.NONE
    before = broker.read()
    assert sum(1 for _ in broker.led().load()) > 50
    assert len(before.batches) == 100


def _ignore(_: object) -> None:
    """Ignore the outcome, which is visible in the log."""
