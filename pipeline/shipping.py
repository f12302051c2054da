"""How the pipeline's code comes to the machines of a cluster, and whether they can run it.

The packages are put into one zip, from where this module was imported: a checkout, or the folder
in the installed wheel. Spark's driver serves it to its executors. Workers need Python with the
libraries of NEEDED and nothing of ours; nothing is kept there when the run has ended.
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

from pipeline.temporary import temporary_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARCHIVE = "coordinator_server_pipeline.zip"
PACKAGES = ("protocol", "storage", "pipeline")
PURE = ("construct",)
"""Libraries that are Python alone go with them."""

NEEDED = {
    "numpy": "numpy",
    "polars": "polars",
    "pyarrow": "pyarrow",
    "cramjam": "cramjam",
    "google_crc32c": "google-crc32c",
    "xxhash": "xxhash",
}
"""What a worker imports beside the standard library and Spark's own Python: module and package."""

_OLDEST = (1980, 1, 1, 0, 0, 0)  # a date that a zip can hold: equal code makes equal zips
_TASKS_PER_CORE = 4
_TELLING = re.compile(r"(?:pyspark\.errors\.|ModuleNotFoundError|ImportError|Cannot run program).*")


class SparkWorker(NamedTuple):
    """What one executor's Python said about itself."""

    host: str
    python: str
    code: str
    missing: tuple[str, ...]


class WorkerError(Exception):
    """A machine of the cluster cannot run the pipeline; says which one, and what it lacks."""


def is_local(master: str) -> bool:
    """Whether everything runs in the driver's own process."""
    return master == "local" or master.startswith("local[")


def write_archive(folder: Path) -> Path:
    """Write the zip of our packages into a folder; returns its path."""
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
    """Where an installed package lies."""
    spec = importlib.util.find_spec(package)
    assert spec is not None, package
    assert spec.origin is not None, package
    return Path(spec.origin).parent


def name_python(settings: Mapping[str, str]) -> None:
    """Settle by which name Pythons are started, here and on workers; `given`: Spark's settings.

    Only spark-submit reads `spark.pyspark.python`, and we are started without it. Data sources are
    planned on this machine by the workers' name of Python, which is `python3` if nothing is said:
    here that has to be the interpreter that runs us.
    """
    python = settings.get("spark.pyspark.python")
    if python is not None:
        os.environ["PYSPARK_PYTHON"] = python
    own = str(Path(sys.executable).parent)
    os.environ["PATH"] = os.pathsep.join([own, os.environ.get("PATH", "")])


def ship(spark: SparkSession) -> None:
    """Let the executors of a session fetch the zip; it goes with this process."""
    spark.sparkContext.addPyFile(str(_archive()))


@cache
def _archive() -> Path:
    """One for all sessions of a process: the same place for the same name."""
    return write_archive(temporary_folder("pipeline-code-"))


def check_workers(spark: SparkSession) -> list[SparkWorker]:
    """Ask the executors that are there; WorkerError for the first one that lacks something."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # has none

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
    """Runs on a worker, where these modules come out of the zip."""
    missing = [NEEDED[name] for name in NEEDED if importlib.util.find_spec(name) is None]
    yield SparkWorker(
        socket.gethostname(), sys.executable, os.path.dirname(__file__), tuple(missing)
    )


def _why(error: Exception) -> str:
    """The line of a failed job that says why Python did not run, else its first one."""
    lines = _TELLING.findall(str(error))
    return str(lines[-1] if lines else str(error).splitlines()[0])
