"""State batches that overlap become batches that do not.

Source: PersisterStateBatchCombiner. Where batches overlap, the highest delivery count counts, with
the same count the highest delivery state; neighbours of one count and state become one batch.
"""

from __future__ import annotations

from heapq import heappop, heappush
from operator import attrgetter
from typing import TYPE_CHECKING

from coordinator_server.share.persister import StateBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

NO_OFFSET = -1

_FIRST_OFFSET = attrgetter("first_offset")


def combine_batches(
    so_far: Sequence[StateBatch], new: Iterable[StateBatch], start_offset: int
) -> tuple[StateBatch, ...]:
    """Return the batches of both, ascending and disjoint, from `start_offset` on (-1: all of them).

    They must not be such as `cannot_combine` refuses.
    """
    pruned = tuple(_pruned((*so_far, *new), start_offset))
    if len(pruned) < 2:
        return pruned
    waiting = sorted(pruned, key=_FIRST_OFFSET, reverse=True)
    combined: list[StateBatch] = []
    overlapping: list[tuple[int, int, int]] = []  # a heap of (-count, -state, last offset)
    offset = 0
    while waiting or overlapping:
        if not overlapping:
            offset = waiting[-1].first_offset
        while waiting and waiting[-1].first_offset <= offset:
            _, last, state, count = waiting.pop()
            heappush(overlapping, (-count, -state, last))
        count, state, last = overlapping[0]
        if last < offset:
            heappop(overlapping)
            continue
        if waiting:
            last = min(last, waiting[-1].first_offset - 1)
        _append(combined, StateBatch(offset, last, -state, -count))
        offset = last + 1
    return tuple(combined)


def cannot_combine(
    so_far: Sequence[StateBatch], new: Sequence[StateBatch], start_offset: int
) -> bool:
    """Return whether one of several batches ends before it begins.

    Kafka throws there, but keeps such a batch if it is the only one.
    """
    # `so_far` was combined, so it can hold such a batch only alone.
    suspects = (*so_far, *new) if len(so_far) == 1 else new
    if not any(one.last_offset < one.first_offset for one in suspects):
        return False
    pruned = list(_pruned((*so_far, *new), start_offset))
    return len(pruned) > 1 and any(one.last_offset < one.first_offset for one in pruned)


def _append(batches: list[StateBatch], batch: StateBatch) -> None:
    """Append a batch, or extend the last batch if that has the same count and state."""
    if batches:
        first, last, state, count = batches[-1]
        if last + 1 == batch.first_offset and (state, count) == batch[2:]:
            batches[-1] = StateBatch(first, batch.last_offset, state, count)
            return
    batches.append(batch)


def _pruned(batches: Iterable[StateBatch], start_offset: int) -> Iterator[StateBatch]:
    """Yield the batches as far as they are not below the start offset."""
    for batch in batches:
        if start_offset == NO_OFFSET or batch.last_offset >= start_offset <= batch.first_offset:
            yield batch
        elif batch.last_offset >= start_offset:
            yield batch._replace(first_offset=start_offset)
