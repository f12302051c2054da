"""A standalone Spark cluster on this machine: processes of a master and two workers.

They start in an empty folder. The Python of their executors has links to single libraries, and no
access to the checkout.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from pipeline.java import use_java
from tests.support import wait_for

_SPARK = Path(pyspark.__file__).parent
_START_SECONDS = 120.0
_STOP_SECONDS = 20.0
_LOOPBACK = "127.0.0.1"


class Standalone:
    """A cluster with one core and one executor per worker; all files lie below `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.libraries = folder / "libraries"
        self.python = folder / "worker-python"
        self.master = ""

    def __enter__(self) -> Self:
        self.libraries.mkdir()
        (self._folder / "empty").mkdir()
        # With -S, Python does not add its site-packages, in which this checkout is installed.
        path = f'PYTHONPATH="$PYTHONPATH:{self.libraries}"'
        self.python.write_text(f'#!/bin/sh\n{path} exec {sys.executable} -S "$@"\n')
        self.python.chmod(0o755)
        use_java()
        try:
            log = self._start("master.Master", "master")
            at = wait_for(
                lambda: re.search(r"Starting Spark master at (spark://\S+)", log.read_text()),
                "the master's address",
                _START_SECONDS,
                0.1,
            )
            assert at is not None
            self.master = at[1]
            resources = ("--cores", "1", "--memory", "1g")
            for name in ("worker-1", "worker-2"):
                work = ("--work-dir", str(self._folder / name))
                self._start("worker.Worker", name, *resources, *work, self.master)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def lend(self, *modules: str) -> None:
        """Link libraries of this environment, and their `.libs` folders, for the workers."""
        for name in modules:
            found = importlib.util.find_spec(name)
            assert found is not None, name
            assert found.origin is not None, name
            package = Path(found.origin).parent
            for one in (package, package.with_name(f"{name}.libs")):
                if one.is_dir():
                    (self.libraries / one.name).symlink_to(one)

    def stop(self) -> None:
        """End all processes of the cluster, including those that they started."""
        started = _descendants({process.pid for process in self._processes})
        # End the workers before the master, because each worker ends its own executors.
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pid in started:
            if _is_spark(pid):
                os.kill(pid, signal.SIGKILL)

    def _start(self, name: str, log_name: str, *arguments: str) -> Path:
        """Start one of Spark's daemons on a free loopback port, and return its log file."""
        log = self._folder / f"{log_name}.log"
        kept = ("JAVA_HOME", "PATH", "HOME", "LANG")
        environment = {key: os.environ[key] for key in kept if key in os.environ}
        environment |= {"SPARK_HOME": str(_SPARK), "SPARK_DAEMON_MEMORY": "256m"}
        environment["SPARK_LOCAL_IP"] = _LOOPBACK
        here = ("--host", _LOOPBACK, "--port", "0", "--webui-port", "0")
        command = [str(_SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, *here, *arguments],
                cwd=self._folder / "empty",
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._processes.append(process)
        return log


def _descendants(pids: set[int]) -> set[int]:
    """Return the descendants of processes by /proc; none on systems without it."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:  # the process has ended
            continue
        parents[int(status.parent.name)] = int(fields[1])
    found: set[int] = set()
    while True:
        below = {pid for pid, parent in parents.items() if parent in pids | found} - found
        if not below:
            return found
        found |= below


def _is_spark(pid: int) -> bool:
    """Return whether the process is still Spark's, since process ids are reused."""
    try:
        return b"spark" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
