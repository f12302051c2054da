"""`settle`, which appends the writes of requests to the log."""

from collections.abc import Sequence

from coordinator_server.core.groups.driver import settle
from coordinator_server.core.groups.effects import Effects, ProducerIdAndEpoch
from coordinator_server.core.groups.offsets import CommittedOffset
from coordinator_server.core.groups.records import CoordinatorRecords, OffsetRecords
from protocol.errors import ErrorCode
from tests.unit.core.groups.context import GroupContext, commit_answer

E = ErrorCode


def test_a_drain_is_one_append() -> None:
    """The writes of several requests go into the log as one batch, in order."""
    context = GroupContext()
    with context.broker.one_drain():
        for offset in range(3):
            commit_answer(context.broker, ("one", 0, offset), ("three", 0, offset))
    assert context.broker.batches == [6]
    assert context.broker.offsets["one"][0].offset == 2


def test_one_oversized_write_fails_no_other() -> None:
    """A batch that is too large is retried write by write, so that only large writes fail."""
    context = GroupContext()
    errors = iter([E.RECORD_LIST_TOO_LARGE, E.NONE, E.MESSAGE_TOO_LARGE, E.NONE])
    context.broker.append_error = lambda: next(errors)
    with context.broker.one_drain():
        answers = [commit_answer(context.broker, ("three", number, 1)) for number in range(3)]
    got = [answer.response.topics[0].partitions[0].error_code for answer in answers]
    assert got == [E.NONE, E.UNKNOWN_SERVER_ERROR, E.NONE]
    assert list(context.broker.offsets["three"]) == [0, 2]


def test_each_transaction_has_a_batch_of_its_own() -> None:
    """Each transaction has its own batch; consecutive writes of one transaction share the batch."""
    appended: list[tuple[int, ProducerIdAndEpoch | None]] = []

    class Log:
        """A log that accepts everything."""

        def append(
            self, writes: Sequence[CoordinatorRecords], producer: ProducerIdAndEpoch | None = None
        ) -> ErrorCode:
            appended.append((len(writes), producer))
            return E.NONE

    group = GroupContext().broker.replayed()
    effects = Effects()
    one, two = ProducerIdAndEpoch(1, 0), ProducerIdAndEpoch(2, 0)
    for number, producer in enumerate((one, one, two, None, None, one)):
        offsets = {0: CommittedOffset(number)}
        effects.write(OffsetRecords("g", [("one", offsets)]), None, producer)
    settle(group, effects, Log(), 0)
    assert appended == [(2, one), (1, two), (2, None), (1, one)]
    assert group.offsets.by_topic["one"][0].offset == 4
    assert group.offsets.pending.producer_ids == (1, 2)
