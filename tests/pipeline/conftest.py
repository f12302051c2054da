"""One Spark session for all tests of the pipeline, since a start takes seconds.

Unless CI is set, Spark tests are left out without Java, as are tests of the Kafka connector and of
a real Kafka (`broker` is `theirs`) where these are missing. One line says so. In CI they fail.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from pipeline.java import NoJavaError, use_java
from pipeline.session import open_session
from pipeline.sources.jars import cache_folder, connector_settings
from tests.left_out import leave_out
from tests.maven import one_at_a_time
from tests.oracle.kafka_process import missing

FOLDER = "tests/pipeline/"
NEEDS_SPARK = "spark"
NEEDS_CONNECTOR = "connector"
THEIRS = "theirs"


def can_have_connector() -> bool:
    """Return whether the connector's jars are in the cache, or Maven can fetch them."""
    return (cache_folder() / ".complete").exists() or shutil.which("mvn") is not None


def needs_kafka(item: pytest.Item) -> bool:
    """Return whether a test's broker is a real Kafka."""
    return isinstance(item, pytest.Function) and item.name.endswith(f"[{THEIRS}]")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Leave out tests that cannot run, unless CI is set."""
    if os.environ.get("CI"):
        return
    ours = [item for item in items if item.nodeid.startswith(FOLDER)]
    with_spark = [item for item in ours if NEEDS_SPARK in getattr(item, "fixturenames", ())]
    if not with_spark:
        return
    try:
        use_java()
    except NoJavaError as error:
        leave_out(config, items, with_spark, f"{len(with_spark)} Spark tests left out: {error}")
        return
    with_connector = [
        item for item in with_spark if NEEDS_CONNECTOR in getattr(item, "fixturenames", ())
    ]
    if with_connector and not can_have_connector():
        line = f"{len(with_connector)} tests of Spark's Kafka connector left out: no Maven"
        leave_out(config, items, with_connector, line)
        return
    with_kafka = [item for item in with_connector if needs_kafka(item)]
    reason = missing() if with_kafka else None
    if reason is not None:
        line = f"{len(with_kafka)} tests with a real Kafka left out: {reason}"
        leave_out(config, items, with_kafka, line)


QUICK = {
    # With so few rows, generating code takes longer than interpreting the plan.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.ui.explainMode": "simple",
}


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """Return the session, with the connector's jars if any collected test needs them."""
    items = request.session.items
    needed = any(NEEDS_CONNECTOR in getattr(item, "fixturenames", ()) for item in items)
    with one_at_a_time():
        settings = {**QUICK, **(connector_settings(None) if needed else {})}
    session = open_session("local[2]", settings=settings)
    yield session
    session.stop()


@pytest.fixture
def connector(spark: SparkSession) -> SparkSession:
    """Return the session, which has the connector."""
    return spark
