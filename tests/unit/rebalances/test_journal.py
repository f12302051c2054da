"""The history of each group, and the topic, which is written in the background."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from coordinator_server.core.groups.explain import Cause, Rebalance, RebalanceOutcome, Trigger
from coordinator_server.events.log import LOG
from coordinator_server.rebalances import journal as journal_module
from coordinator_server.rebalances.journal import GATHER_MS, RebalanceJournal
from coordinator_server.steps import run_all
from coordinator_server.topics.names import GROUP_EVENTS_TOPIC
from coordinator_server.topics.topic import Partition
from protocol.batch import Record, iterate_records
from protocol.batch_header import iterate_batches
from storage.errors import StorageError
from tests.harness.broker import MemoryBroker
from tests.harness.rebalances import account


@pytest.fixture(autouse=True)
def log() -> Iterator[io.StringIO]:
    """Return the log as JSON lines."""
    stream = io.StringIO()
    LOG.configure("json", stream=stream)
    yield stream
    LOG.configure()


class Journal(RebalanceJournal):
    """A journal on a disk in memory, with a clock and a timer that stand still."""

    def __init__(self, **overrides: Any) -> None:
        self.broker = MemoryBroker(runs_maintenance=False, **overrides)
        self.spent_s = 0.0
        self._ticks_s = 0.0
        super().__init__(
            self.broker.config,
            self.broker.clock,
            self.broker.topics,
            self.broker.clock,
            self.broker.step_runner,
            self._tick_s,
        )

    def _tick_s(self) -> float:
        """Return the timer, which advances by `spent_s` with each call."""
        self._ticks_s += self.spent_s
        return self._ticks_s

    def explain(self, group: str = "g", *generations: int, **options: Any) -> None:
        """Take rebalances and make their records."""
        for generation in generations or (1,):
            self.take(group, account(generation, **options))
        self.broker.turn()

    def advance(self, elapsed_ms: int) -> None:
        """Advance the time."""
        self.broker.advance(elapsed_ms)

    def batches(self) -> list[list[Record]]:
        """Return the topic's contents by batch."""
        if self.broker.topics.topic(GROUP_EVENTS_TOPIC) is None:
            return []
        data = self.broker.topics.log(GROUP_EVENTS_TOPIC, 0).read(0, 1 << 24)
        return [list(iterate_records(data, header)) for header in iterate_batches(data)]

    def generations(self, group: str = "g") -> list[int]:
        """Return the generations in the history of a group."""
        return [one["generation"] for one in self.history(group)]


def fail(*_: object) -> None:
    """Raise the error of a failing disk."""
    raise StorageError("the disk is gone")


def test_the_history_keeps_the_last_records_of_each_group() -> None:
    """The history keeps group.events.history.size records per group, oldest first."""
    journal = Journal(group_events_history_size="3")
    journal.explain("g", 1, 2, 3, 4, 5)
    journal.explain("h", 1)
    assert journal.generations("g") == [3, 4, 5]
    assert journal.generations("h") == [1]
    assert journal.generations("nobody") == []


def test_the_history_holds_32_records_by_default() -> None:
    """The history keeps 32 records by default.

    32 records cover a series of rebalances, and are small enough for ten thousand groups.
    """
    journal = Journal()
    journal.explain("g", *range(1, 41))
    assert journal.generations() == list(range(9, 41))


def test_a_history_of_no_size() -> None:
    """With a history size of 0 no rebalance record is stored."""
    journal = Journal(group_events_history_size="0")
    journal.explain("g", 1)
    assert journal.generations() == []


def test_the_history_goes_with_its_group() -> None:
    """A group that has ended leaves nothing in memory."""
    journal = Journal()
    journal.explain("g", 1)
    journal.explain("g", 2, outcome=RebalanceOutcome.DEAD)
    assert journal.generations() == []
    journal.explain("g", 1)
    assert journal.generations() == [1]


