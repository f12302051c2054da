"""State batches that overlap: who has its way, what is joined, what the start offset takes away."""

from __future__ import annotations

from random import Random

import pytest

from coordinator_server.share.persister import OffsetStates, StateBatch
from coordinator_server.share.state.batches import combine_batches

Batches = list[tuple[int, int, int, int]]


def combined(so_far: Batches, new: Batches, start_offset: int = -1) -> Batches:
    """The combined batches, as (first, last, state, count)."""
    made = combine_batches(
        [StateBatch(*one) for one in so_far], [StateBatch(*one) for one in new], start_offset
    )
    return [(first, last, state, count) for first, last, state, count in made]


@pytest.mark.parametrize(
    ("so_far", "new", "expected"),
    [
        ([], [], []),
        ([], [(5, 9, 0, 1)], [(5, 9, 0, 1)]),
        ([(5, 9, 0, 1)], [], [(5, 9, 0, 1)]),
        # Apart, in whatever order they come.
        ([(20, 29, 0, 1)], [(5, 9, 0, 1)], [(5, 9, 0, 1), (20, 29, 0, 1)]),
        # The same count and state: joined where they overlap or touch.
        ([(5, 9, 2, 1)], [(5, 9, 2, 1)], [(5, 9, 2, 1)]),
        ([(5, 9, 2, 1)], [(5, 7, 2, 1)], [(5, 9, 2, 1)]),
        ([(5, 9, 2, 1)], [(6, 12, 2, 1)], [(5, 12, 2, 1)]),
        ([(5, 9, 2, 1)], [(10, 12, 2, 1)], [(5, 12, 2, 1)]),
        ([(5, 9, 2, 1)], [(11, 12, 2, 1)], [(5, 9, 2, 1), (11, 12, 2, 1)]),
        # They touch, but differ.
        ([(5, 9, 2, 1)], [(10, 12, 2, 2)], [(5, 9, 2, 1), (10, 12, 2, 2)]),
        ([(5, 9, 2, 1)], [(10, 12, 4, 1)], [(5, 9, 2, 1), (10, 12, 4, 1)]),
        # The same offsets: the higher count, then the higher state.
        ([(5, 9, 4, 1)], [(5, 9, 0, 2)], [(5, 9, 0, 2)]),
        ([(5, 9, 4, 2)], [(5, 9, 2, 2)], [(5, 9, 4, 2)]),
        # The same first offset.
        ([(5, 9, 0, 1)], [(5, 12, 0, 2)], [(5, 12, 0, 2)]),
        ([(5, 9, 0, 2)], [(5, 12, 0, 1)], [(5, 9, 0, 2), (10, 12, 0, 1)]),
        # One within the other.
        ([(5, 20, 0, 1)], [(8, 12, 2, 1)], [(5, 7, 0, 1), (8, 12, 2, 1), (13, 20, 0, 1)]),
        ([(5, 20, 2, 1)], [(8, 12, 0, 1)], [(5, 20, 2, 1)]),
        # The same last offset.
        ([(5, 20, 0, 1)], [(8, 20, 0, 2)], [(5, 7, 0, 1), (8, 20, 0, 2)]),
        ([(5, 20, 0, 2)], [(8, 20, 0, 1)], [(5, 20, 0, 2)]),
        # The later one reaches farther.
        ([(5, 20, 0, 1)], [(8, 25, 0, 2)], [(5, 7, 0, 1), (8, 25, 0, 2)]),
        ([(5, 20, 0, 2)], [(8, 25, 0, 1)], [(5, 20, 0, 2), (21, 25, 0, 1)]),
        # A batch that was found to be apart stays so, though its neighbour is of its kind then.
        ([(0, 4, 2, 3), (5, 9, 0, 1)], [(5, 12, 2, 3)], [(0, 4, 2, 3), (5, 12, 2, 3)]),
        # One that ends before it begins stays as it is, unless it meets another one.
        ([], [(6, 3, 0, 1)], [(6, 3, 0, 1)]),
        ([(0, 4, 0, 1)], [(6, 3, 0, 1), (6, 9, 0, 2)], [(0, 4, 0, 1), (6, 3, 0, 1), (6, 9, 0, 2)]),
        ([(5, 20, 0, 1)], [(10, 3, 0, 1)], [(5, 20, 0, 1)]),
        ([(5, 20, 0, 2)], [(10, 3, 0, 1)], [(5, 20, 0, 2)]),
        ([(5, 20, 0, 1)], [(10, 3, 0, 2)], [(5, 20, 0, 1)]),
    ],
)
def test_cases(so_far: Batches, new: Batches, expected: Batches) -> None:
    """One pair each."""
    assert combined(so_far, new) == expected


