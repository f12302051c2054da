"""Send the pipeline's code to the workers of a cluster, and check that they can run it.

The packages are zipped from where this module was imported: a checkout, or the installed wheel.
Spark's driver serves the zip to its executors. Workers need Python with the libraries of NEEDED,
but no installation of this package, and keep nothing after the run.
"""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pipeline.files import temporary_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARCHIVE = "coordinator_server_pipeline.zip"
PACKAGES = ("protocol", "storage", "pipeline")
PURE = ("construct",)
"""Pure Python libraries, which are included in the zip."""

NEEDED = {
    "numpy": "numpy",
    "polars": "polars",
    "pyarrow": "pyarrow",
    "cramjam": "cramjam",
    "google_crc32c": "google-crc32c",
    "xxhash": "xxhash",
}
"""The libraries that a worker needs beside the standard library and Spark's own Python: module name
and package name."""

_OLDEST = (1980, 1, 1, 0, 0, 0)  # zip's earliest date; a fixed date makes zips reproducible
_TASKS_PER_CORE = 4
_TELLING = re.compile(r"(?:pyspark\.errors\.|ModuleNotFoundError|ImportError|Cannot run program).*")


class SparkWorker(NamedTuple):
    """The report of one executor's Python: host, interpreter, code path, missing packages."""

    host: str
    python: str
    code: str
    missing: tuple[str, ...]


class WorkerError(Exception):
    """A worker of the cluster cannot run the pipeline. The text names the worker and the cause."""


def is_local(master: str) -> bool:
    """Return whether the master URL runs everything in the driver's process."""
    return master == "local" or master.startswith("local[")


def write_archive(folder: Path) -> Path:
    """Write the zip of the packages into `folder` and return its path."""
    root = Path(__file__).resolve().parent.parent
    packages = [root / name for name in PACKAGES]
    packages += [_folder_of(name) for name in PURE]
    target = folder / ARCHIVE
    with zipfile.ZipFile(target, "w") as archive:
        for package in packages:
            for path in sorted(package.rglob("*.py")):
                name = zipfile.ZipInfo(path.relative_to(package.parent).as_posix(), _OLDEST)
                archive.writestr(name, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return target


def _folder_of(package: str) -> Path:
    """Return the folder of an installed package."""
    spec = importlib.util.find_spec(package)
    assert spec is not None, package
    assert spec.origin is not None, package
    return Path(spec.origin).parent


def name_python(settings: Mapping[str, str]) -> None:
    """Set the environment that determines which Python runs, here and on workers.

    `settings` are Spark's. Only spark-submit reads `spark.pyspark.python`, and the pipeline starts
    without spark-submit, so its value is put into PYSPARK_PYTHON. Data sources are planned on this
    machine by the workers' name of Python (default: `python3`), so PATH is changed to resolve this
    name to the current interpreter.
    """
    python = settings.get("spark.pyspark.python")
    if python is not None:
        os.environ["PYSPARK_PYTHON"] = python
    own = str(Path(sys.executable).parent)
    os.environ["PATH"] = os.pathsep.join([own, os.environ.get("PATH", "")])


def ship(spark: SparkSession) -> None:
    """Let the executors of a session fetch the zip, which is removed when this process ends."""
    spark.sparkContext.addPyFile(str(_archive()))


@cache
def _archive() -> Path:
    """Return the path of the zip, which all sessions of this process share."""
    return write_archive(temporary_folder("pipeline-code-"))


def check_workers(spark: SparkSession) -> list[SparkWorker]:
    """Check the connected executors and return a description of each.

    Raises WorkerError if Python does not start on a worker, or lacks a library.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # no stubs

    context = spark.sparkContext
    tasks = context.defaultParallelism * _TASKS_PER_CORE
    try:
        looks = context.parallelize(range(tasks), tasks).mapPartitions(_look).collect()
    except Py4JJavaError as error:
        raise WorkerError(
            f"workers of {context.master} cannot run Python: {_why(error)}"
        ) from error
    workers = sorted(set(looks))
    for worker in workers:
        if worker.missing:
            packages = " ".join(worker.missing)
            raise WorkerError(
                f"worker {worker.host}: {worker.python} lacks {packages}: "
                f"install there `{worker.python} -m pip install {packages}`, or name a Python "
                "that has them with PYSPARK_PYTHON"
            )
    return workers


def _look(numbers: Iterable[int]) -> Iterator[SparkWorker]:
    """Yield the description of this worker. Runs on a worker, from the code in the zip."""
    missing = [NEEDED[name] for name in NEEDED if importlib.util.find_spec(name) is None]
    yield SparkWorker(
        socket.gethostname(), sys.executable, os.path.dirname(__file__), tuple(missing)
    )


def _why(error: Exception) -> str:
    """Return the line of a job's error that says why Python did not run, else the first line."""
    lines = _TELLING.findall(str(error))
    return str(lines[-1] if lines else str(error).splitlines()[0])