def test_records_are_made_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of loaded groups are recorded in steps, so that the event loop is not blocked."""
    monkeypatch.setattr("coordinator_server.clock.step_runner.SLICE_MS", 0)
    journal = Journal()
    for generation in (1, 2, 3):
        journal.take("g", account(generation))
    assert journal.generations() == []
    (next_slice,) = journal.broker.clock.take_soon()
    next_slice.run()
    assert journal.generations() == [1]
    journal.broker.turn()
    assert journal.generations() == [1, 2, 3]


def test_the_topic_is_made_when_there_is_something_to_tell() -> None:
    """The topic is created with the first record: one partition, deleted by age.

    The key is the group id, the value is the record, and the timestamp is the rebalance's end.
    """
    journal = Journal()
    assert journal.broker.topics.topic(GROUP_EVENTS_TOPIC) is None
    journal.explain("g\u00fc", 7)
    journal.advance(GATHER_MS)
    topic = journal.broker.topics.topic(GROUP_EVENTS_TOPIC)
    assert topic is not None
    assert topic.is_internal
    assert len(topic.partitions) == 1
    assert topic.configs["cleanup.policy"] == "delete"
    ((record,),) = journal.batches()
    assert (record.key, record.timestamp_ms) == ("g\u00fc".encode(), 2_000)
    assert json.loads(record.value or b"") == journal.history("g\u00fc")[0]


def test_records_are_gathered_into_batches() -> None:
    """Records within the gathering time are written as one batch, in order."""
    journal = Journal()
    journal.explain("g", 1, 2)
    journal.advance(GATHER_MS - 1)
    journal.explain("h", 1)
    assert journal.batches() == []
    journal.advance(1)
    journal.explain("g", 3)
    journal.advance(GATHER_MS)
    written = [[json.loads(one.value or b"")["generation"] for one in batch]
               for batch in journal.batches()]  # fmt: skip
    assert written == [[1, 2, 1], [3]]
    assert [one.offset for batch in journal.batches() for one in batch] == [0, 1, 2, 3]


def test_a_batch_does_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record larger than the maximum batch is written alone."""
    monkeypatch.setattr(journal_module, "BATCH_BYTES", 2_000)
    journal = Journal()
    journal.explain("g", 1, 2)
    journal.explain("g", 3, reason="x" * 4_000)
    journal.explain("g", 4)
    for _ in range(4):
        journal.advance(GATHER_MS)
    assert [len(batch) for batch in journal.batches()] == [2, 1, 1]


def test_the_topic_can_be_switched_off() -> None:
    """If the topic is disabled, history and log still get the records."""
    journal = Journal(group_events_enable="false")
    journal.explain("g", 1)
    journal.advance(60_000)
    journal.close()
    assert journal.batches() == []
    assert journal.generations() == [1]


def test_a_disk_that_fails_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, log: io.StringIO
) -> None:
    """A failed write is retried after 1 s, 2 s, 4 s ... 60 s; no record is lost."""
    journal = Journal()
    attempts: list[int] = []

    def failing(*_: object) -> None:
        attempts.append(journal.broker.clock.time_ms)
        raise StorageError(f"the disk is gone, for the {len(attempts)}th time")

    with monkeypatch.context() as patched:
        patched.setattr(Partition, "append_own", failing)
        journal.explain("g", 1)
        start_ms = journal.broker.clock.time_ms
        for _ in range(4_000):
            journal.advance(50)
    pauses_s = [round((later - earlier) / 1000) for earlier, later in pairwise(attempts)]
    assert attempts[0] == start_ms + GATHER_MS
    assert pauses_s[:8] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert log.getvalue().count('"log.failed"') == len(attempts)
    journal.explain("g", 2)
    journal.advance(60_000)
    assert [len(batch) for batch in journal.batches()] == [2]
    journal.explain("g", 3)
    journal.advance(GATHER_MS)
    assert [len(batch) for batch in journal.batches()] == [2, 1]


