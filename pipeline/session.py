"""The Spark session: one place for its settings.

Small and quiet for one machine; on a cluster (`master`) everything that is not about this machine
holds as well, and workers are sent the code.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from pipeline.java import use_java
from pipeline.shipping import is_local, name_python, ship

PARTITIONS = "spark.sql.shuffle.partitions"
_PARTITIONS_MIN = 2
ROWS_PER_PARTITION = 500_000
"""What the tasks of two cores sort and count side by side within Spark's default heap of 1 GB."""
_FITTED = "spark.coordinatorServer.fitsPartitions"

_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    PARTITIONS: str(_PARTITIONS_MIN),
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
    # What is sent to all tasks may itself be the work of many minutes; Spark gives up after five.
    "spark.sql.broadcastTimeout": "86400",
    # Days of a table are written side by side, without sorting it by day first.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
    # Lists by reader are gathered in a hash table; after 128 readers Spark would sort.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000",
    # Rows that lie together by group lie together by what says more; kept frames stay so.
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "false",
}


def settings_for(master: str, given: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings of a session: `given` wins; what is about this machine stays on it."""
    local = is_local(master)
    fitted = {_FITTED: "true"} if local and PARTITIONS not in given else {}
    return {**_ALWAYS, **(_LOCAL if local else {}), **fitted, **given}


def fit_partitions(spark: SparkSession, rows: int) -> None:
    """Shuffle `rows` in as many parts as memory asks for, if all runs on one machine.

    A number that was given to `open_session` stays. On a cluster Spark itself joins small parts.
    """
    if spark.conf.get(_FITTED, "false") == "true":
        parts = max(_PARTITIONS_MIN, math.ceil(rows / ROWS_PER_PARTITION))
        spark.conf.set(PARTITIONS, str(parts))


def open_session(
    master: str = "local[2]", *, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """The running session, or a new one. `settings` are Spark's and win over ours.

    Raises NoJavaError.
    """
    use_java()
    given = settings or {}
    local = is_local(master)
    if local:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    else:
        name_python(given)
    # Data sources are planned by processes beside the driver; they see this path alone.
    rooms = str(Path(__file__).resolve().parent.parent)
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if rooms not in path:
        os.environ["PYTHONPATH"] = os.pathsep.join([rooms, *filter(None, path)])
    builder = SparkSession.builder.master(master).appName("coordinator-server pipeline")
    for name, value in settings_for(master, given).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    if not local:
        ship(session)
    return session
