"""Combine overlapping state batches into disjoint batches.

Where batches overlap, the highest delivery count wins, then the highest delivery state. Adjacent
batches with the same count and state are joined. Source: PersisterStateBatchCombiner.
"""

from __future__ import annotations

from heapq import heappop, heappush, merge
from operator import attrgetter
from typing import TYPE_CHECKING

from coordinator_server.core.share_partitions.persister import StateBatch
from coordinator_server.steps import run_all

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from protocol.apis.write_share_group_state import WriteStateBatch

NO_OFFSET = -1

_FIRST_OFFSET = attrgetter("first_offset")
_STEP_BATCHES = 1000


def combine_batches(
    known: Sequence[StateBatch], new: Iterable[StateBatch], start_offset: int
) -> tuple[StateBatch, ...]:
    """Return both batch lists combined: ascending, disjoint, and from `start_offset` on.

    Start offset -1 returns all offsets. The caller must have checked `cannot_combine`.
    """
    pruned = list(_pruned((*known, *new), start_offset))
    if len(pruned) > 1:
        pruned.sort(key=_FIRST_OFFSET)
        pruned = run_all(_sweep(iter(pruned)))
    return tuple(pruned)


def combine_in_steps(
    asked: Sequence[WriteStateBatch], most: int
) -> Generator[None, None, list[StateBatch]]:
    """Return the batches of a request; many batches are combined in steps.

    The caller refuses more than `most` batches, so combining stops when there are more. Batches
    that end before they begin are kept, so that `cannot_combine` detects them.
    """
    if len(asked) <= _STEP_BATCHES:
        return [_state_batch(batch) for batch in asked]
    runs: list[list[WriteStateBatch]] = []
    invalid: list[WriteStateBatch] = []
    for start in range(0, len(asked), _STEP_BATCHES):
        some = asked[start : start + _STEP_BATCHES]
        invalid += (batch for batch in some if batch.last_offset < batch.first_offset)
        valid = (batch for batch in some if batch.last_offset >= batch.first_offset)
        runs.append(sorted(valid, key=_FIRST_OFFSET))
        yield
    ordered = merge(*runs, key=_FIRST_OFFSET)
    combined = yield from _sweep(map(_state_batch, ordered), most)
    combined += map(_state_batch, invalid[: most + 1])
    return combined


def cannot_combine(
    known: Sequence[StateBatch], new: Sequence[StateBatch], start_offset: int
) -> bool:
    """Return whether one of several batches ends before it begins.

    Kafka throws for such a batch, but keeps it if it is the only batch.
    """
    # The batches in `known` were combined by an earlier write. That write was refused if it had
    # several batches and one was invalid, so only a single batch in `known` can be invalid.
    suspects = (*known, *new) if len(known) == 1 else new
    if not any(suspect.last_offset < suspect.first_offset for suspect in suspects):
        return False
    pruned = list(_pruned((*known, *new), start_offset))
    return len(pruned) > 1 and any(batch.last_offset < batch.first_offset for batch in pruned)


def _state_batch(asked: WriteStateBatch) -> StateBatch:
    return StateBatch(
        asked.first_offset, asked.last_offset, asked.delivery_state, asked.delivery_count
    )


def _sweep(
    waiting: Iterator[StateBatch], most: int | None = None
) -> Generator[None, None, list[StateBatch]]:
    """Combine batches sorted by first offset; stop when there are more than `most` batches."""
    combined: list[StateBatch] = []
    overlapping: list[tuple[int, int, int]] = []  # a heap of (-count, -state, last offset)
    following = next(waiting, None)
    offset = turns = 0
    while following is not None or overlapping:
        turns += 1
        if turns % _STEP_BATCHES == 0:
            if most is not None and len(combined) > most:
                break
            yield
        if following is not None and (not overlapping or following.first_offset <= offset):
            batch, following = following, next(waiting, None)
            if not overlapping:
                if following is None or following.first_offset > batch.last_offset:
                    _append(combined, batch)
                    continue
                offset = batch.first_offset
            heappush(overlapping, (-batch.delivery_count, -batch.delivery_state, batch.last_offset))
            continue
        count, state, last = overlapping[0]
        if last < offset:
            heappop(overlapping)
            continue
        if following is not None:
            last = min(last, following.first_offset - 1)
        _append(combined, StateBatch(offset, last, -state, -count))
        offset = last + 1
    return combined


def _append(batches: list[StateBatch], batch: StateBatch) -> None:
    """Append a batch, or extend the last batch if it is adjacent with the same count and state."""
    if batches:
        first, last, state, count = batches[-1]
        if last + 1 == batch.first_offset and (state, count) == batch[2:]:
            batches[-1] = StateBatch(first, batch.last_offset, state, count)
            return
    batches.append(batch)


def _pruned(batches: Iterable[StateBatch], start_offset: int) -> Iterator[StateBatch]:
    """Yield the parts of the batches at or above the start offset."""
    for batch in batches:
        if start_offset == NO_OFFSET or batch.last_offset >= start_offset <= batch.first_offset:
            yield batch
        elif batch.last_offset >= start_offset:
            yield batch._replace(first_offset=start_offset)
