"""kafka-console-consumer.sh: prints the records of topics (Kafka's ConsoleConsumer)."""

from __future__ import annotations

import random
import re
import sys
import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from coordinator_server.client import ClientSettings
from coordinator_server.kafka_tools.console import (
    DESERIALIZERS,
    FORMATTER,
    FORMATTER_CONFIG,
    FORMATTER_PROPERTY,
    PROPERTY,
    check_group_ids,
    ended_by_sigterm,
    log_error,
    next_record,
    read_formatter,
    warn_replaced,
    warn_topic,
    write_record,
)
from coordinator_server.kafka_tools.formatters import Formatter
from coordinator_server.kafka_tools.frame import (
    BOOTSTRAP_SERVER,
    FAILURES,
    Failure,
    NotHereError,
    ToolError,
    ToolSpec,
    client_label,
    connect_to,
    print_thrown_by_main,
    print_with_usage,
)
from coordinator_server.kafka_tools.log_offsets import EARLIEST, LATEST
from coordinator_server.kafka_tools.options import (
    Option,
    Options,
    OptionsError,
    UsageError,
)
from coordinator_server.kafka_tools.properties import (
    CONFIG_EXCEPTION,
    choice,
    file_properties,
    key_values,
    merge_option,
    number,
)

if TYPE_CHECKING:
    from coordinator_server.kafka_tools.record_consumer import ConsumerSettings, RecordConsumer

CLIENT_ID = "console-consumer"
_LOGGER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_RANDOM_GROUPS = 100_000
_REPLACED = {
    "property": "formatter-property",
    "consumer-property": "command-property",
    "consumer.config": "command-config",
}
READER_OPTIONS = (
    BOOTSTRAP_SERVER,
    Option("topic", "The topic to read.", argument="topic"),
    Option(
        "include", "A regular expression of the topics to read.", argument="Java regex (String)"
    ),
    Option("command-config", "A properties file with consumer settings.", argument="config file"),
    Option("consumer.config", "Deprecated name of --command-config.", argument="config file"),
)
"""Options that all tools that read topics have."""

OPTIONS = (
    *READER_OPTIONS,
    Option(
        "partition",
        "Read this partition, without a group.",
        argument="partition",
        kind="int",
    ),
    Option(
        "offset",
        "The first offset to read of the partition: a number, earliest or latest.",
        argument="consume offset",
        default="latest",
    ),
    Option(
        "from-beginning", "Start with the oldest record of partitions without a committed offset."
    ),
    Option(
        "max-messages",
        "Stop after this number of records.",
        argument="num_messages",
        kind="int",
    ),
    Option(
        "timeout-ms",
        "Stop if no record arrives for this time in ms.",
        argument="timeout_ms",
        kind="long",
    ),
    Option(
        "group",
        "The group to join. The default is a group with a random name, which commits no offsets.",
        argument="consumer group id",
    ),
    Option(
        "isolation-level",
        "read_committed skips records of open and aborted transactions.",
        argument="level",
        default="read_uncommitted",
    ),
    FORMATTER,
    FORMATTER_PROPERTY,
    PROPERTY,
    FORMATTER_CONFIG,
    *DESERIALIZERS,
    Option("skip-message-on-error", "Skip records that cannot be formatted."),
    Option("command-property", "A consumer setting.", argument="consumer_prop"),
    Option("consumer-property", "Deprecated name of --command-property.", argument="consumer_prop"),
    Option("enable-systest-events", "Print a line when the consumer has stopped."),
)


def run(options: Options) -> int:
    """Print records until an end condition is met and return the exit code."""
    _check_arguments(options)
    properties = _properties(options)
    if properties is None:
        return 1
    offset = _offset(options)
    timeout_ms = options.integer("timeout-ms")
    formatter = read_formatter(options)
    code = 0
    try:
        _consume(options, properties, offset, timeout_ms, formatter)
    except FAILURES as error:
        log_error("Unknown error when running consumer: ", error, _LOGGER)
        code = 1
    if options.has("enable-systest-events"):
        print("shutdown_complete")
    return code


def _check_arguments(options: Options) -> None:
    """Reject invalid option combinations and warn of old names (ConsoleConsumerOptions)."""
    if options.has("topic") == options.has("include"):
        message = "Exactly one of the following arguments is required: [topic], [include]"
        raise UsageError(message)
    if options.has("partition"):
        _ = options.integer("partition")
        if not options.has("topic"):
            raise UsageError("The topic is required when partition is specified.")
        if options.has("from-beginning") and options.has("offset"):
            message = "Options from-beginning and offset cannot be specified together."
            raise UsageError(message)
    elif options.has("offset"):
        raise UsageError("The partition is required when offset is specified.")
    options.required("bootstrap-server")
    for old, new in _REPLACED.items():
        if options.has(old) and options.has(new):
            raise UsageError(f"Options --{old} and --{new} cannot be specified together.")
    for old, new in _REPLACED.items():
        warn_replaced(options, old, new)


