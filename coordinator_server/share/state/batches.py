"""State batches that overlap become batches that do not.

Source: PersisterStateBatchCombiner. Where two meet, the higher delivery count has its way, with the
same count the higher delivery state; neighbours of one count and state become one batch.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING

from coordinator_server.share.persister import OffsetStates, StateBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

NO_OFFSET = -1


def combine_batches(
    so_far: Sequence[StateBatch], new: Iterable[StateBatch], start_offset: int
) -> tuple[StateBatch, ...]:
    """The batches of both, in order and apart, from `start_offset` on (-1: all of them).

    `so_far` is what this made before, or nothing.

    As in Kafka the pass goes once from the front: a batch that was found to be apart from the next
    one stays as it is, even if its neighbour turns out to be of the same count and state then.
    """
    both = (*so_far, *_cut(new, so_far))
    ahead = sorted(_pruned(both, start_offset), key=_from_the_end)
    combined: list[StateBatch] = []
    while ahead:
        batch = ahead.pop()
        if not ahead or _are_apart(batch, ahead[-1]):
            combined.append(batch)
            continue
        for part in reversed(_merged(batch, ahead.pop())):
            if not ahead or _from_the_end(part) >= _from_the_end(ahead[-1]):
                ahead.append(part)  # where nearly all of them belong
            else:
                insort(ahead, part, key=_from_the_end)
    return tuple(combined)


def _cut(new: Iterable[StateBatch], so_far: Sequence[StateBatch]) -> Iterator[StateBatch]:
    """Each batch, and instead of OffsetStates batches of which the same becomes as of one for each.

    Those would become one again but where a batch so far ends: what is left of it at last has one
    offset, the same as the one that is laid over it, and comes between that and the one before.
    """
    ends = [one.last_offset for one in so_far]
    for batch in new:
        if not isinstance(batch, OffsetStates):
            yield batch
            continue
        first, last, state, count = batch
        for end in ends[bisect_left(ends, first) : bisect_right(ends, last)]:
            if first < end:
                yield StateBatch(first, end - 1, state, count)
            yield StateBatch(end, end, state, count)
            first = end + 1
        if first <= last:
            yield StateBatch(first, last, state, count)


def _pruned(batches: Iterable[StateBatch], start_offset: int) -> Iterator[StateBatch]:
    """What is not below the start offset."""
    for batch in batches:
        first, last, _, _ = batch
        if start_offset == NO_OFFSET or first >= start_offset:
            yield batch
        elif last >= start_offset:
            yield batch._replace(first_offset=start_offset)


def _are_apart(batch: StateBatch, later: StateBatch) -> bool:
    """Whether two batches, in order, have no offset in common and nothing to be joined for."""
    if later.first_offset <= batch.last_offset:
        return False
    return later.first_offset != batch.last_offset + 1 or _rank(batch) != _rank(later)


def _merged(batch: StateBatch, later: StateBatch) -> list[StateBatch]:
    """What becomes of two batches, in order, that are not apart."""
    rank, later_rank = _rank(batch), _rank(later)
    if rank == later_rank:
        return [batch._replace(last_offset=max(batch.last_offset, later.last_offset))]
    if rank > later_rank:
        if later.last_offset <= batch.last_offset:
            return [batch]
        return [batch, later._replace(first_offset=batch.last_offset + 1)]
    if later.first_offset > later.last_offset:
        # It ends before it begins, and names no offset. Kafka comes to no end here; where such a
        # batch meets no other one, it stays as it is.
        return [batch]
    parts = [later]
    if batch.first_offset < later.first_offset:
        parts.insert(0, batch._replace(last_offset=later.first_offset - 1))
    if batch.last_offset > later.last_offset:
        parts.append(batch._replace(first_offset=later.last_offset + 1))
    return parts


def _rank(batch: StateBatch) -> tuple[int, int]:
    return batch.delivery_count, batch.delivery_state


def _from_the_end(batch: StateBatch) -> tuple[int, int, int, int]:
    """The order of PersisterStateBatch, backwards: the first batch is at the end of the list."""
    first, last, state, count = batch
    return -first, -last, -count, -state
