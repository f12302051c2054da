"""Mutation tests: `python -m tests.sim.mutations` tries one deliberate bug after another.

Each bug is put into a copy of the package in a temporary directory, never into the tree. The seed
or unit test that caught it last time runs first (`killers.txt`; `--keep` rewrites the file), then
the seeds, the small worlds, and finally the unit tests. Exit code 1 if a bug goes undetected.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from tests.sim.bug import Bug, broken, read_bugs

ROOT = Path(__file__).parents[2]
PACKAGE = Path("coordinator_server")
COPIED = (PACKAGE, Path("protocol"))
LINKED = ("storage", "tests", "docs", "pyproject.toml")
KILLERS = Path(__file__).with_name("killers.txt")
SEEDS = "0-39"
UNIT_TESTS = (
    "tests/unit/core/groups",
    "tests/unit/core/transactions",
    "tests/unit/coordinator",
    "tests/unit/core/share_partitions",
)
CLASSIC_GROUPS = "tests.sim"
STEPS = {
    CLASSIC_GROUPS: 600,
    "tests.sim.transactions": 60,
    "tests.sim --kind consumer": 400,
    "tests.sim --kind share": 120,
    "tests.sim --kind share-members": 400,
    "tests.sim --kind streams": 400,
}
"""The options of a seed, by simulation."""
DEPTH = 4
TIME_LIMIT_S = 120


class Result(NamedTuple):
    """The result for one bug; `killer` is a seed or a test, None if the bug survived."""

    bug: Bug
    killer: str | None
    how: str
    seconds: float

    @property
    def row(self) -> str:
        """Return a row of the table."""
        killer = self.killer or "SURVIVED"
        return f"| {self.bug.name} | {killer} | {self.how} |"


def module_path(bug: Bug) -> Path:
    """Return the path of the bug's module below the root of a checkout."""
    module = Path(f"{bug.module.replace('.', '/')}.py")
    return module if Path(module.parts[0]) in COPIED else PACKAGE / module


def stage(directory: Path, bug: Bug | None) -> None:
    """Copy the packages into `directory`, put the bug into its module, link all other files."""
    for package in COPIED:
        shutil.copytree(ROOT / package, directory / package)
    for name in LINKED:
        (directory / name).symlink_to(ROOT / name)
    if bug is None:
        return
    module = directory / module_path(bug)
    module.write_text(broken(module.read_text(encoding="utf-8"), bug), encoding="utf-8")


def try_bug(bug: Bug) -> Result:
    """Return the seed, or else the small world, or else the unit test that detects a bug."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutation-") as name:
        directory = Path(name)
        stage(directory, bug)
        killer, how = _known(directory, bug)
        if killer is None:
            killer, how = _simulate(directory, bug.world)
        if killer is None and bug.world == CLASSIC_GROUPS:
            killer, how = _explore(directory)
        if killer is None:
            killer, how = _unit_test(directory)
    return Result(bug, killer, how, time.monotonic() - started)


def check_health() -> None:
    """Check that all tests pass without a bug; if a test failed, every bug would seem detected."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as name:
        directory = Path(name)
        stage(directory, None)
        hunters: list[Callable[[Path], tuple[str | None, str]]]
        hunters = [partial(_simulate, world=world) for world in STEPS]
        hunters += [_explore, _unit_test]
        killer = next((killer for hunt in hunters if (killer := hunt(directory)[0])), None)
    if killer is not None:
        sys.exit(f"without any bug there is already a failure: {killer}")


@cache
def _killers() -> dict[str, str]:
    """Return the seed or unit test that caught each bug last time."""
    lines = KILLERS.read_text(encoding="utf-8").splitlines()
    return dict(line.rsplit(": ", 1) for line in lines if not line.startswith("#"))


