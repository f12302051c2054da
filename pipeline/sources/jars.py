"""Provide the jars of Spark's Kafka connector: given, fetched by Maven, or left to Spark's Ivy.

PySpark lacks four jars, which Maven fetches with a small pom. Some repositories do not have the
connector of every Spark release. In this case the jars of `STAND_IN` are used, older releases that
were tried with batches and streams.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from pipeline.sources.source import InputError

CACHE_VARIABLE = "COORDINATOR_SERVER_SPARK_JARS"
_SCALA = "2.13"
_FETCH_SECONDS = 600
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>connector</artifactId><version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>
"""
_DEPENDENCY = """<dependency>
  <groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
  <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
</dependency>"""


class Connector(NamedTuple):
    """The versions of the four jars."""

    spark: str
    token_provider: str
    kafka: str
    pool: str

    @property
    def artifacts(self) -> list[tuple[str, str, str]]:
        """Return group, artifact and version of each jar."""
        spark = "org.apache.spark"
        return [
            (spark, f"spark-sql-kafka-0-10_{_SCALA}", self.spark),
            (spark, f"spark-token-provider-kafka-0-10_{_SCALA}", self.token_provider),
            ("org.apache.kafka", "kafka-clients", self.kafka),
            ("org.apache.commons", "commons-pool2", self.pool),
        ]

    @property
    def package(self) -> str:
        """Return the connector in the form of spark.jars.packages."""
        group, artifact, version = self.artifacts[0]
        return f"{group}:{artifact}:{version}"


STAND_IN = Connector("4.2.0", "4.0.0", "3.9.0", "2.12.1")
"""A connector that works with Spark 4.2 and 4.3 if their own is not available."""


def own_connector() -> Connector:
    """Return the connector that was released with the installed PySpark."""
    import pyspark

    version = pyspark.__version__
    return Connector(version, version, "3.9.2", "2.13.1")


def connector_settings(jars: str | None) -> dict[str, str]:
    """Return Spark's settings that load the connector. Raises InputError."""
    if jars:
        for jar in jars.split(","):
            if "://" not in jar and not Path(jar).is_file():
                raise InputError(f"--jars: {jar} is not there")
        return {"spark.jars": jars}
    folder = cache_folder()
    if not (folder / ".complete").exists():
        if shutil.which("mvn") is None:
            # Without Maven, Spark downloads the jars when it starts.
            return {"spark.jars.packages": own_connector().package}
        fetch(folder)
    return {"spark.jars": ",".join(sorted(str(path) for path in folder.glob("*.jar")))}


def cache_folder() -> Path:
    """Return the folder of fetched jars."""
    cache = os.environ.get(CACHE_VARIABLE)
    if cache:
        return Path(cache)
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "coordinator-server" / f"spark-kafka-{own_connector().spark}"


def fetch(folder: Path) -> None:
    """Fetch the jars into a folder. Raises InputError with Maven's reason."""
    reason = ""
    for connector in (own_connector(), STAND_IN):
        folder.mkdir(parents=True, exist_ok=True)
        dependencies = "".join(
            _DEPENDENCY.format(group=group, artifact=artifact, version=version)
            for group, artifact, version in connector.artifacts
        )
        pom = folder / "pom.xml"
        pom.write_text(_POM.format(dependencies=dependencies))
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
        command.append(f"-DoutputDirectory={folder}")
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise no_connector(f"Maven did not end within {_FETCH_SECONDS} s") from None
        if done.returncode == 0:
            (folder / ".complete").touch()
            return
        errors = [line for line in done.stdout.splitlines() if "[ERROR]" in line]
        reason = errors[0] if errors else done.stderr[-500:]
    raise no_connector(reason)


def no_connector(reason: str) -> InputError:
    """Return the error for a connector that is not available, with the ways to get it."""
    wanted = ", ".join(":".join(artifact) for artifact in own_connector().artifacts)
    return InputError(
        f"Spark's Kafka connector could not be had ({reason.strip()}). Ways to it: --jars with "
        f"the files of {wanted}; the same files and an empty file .complete in {cache_folder()}; "
        "or Maven (mvn), or Spark itself by spark.jars.packages, with a way to a Maven repository"
    )
