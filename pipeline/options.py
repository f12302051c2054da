"""The command line of `coordinator-server pipeline run`, `stream` and `report`."""

from __future__ import annotations

import argparse
import re
import time
from datetime import UTC, datetime

from pipeline.inputs import DAY_MS, EXACT, HOUR_MS, MINUTE_MS, NO_TIMES, SAMPLED, Questions
from pipeline.report.command import add_arguments

_UNITS_MS = {"ms": 1, "s": 1000, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}
_DURATION = re.compile(r"(\d+)(ms|s|m|h|d)")


def parser() -> argparse.ArgumentParser:
    """Return the parser of `run` and `stream`, which differ in when they stop, and `report`."""
    top = argparse.ArgumentParser(
        prog="coordinator-server pipeline",
        description="Compute tables of lag, health and rebalances from an offsets log, with Spark.",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="read all records, compute all tables, and stop")
    stream = commands.add_parser("stream", help="continue where the last stream stopped")
    add_arguments(
        commands.add_parser("report", help="print a summary of the tables, and write a page")
    )
    for command in (run, stream):
        _add_inputs(command, can_be_parquet=command is run)
        _add_questions(command)
        _add_spark(command)
    stream.add_argument(
        "--interval",
        type=duration_ms,
        metavar="TIME",
        help=(
            "run until stopped, with a micro-batch every TIME (default: stop when all "
            "records are read)"
        ),
    )
    stream.add_argument(
        "--records-per-batch",
        type=count,
        default=0,
        metavar="N",
        help="maximum number of offsets per micro-batch (default: all)",
    )
    return top


def _add_inputs(command: argparse.ArgumentParser, *, can_be_parquet: bool) -> None:
    inputs = command.add_mutually_exclusive_group(required=True)
    inputs.add_argument(
        "--bootstrap-server",
        "--bootstrap",
        dest="bootstrap",
        metavar="HOST:PORT",
        help="read from this running broker",
    )
    inputs.add_argument(
        "--log-dir",
        metavar="DIR",
        help="read the log segments in this data directory, without a broker",
    )
    if can_be_parquet:
        inputs.add_argument(
            "--parquet", metavar="DIR", help="compute the tables from the bronze tables in DIR"
        )
    command.add_argument(
        "--client-config",
        metavar="FILE",
        help=(
            "file with settings of the Java client for --bootstrap-server, one NAME=VALUE "
            "per line: TLS, SASL"
        ),
    )
    command.add_argument(
        "--out",
        metavar="DIR",
        required=True,
        help="directory for the bronze tables and the computed tables",
    )
    command.add_argument(
        "--spark-checkpoint",
        metavar="PATH",
        action="append",
        default=[],
        help="checkpoint folder of a Spark query, or file with its progress as JSON lines",
    )


def _add_questions(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--at",
        type=instant_ms,
        metavar="TIME",
        help=(
            "time for which the tables are computed, as 2026-11-22T01:30:00Z or in ms "
            "(default: now; with --parquet, the time at which that run read the log ends)"
        ),
    )
    command.add_argument(
        "--window",
        type=duration_ms,
        default=HOUR_MS,
        metavar="TIME",
        help="time before --at from which rates are computed (default: 1h)",
    )
    command.add_argument(
        "--time",
        choices=(EXACT, SAMPLED, NO_TIMES),
        help=(
            "how to find out when records were written: read topics, ask for the times of single "
            "records, or not at all (default: sampled with --bootstrap-server, else exact)"
        ),
    )
    command.add_argument(
        "--patience",
        type=duration_ms,
        default=2 * MINUTE_MS,
        metavar="TIME",
        help=(
            "least time that records may wait without progress before a reader counts as stopped "
            "(default: 2m)"
        ),
    )
    command.add_argument(
        "--allowed-lag",
        type=count,
        default=0,
        metavar="RECORDS",
        help="lag up to which a partition is healthy (default: 0)",
    )
    command.add_argument(
        "--groups",
        type=regex,
        metavar="REGEX",
        help="regular expression of the group names to process",
    )
    command.add_argument(
        "--offsets-retention",
        type=duration_ms,
        default=7 * DAY_MS,
        metavar="TIME",
        help="offsets.retention.minutes of the cluster (default: 7d)",
    )
    command.add_argument(
        "--replay-from",
        type=instant_ms,
        metavar="TIME",
        help="time from which the replay plan reads records again",
    )


def _add_spark(command: argparse.ArgumentParser) -> None:
    command.add_argument("--master", default="local[2]", help="Spark master (default: local[2])")
    command.add_argument(
        "--conf",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="Spark setting (repeatable)",
    )
    command.add_argument(
        "--jars", metavar="FILES", help="additional jar files, separated by commas"
    )
    command.add_argument(
        "--format",
        choices=("parquet", "delta"),
        default="parquet",
        help="format of the tables (default: parquet)",
    )


def questions_of(options: argparse.Namespace) -> Questions:
    """Return the questions of the options; without `--at`, the instant is now."""
    return Questions(
        at_ms=time.time_ns() // 1_000_000 if options.at is None else options.at,
        window_ms=options.window,
        patience_ms=options.patience,
        allowed_lag=options.allowed_lag,
        offsets_retention_ms=options.offsets_retention,
        replay_from_ms=options.replay_from,
    )


def time_of(options: argparse.Namespace) -> str:
    """Return `--time`: by default `sampled` for a broker, whose records come over a network."""
    return str(options.time or (EXACT if options.bootstrap is None else SAMPLED))


def count(text: str) -> int:
    """Parse a non-negative integer. Raises ArgumentTypeError."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no number such as 0 or 1000")
    return int(text)


def duration_ms(text: str) -> int:
    """Parse `10m`, `7d`, `1500ms` to milliseconds. Raises ArgumentTypeError, also for 0."""
    parts = _DURATION.fullmatch(text)
    if parts is None or not int(parts[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 500ms, 30s, 10m, 12h, 7d")
    return int(parts[1]) * _UNITS_MS[parts[2]]


def regex(text: str) -> str:
    """Check that the text is a regular expression of `re`. Raises ArgumentTypeError."""
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from error
    return text


def instant_ms(text: str) -> int:
    """Parse an ISO 8601 time (UTC by default) or milliseconds since 1970 to milliseconds.

    Raises ArgumentTypeError.
    """
    if text.isdigit():
        return int(text)
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        shown = "2026-11-22T01:30:00Z"
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as {shown}") from error
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return round(instant.timestamp() * 1000)