def test_a_topic_that_cannot_be_made_is_tried_again(log: io.StringIO) -> None:
    """Creating the topic is retried if another topic's name collides with it."""
    journal = Journal()
    other = journal.broker.topics.create("__group.events", 1, {})
    journal.explain("g", 1)
    journal.advance(GATHER_MS)
    assert "collides with existing topic: __group.events" in log.getvalue()
    run_all(journal.broker.topics.delete([other]))
    journal.advance(1_000)
    assert [len(batch) for batch in journal.batches()] == [1]


def test_a_topic_that_was_deleted_is_made_anew() -> None:
    """After a deletion the topic is created again for later records."""
    journal = Journal()
    journal.explain("g", 1)
    journal.advance(GATHER_MS)
    topic = journal.broker.topics.topic(GROUP_EVENTS_TOPIC)
    assert topic is not None
    run_all(journal.broker.topics.delete([topic]))
    journal.explain("g", 2)
    journal.advance(GATHER_MS)
    ((record,),) = journal.batches()
    assert json.loads(record.value or b"")["generation"] == 2


def test_the_queue_is_bounded(monkeypatch: pytest.MonkeyPatch, log: io.StringIO) -> None:
    """If the disk fails for long, the oldest records are dropped, and the log has their number."""
    monkeypatch.setattr(journal_module, "QUEUE_BYTES", 3_000)
    journal = Journal()
    with monkeypatch.context() as patched:
        patched.setattr(Partition, "append_own", fail)
        journal.explain("g", *range(1, 11))
        journal.advance(GATHER_MS)
    journal.advance(1_000)
    (batch,) = journal.batches()
    kept = [json.loads(one.value or b"")["generation"] for one in batch]
    assert kept == list(range(11 - len(kept), 11))
    assert 0 < len(kept) < 10
    (line,) = [one for one in log.getvalue().splitlines() if "records.dropped" in one]
    assert json.loads(line)["records"] == 10 - len(kept)


def test_a_slow_disk_gets_a_small_share_of_the_time() -> None:
    """After a write of 100 ms the next write waits for 2 s, which leaves time for other work."""
    journal = Journal()
    journal.spent_s = 0.1
    journal.explain("g", 1)
    journal.advance(GATHER_MS)
    journal.explain("g", 2)
    journal.advance(GATHER_MS)
    assert len(journal.batches()) == 1
    journal.advance(1_949)
    assert len(journal.batches()) == 1
    journal.advance(1)
    assert len(journal.batches()) == 2


def test_a_clean_stop_writes_what_is_left() -> None:
    """A clean stop writes every pending record, also of rebalances not yet encoded."""
    journal = Journal()
    journal.explain("g", 1)
    journal.take("g", account(2))
    journal.close()
    assert [len(batch) for batch in journal.batches()] == [2]
    journal.advance(60_000)
    assert [len(batch) for batch in journal.batches()] == [2]


def test_a_clean_stop_does_not_wait_for_a_disk_that_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A clean stop makes one attempt on a failing disk."""
    journal = Journal()
    monkeypatch.setattr(Partition, "append_own", fail)
    journal.explain("g", 1)
    journal.close()
    assert journal.batches() == []


def test_a_loaded_group_is_no_line_in_the_log(log: io.StringIO) -> None:
    """A loaded group is not logged separately, but is in the topic and the history.

    One event per partition covers its groups.
    """
    journal = Journal()
    loaded = Rebalance(Cause(Trigger.COORDINATOR_LOADED), 3, None, 1_000)
    journal.take("g", loaded.end(RebalanceOutcome.STABLE, "consumer", 1_000))
    journal.broker.turn()
    assert log.getvalue() == ""
    assert journal.generations() == [3]


def test_the_log_is_told_at_once(log: io.StringIO) -> None:
    """Each rebalance is logged at once, as one event."""
    journal = Journal()
    journal.explain("g", 5, reason="bye")
    (line,) = log.getvalue().splitlines()
    event = json.loads(line)
    assert (event["event"], event["group"], event["generation"]) == ("group.rebalanced", "g", 5)
    assert (event["trigger"], event["reason"]) == ("member left", "bye")
