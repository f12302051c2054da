"""tests/conftest.py: reruns, the slices of nightly tests, and the summary."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from argparse import ArgumentTypeError
from collections import Counter
from pathlib import Path

import pytest

from tests import nightly
from tests.conftest import parse_slice
from tests.support import ROOT

INI = """
[pytest]
addopts = -p tests.conftest --import-mode=importlib --strict-markers --max-suite-reruns=5
markers =
    nightly: .
    real_time: .
"""
HEAD = """
import pathlib
import pytest

HERE = pathlib.Path(__file__).parent

def is_first(name):
    mark = HERE / f"{name}.mark"
    is_first = not mark.exists()
    mark.touch()
    return is_first
"""
FAILS_AT_FIRST = """
@pytest.mark.real_time
def test_{0}():
    assert not is_first("{0}"), "at first {0}"
"""
BROKEN_SETUP = """
@pytest.fixture
def settled():
    assert not is_first("setup"), "at first setup"

@pytest.mark.real_time
def test_setup(settled):
    pass
"""
NIGHTLY = """
@pytest.mark.nightly
@pytest.mark.parametrize("number", range(7))
def test_nightly(number):
    pass
"""
GOOD = "def test_good():\n    pass\n"


def run(directory: Path, tests: dict[str, str], *arguments: str) -> tuple[int, str]:
    """Run these tests with the conftest of this checkout; return exit status and output."""
    done = start(directory, tests, *arguments)
    return done.returncode, done.stdout


def start(
    directory: Path, tests: dict[str, str], *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Return the completed run of these tests with the conftest of this checkout."""
    (directory / "pytest.ini").write_text(INI)
    for name, text in tests.items():
        (directory / f"test_{name}.py").write_text(HEAD + text)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["one by one", "in workers"])
def test_what_passes_the_second_time_is_named_and_counted(
    tmp_path: Path, workers: list[str]
) -> None:
    """Tests that pass in the second attempt are listed, and the run succeeds.

    The failure may be in call or setup, and stays in the output.
    """
    tests = {"a": FAILS_AT_FIRST.format("a") + GOOD, "b": BROKEN_SETUP}
    status, output = run(tmp_path, tests, *workers)
    assert status == 0, output
    assert "AssertionError: at first a" in output
    assert "AssertionError: at first setup" in output
    names = re.findall(r"^Run once more: 2\n  (\S+)\n  (\S+)$", output, re.MULTILINE)
    assert sorted(*names) == ["test_a.py::test_a", "test_b.py::test_setup"]
    assert re.search(r"=+ 3 passed, 2 rerun in ", output)


def test_what_fails_twice_fails(tmp_path: Path) -> None:
    """A second failure fails the run, as does a first failure without the marker real_time."""
    always = "@pytest.mark.real_time\ndef test_always():\n    assert False, 'always'\n"
    unmarked = FAILS_AT_FIRST.format("unmarked").replace("@pytest.mark.real_time", "")
    status, output = run(tmp_path, {"a": always + unmarked})
    assert status == 1
    assert "Run once more: 1\n  test_a.py::test_always\n" in output
    assert re.search(r"=+ 2 failed, 1 rerun in ", output)


def test_six_failures_are_no_accident(tmp_path: Path) -> None:
    """At most five failed tests are run again."""
    tests = {"a": "".join(FAILS_AT_FIRST.format(f"t{number}") for number in range(6))}
    status, output = run(tmp_path, tests)
    assert status == 1
    assert re.search(r"=+ 1 failed, 5 passed, 5 rerun in ", output)


def test_what_ends_its_worker_fails_once(tmp_path: Path) -> None:
    """A test that ends its worker, as a timeout does, fails once; its file's other tests run."""
    ends = "def test_before():\n    pass\n\ndef test_ends():\n    import os\n    os._exit(1)\n"
    status, output = run(tmp_path, {"a": ends + GOOD, "b": GOOD}, "-n", "2")
    assert status == 1
    assert "crashed while running 'test_a.py::test_ends'" in output
    assert re.search(r"=+ 1 failed, 3 passed in ", output)


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["one by one", "in workers"])
def test_nightly_tests_that_are_left_out_are_counted(tmp_path: Path, workers: list[str]) -> None:
    """`make test` omits nightly tests, and prints how many and which command runs them."""
    status, output = run(tmp_path, {"a": NIGHTLY + GOOD}, "-m", "not nightly", *workers)
    assert status == 0
    assert "7 nightly tests left out: make nightly runs them\n" in output
    assert re.search(r"=+ 1 passed", output)


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["one by one", "in workers"])
def test_the_slices_of_the_nightly_tests_are_all_of_them(
    tmp_path: Path, workers: list[str]
) -> None:
    """Each nightly test runs in exactly one slice; other tests run in no slice."""
    tests: list[str] = []
    for number in (1, 2):
        arguments = ["-v", "-m", "nightly", f"--slice={number}/2", *workers]
        status, output = run(tmp_path, {"a": NIGHTLY + GOOD}, *arguments)
        assert status == 0
        passed = [line for line in output.splitlines() if "PASSED" in line]
        assert len(passed) in (3, 4)
        tests += [name for line in passed for name in re.findall(r"test_a.py::\S+", line)]
    assert sorted(tests) == [f"test_a.py::test_nightly[{number}]" for number in range(7)]


def test_a_slice_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    """An invalid slice is an error with option and value, and no test runs."""
    for text in ("0/3", "4/3", "1/0", "x", "1/2/3"):
        with pytest.raises(ArgumentTypeError, match=f"'{text}' is not K/N with 1 <= K <= N"):
            parse_slice(text)
    done = start(tmp_path, {"a": NIGHTLY}, "--slice=4/3")
    assert done.returncode == 4
    assert "--slice: '4/3' is not K/N with 1 <= K <= N" in done.stderr


def test_every_slice_gets_its_turn() -> None:
    """The hashes of commits select all slices about equally often."""
    names = list(nightly.find_slices())
    assert len(names) >= nightly.TEST_SLICES + 1
    commits = [hashlib.sha1(str(number).encode()).hexdigest() for number in range(100 * len(names))]
    turns = Counter(nightly.select_slice(commit, names) for commit in commits)
    assert set(turns) == set(names)
    assert min(turns.values()) > 50


@pytest.mark.parametrize(
    ("others", "alone", "passes"),
    [(0, 0, True), (0, 5, True), (5, 0, True), (5, 5, False), (1, 0, False), (0, 1, False)],
)
def test_make_test_passes_if_one_of_its_runs_has_no_test(
    tmp_path: Path, others: int, alone: int, passes: bool
) -> None:
    """`make test` runs timed tests separately; a run without tests has exit status 5."""
    stub = tmp_path / "pytest.sh"
    stub.write_text(f'case "$*" in *"not alone"*) exit {others};; *) exit {alone};; esac\n')
    command = ["make", "--silent", "-o", ".venv/.installed-dev", "test", f"PYTEST=sh {stub}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode == 0) is passes