def _properties(options: Options) -> dict[str, str] | None:
    """Return the consumer's settings, or None if --from-beginning contradicts auto.offset.reset.

    In that case a message is printed. Raises UsageError for options that exclude each other, and
    for invalid properties.
    """
    from_file = file_properties(options, "command-config", "consumer.config")
    names = ("command-property", "consumer-property")
    given = key_values([text for name in names for text in options.values(name)])
    groups = [source["group.id"] for source in (from_file, given) if "group.id" in source]
    if options.has("group"):
        groups.insert(0, options.value("group") or "")
    check_group_ids(groups, "consumer.config")
    if groups and options.has("partition"):
        raise UsageError("Options group and partition cannot be specified together.")
    properties = {**from_file, **given}
    reset = properties.setdefault(
        "auto.offset.reset", "earliest" if options.has("from-beginning") else "latest"
    )
    if options.has("from-beginning") and reset != "earliest":
        print(
            "Can't simultaneously specify --from-beginning and"
            f" 'auto.offset.reset={reset}', please remove one option",
            file=sys.stderr,
        )
        return None
    merge_option(properties, "isolation.level", options, "isolation-level")
    if groups:
        properties["group.id"] = groups[0]
    else:
        properties["group.id"] = f"console-consumer-{random.randrange(_RANDOM_GROUPS)}"
        # The generated group is not used again, so offsets need not be committed.
        properties.setdefault("enable.auto.commit", "false")
    return properties


def _offset(options: Options) -> int:
    """Return the start position in a partition: an offset, or a ListOffsets timestamp."""
    if not options.has("offset"):
        return EARLIEST if options.has("from-beginning") else LATEST
    text = options.value("offset") or ""
    if text.lower() in ("earliest", "latest"):
        return EARLIEST if text.lower() == "earliest" else LATEST
    if not re.fullmatch(r"\+?[0-9]+", text) or int(text) >= 1 << 63:
        raise UsageError(
            f"The provided offset value '{text}' is incorrect. Valid values are 'earliest',"
            " 'latest', or a non-negative long."
        )
    return int(text)


def consumer_settings(properties: Mapping[str, str]) -> ConsumerSettings:
    """Return the settings of this project's consumer. Raises ToolError, NotHereError."""
    from coordinator_server.client.fetcher import FetchSettings
    from coordinator_server.client.group_member import MemberSettings
    from coordinator_server.kafka_tools.record_consumer import ConsumerSettings

    if properties.get("group.protocol", "classic").strip().lower() != "classic":
        raise NotHereError(
            "group.protocol=consumer (KIP-848) is not here yet: use group.protocol=classic, or"
            " kafka-console-consumer.sh of Apache Kafka"
        )
    isolation = choice(
        properties, "isolation.level", "read_uncommitted", "read_committed", "read_uncommitted"
    )

    def is_true(name: str, default: str) -> bool:
        return properties.get(name, default).strip().lower() == "true"

    return ConsumerSettings(
        member=MemberSettings(
            group_id=properties["group.id"],
            group_instance_id=properties.get("group.instance.id"),
            session_timeout_ms=number(properties, "session.timeout.ms", 45_000),
            heartbeat_interval_ms=number(properties, "heartbeat.interval.ms", 3_000),
            max_poll_interval_ms=number(properties, "max.poll.interval.ms", 300_000),
        ),
        fetch=FetchSettings(
            fetch_max_wait_ms=number(properties, "fetch.max.wait.ms", 500),
            fetch_min_bytes=number(properties, "fetch.min.bytes", 1),
            fetch_max_bytes=number(properties, "fetch.max.bytes", 52_428_800),
            max_partition_fetch_bytes=number(properties, "max.partition.fetch.bytes", 1_048_576),
            is_read_committed=isolation == "read_committed",
        ),
        reset=_reset(properties["auto.offset.reset"]),
        is_auto_commit=is_true("enable.auto.commit", "true"),
        auto_commit_interval_ms=number(properties, "auto.commit.interval.ms", 5_000),
        metadata_max_age_ms=number(properties, "metadata.max.age.ms", 300_000, "LONG"),
        may_create_topics=is_true("allow.auto.create.topics", "true"),
        excludes_internal=is_true("exclude.internal.topics", "true"),
    )


