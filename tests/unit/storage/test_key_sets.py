"""Compaction that uses the known key sets of batches."""

from __future__ import annotations

import pytest

from protocol.batch import EncodedBatch
from storage import key_sets
from storage.key_sets import KeySets
from storage.latest_keys import LatestKeys
from storage.memory_disk import MemoryDisk
from storage.partition_log import PartitionLog
from tests.unit.storage.cleaning import CONFIG, clean, contents, latest
from tests.unit.storage.support import NOW_MS, all_bytes, keyed, open_log, own


def filled(*, says_so: bool) -> PartitionLog:
    """Return a rolled log of three consumers' commits, with a tombstone and a foreign batch."""
    log = open_log(MemoryDisk(), CONFIG)
    sets = [object() for _ in range(3)]
    for number in range(30):
        consumer = number % 3
        keys = [(b"%d-%d" % (consumer, key), b"%d" % number) for key in range(3)]
        offset = log.append_own(own(keyed(*keys)), NOW_MS).base_offset
        if says_so:
            log.key_sets.add(offset, sets[consumer])
        if number == 20:
            log.append_own(own(keyed((b"0-0", None), (b"stranger", b"x"))), NOW_MS)
    log.roll(NOW_MS)
    return log


def test_the_outcome_is_that_of_a_pass_that_reads_every_batch() -> None:
    """A pass with key sets leaves the same bytes as a pass that reads every batch."""
    outcomes = []
    for says_so in (False, True):
        log = filled(says_so=says_so)
        before = latest(log)
        clean(log)
        assert latest(log) == before
        outcomes.append((contents(log), all_bytes(log)))
    assert outcomes[0] == outcomes[1]


def test_repeated_batches_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass reads the last batch of each key set, and all batches without a key set."""
    read: list[int] = []
    remember = LatestKeys.remember

    def counting(self: LatestKeys, section: bytes, batch: object) -> None:
        read.append(len(section))
        remember(self, section, batch)  # type: ignore[arg-type]  # a batch header

    monkeypatch.setattr(LatestKeys, "remember", counting)
    log = filled(says_so=True)
    clean(log)
    assert len(read) == 3 + 1
    assert log.key_sets.superseded(0, log.log_end_offset) == set()


def test_only_batches_within_the_pass_count() -> None:
    """A batch that the pass does not cover supersedes no record."""
    sets, one, two = KeySets(), object(), object()
    for offset, key_set in ((0, one), (5, two), (10, one), (15, one), (20, two)):
        sets.add(offset, key_set)
    assert sets.superseded(0, 21) == {0, 5, 10}
    assert sets.superseded(0, 15) == {0}
    assert sets.superseded(1, 16) == {10}
    sets.forget_below(10)
    assert sets.superseded(0, 21) == {10}


def test_a_log_that_is_cut_forgets_its_key_sets() -> None:
    """Truncating a log drops its key sets, because its offsets are reused with other keys."""
    log = filled(says_so=True)
    log.truncate_to(30)
    assert log.key_sets.superseded(0, 100) == set()


def test_not_too_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Key sets are dropped when there are too many, so that a later pass reads the batches."""
    monkeypatch.setattr(key_sets, "MOST_BATCHES", 3)
    sets, one = KeySets(), object()
    for offset in range(4):
        sets.add(offset, one)
    assert sets.superseded(0, 10) == set()


def test_a_built_batch_has_no_key_set_unless_it_says_so() -> None:
    """A built batch has no key set by default."""
    batch = own(keyed((b"k", b"v")))
    assert isinstance(batch, EncodedBatch)
    assert batch.key_set is None
