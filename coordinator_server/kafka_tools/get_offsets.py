"""kafka-get-offsets.sh: print partition offsets by timestamp (Kafka's GetOffsetShell)."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

from coordinator_server.client import (
    Client,
    ClientError,
    ClientSettings,
    parse_addresses,
)
from coordinator_server.kafka_tools.filters import INTERNAL_TOPICS, known_topics, topic_filter
from coordinator_server.kafka_tools.frame import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    EXECUTION,
    Failure,
    ToolError,
    ToolSpec,
    connect,
    java_class,
    parse_integer,
)
from coordinator_server.kafka_tools.options import Option, Options, OptionsError, UsageError

SETTINGS = ClientSettings(client_id="GetOffsetShell")
TIMES = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}
# The first ListOffsets version for each special timestamp (KIP-734, 405, 1005, 1023).
_MIN_VERSIONS = {-3: 7, -4: 8, -5: 9, -6: 11}
_TERSE = "org.apache.kafka.tools.TerseException"
_UNKNOWN_OFFSET = -1
_RULE = re.compile("([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")

Partition = tuple[str, int]
PartitionFilter = Callable[[str, int], bool]

OPTIONS = (
    BOOTSTRAP_SERVER._replace(argument="HOST1:PORT1,...,HOST3:PORT3"),
    COMMAND_CONFIG._replace(argument="config file"),
    Option("topic", "A regular expression of topic names.", argument="topic"),
    Option("partitions", "The partition numbers, separated by commas.", argument="partition ids"),
    Option(
        "topic-partitions",
        "Topics with partitions, separated by commas; replaces --topic and "
        "--partitions. Each is TOPIC, TOPIC:NUMBER, TOPIC:FROM-TO (TO is excluded), "
        "TOPIC:FROM- or TOPIC:-TO. TOPIC is a regular expression; an empty TOPIC "
        "matches every topic.",
        argument="topic1:1,topic2:0-3,topic3,topic4:5-,topic5:-3",
    ),
    Option(
        "time",
        "A time in ms, for the first offset at or after that time, or one of the named offsets.",
        argument="<timestamp> / -1 or latest / -2 or earliest / -3 or max-timestamp / -4 or"
        " earliest-local / -5 or latest-tiered / -6 or earliest-pending-upload",
        default="latest",
    ),
    Option("exclude-internal-topics", "Omit internal topics."),
)


def run(options: Options) -> int:
    """Print TOPIC:PARTITION:OFFSET for each partition that has an offset at the timestamp."""
    options.required("bootstrap-server")
    try:
        parse_addresses(options.value("bootstrap-server") or "")
    except ClientError as error:
        message = "Please provide valid host:port like host1:9091,host2:9092\n"
        raise UsageError(message) from error
    if options.has("topic-partitions") and (options.has("topic") or options.has("partitions")):
        raise ToolError(_TERSE, "--topic-partitions cannot be used with --topic or --partitions")
    timestamp = _timestamp(options.value("time") or "")
    is_wanted = _filter(options)
    with closing(connect(options, settings=SETTINGS)) as client:
        topics = known_topics(client, options.value("topic"))
        partitions = _partitions(topics, is_wanted, options.has("exclude-internal-topics"))
        if not partitions:
            message = "Could not match any topic-partitions with the specified filters"
            raise ToolError(_TERSE, message)
        offsets = list_offsets(client, dict.fromkeys(partitions, timestamp))
    for (topic, index), offset in sorted(offsets.items(), key=lambda item: _name(item[0])):
        if isinstance(offset, ClientError):
            print(
                f"Skip getting offsets for topic-partition {topic}-{index} due to error:"
                f" {java_class(offset)}: {offset}",
                file=sys.stderr,
            )
        elif offset != _UNKNOWN_OFFSET:
            print(f"{topic}:{index}:{offset}")
    return 0


def list_offsets(
    client: Client, timestamps: dict[Partition, int]
) -> dict[Partition, int | ClientError]:
    """Return the offset of each partition at its timestamp (-1 latest, -2 earliest, ...).

    A partition's offset is -1 if all its records are older. A partition may have an error instead.
    Raises ClientError.
    """
    offsets: dict[Partition, int | ClientError] = {}

    def ask_leaders() -> None:
        waiting = {item: at for item, at in timestamps.items() if item not in offsets}
        failure: ClientError | None = None
        for item, offset in ask_offsets(client, waiting).items():
            if isinstance(offset, ClientError) and offset.code.retriable:
                failure = failure or offset
            else:
                offsets[item] = offset
        if failure is not None:
            raise failure

    client.call("listOffsets", ask_leaders)
    return offsets


def ask_offsets(
    client: Client, timestamps: dict[Partition, int]
) -> dict[Partition, int | ClientError]:
    """Make one attempt of `list_offsets`; the result includes errors that a retry may fix."""
    from protocol.apis.list_offsets import (
        ListOffsetsPartition,
        ListOffsetsRequest,
        ListOffsetsTopic,
    )

    leaders, errors = client.find_leaders(timestamps)
    offsets: dict[Partition, int | ClientError] = {**errors}
    for node_id, led in leaders.items():
        topics: dict[str, Any] = {}
        for name, index in led:
            topic = topics.setdefault(name, ListOffsetsTopic(name=name))
            topic.partitions.append(
                ListOffsetsPartition(
                    partition_index=index,
                    current_leader_epoch=-1,
                    timestamp=timestamps[name, index],
                )
            )
        request = ListOffsetsRequest(
            replica_id=-1,
            topics=list(topics.values()),
            timeout_ms=client.settings.request_timeout_ms,
        )
        least = max(_MIN_VERSIONS.get(timestamps[partition], 0) for partition in led)
        try:
            answer = client.ask(request, node_id, min_version=least)
        except ClientError as error:
            # The leader is unreachable or does not support the special timestamp.
            offsets.update(dict.fromkeys(led, error))
            continue
        for topic in answer.topics:
            for partition in topic.partitions:
                code = partition.error_code
                offsets[topic.name, partition.partition_index] = (
                    ClientError(code) if code else partition.offset
                )
    return offsets


def _name(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"


def _timestamp(text: str) -> int:
    if text in TIMES:
        return TIMES[text]
    try:
        return parse_integer(text, bits=64)
    except ToolError as error:
        choices = " / ".join(f"{number} or {name}" for name, number in TIMES.items())
        message = f"Malformed time argument {text}. Please use {choices}, or a specified long"
        raise ToolError(_TERSE, f"{message} format timestamp") from error


def _filter(options: Options) -> PartitionFilter:
    """Return a filter for the partitions that the options select. Raises ToolError."""
    if options.has("topic-partitions"):
        rules = [_rule(text) for text in (options.value("topic-partitions") or "").split(",")]
        return lambda name, index: any(rule(name, index) for rule in rules)
    matches = topic_filter(options.value("topic") or ".*")
    text = options.value("partitions")
    try:
        indexes = {parse_integer(part) for part in text.split(",")} if text else set()
    except ToolError as error:
        message = "--partitions expects a comma separated list of numeric partition ids, but"
        raise ToolError(_TERSE, f"{message} received: {text}") from error
    return lambda name, index: matches(name) and (not indexes or index in indexes)


def _rule(text: str) -> PartitionFilter:
    match = _RULE.fullmatch(text)
    if match is None:
        message = f"{_TERSE}: Invalid rule specification: {text}"
        cause = ToolError(_TERSE, f"Invalid rule specification: {text}")
        raise ToolError("java.lang.RuntimeException", message) from cause
    matches = topic_filter(match[1] or ".*")
    if match[2]:
        low = parse_integer(match[2])
        high = low + 1
    else:
        low = parse_integer(match[3]) if match[3] else 0
        high = parse_integer(match[4]) if match[4] else sys.maxsize
    return lambda name, index: matches(name) and low <= index < high


def _partitions(
    topics: list[Any], is_wanted: PartitionFilter, no_internal: bool
) -> list[Partition]:
    return [
        (topic.name, partition.partition_index)
        for topic in topics
        if not (no_internal and (topic.is_internal or topic.name in INTERNAL_TOPICS))
        for partition in topic.partitions
        if is_wanted(topic.name, partition.partition_index)
    ]


def _failed(error: Failure) -> int:
    """Print an error: usage errors as a message, exceptions of Java's client with their class."""
    message, name = str(error), java_class(error)
    if isinstance(error, ClientError):
        message = f"{name}: {message}"
        name = EXECUTION
    print(f"Error occurred: {message}", file=sys.stderr)
    if not isinstance(error, OptionsError) and name != _TERSE:
        print(f"{name}: {message}", file=sys.stderr)
        cause = error.__cause__
        if isinstance(error, ClientError):
            print(f"Caused by: {message}", file=sys.stderr)
        elif isinstance(cause, ToolError):
            print(f"Caused by: {cause.java_class}: {cause}", file=sys.stderr)
        print(file=sys.stderr)
    return 1


TOOL = ToolSpec(
    "kafka-get-offsets",
    OPTIONS,
    run,
    "An interactive shell for getting topic-partition offsets.",
    _failed,
)
