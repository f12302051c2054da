"""The report of `make reference`: equal differences are grouped, unstable answers separate."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from protocol import REFERENCE_VERSION
from tests.conformance.access.case import Cell
from tests.conformance.access.matrix import CASES
from tests.conformance.answers import Answers
from tests.conformance.recording import Transcript
from tests.conformance.runner import all_scenarios
from tests.conformance.stage import Scenario
from tests.oracle import segments
from tests.reference.report import Recording, Report, difference
from tests.reference.scenarios import Part, Play, played, scenarios
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
    """The line of a difference has the path of the first differing part, and both values."""
    assert difference(before, now) == text


def test_equal_differences_share_a_line() -> None:
    """All names with the same difference are in one line; a missing or new name differs too."""
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
    """An answer that differs in only one of two recordings does not count as a difference."""
    suite, directories = recording({"a": 2, "b": 2}, {"a": 2, "b": 1})
    found = repeated(suite)(tmp_path, tmp_path / "work")
    assert found.differing == ["a"]
    assert found.unstable == {"b"}
    assert len(directories) == 2


def test_a_suite_without_differences_is_recorded_once(tmp_path: Path) -> None:
    """A second recording is made only if the first recording differs."""
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
    """The facts about the recorded segments cover each group and each record type."""
    found = segments.facts(segments.SEGMENTS)
    names = [name for name in found if " record of type " in name]
    types = {name.split(" of type ")[1].split()[0] for name in names if "offsets" in name}
    assert types == {"1", "2", "3", "5", "6", "7", "8"}
    assert found["group g-modern"]["instances"] == ["mi"]
    older = segments.facts(segments.SEGMENTS.with_name("segments-4.1"))
    offsets = "__consumer_offsets record of type 1 version 4"
    assert "topicId" in found[offsets].keys() - older[offsets].keys(), REFERENCE_VERSION


def test_scenarios_continue_after_the_last_written_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted run keeps the files of finished parts.

    The next run plays only the missing parts, and then removes the files.
    """
    some, *_ = (one for one in all_scenarios() if one.profile == "a")
    other = next(one for one in all_scenarios() if one.profile == "c")
    before = Answers.recorded().kept
    calls: list[str] = []

    def plan(_: Path, __: object) -> Iterator[tuple[str, list[Scenario], Play]]:
        def first(*_: object) -> Part:
            calls.append("first")
            return Part({some.name: before[some.name]}, [], {})

        def second(*_: object) -> Part:
            calls.append("second")
            if len(calls) == 2:
                raise KeyboardInterrupt
            return Part({}, [], {other.name: "ended early: SETUP X"})

        yield "first", [some], first
        yield "second", [other], second

    monkeypatch.setattr("tests.reference.scenarios._plan", plan)
    names = [some.name, other.name]
    with pytest.raises(KeyboardInterrupt):
        scenarios(tmp_path, tmp_path, names)
    assert [one.name for one in tmp_path.iterdir()] == ["part-first.json"]
    found = scenarios(tmp_path, tmp_path, names)
    assert calls == ["first", "second", "second"]
    assert list(tmp_path.glob("part-*")) == []
    assert found.differing == [other.name]
    assert found.before.keys() == {some.name, other.name}


def test_a_scenario_that_a_release_ends_early_differs() -> None:
    """A scenario that ends early with the same problem in all runs is a difference.

    A scenario whose runs end differently is unstable.
    """
    ends = {
        "refused": [["BROKE", "AssertionError: {'error': 'INVALID_CONFIG', 'run': RUN}"]],
        "varies": [["SETUP", "no answer"]],
        "same": [["A", 1]],
    }

    class Played:
        def __init__(self, patience: float) -> None:
            self.run = 0

        def with_jobs(self, _: int) -> Played:
            return self

        def play(self, wanted: list[Scenario]) -> dict[str, Transcript]:
            self.run += 1
            steps = ends | ({"varies": [["A", 1]]} if self.run == 2 else {})
            text = json.dumps(steps).replace("RUN", str(self.run))
            return {one.name: json.loads(text)[one.name] for one in wanted}

    wanted: Any = [SimpleNamespace(name=name) for name in ends]
    player: Any = Played
    part = played(player, wanted, {"same": [["A", 1]]})
    assert part.kept == {"same": [["A", 1]]}
    assert part.unstable == ["varies"]
    assert part.ended == {"refused": "ended early: BROKE AssertionError INVALID_CONFIG"}
