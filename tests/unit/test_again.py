"""tests/again.py: who is run once more, and what comes out of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

ALWAYS = "def test_{0}():\n    assert False, 'always {0}'\n"
AT_FIRST = """
def test_{0}():
    import pathlib
    mark = pathlib.Path(__file__).with_name("{0}.mark")
    first = not mark.exists()
    mark.touch()
    assert not first, "at first {0}"
"""
BROKEN_SETUP = """
import pathlib
import pytest

@pytest.fixture
def settled():
    mark = pathlib.Path(__file__).with_name("setup.mark")
    first = not mark.exists()
    mark.touch()
    assert not first, "at first setup"

def test_setup(settled):
    pass
"""
GOOD = "def test_good():\n    pass\n"


def run(directory: Path, files: dict[str, str]) -> tuple[int, str]:
    """Exit status and output of a run over these files of `tests/`."""
    (directory / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    for name, text in files.items():
        path = directory / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    command = [sys.executable, str(ROOT / "tests" / "again.py"), "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, check=False, timeout=100
    )
    return done.returncode, done.stdout


def test_a_good_run_is_one_run(tmp_path: Path) -> None:
    """Nothing failed: nothing is said of a second run."""
    status, output = run(tmp_path, {"unit/test_a.py": GOOD, "e2e/test_b.py": GOOD})
    assert status == 0
    assert output.count("test session starts") == 1
    assert "once more" not in output


def test_what_passes_the_second_time_is_named(tmp_path: Path) -> None:
    """In real time, in call or setup: run again alone, and the first failure stays to be read."""
    files = {
        "clients/test_a.py": AT_FIRST.format("a") + GOOD,
        "testing/test_b.py": BROKEN_SETUP,
        "unit/test_c.py": GOOD,
    }
    status, output = run(tmp_path, files)
    assert status == 0, output
    assert "at first a" in output
    assert "at first setup" in output
    assert "2 failed" not in output
    assert "1 failed, 2 passed, 1 error" in output
    assert output.rstrip().endswith(
        "Passed only when run once more; their first failures are above:\n"
        "tests/clients/test_a.py::test_a\ntests/testing/test_b.py::test_setup"
    )


def test_what_fails_twice_fails(tmp_path: Path) -> None:
    """A second failure counts, although another test passed the second time."""
    files = {"e2e/test_a.py": ALWAYS.format("a") + AT_FIRST.format("b")}
    status, output = run(tmp_path, files)
    assert status == 1
    assert "1 failed, 1 passed" in output
    assert "Passed only" not in output


@pytest.mark.parametrize(
    "files",
    [
        {"unit/test_a.py": AT_FIRST.format("a")},
        {"unit/test_a.py": AT_FIRST.format("a"), "e2e/test_b.py": AT_FIRST.format("b")},
        {"e2e/test_a.py": "".join(AT_FIRST.format(f"t{number}") for number in range(6))},
        {"e2e/test_a.py": "import nothing_of_this_name\n"},
    ],
    ids=["a unit test", "a unit test among them", "six tests", "a file that cannot be read"],
)
def test_other_failures_count_at_once(tmp_path: Path, files: dict[str, str]) -> None:
    """No second run where time plays no part, or where so many fail that it is no accident."""
    status, output = run(tmp_path, files)
    assert status != 0
    assert output.count("test session starts") == 1
