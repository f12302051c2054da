"""The new offsets for `--reset-offsets` of the group tools, for each reset option."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import NoReturn

from coordinator_server.client import Client
from coordinator_server.kafka_tools.frame import ToolError, raise_wrapped
from coordinator_server.kafka_tools.groups_description import read_committed
from coordinator_server.kafka_tools.groups_read import Partition
from coordinator_server.kafka_tools.java import log
from coordinator_server.kafka_tools.log_offsets import (
    EARLIEST,
    LATEST,
    RUNTIME,
    check_partitions,
    log_offsets,
    parse_partitions,
    topic_partitions,
)
from coordinator_server.kafka_tools.options import Options, UsageError
from protocol.durations import read_duration_ms

WAYS = (
    "to-offset",
    "shift-by",
    "to-datetime",
    "by-duration",
    "to-earliest",
    "to-latest",
    "to-current",
    "from-file",
)

Plan = dict[Partition, int]
"""The new offset of each partition."""

_DATETIME = re.compile(
    r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)\.(\d+)(?:Z|([+-])(\d\d):?(\d\d)?)", re.ASCII
)


def make_plan(client: Client, options: Options, group: str) -> Plan:
    """Return the new offsets of a group, in the order of its partitions.

    Raises ToolError, UsageError.
    """
    partitions = _scope(client, options, group)
    check_partitions(client, partitions)

    def current() -> Plan:
        return {item: at.offset for item, at in read_committed(client, group).items()}

    return plan_for(client, options, group, partitions, current)


def plan_for(
    client: Client,
    options: Options,
    group: str,
    partitions: list[Partition],
    current: Callable[[], Plan],
    ways: Collection[str] = WAYS,
) -> Plan:
    """Return the new offsets of partitions, by the option in `ways` that is given.

    `current` reads the group's current offsets. Raises ToolError, UsageError.
    """
    way = next(filter(options.has, ways), None)
    if way == "to-offset":
        return _in_range(client, dict.fromkeys(partitions, options.integers(way)[0]))
    if way == "to-earliest":
        return log_offsets(client, partitions, EARLIEST)
    if way == "to-latest":
        return log_offsets(client, partitions, LATEST)
    if way == "shift-by":
        shift = options.integer("shift-by") or 0
        return _shifted(client, partitions, current(), shift)
    if way == "to-datetime":
        timestamp_ms = parse_datetime_ms(options.values(way)[0])
        return log_offsets(client, partitions, timestamp_ms)
    if way == "by-duration":
        timestamp_ms = int(time.time() * 1000) - parse_duration_ms(options.value(way) or "")
        return log_offsets(client, partitions, timestamp_ms)
    if way == "from-file":
        return _from_file(client, options, group)
    if way == "to-current":
        offsets = current()
        known = {item: offsets[item] for item in partitions if item in offsets}
        others = [item for item in partitions if item not in offsets]
        return known | log_offsets(client, others, LATEST)
    listed = ", ".join(f"[{way}]" for way in ways)
    message = f"Option '[reset-offsets]' requires one of the following scenarios: [{listed}]"
    raise UsageError(message)


def topic_scope(client: Client, texts: list[str]) -> list[Partition]:
    """Return the partitions of arguments like TOPIC or TOPIC:0,1.

    Raises UsageError for a malformed argument, ClientError for a topic that cannot be described.
    """
    partitions, topics = parse_partitions(texts)
    if topics:
        partitions += topic_partitions(client, topics)
    return sorted(set(partitions))


def _scope(client: Client, options: Options, group: str) -> list[Partition]:
    """Return the partitions to reset.

    Raises ToolError, UsageError, and ClientError if a topic has an error.
    """
    if options.has("all-topics"):
        return sorted(read_committed(client, group))
    if options.has("topic"):
        return topic_scope(client, options.values("topic"))
    if not options.has("from-file"):
        raise UsageError("One of the reset scopes should be defined: --all-topics, --topic.")
    return []


def _shifted(client: Client, partitions: Collection[Partition], current: Plan, shift: int) -> Plan:
    for topic, index in partitions:
        if (topic, index) not in current:
            raise UsageError(
                f"Cannot shift offset for partition {topic}-{index} since there is no current"
                " committed offset"
            )
    return _in_range(client, {item: current[item] + shift for item in partitions})


def _in_range(client: Client, wanted: Mapping[Partition, int]) -> Plan:
    """Return the offsets, each limited to the offsets of its log."""
    starts = log_offsets(client, wanted.keys(), EARLIEST)
    ends = log_offsets(client, wanted.keys(), LATEST)
    plan = {}
    for partition, offset in wanted.items():
        plan[partition] = min(max(offset, starts[partition]), ends[partition])
        bound = "higher than latest" if offset > ends[partition] else "lower than earliest"
        if plan[partition] != offset:
            log(
                "WARN",
                f"New offset ({offset}) is {bound} offset for topic partition"
                f" {partition[0]}-{partition[1]}. Value will be set to {plan[partition]}.",
                "org.apache.kafka.tools.GroupOffsetsResetter",
            )
    return plan


def _from_file(client: Client, options: Options, group: str) -> Plan:
    plans = _read_plans(options.values("from-file")[0], options.values("group"))
    if group not in plans:
        print(f"\nError: No reset plan for group {group} found.")
        return {}
    return _in_range(client, dict(sorted(plans[group].items())))


def _read_plans(path: str, groups: list[str]) -> dict[str, Plan]:
    """Read a CSV file of TOPIC,PARTITION,OFFSET, optionally after GROUP; return plans by group."""
    import csv

    try:
        with open(path, encoding="utf-8", newline="") as stream:
            rows = [row for row in csv.reader(stream) if row]
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        cause = ToolError(
            "java.nio.file.NoSuchFileException" if missing else "java.io.IOException", path
        )
        outer = ToolError("java.io.IOException", f"Unable to read file {path}")
        outer.__cause__ = cause
        raise_wrapped(outer, RUNTIME)
    is_without_group = bool(rows) and len(rows[0]) <= 3 and all(map(_is_number, rows[0][1:]))
    plans: dict[str, Plan] = {}
    for row in rows:
        if is_without_group and len(groups) == 1:
            row = [groups[0], *row]
        # Missing columns at the end of a line are 0, as in Kafka's reader.
        name, topic, index, offset, *_ = [*row, *("", "0", "0")[len(row) - 1 :]]
        partition = (topic, _number(index))
        plans.setdefault(name, {})[partition] = _number(offset)
    return plans


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\s*-?[0-9]+\s*", text) is not None


def _number(text: str) -> int:
    if not _is_number(text):
        name = "com.fasterxml.jackson.databind.exc.InvalidFormatException"
        message = f'Cannot deserialize value of type `int` from String "{text}": not a valid value'
        raise_wrapped(ToolError(name, message), RUNTIME)
    return int(text)


def parse_datetime_ms(text: str) -> int:
    """Return a time like 2026-01-31T12:00:00.000 in ms since the epoch; UTC if no zone is given.

    Raises ToolError with the message of Kafka's Utils.getDateTime or Java's SimpleDateFormat.
    """
    _, has_time, clock = text.partition("T")
    if not has_time or not clock:
        message = "Error parsing timestamp. It does not contain a 'T' according to ISO8601 format"
        _no_date(message)
    if not any(sign in clock for sign in "+-Z"):
        text += "Z"
    match = _DATETIME.match(text)
    if match is None:
        _no_date(f'Unparseable date: "{text}"')
    year, month, day, hour, minute, second, millisecond = (int(match[part]) for part in range(1, 8))
    try:
        zone = timezone(
            timedelta(hours=int(match[9] or 0), minutes=int(match[10] or 0))
            * (-1 if match[8] == "-" else 1)
        )
        moment = datetime(year, month, day, hour, minute, second, millisecond * 1000, zone)
    except ValueError:
        _no_date(f'Unparseable date: "{text}"')
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def _no_date(message: str) -> NoReturn:
    raise_wrapped(ToolError("java.text.ParseException", message), RUNTIME)


def parse_duration_ms(text: str) -> int:
    """Parse a duration like PT1H30M or P2DT0.5S into milliseconds, like Java's Duration.parse.

    Raises ToolError.
    """
    duration_ms = read_duration_ms(text)
    if duration_ms is None:
        message = "Text cannot be parsed to a Duration"
        raise ToolError("java.time.format.DateTimeParseException", message)
    return duration_ms
