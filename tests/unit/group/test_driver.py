"""The loop that settles writes."""

from collections.abc import Sequence

from coordinator_server.group.driver import drain
from coordinator_server.group.effects import Effects
from coordinator_server.group.records import Record, offset_tombstone
from protocol.errors import ErrorCode
from tests.unit.group.context import GroupContext, commit_answer

E = ErrorCode


def test_a_drain_is_one_append() -> None:
    """What several requests write goes into the log as one batch, in order."""
    context = GroupContext()
    with context.broker.one_drain():
        for offset in range(3):
            commit_answer(context.broker, ("one", 0, offset), ("three", 0, offset))
    assert context.broker.batches == [6]
    assert context.broker.image.offsets["one"][0].offset == 2


def test_one_oversized_write_spoils_no_other() -> None:
    """A batch that is too large is tried again write by write."""
    context = GroupContext()
    errors = iter([E.RECORD_LIST_TOO_LARGE, E.NONE, E.MESSAGE_TOO_LARGE, E.NONE])
    context.broker.append_error = lambda: next(errors)
    with context.broker.one_drain():
        answers = [commit_answer(context.broker, ("three", number, 1)) for number in range(3)]
    got = [answer.response.topics[0].partitions[0].error_code for answer in answers]
    assert got == [E.NONE, E.UNKNOWN_SERVER_ERROR, E.NONE]
    assert list(context.broker.image.offsets["three"]) == [0, 2]


def test_steps_run_when_all_before_is_settled() -> None:
    """Writes first, then one step at a time, each with its own writes settled before the next."""
    context = GroupContext()
    context.stable("A")
    group, effects, order = context.broker.group, Effects(), []
    assert group is not None

    def append(records: Sequence[Record]) -> ErrorCode:
        order.append(f"append {len(records)}")
        return E.NONE

    def step(now_ms: int, effects: Effects) -> None:
        order.append(f"step at {now_ms}")
        effects.write([offset_tombstone("g", "t", 0)], None)

    def done(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        order.append("done")

    effects.when_settled(step)
    effects.when_settled(step)
    effects.write([offset_tombstone("g", "t", 0)] * 2, done).then(done)
    drain(group, effects, append, 7)
    assert order == [
        "append 2",
        "done",
        "done",
        "step at 7",
        "append 1",
        "step at 7",
        "append 1",
    ]