def _keep(results: Sequence[Result]) -> None:
    """Record the seed or unit test that caught each bug; small worlds are searched every time."""
    lines = ["# What caught each bug last time; python -m tests.sim.mutations --keep rewrites this"]
    for result in results:
        killer = result.killer or ""
        if seed := re.match(r"seed (\d+)", killer):
            lines.append(f"{result.bug.name}: {seed[1]}")
        elif killer.endswith(".py"):
            lines.append(f"{result.bug.name}: {killer}")
    KILLERS.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _known(directory: Path, bug: Bug) -> tuple[str | None, str]:
    """Return how the seed or test that detected a bug last time detects the bug again.

    Returns (seed or test, error), or (None, "") if the bug is not detected.
    """
    killer = _killers().get(bug.name, "")
    if killer.isdecimal():
        return _simulate(directory, bug.world, f"{killer}-{killer}")
    if killer and (ROOT / killer).exists():
        return _unit_test(directory, (killer,))
    return None, ""


def _simulate(directory: Path, world: str, seeds: str = SEEDS) -> tuple[str | None, str]:
    code, _, errors = _run(
        directory, *world.split(), "--seeds", seeds, "--steps", str(STEPS[world])
    )
    if code == 0:
        return None, ""
    note = re.search(r"seed (\d+), step (\d+)", errors)
    assert note is not None, f"the simulation does not run:\n{errors}"
    return f"seed {note[1]}, step {note[2]}", _complaint(errors)


def _explore(directory: Path) -> tuple[str | None, str]:
    code, _, errors = _run(directory, "tests.sim.small_worlds", "--depth", str(DEPTH))
    if code == 0:
        return None, ""
    note = re.search(r'--world "(.*)" --path "(.*)"', errors)
    assert note is not None, f"the small worlds do not run:\n{errors}"
    return f"{note[1]}: {note[2]}", _complaint(errors)


def _complaint(errors: str) -> str:
    """Return the last exception of a traceback."""
    said = re.findall(r"^(\w*(?:Error|Exception)\b.*|AssertionError)$", errors, re.MULTILINE)
    return said[-1].removeprefix("AssertionError: ").replace("|", "/")[:80] if said else ""


def _unit_test(directory: Path, paths: Sequence[str] = UNIT_TESTS) -> tuple[str | None, str]:
    code, output, _ = _run(directory, "pytest", "-q", "-x", *paths)
    if code == 0:
        return None, ""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+?\.py)(?:::(\w+))?", output, re.MULTILINE)
    assert failed is not None, f"the tests do not run:\n{output}"
    return failed[1], failed[2] or ""


def _run(directory: Path, *module_and_arguments: str) -> tuple[int, str, str]:
    """Run `python -m ...`; return its exit code, output and errors.

    A timeout counts as a failure.
    """
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(directory)}
    command = [sys.executable, "-m", *module_and_arguments]
    done = subprocess.run(
        command,
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def try_all(bugs: Sequence[Bug], jobs: int) -> list[Result]:
    """Try the bugs, `jobs` at a time; print a line for each finished bug, in order."""
    print("| bug | killed by | what it saw |\n|---|---|---|")
    results = []
    with ThreadPoolExecutor(jobs) as pool:
        for result in pool.map(try_bug, bugs):
            print(result.row, flush=True)
            results.append(result)
    return results


def main() -> int:
    """Try every bug, or the bugs whose names contain the given word; return 1 if one survives."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.mutations", description=__doc__)
    parser.add_argument("word", nargs="?", default="", help="only bugs whose name contains it")
    parser.add_argument("--keep", action="store_true", help="record what caught each of them")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    arguments = parser.parse_args()
    bugs = [bug for bug in read_bugs() if arguments.word in bug.name]
    for bug in bugs:  # check every fragment against the source before the first run
        broken((ROOT / module_path(bug)).read_text(encoding="utf-8"), bug)
    check_health()
    results = try_all(bugs, arguments.jobs)
    if arguments.keep:
        _keep(results)
    survivors = [result for result in results if result.killer is None]
    seeds = sum((result.killer or "").startswith("seed") for result in results)
    tests = sum((result.killer or "").endswith(".py") for result in results)
    worlds = len(results) - seeds - tests - len(survivors)
    print(
        f"{len(results)} bugs: {seeds} seen by a seed, {worlds} by a small world, "
        f"{tests} by a unit test, {len(survivors)} survived"
    )
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