@pytest.mark.parametrize(
    ("start_offset", "expected"),
    [
        (-1, [(5, 9, 0, 1), (12, 15, 2, 1)]),
        (5, [(5, 9, 0, 1), (12, 15, 2, 1)]),
        (9, [(9, 9, 0, 1), (12, 15, 2, 1)]),
        (10, [(12, 15, 2, 1)]),
        (13, [(13, 15, 2, 1)]),
        (16, []),
    ],
)
def test_what_lies_below_the_start_offset_is_gone(start_offset: int, expected: Batches) -> None:
    """Whole batches, and the front of the one that it falls into."""
    assert combined([(5, 9, 0, 1)], [(12, 15, 2, 1)], start_offset) == expected


@pytest.mark.parametrize(
    ("so_far", "new", "expected"),
    [
        ([], (2, 4, 0, 2), [(2, 4, 0, 2)]),
        # The last offset of a batch so far comes to be apart, that of the new one does not.
        ([(2, 4, 0, 1)], (2, 4, 0, 2), [(2, 3, 0, 2), (4, 4, 0, 2)]),
        ([(0, 4, 0, 1)], (2, 6, 0, 2), [(0, 1, 0, 1), (2, 3, 0, 2), (4, 6, 0, 2)]),
        ([(2, 9, 0, 1)], (2, 4, 0, 2), [(2, 4, 0, 2), (5, 9, 0, 1)]),
        ([(4, 4, 0, 1)], (4, 6, 0, 2), [(4, 6, 0, 2)]),
        ([(2, 4, 2, 2)], (2, 6, 0, 2), [(2, 4, 2, 2), (5, 6, 0, 2)]),
    ],
)
def test_a_state_for_each_offset(
    so_far: Batches, new: tuple[int, int, int, int], expected: Batches
) -> None:
    """A batch that was cut once is laid over in another way than a whole one."""
    kept = [StateBatch(*one) for one in so_far]
    made = combine_batches(kept, [OffsetStates(*new)], -1)
    assert list(made) == expected
    assert not any(isinstance(one, OffsetStates) for one in made)


def test_states_for_each_offset_are_combined_like_batches_of_one_offset() -> None:
    """Whatever is kept, and whatever comes with them."""
    random = Random(5)
    kept: tuple[StateBatch, ...] = ()
    for _ in range(5000):
        new: list[StateBatch] = []
        offset = random.randrange(12)
        for _ in range(random.randrange(5)):
            last = offset + random.randrange(6)
            kind = random.choice((StateBatch, OffsetStates))
            new.append(kind(offset, last, random.choice((0, 2, 4)), random.randrange(1, 4)))
            offset = last + random.choice((1, 1, 3))
        apart: Batches = []
        for batch in new:
            first, last, state, count = batch
            each = isinstance(batch, OffsetStates)
            apart += (
                [(one, one, state, count) for one in range(first, last + 1)] if each else [batch]
            )
        start = random.randrange(-1, 12)
        made = combine_batches(kept, new, start)
        assert list(made) == combined([*kept], apart, start), (kept, new, start)
        kept = () if random.randrange(4) == 0 else made


def test_any_batches() -> None:
    """Each offset has the highest count and state that any batch gives it; no two overlap."""
    random = Random(4)
    for _ in range(2000):
        batches = []
        for _ in range(random.randrange(9)):
            first = random.randrange(25)
            batches.append(
                (first, first + random.randrange(8), random.choice((0, 2, 4)), random.randrange(3))
            )
        start = random.randrange(-1, 25)
        split = random.randrange(len(batches) + 1)
        made = combined(batches[:split], batches[split:], start)
        expected: dict[int, tuple[int, int]] = {}
        for first, last, state, count in batches:
            for offset in range(max(first, start), last + 1):
                expected[offset] = max(expected.get(offset, (-1, -1)), (count, state))
        found: dict[int, tuple[int, int]] = {}
        for first, last, state, count in made:
            assert first <= last
            for offset in range(first, last + 1):
                assert offset not in found
                found[offset] = count, state
        assert found == expected
        assert made == sorted(made)
