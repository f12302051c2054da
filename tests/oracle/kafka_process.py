"""A real Kafka of the reference version: jars from Maven, DumpLogSegments, and a whole broker.

The jars are fetched once into `.kafka-VERSION/` of the checkout (ORACLE_JARS=DIR overrides it).
Only one Java process runs at a time, to spare small machines.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from protocol import REFERENCE_VERSION
from tests.maven import fetch, one_at_a_time
from tests.support import ROOT, free_port, wait_for

JARS = ROOT / f".kafka-{REFERENCE_VERSION}"
REPORTER = Path(__file__).with_name("Telemetry.java")
POM = Path(__file__).with_name("pom.xml")
LEAST_JAVA = 17
JAVA_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
# An archive of Kafka's loaded classes halves the CPU time of a broker's start.
CLASS_ARCHIVE = JARS / "classes.jsa"
_WRITE_ARCHIVE = "-XX:ArchiveClassesAtExit="
SECONDS = 300
COMPLAINTS = (
    "isvalid: false",
    "log timestamp: ",
    "Mismatches in",
    "out of order",
    "not found",
    "Exception",
    "corrupt",
)
# The tool looks up each time index entry in the records of its batch. Compaction may leave an
# empty batch, because it keeps the last batch of a producer. The tool then prints an error with
# this text, also for Kafka's own logs.
OF_AN_EMPTY_BATCH = "log timestamp: -1"
CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAQ"


def missing() -> str | None:
    """Return the missing requirements of the oracle, or None if it can run."""
    if shutil.which("java") is None:
        return "no Java"
    told = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(\d+)', told.stderr)
    if version is None or int(version.group(1)) < LEAST_JAVA:
        return f"no Java {LEAST_JAVA} or newer"
    if "ORACLE_JARS" not in os.environ and not is_complete() and shutil.which("mvn") is None:
        return "no Maven"
    return None


def is_complete() -> bool:
    """Return whether all jars are present."""
    return (JARS / ".complete").exists()


def jars() -> Path:
    """Return the directory of Kafka's jars, which are fetched on first use."""
    if "ORACLE_JARS" in os.environ:
        return Path(os.environ["ORACLE_JARS"])
    return fetch(POM, JARS, f"kafka.version={REFERENCE_VERSION}")


def java(
    main: str,
    *arguments: str,
    heap: str = "256M",
    options: Sequence[str] = JAVA_OPTIONS,
    more_classes: Path | None = None,
) -> list[str]:
    """Return the command line that runs one of Kafka's classes."""
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    classes = f"{jars()}{os.sep}*"
    if more_classes is not None:
        classes += f"{os.pathsep}{more_classes}"
    if "ORACLE_JARS" not in os.environ and CLASS_ARCHIVE.exists():
        # Turn JVM warnings off: a JVM that cannot use the archive would print a warning.
        options = (*options, f"-XX:SharedArchiveFile={CLASS_ARCHIVE}", "-Xlog:disable")
    return ["java", f"-Xmx{heap}", *options, quiet, "-cp", classes, main, *arguments]


def _compile(source: Path, directory: Path) -> None:
    """Compile a class with Kafka's jars."""
    jar_files = f"{jars()}{os.sep}*"
    command = ["javac", "-d", str(directory), "-cp", jar_files, str(source)]
    subprocess.run(command, capture_output=True, check=True)


def _archive_classes() -> None:
    """Write CLASS_ARCHIVE, once, with the classes that a broker loads at its start."""
    with one_at_a_time(POM), tempfile.TemporaryDirectory() as directory:
        if CLASS_ARCHIVE.exists():
            return
        unfinished = CLASS_ARCHIVE.with_suffix(".tmp")
        kafka = Kafka(Path(directory), {}, (*JAVA_OPTIONS, f"{_WRITE_ARCHIVE}{unfinished}"))
        try:
            kafka.start()
            kafka.stop()
        finally:
            kafka.end()
        unfinished.rename(CLASS_ARCHIVE)


def dump_log_segments(files: Sequence[Path], *options: str) -> str:
    """Return the output of Kafka's DumpLogSegments; fail if it reports a fault."""
    names = ",".join(map(str, files))
    for package in ("org.apache.kafka", "kafka"):  # up to Kafka 4.2, the package was called `kafka`
        command = java(f"{package}.tools.DumpLogSegments", *options, "--files", names)
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        if "ClassNotFoundException" not in done.stderr:
            break
    complaints = [
        line[:300]
        for line in (done.stdout + done.stderr).splitlines()
        if any(word in line for word in COMPLAINTS) and not line.endswith(OF_AN_EMPTY_BATCH)
    ]
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert not complaints, complaints[:9]
    return done.stdout


class Kafka:
    """A Kafka broker with a data directory; `options` are passed to its JVM.

    `listeners` maps the names of additional listeners to their protocols; `addresses` has the
    addresses of all listeners. With `takes_telemetry` the broker has a metrics reporter for client
    metrics, and advertises the APIs of KIP-714.
    """

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str],
        options: Sequence[str] = JAVA_OPTIONS,
        listeners: Mapping[str, str] | None = None,
        *,
        takes_telemetry: bool = False,
    ) -> None:
        self._classes = directory / "classes" if takes_telemetry else None
        self._listeners = {} if listeners is None else listeners
        self.addresses: dict[str, tuple[str, int]] = {}
        self._options = options
        self.data = directory / "data"
        self._log = directory / "kafka.log"
        self._settings = settings
        self._properties = directory / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        self.bootstrap_servers = ""

    def start(self) -> None:
        """Start the broker, format a new directory, and wait until it accepts connections."""
        is_archiving = any(option.startswith(_WRITE_ARCHIVE) for option in self._options)
        if "ORACLE_JARS" not in os.environ and not CLASS_ARCHIVE.exists() and not is_archiving:
            jars()
            _archive_classes()
        port, controller_port = free_port(), free_port()
        self.bootstrap_servers = f"127.0.0.1:{port}"
        self.addresses = {name: ("127.0.0.1", free_port()) for name in self._listeners}
        advertised = f"PLAINTEXT://127.0.0.1:{port}" + "".join(
            f",{name}://{host}:{port}" for name, (host, port) in self.addresses.items()
        )
        protocols = "".join(f",{name}:{protocol}" for name, protocol in self._listeners.items())
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": f"{advertised},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": advertised,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"
            + protocols,
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self._settings,
        }
        if self._classes is not None:
            _compile(REPORTER, self._classes)
            properties["metric.reporters"] = REPORTER.stem
        lines = (f"{name}={value}\n" for name, value in properties.items())
        self._properties.write_text("".join(lines))
        if not self.data.exists():
            format_it = java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID)
            subprocess.run(
                [*format_it, "-c", str(self._properties)], capture_output=True, check=True
            )
        command = java(
            "kafka.Kafka",
            str(self._properties),
            heap="512M",
            options=self._options,
            more_classes=self._classes,
        )
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_for(lambda: self._ended or answers(port), "Kafka takes connections", SECONDS, 0.1)
        assert not self._ended, self.log

    @property
    def _ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    @property
    def pid(self) -> int:
        """Return the process id of the running broker."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """Return the broker's log so far."""
        return self._log.read_text(errors="replace")

    def stop(self) -> None:
        """Stop the broker cleanly."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(SECONDS)
            self._process = None

    def end(self) -> None:
        """End the broker immediately, in any state."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(SECONDS)


def answers(port: int) -> bool:
    """Return whether the port accepts connections."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
