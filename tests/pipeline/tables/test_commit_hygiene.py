"""Table `commit_hygiene`: each special case is a group in one frame, computed by hand."""

from __future__ import annotations

from pipeline import schema
from pipeline.inputs import Questions
from pipeline.tables import commit_hygiene
from tests.pipeline.frames import bronze, rows_of
from tests.pipeline.tables.log_rows import commit, epoch, generation, member

AT_MS = 200_000
QUESTIONS = Questions(at_ms=AT_MS, window_ms=100_000)

RECORDS = [
    # The window is (100 000, 200 000]. The first commit is outside; the second commit is inside and
    # repeats its offset.
    commit("plain", 100_000, 1, "t-0", 5),
    commit("plain", 100_001, 2, "t-0", 5),
    commit("plain", 110_000, 3, "t-0", 9, metadata="é" * 10),
    commit("plain", 120_000, 4, "t-0", 7),
    commit("plain", 130_000, 5, "t-1", 7, record_bytes=250),
    # The commit for t-2 after its removal does not count as a repeated offset. The offset of t-1
    # stays removed.
    commit("plain", 140_000, 6, "t-1", None, record_bytes=30),
    commit("plain", 150_000, 7, "t-2", 1),
    commit("plain", 160_000, 8, "t-2", None),
    commit("plain", 170_000, 9, "t-2", 1),
    # A member of group `zombie` commits t-0, which it lost in generation 2, and t-1, which it owns.
    generation("zombie", 110_000, 10, 1, member("m1", {"t": [0, 1]})),
    commit("zombie", 111_000, 11, "t-0", 1),
    generation("zombie", 120_000, 12, 2, member("m1", {"t": [1]})),
    commit("zombie", 121_000, 13, "t-0", 2),
    commit("zombie", 122_000, 14, "t-1", 2),
    # Generation 3 has no members, and the assignment of generation 4 is unreadable, so these
    # commits are not stale.
    generation("zombie", 130_000, 15, 3),
    commit("zombie", 131_000, 16, "t-5", 2),
    generation("zombie", 140_000, 17, 4, member("m1", None)),
    commit("zombie", 141_000, 18, "t-5", 3),
    # Groups with epochs are not checked for stale commits.
    epoch("modern", 110_000, 20, 1),
    commit("modern", 120_000, 21, "t-0", 2),
    # Group `old` has no commit in the window. Group `removed` has only a removal there.
    commit("old", 99_000, 30, "t-0", 2),
    commit("removed", 99_000, 40, "t-0", 2),
    commit("removed", 101_000, 41, "t-0", None),
]


def test_how_groups_commit() -> None:
    """Each group has the expected counts of the window, and a zombie's commit is stale."""
    made = commit_hygiene.make(bronze(offsets_log=RECORDS), QUESTIONS)
    assert rows_of(made, schema.COMMIT_HYGIENE) == [
        # Columns: group, commits, per second, noop, rewinds, removals, bytes, amplification, stale,
        # metadata.
        ("modern", 1, 0.01, 0, 0, 0, 100, 1.0, None, 0),
        # At the end, only t-0 and t-2 have an offset.
        ("plain", 6, 0.06, 1, 1, 2, 880, 3.0, 0, 20),
        ("removed", 0, 0.0, 0, 0, 1, 100, None, 0, None),
        ("zombie", 5, 0.05, 0, 0, 0, 500, 5 / 3, 1, 0),
    ]
