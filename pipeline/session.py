"""The Spark session: one place for its settings.

A local session is small and quiet. On a cluster (`master`), the settings for one machine do not
apply, and the code is sent to the workers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pipeline.files import ROWS_PER_FILE, temporary_folder
from pipeline.java import use_java
from pipeline.shipping import is_local, name_python, ship

_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    # Adaptive execution re-plans at every stage, which is useful only with many partitions.
    "spark.sql.adaptive.enabled": "false",
    # In a run of a minute, the JVM's second compiler (C2) costs more time than it saves.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto",
}
_ALWAYS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Workers read a file of bronze as a whole, so its size must be bounded.
    "spark.sql.files.maxRecordsPerFile": str(ROWS_PER_FILE),
    # Write all day folders of a table concurrently, without sorting the rows by day first.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
    # Spark gives each task one processor.
    "spark.executorEnv.POLARS_MAX_THREADS": "1",
}


def settings_for(master: str, own_settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a session.

    Settings for a local master override our general ones, and `own_settings` override both.
    """
    local = is_local(master)
    return {**_ALWAYS, **(_LOCAL if local else {}), **own_settings}


def open_session(
    master: str = "local[2]", *, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Return the running session, or a new one. `settings` are Spark's and override ours.

    Raises NoJavaError.
    """
    use_java()
    own_settings = settings or {}
    local = is_local(master)
    if local:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    else:
        name_python(own_settings)
    # Spark plans data sources in separate processes, which import this code by PYTHONPATH only.
    root = str(Path(__file__).resolve().parent.parent)
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if root not in path:
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *filter(None, path)])
    builder = SparkSession.builder.master(master).appName("coordinator-server pipeline")
    for name, value in settings_for(master, own_settings).items():
        builder = builder.config(name, value)
    with fast_home() if local else nullcontext():
        session = builder.getOrCreate()
    # Errors of tasks are raised here; on one machine, Spark would log them once more.
    session.sparkContext.setLogLevel("FATAL" if local else "ERROR")
    if not local:
        ship(session)
    return session


_INSTALLED = Path(str(files("pyspark")))


@contextmanager
def fast_home() -> Iterator[None]:
    """Set SPARK_HOME while a JVM starts, so that Spark's Python processes start faster.

    Spark puts `python/lib/pyspark.zip` of its home first on the path of every Python process. The
    zip in PySpark's wheel has no bytecode, so each process compiles its imports: 1.5 s of CPU
    instead of 0.3 s, and a run starts about twenty processes. In this home, a folder of the same
    name links to the installed package. Does nothing if SPARK_HOME is set, or on Windows.
    """
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
    """Return a folder with links to the installed PySpark. It is removed when the process ends."""
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


def has_delta(spark: SparkSession) -> bool:
    """Return whether Delta's classes are on the class path."""
    name = "org/apache/spark/sql/delta/catalog/DeltaCatalog.class"
    java: Any = spark._jvm
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    return loader.getResource(name) is not None
