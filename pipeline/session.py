"""The Spark session: one place for its settings.

Small and quiet for one machine; on a cluster (`master`) everything that is not about this machine
holds as well, and workers are sent the code.
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
    # Planning a query again at every stage pays where partitions are many.
    "spark.sql.adaptive.enabled": "false",
    # A run of a minute gains less from the second compiler than that one costs.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto",
}
_ALWAYS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Files of bronze are read as a whole.
    "spark.sql.files.maxRecordsPerFile": str(ROWS_PER_FILE),
    # Days of a table are written side by side, without sorting it by day first.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
    # A task has one processor.
    "spark.executorEnv.POLARS_MAX_THREADS": "1",
}


def settings_for(master: str, own_settings: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings of a session: `own_settings` win; what is about this machine stays on it."""
    local = is_local(master)
    return {**_ALWAYS, **(_LOCAL if local else {}), **own_settings}


def open_session(
    master: str = "local[2]", *, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """The running session, or a new one. `settings` are Spark's and win over ours.

    Raises NoJavaError.
    """
    use_java()
    own_settings = settings or {}
    local = is_local(master)
    if local:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    else:
        name_python(own_settings)
    # Data sources are planned by processes beside the driver; they see this path alone.
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
