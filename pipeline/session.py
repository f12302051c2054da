"""The Spark session: one place for its settings.

A local session is small and quiet. On a cluster (`master`), the settings for one machine do not
apply, and the code is sent to the workers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

from pyspark.sql import SparkSession

from pipeline.files import ROWS_PER_FILE
from pipeline.home import fast_home
from pipeline.java import use_java
from pipeline.shipping import is_local, name_python, ship

_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    # Adaptive execution re-plans at every stage, which only pays with many partitions.
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
    session.sparkContext.setLogLevel("ERROR")
    if not local:
        ship(session)
    return session
