"""The loop that settles writes."""

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
    assert context.broker.offsets["one"][0].offset == 2


def test_one_oversized_write_fails_no_other() -> None:
    """A batch that is too large is tried again write by write."""
    context = GroupContext()
    errors = iter([E.RECORD_LIST_TOO_LARGE, E.NONE, E.MESSAGE_TOO_LARGE, E.NONE])
    context.broker.append_error = lambda: next(errors)
    with context.broker.one_drain():
        answers = [commit_answer(context.broker, ("three", number, 1)) for number in range(3)]
    got = [answer.response.topics[0].partitions[0].error_code for answer in answers]
    assert got == [E.NONE, E.UNKNOWN_SERVER_ERROR, E.NONE]
    assert list(context.broker.offsets["three"]) == [0, 2]
