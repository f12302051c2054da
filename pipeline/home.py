"""A home for Spark out of which its Python processes start fast.

Spark puts `python/lib/pyspark.zip` of its home before all else on the path of every Python that it
starts, and the zip of PySpark's wheel has no bytecode: each of them compiles what it imports, 1.5 s
of CPU instead of 0.3, and a run starts about twenty. So on one machine Spark is given a home with a
folder of that name, by which Python comes to the installed package.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path

from pipeline.temporary import temporary_folder

_INSTALLED = Path(str(files("pyspark")))


@contextmanager
def fast_home() -> Iterator[None]:
    """SPARK_HOME for the start of a JVM; nothing where it is set already, or on Windows."""
    if "SPARK_HOME" in os.environ or os.name != "posix":
        yield
        return
    os.environ["SPARK_HOME"] = str(_make())
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]


@cache
def _make() -> Path:
    """Links to what PySpark has installed; they go with this process."""
    home = temporary_folder("spark-home-")
    for entry in _INSTALLED.iterdir():
        if entry.name != "python":
            (home / entry.name).symlink_to(entry)
    for archive in (_INSTALLED / "python" / "lib").glob("*.zip"):
        package = archive.stem.partition("-")[0]
        folder = home / "python" / "lib" / archive.name
        folder.mkdir(parents=True)
        (folder / package).symlink_to(str(files(package)))
    return home
