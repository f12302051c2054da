"""Overlapping state batches: precedence, merging, and the start offset."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from coordinator_server.core.share_partitions.persister import StateBatch
from coordinator_server.core.share_state.batches import (
    cannot_combine,
    combine_batches,
    combine_in_steps,
)
from coordinator_server.steps import run_all
from protocol.apis.write_share_group_state import WriteStateBatch

Batches = list[tuple[int, int, int, int]]


def combined(so_far: Batches, new: Batches, start_offset: int = -1) -> Batches:
    """Return the combined batches as (first, last, state, count)."""
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
        # Disjoint batches in any order are sorted.
        ([(20, 29, 0, 1)], [(5, 9, 0, 1)], [(5, 9, 0, 1), (20, 29, 0, 1)]),
        # Batches with the same count and state are merged where they overlap or touch.
        ([(5, 9, 2, 1)], [(5, 9, 2, 1)], [(5, 9, 2, 1)]),
        ([(5, 9, 2, 1)], [(5, 7, 2, 1)], [(5, 9, 2, 1)]),
        ([(5, 9, 2, 1)], [(6, 12, 2, 1)], [(5, 12, 2, 1)]),
        ([(5, 9, 2, 1)], [(10, 12, 2, 1)], [(5, 12, 2, 1)]),
        ([(5, 9, 2, 1)], [(11, 12, 2, 1)], [(5, 9, 2, 1), (11, 12, 2, 1)]),
        # Adjacent batches with different count or state are not merged.
        ([(5, 9, 2, 1)], [(10, 12, 2, 2)], [(5, 9, 2, 1), (10, 12, 2, 2)]),
        ([(5, 9, 2, 1)], [(10, 12, 4, 1)], [(5, 9, 2, 1), (10, 12, 4, 1)]),
        # If batches have the same offsets, the higher count wins, then the higher state.
        ([(5, 9, 4, 1)], [(5, 9, 0, 2)], [(5, 9, 0, 2)]),
        ([(5, 9, 4, 2)], [(5, 9, 2, 2)], [(5, 9, 4, 2)]),
        # The batches have equal first offsets.
        ([(5, 9, 0, 1)], [(5, 12, 0, 2)], [(5, 12, 0, 2)]),
        ([(5, 9, 0, 2)], [(5, 12, 0, 1)], [(5, 9, 0, 2), (10, 12, 0, 1)]),
        # One batch is inside the other batch.
        ([(5, 20, 0, 1)], [(8, 12, 2, 1)], [(5, 7, 0, 1), (8, 12, 2, 1), (13, 20, 0, 1)]),
        ([(5, 20, 2, 1)], [(8, 12, 0, 1)], [(5, 20, 2, 1)]),
        # The batches have equal last offsets.
        ([(5, 20, 0, 1)], [(8, 20, 0, 2)], [(5, 7, 0, 1), (8, 20, 0, 2)]),
        ([(5, 20, 0, 2)], [(8, 20, 0, 1)], [(5, 20, 0, 2)]),
        # The later batch extends further than the earlier batch.
        ([(5, 20, 0, 1)], [(8, 25, 0, 2)], [(5, 7, 0, 1), (8, 25, 0, 2)]),
        ([(5, 20, 0, 2)], [(8, 25, 0, 1)], [(5, 20, 0, 2), (21, 25, 0, 1)]),
        # All adjacent batches with the same count and state are merged.
        ([(0, 4, 2, 3), (5, 9, 0, 1)], [(5, 12, 2, 3)], [(0, 12, 2, 3)]),
        # A batch whose last offset is below its first offset is kept if it is the only batch.
        ([], [(6, 3, 0, 1)], [(6, 3, 0, 1)]),
    ],
)
def test_cases(so_far: Batches, new: Batches, expected: Batches) -> None:
    """Each pair of batch lists is combined into the expected list."""
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
    """Batches below the start offset are removed; a batch that contains this offset is cut."""
    assert combined([(5, 9, 0, 1)], [(12, 15, 2, 1)], start_offset) == expected


@pytest.mark.parametrize(
    ("so_far", "new", "start_offset", "is_refused"),
    [
        ([], [(6, 3, 0, 1)], -1, False),
        ([], [(6, 3, 0, 1), (6, 9, 0, 2)], -1, True),
        ([(0, 4, 0, 1)], [(6, 3, 0, 1)], -1, True),
        ([(6, 3, 0, 1)], [(0, 4, 0, 1)], -1, True),
        ([(6, 3, 0, 1)], [], -1, False),
        ([(0, 4, 0, 1)], [(6, 3, 0, 1)], 4, False),
        ([(0, 4, 0, 1)], [(6, 3, 0, 1)], 3, True),
        ([(0, 2, 0, 1)], [(6, 3, 0, 1)], 3, False),
    ],
)
def test_batches_that_cannot_be_combined(
    so_far: Batches, new: Batches, start_offset: int, is_refused: bool
) -> None:
    """A batch whose last offset is below its first is only kept if it is the only batch."""
    kept, added = ([StateBatch(*one) for one in batches] for batches in (so_far, new))
    assert cannot_combine(kept, added, start_offset) == is_refused


def test_any_batches() -> None:
    """Each offset has the highest count and state of any batch, and no two batches overlap."""
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
        for before, after in pairwise(made):
            assert before[1] + 1 < after[0] or before[2:] != after[2:]


@pytest.mark.parametrize("width", [1, 40, 100_000])
def test_the_batches_of_a_large_request(width: int) -> None:
    """Many batches are combined in steps, with the same result as in one step.

    A batch that ends before it begins comes last.
    """
    random = Random(5)
    batches = []
    for _ in range(5000):
        first = random.randrange(20_000)
        last = first + random.randrange(width)
        batches.append(StateBatch(first, last, random.choice((0, 2, 4)), random.randrange(3)))
    invalid = StateBatch(9, 7, 0, 1)
    asked = [
        WriteStateBatch(
            first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
        )
        for first, last, state, count in [*batches[:99], invalid, *batches[99:]]
    ]
    steps = combine_in_steps(asked, len(asked))
    assert len([None for _ in steps]) >= 9  # 5 steps to sort the batches, 4 or more to combine them
    made = run_all(combine_in_steps(asked, len(asked)))
    assert made == [*combine_batches((), batches, -1), invalid]


def test_the_batches_of_a_small_request() -> None:
    """Batches of a small request are not combined at once, but later with the stored state."""
    asked = [WriteStateBatch(first_offset=5, last_offset=9)] * 2
    assert run_all(combine_in_steps(asked, 100)) == [StateBatch(5, 9, 0, 0)] * 2


def test_more_batches_than_there_may_be() -> None:
    """Combining stops when there are too many batches."""
    asked = [WriteStateBatch(first_offset=2 * one, last_offset=2 * one) for one in range(9000)]
    assert 2000 < len(run_all(combine_in_steps(asked, 2000))) <= 3000