def _reset(text: str) -> int | None:
    """Return the ListOffsets timestamp of an `auto.offset.reset` value; None for "none".

    Raises ToolError.
    """
    from coordinator_server.kafka_tools.reset_plan import parse_duration_ms

    resets = {"latest": LATEST, "earliest": EARLIEST, "none": None}
    if text.lower() in resets:
        return resets[text.lower()]
    if text.startswith("by_duration:"):  # KIP-1106
        return int(time.time() * 1000) - parse_duration_ms(text.removeprefix("by_duration:"))
    message = f"Invalid value {text} for configuration auto.offset.reset: Invalid value `{text}`"
    raise ToolError(
        CONFIG_EXCEPTION,
        f"{message} for configuration auto.offset.reset. The value must be either 'earliest',"
        " 'latest', 'none' or of the format 'by_duration:<PnDTnHnMn.nS.>'.",
    )


def new_consumer(options: Options, properties: Mapping[str, str], client_id: str) -> RecordConsumer:
    """Return a consumer with these settings. Raises ToolError, NotHereError."""
    from coordinator_server.kafka_tools.record_consumer import RecordConsumer

    settings = consumer_settings(properties)
    group = settings.member.group_id
    connect = partial(
        connect_to,
        options.value("bootstrap-server") or "",
        properties,
        name="Consumer",
        failure="Failed to construct kafka consumer",
        settings=ClientSettings(client_id=client_id),
        group=group,
    )
    label = client_label("Consumer", properties.get("client.id") or client_id, group)
    return RecordConsumer(connect, settings, partial(warn_topic, label))


def subscribe(consumer: RecordConsumer, options: Options) -> None:
    """Subscribe to `--topic`, or to the topics that match `--include`. Raises ToolError."""
    topic = options.value("topic")
    if topic is not None:
        consumer.subscribe([topic])
        return
    pattern = options.value("include") or ""
    try:
        consumer.subscribe_pattern(re.compile(pattern))
    except re.error as error:
        name = "java.util.regex.PatternSyntaxException"
        raise ToolError(name, f"{error}: {pattern}") from None


def _consume(
    options: Options,
    properties: Mapping[str, str],
    offset: int,
    timeout_ms: int | None,
    formatter: Formatter,
) -> None:
    """Read and print records. Raises ToolError, ClientError, OptionsError."""
    consumer = new_consumer(options, properties, CLIENT_ID)
    if options.has("partition"):
        place = options.value("topic") or "", options.integer("partition") or 0
        consumer.assign(place, offset)
    else:
        subscribe(consumer, options)
    timeout_s = None if timeout_ms is None or timeout_ms < 0 else timeout_ms / 1000
    counter = _Counter()
    sys.stdout.flush()  # the records bypass sys.stdout's text layer, so flush it first
    with ended_by_sigterm():
        try:
            limit = options.integer("max-messages")
            _print_records(consumer, counter, formatter, limit, timeout_s, options)
        finally:
            consumer.close()
            print(f"Processed a total of {counter.count} messages", file=sys.stderr)


class _Counter:
    """The number of processed records."""

    def __init__(self) -> None:
        self.count = 0


def _print_records(
    consumer: RecordConsumer,
    counter: _Counter,
    formatter: Formatter,
    limit: int | None,
    timeout_s: float | None,
    options: Options,
) -> None:
    skips = options.has("skip-message-on-error")
    while limit in (None, -1) or counter.count < (limit or 0):
        fetched = next_record(partial(consumer.receive, timeout_s), _LOGGER)
        if fetched is None:
            return
        counter.count += 1
        try:
            line = formatter(fetched)
        except ToolError as error:
            if not skips:
                raise
            log_error("Error processing message, skipping this message: ", error, _LOGGER)
            continue
        if not write_record(line):
            print("Unable to write to standard out, closing consumer.", file=sys.stderr)
            return


def _failed(error: Failure) -> int:
    """Print an error as Java's tool does: unknown options with the usage, others as exceptions."""
    if isinstance(error, OptionsError) and "ConversionException" not in error.java_class:
        return print_with_usage(error, OPTIONS)
    return print_thrown_by_main(error)


TOOL = ToolSpec(
    "kafka-console-consumer",
    OPTIONS,
    run,
    "This tool helps to read data from Kafka topics and outputs it to standard output.",
    _failed,
)
