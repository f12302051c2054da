"""The report of `make reference`: equal differences together, what varies apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from protocol import REFERENCE_VERSION
from tests.conformance.access.case import Cell
from tests.conformance.access.matrix import CASES
from tests.oracle import segments
from tests.reference.report import Recording, Report, difference
from tests.reference.suites import Suite, is_served, repeated


@pytest.mark.parametrize(
    ("before", "now", "text"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 2}}, "a.b: 2, was 1"),
        ([["Join", {"error": 0}]], [["Join", {"error": 25}]], "Join.error: 25, was 0"),
        ([["Join", 1]], [["Leave", 1]], '[][]: "Leave", was "Join"'),
        ([1], [1, 2], "[]: new 2"),
        ({"a": 1, "b": 2}, {"a": 1}, "b: missing, was 2"),
        ({"out": "x\ny\n"}, {"out": "x\nz\n"}, 'out[]: "z", was "y"'),
        ({"out": "x\n"}, {"out": "x"}, 'out[]: missing, was ""'),
        ("x" * 200, "y", f'"y", was "{"x" * 159}..'),
    ],
)
def test_a_difference_is_the_first_part_that_differs(before: Any, now: Any, text: str) -> None:
    """The line has the path of the first part that differs, and both values."""
    assert difference(before, now) == text


def test_equal_differences_share_a_line() -> None:
    """A line has all names with the same difference; missing and new names are differences."""
    before = {"a": [1], "b": [1], "c": 5, "same": 3, "gone": 4, "varies": 1}
    now = {"a": [2], "b": [2], "c": 6, "same": 3, "extra": 7, "varies": 2}
    assert Report.of_recording(Recording(before, now, {"varies"})) == Report(
        5,
        [
            "2 x []: 2, was 1: a, b",
            "1 x 6, was 5: c",
            "1 x missing, was 4: gone",
            "1 x new 7: extra",
        ],
        ["varies"],
    )


def recording(*answers: dict[str, int]) -> tuple[Suite, list[Path]]:
    """Return a suite that records these answers one after the other, and its directories."""
    directories: list[Path] = []

    def suite(out: Path, work: Path) -> Recording:
        directories.append(out)
        work.mkdir()
        return Recording({"a": 1, "b": 1}, answers[len(directories) - 1])

    return suite, directories


def test_a_suite_with_differences_is_recorded_twice(tmp_path: Path) -> None:
    """An answer that differs only in one of two recordings is no difference of the release."""
    suite, directories = recording({"a": 2, "b": 2}, {"a": 2, "b": 1})
    found = repeated(suite)(tmp_path, tmp_path / "work")
    assert found.differing == ["a"]
    assert found.unstable == {"b"}
    assert len(directories) == 2


def test_a_suite_without_differences_is_recorded_once(tmp_path: Path) -> None:
    """A second recording is made only if the first one differs."""
    suite, directories = recording({"a": 1, "b": 1})
    assert repeated(suite)(tmp_path, tmp_path / "work").differing == []
    assert directories == [tmp_path]


def test_versions_that_a_release_does_not_serve_are_left_out() -> None:
    """An older release is asked only for the versions that it advertises."""
    (case,) = [one for one in CASES if one.name == "DeleteGroups"]
    served = {case.spec.key: (1, 2)}
    cells = [Cell(case, version, "none") for version in range(4)]
    assert [one.version for one in cells if is_served(one, served)] == [1, 2]
    assert not any(is_served(one, {}) for one in cells)


def test_the_segments_have_the_formats_of_all_records_of_groups() -> None:
    """The facts of the recorded segments have each group and each type of record."""
    found = segments.facts(segments.SEGMENTS)
    names = [name for name in found if " record of type " in name]
    types = {name.split(" of type ")[1].split()[0] for name in names if "offsets" in name}
    assert types == {"1", "2", "3", "5", "6", "7", "8"}
    assert found["group g-modern"]["instances"] == ["mi"]
    older = segments.facts(segments.SEGMENTS.with_name("segments-4.1"))
    offsets = "__consumer_offsets record of type 1 version 4"
    assert "topicId" in found[offsets].keys() - older[offsets].keys(), REFERENCE_VERSION
