"""The command line of `coordinator-server pipeline run`, `stream` and `report`."""

from __future__ import annotations

import argparse
import re
import time
from datetime import UTC, datetime

from pipeline.inputs import DAY_MS, HOUR_MS, MINUTE_MS, Questions
from pipeline.report.command import add_arguments

_UNITS_MS = {"ms": 1, "s": 1000, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}
_DURATION = re.compile(r"(\d+)(ms|s|m|h|d)")


def parser() -> argparse.ArgumentParser:
    """Return the parser of `run` and `stream`, which differ in when they stop, and `report`."""
    top = argparse.ArgumentParser(
        prog="coordinator-server pipeline",
        description="Tables of lag, health and rebalances from an offsets log, by Spark.",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="read what is there, make all tables, stop")
    stream = commands.add_parser("stream", help="read on where the last stream stopped")
    add_arguments(commands.add_parser("report", help="a page and a summary of what a run wrote"))
    for command in (run, stream):
        _add_inputs(command, can_be_parquet=command is run)
        _add_questions(command)
        _add_spark(command)
    stream.add_argument(
        "--interval",
        type=duration_ms,
        metavar="TIME",
        help="go on without an end, a micro-batch every TIME; default: stop when all is read",
    )
    stream.add_argument(
        "--records-per-batch",
        type=count,
        default=0,
        metavar="N",
        help="offsets that one micro-batch takes at most; default: all that there are",
    )
    return top


def _add_inputs(command: argparse.ArgumentParser, *, can_be_parquet: bool) -> None:
    inputs = command.add_mutually_exclusive_group(required=True)
    inputs.add_argument(
        "--bootstrap-server",
        "--bootstrap",
        dest="bootstrap",
        metavar="HOST:PORT",
        help="read from a running broker",
    )
    inputs.add_argument("--log-dir", metavar="DIR", help="read segment files, without a broker")
    if can_be_parquet:
        inputs.add_argument("--parquet", metavar="DIR", help="make tables from bronze of DIR")
    command.add_argument(
        "--client-config",
        metavar="FILE",
        help="settings of Kafka's clients for --bootstrap-server, as NAME=VALUE lines: TLS, SASL",
    )
    command.add_argument("--out", metavar="DIR", required=True, help="where bronze and tables go")
    command.add_argument(
        "--spark-checkpoint",
        metavar="PATH",
        action="append",
        default=[],
        help="a checkpoint folder of a Spark query, or a file of its progress as JSON lines",
    )


def _add_questions(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--at",
        type=instant_ms,
        metavar="TIME",
        help="the instant that tables are about, as 2026-11-22T01:30:00Z or ms; default: now",
    )
    command.add_argument("--window", type=duration_ms, default=HOUR_MS, metavar="TIME")
    command.add_argument("--allowed-lag", type=count, default=0, metavar="RECORDS")
    command.add_argument(
        "--groups", type=regex, metavar="REGEX", help="groups with such whole names only"
    )
    command.add_argument(
        "--offsets-retention",
        type=duration_ms,
        default=7 * DAY_MS,
        metavar="TIME",
        help="the cluster's offsets.retention.minutes; default: 7d",
    )
    command.add_argument(
        "--replay-from", type=instant_ms, metavar="TIME", help="what the replay plan is for"
    )


def _add_spark(command: argparse.ArgumentParser) -> None:
    command.add_argument("--master", default="local[2]", help="default: local[2]")
    command.add_argument(
        "--conf", metavar="NAME=VALUE", action="append", default=[], help="a setting of Spark's"
    )
    command.add_argument("--jars", metavar="FILES", help="jars of the Kafka connector, by commas")
    command.add_argument("--format", choices=("parquet", "delta"), default="parquet")


def questions_of(options: argparse.Namespace) -> Questions:
    """Return the questions of the options; without `--at`, the instant is now."""
    return Questions(
        at_ms=time.time_ns() // 1_000_000 if options.at is None else options.at,
        window_ms=options.window,
        allowed_lag=options.allowed_lag,
        offsets_retention_ms=options.offsets_retention,
        replay_from_ms=options.replay_from,
    )


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
