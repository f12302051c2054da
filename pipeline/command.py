"""The commands `run`, `stream` and `report` of `coordinator-server pipeline`.

Exit codes: 0 done, or a stream without an end was stopped; 1 an input is missing or cannot be read,
or the cluster refused a request; 2 wrong arguments; 3 an alert; 130 a run was interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from pipeline.inputs import Questions
from pipeline.liveness import while_it_answers
from pipeline.options import parser, questions_of, time_of
from pipeline.progress import Tell, teller, watched
from pipeline.report import command as report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INTERRUPTED = 130
_EXTRA = "coordinator-server[pipeline]"


def main(arguments: Sequence[str]) -> int:
    """Run one command and return the exit code."""
    options = parser().parse_args(list(arguments))
    tell = teller()
    try:
        import numpy  # noqa: F401
        import polars  # noqa: F401
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as error:
        return _failed(f"{error.name} is not installed: pip install '{_EXTRA}'")
    if options.command == "report":
        return report.run(options)
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # no stubs
    from pyspark.errors import PySparkException

    from pipeline.java import NoJavaError
    from pipeline.preconditions import locked
    from pipeline.shipping import WorkerError
    from pipeline.sources.source import InputError, refused_by_kafka, refused_by_machine

    try:
        _check_places(options)
        with locked(options.out):
            _execute(options, tell)
    except (InputError, NoJavaError, WorkerError) as error:
        return _failed(str(error))
    except (PySparkException, Py4JJavaError, OSError) as error:
        text = str(error)
        reason = refused_by_kafka(text)
        if reason is not None:
            return _failed(f"--bootstrap-server {options.bootstrap}: {reason}")
        reason = refused_by_machine(text, options.out)
        if reason is None:
            raise
        return _failed(reason)
    except KeyboardInterrupt:
        tell("stopped")
        return 0 if getattr(options, "interval", None) else _INTERRUPTED
    return 0


def _failed(reason: str) -> int:
    print(f"coordinator-server pipeline: {reason}", file=sys.stderr)
    return 1


def _execute(options: argparse.Namespace, tell: Tell) -> None:
    """Open the session, the source and the store, and run the command.

    Raises InputError, NoJavaError or WorkerError if one of them is not usable.
    """
    from pipeline.bronze import claim_for, cluster_of, keep_spark_progress
    from pipeline.run import known_ms, run_batch, run_stream
    from pipeline.session import has_delta
    from pipeline.sources.kafka import BrokerSource
    from pipeline.sources.segments import LogDirSource
    from pipeline.sources.source import InputError, Source
    from pipeline.sources.spark_progress import read_progress
    from pipeline.store import DELTA, Store

    progress = [row for path in options.spark_checkpoint for row in read_progress(path)]
    if progress and options.command == "run" and options.parquet is not None:
        raise InputError(
            "--spark-checkpoint goes with --bootstrap-server or --log-dir, not --parquet"
        )
    spark = _open_spark(options, tell)
    per_trigger = getattr(options, "records_per_batch", 0)
    source: Source | None = None
    if options.bootstrap is not None:
        source = BrokerSource(spark, options.bootstrap, per_trigger, options.client_config)
    elif options.log_dir is not None:
        source = LogDirSource(spark, options.log_dir, per_trigger)
    if options.format == DELTA and not has_delta(spark):
        raise InputError("--format delta: Delta's jars are not there; name them with --jars")
    store = Store(spark, options.out, options.format)
    store.check_format()
    if source is None:
        before = Store(spark, options.parquet)
        if not before.has(before.path("bronze")):
            raise InputError(f"--parquet {options.parquet}: there is no bronze of an earlier run")
        cluster = cluster_of(before)
        if cluster is not None and store.has(store.path("bronze")):
            claim_for(store, *cluster)
        store.use_bronze_of(before)
        if options.at is None:
            # Bronze of an earlier run has no records after the time at which that run read the log.
            options.at = known_ms(store)
    else:
        claim_for(store, source.cluster_id, source.input)
    if progress:
        keep_spark_progress(store, progress)

    def ask() -> Questions:
        return questions_of(options)

    interval_ms = getattr(options, "interval", None)
    # A stream with an interval does not end if its cluster stops answering.
    broker = source if isinstance(source, BrokerSource) and interval_ms is None else None
    with watched(spark, tell), nullcontext() if broker is None else while_it_answers(broker.check):
        if options.command == "run":
            run_batch(source, store, ask, options.groups, tell, time_of(options))
            return
        assert source is not None
        interval = None if interval_ms is None else interval_ms / 1000
        run_stream(source, store, ask, options.groups, tell, interval, time_of(options))


def _open_spark(options: argparse.Namespace, tell: Tell) -> SparkSession:
    """Open the session that the options ask for; on a cluster, check its workers."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from pipeline.session import open_session
    from pipeline.shipping import check_workers, is_local
    from pipeline.sources.jars import connector_settings, no_connector
    from pipeline.sources.source import InputError
    from pipeline.store import DELTA, DELTA_SETTINGS

    settings = _settings(options.conf)
    if options.format == DELTA:
        settings = {**DELTA_SETTINGS, **settings}
    if options.bootstrap is not None:
        settings = {**connector_settings(options.jars), **settings}
    elif options.jars:
        settings["spark.jars"] = options.jars
    try:
        spark = open_session(options.master, settings=settings)
    except (PySparkException, Py4JJavaError) as error:
        if "spark.jars.packages" in settings:
            raise no_connector("Spark did not start with spark.jars.packages") from error
        raise InputError(
            f"--master {options.master}: Spark did not start: {_first(error)}"
        ) from error
    tell(f"Spark {spark.version} on {options.master}")
    if not is_local(options.master):
        workers = check_workers(spark)
        hosts = ", ".join(sorted({worker.host for worker in workers}))
        tell(f"workers on {hosts} run the code of {workers[0].code}")
    return spark


def _check_places(options: argparse.Namespace) -> None:
    """Check the options and their paths before Spark starts. Raises InputError."""
    from pipeline.preconditions import (
        check_bootstrap,
        check_client_config,
        check_master,
        check_out,
        check_parquet,
    )
    from pipeline.sources.logdir import check_log_dir
    from pipeline.sources.source import InputError

    if options.client_config is not None:
        if options.bootstrap is None:
            raise InputError("--client-config goes with --bootstrap-server")
        check_client_config(options.client_config)
    check_out(options.out)
    check_master(options.master)
    if getattr(options, "parquet", None) is not None:
        check_parquet(options.parquet)
    if options.log_dir is not None:
        check_log_dir(options.log_dir)
    if getattr(options, "parquet", None) is not None and options.time is not None:
        raise InputError("--time goes with --bootstrap-server or --log-dir, not --parquet")
    if options.bootstrap is not None:
        check_bootstrap(options.bootstrap)


def _first(error: Exception) -> str:
    """Return the message of the innermost cause of a Java error, in one line."""
    from pipeline.sources.admin import reason_of

    kind, message = reason_of(error)
    return f"{kind}: {message}".splitlines()[0]


def _settings(pairs: Sequence[str]) -> dict[str, str]:
    """Return the settings of `--conf NAME=VALUE`. Raises InputError for a value without `=`."""
    from pipeline.sources.source import InputError

    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"--conf {pair}: it is no NAME=VALUE")
        settings[name] = value
    return settings
