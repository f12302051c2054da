"""The commands that the README gives to a newcomer work."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.support import ROOT, Broker

README = (ROOT / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_example_works() -> None:
    """The kafka-python example prints the ten records that it produced."""
    example, _ = EXAMPLES
    with Broker() as broker:
        pasted = example.replace("127.0.0.1:9092", broker.bootstrap_servers)
        done = subprocess.run(
            [sys.executable, "-c", pasted], capture_output=True, text=True, timeout=90
        )
        assert done.returncode == 0, done.stderr
        values = [line.split(" ", 2)[2] for line in done.stdout.splitlines()]
        assert values == [f"b'hello {number}'" for number in range(10)]


def test_the_test_passes(tmp_path: Path) -> None:
    """The README's test passes in an empty folder, and has as many lines as stated."""
    _, example = EXAMPLES
    (tmp_path / "test_first.py").write_text(example)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=90)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
    lines = [line for line in example.splitlines() if line]
    assert f"{len(lines)} lines" in README


def test_the_tools_it_names_exist() -> None:
    """`protocol show` prints a declaration, and every make target named in the README exists."""
    done = subprocess.run(
        [sys.executable, "-m", "coordinator_server", "protocol", "show", "JoinGroup", "9"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    assert "class JoinGroupRequest" in done.stdout
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"    make (\w+)", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_output_may_be_cut_short() -> None:
    """A closed output pipe, as with `head`, causes no traceback."""
    done = subprocess.run(
        f'"{sys.executable}" -m coordinator_server protocol show Fetch 17 | head -n 1',
        shell=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.stderr == ""
