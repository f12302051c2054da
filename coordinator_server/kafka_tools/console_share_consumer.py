"""kafka-console-share-consumer.sh: prints records of a topic (Kafka's ConsoleShareConsumer).

The tool joins a share group and acknowledges each record after printing the record.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from coordinator_server.client import Client, ClientError, ClientSettings
from coordinator_server.kafka_tools.console import (
    DESERIALIZERS,
    FORMATTER,
    FORMATTER_CONFIG,
    FORMATTER_PROPERTY,
    PROPERTY,
    Stop,
    check_group_ids,
    log_error,
    next_record,
    read_formatter,
    stopped_by_signals,
    warn_replaced,
    warn_topic,
    write_record,
)
from coordinator_server.kafka_tools.formatters import Formatter
from coordinator_server.kafka_tools.frame import (
    BOOTSTRAP_SERVER,
    FAILURES,
    Failure,
    ToolError,
    ToolSpec,
    client_label,
    connect_to,
    print_thrown_by_main,
    print_with_usage,
)
from coordinator_server.kafka_tools.options import Option, Options, OptionsError, UsageError
from coordinator_server.kafka_tools.properties import (
    CONFIG_EXCEPTION,
    file_properties,
    key_values,
    number,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.client.share_fetcher import AcquiredRecord, ShareFetchSettings
    from coordinator_server.client.share_member import SharePartition

CLIENT_ID = GROUP = "console-share-consumer"
_LOGGER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
_NAME = "ShareConsumer"
_FAILURE = "Failed to construct Kafka share consumer"
_STEP_S = 0.5
_PAUSE_S = 0.1
_MISSING_AGE_S = 1.0
"""The interval between lookups of a missing topic."""
_OF_CONSUMER_GROUPS = (
    "auto.offset.reset",
    "enable.auto.commit",
    "group.instance.id",
    "isolation.level",
    "partition.assignment.strategy",
    "interceptor.classes",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "group.protocol",
    "group.remote.assignor",
)
"""Settings that a share consumer rejects (Kafka: ShareConsumerConfig)."""

OPTIONS = (
    BOOTSTRAP_SERVER,
    Option("topic", "REQUIRED: the topic to read.", argument="topic"),
    Option(
        "group",
        f"The share group to join; else {GROUP}.",
        argument="share group id",
    ),
    Option(
        "max-messages", "Stop after this number of records.", argument="num_messages", kind="int"
    ),
    Option(
        "timeout-ms",
        "Stop if no record arrives for this time in ms.",
        argument="timeout_ms",
        kind="int",
    ),
    Option("reject", "Reject the records instead of accepting them."),
    Option("release", "Release the records instead of accepting them."),
    Option("reject-message-on-error", "Reject records that cannot be formatted, and continue."),
    FORMATTER,
    FORMATTER_PROPERTY,
    PROPERTY,
    FORMATTER_CONFIG,
    *DESERIALIZERS,
    Option("command-property", "A consumer setting.", argument="consumer_prop"),
    Option("consumer-property", "Deprecated name of --command-property.", argument="consumer_prop"),
    Option("command-config", "A properties file with consumer settings.", argument="config file"),
    Option("consumer-config", "Deprecated name of --command-config.", argument="config file"),
    Option("enable-systest-events", "Print a line when the consumer has stopped."),
)


def run(options: Options) -> int:
    """Print records until an end condition is met and return the exit code."""
    _check_arguments(options)
    properties = _properties(options)
    formatter = _formatter(options)
    try:
        timeout_ms = options.integer("timeout-ms")
        settings = _settings(properties)
        consumer = _Consumer(options, properties, settings)
    except FAILURES as error:
        log_error("Unknown error when running consumer: ", error, _LOGGER)
        return 1
    code = 0
    sys.stdout.flush()  # the records bypass sys.stdout's text layer, so flush it first
    with stopped_by_signals(lambda: None) as stop:
        timeout_s = None if timeout_ms is None or timeout_ms < 0 else timeout_ms / 1000
        try:
            _print_records(consumer, formatter, options, timeout_s, stop)
        except FAILURES as error:
            code = 1
            failure: Failure | None = error
        else:
            failure = None
        consumer.close()
        print(f"Processed a total of {consumer.count} messages", file=sys.stderr)
    if failure is not None:
        log_error("Unknown error when running consumer: ", failure, _LOGGER)
    if options.has("enable-systest-events"):
        print("shutdown_complete")
    return stop.code or code


def _check_arguments(options: Options) -> None:
    """Refuse invalid combinations, in the order of Kafka's ConsoleShareConsumerOptions."""
    if not options.has("topic"):
        raise UsageError("--topic is a required argument")
    options.required("bootstrap-server")
    if options.has("reject") and options.has("release"):
        raise UsageError("At most one of --reject and --release may be specified.")
    for what in ("property", "config"):
        if options.has(f"consumer-{what}") and options.has(f"command-{what}"):
            raise UsageError(
                f"Options --consumer-{what} and --command-{what} cannot be specified together."
            )
    for what in ("property", "config"):
        warn_replaced(options, f"consumer-{what}", f"command-{what}")


def _properties(options: Options) -> dict[str, str]:
    """Return the consumer's settings. Raises UsageError, ToolError, OptionsError."""
    from_file = file_properties(options, "command-config", "consumer-config")
    given = key_values(options.values("command-property") + options.values("consumer-property"))
    groups = {source["group.id"] for source in (from_file, given) if "group.id" in source}
    if options.has("group"):
        groups.add(options.value("group") or "")
    check_group_ids(groups, "consumer-config")
    return {**from_file, **given, "group.id": next(iter(groups), GROUP)}


def _formatter(options: Options) -> Formatter:
    """Return the formatter. Raises UsageError for all errors in the formatter's options."""
    if options.has("property") and options.has("formatter-property"):
        message = "Options --property and --formatter-property cannot be specified together."
        raise UsageError(message)
    warn_replaced(options, "property", "formatter-property")
    try:
        return read_formatter(options)
    except (ToolError, OptionsError) as error:
        raise UsageError(str(error)) from None


def _settings(properties: Mapping[str, str]) -> ShareFetchSettings:
    """Return the fetcher's settings. Raises ToolError."""
    from coordinator_server.client.share_fetcher import ShareFetchSettings

    refused = [name for name in _OF_CONSUMER_GROUPS if name in properties]
    if refused:
        message = f"{', '.join(refused)} cannot be set when using a share group."
        raise ToolError(CONFIG_EXCEPTION, message)
    mode = properties.get("share.acquire.mode", "batch_optimized").strip()
    if mode.lower() not in ("batch_optimized", "record_limit"):
        raise ToolError(
            CONFIG_EXCEPTION,
            f"Invalid value {mode} for configuration share.acquire.mode: Invalid value `{mode}` for"
            " configuration share.acquire.mode. The value must either be 'batch_optimized' or"
            " 'record_limit'.",
        )
    return ShareFetchSettings(
        fetch_max_wait_ms=number(properties, "fetch.max.wait.ms", 500),
        fetch_min_bytes=number(properties, "fetch.min.bytes", 1),
        fetch_max_bytes=number(properties, "fetch.max.bytes", 52_428_800),
        max_poll_records=number(properties, "max.poll.records", 500),
        is_record_limit=mode.lower() == "record_limit",
    )


class _Consumer:
    """Reads one topic as a member of a share group."""

    def __init__(
        self, options: Options, properties: Mapping[str, str], settings: ShareFetchSettings
    ) -> None:
        from coordinator_server.client.share_fetcher import ShareFetcher
        from coordinator_server.client.share_member import ShareMember

        group = properties["group.id"]
        connect = partial(
            connect_to,
            options.value("bootstrap-server") or "",
            properties,
            name=_NAME,
            failure=_FAILURE,
            settings=ClientSettings(client_id=CLIENT_ID),
            group=group,
        )
        self.count = 0
        self._topic = options.value("topic") or ""
        self._warn = partial(
            warn_topic, client_label(_NAME, properties.get("client.id") or CLIENT_ID, group)
        )
        self._creates = properties.get("allow.auto.create.topics", "true").strip().lower() == "true"
        self._client: Client = connect()
        self._member = ShareMember(connect, group, [self._topic])
        self._fetcher = ShareFetcher(self._client, group, self._member.member_id, settings)
        self._ready: list[AcquiredRecord] = []
        self._has_topic = self._is_started = False
        self._look_up_at_s = 0.0

    def receive(self, timeout_s: float | None, stop: Stop) -> AcquiredRecord | None:
        """Return the next record, or None after a signal. Raises TimeoutError, ClientError."""
        start_s = time.monotonic()
        while not self._ready:
            wait_s = _STEP_S
            if timeout_s is not None:
                rest_s = start_s + timeout_s - time.monotonic()
                if rest_s < 0:
                    raise TimeoutError
                wait_s = min(wait_s, rest_s)
            self._poll(wait_s)
            if stop.code:
                return None
        self.count += 1
        return self._ready.pop(0)

    def _poll(self, wait_s: float) -> None:
        self._check_topic()
        if not self._is_started:
            time.sleep(min(wait_s, _PAUSE_S))
            return
        partitions: list[SharePartition] = self._member.partitions(wait_s)
        if partitions:
            self._ready = self._fetcher.fetch(partitions, wait_s)

    def _check_topic(self) -> None:
        """Join the group once the topic exists, and warn while the topic is missing.

        Raises ClientError for a topic that cannot be read.
        """
        if self._has_topic or time.monotonic() < self._look_up_at_s:
            return
        self._look_up_at_s = time.monotonic() + _MISSING_AGE_S
        try:
            (topic,) = self._client.metadata([self._topic], create=self._creates).topics
        except ClientError as error:
            if not error.code.retriable:
                raise
            return
        if not self._is_started:
            self._is_started = True
            self._member.start()
        self._has_topic = not topic.error_code
        if self._has_topic:
            return
        code = ErrorCode(topic.error_code)
        self._warn(self._topic, code)
        if code is ErrorCode.INVALID_TOPIC_EXCEPTION:
            raise ClientError(code, f"Invalid topics: [{self._topic}]")
        if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise ClientError(code, f"Not authorized to access topics: [{self._topic}]")

    def acknowledge(self, acquired: AcquiredRecord, kind: int) -> None:
        """Add a record's acknowledgement to the next request."""
        self._fetcher.acknowledge(acquired, kind)

    def close(self) -> None:
        """Send the acknowledgements, release unacknowledged records and leave the group."""
        self._fetcher.close()
        self._member.close(self._client)
        self._client.close()


def _print_records(
    consumer: _Consumer,
    formatter: Formatter,
    options: Options,
    timeout_s: float | None,
    stop: Stop,
) -> None:
    """Print records and acknowledge them. Raises ToolError, OptionsError."""
    from coordinator_server.client.share_fetcher import ACCEPT, REJECT, RELEASE

    kind = REJECT if options.has("reject") else RELEASE if options.has("release") else ACCEPT
    limit = options.integer("max-messages")
    while limit in (None, -1) or consumer.count < (limit or 0):
        acquired = next_record(partial(consumer.receive, timeout_s, stop), _LOGGER)
        if acquired is None:
            return
        try:
            line = formatter(acquired.fetched)
        except ToolError as error:
            if not options.has("reject-message-on-error"):
                raise
            log_error("Error processing message, rejecting this message: ", error, _LOGGER)
            consumer.acknowledge(acquired, REJECT)
            continue
        is_written = write_record(line)
        consumer.acknowledge(acquired, kind)
        if not is_written:
            print("Unable to write to standard out, closing consumer.", file=sys.stderr)
            return
        if stop.code:
            return


def _failed(error: Failure) -> int:
    """Print errors of the option parser with the usage, others as an exception."""
    if isinstance(error, OptionsError) and "MultipleArguments" not in error.java_class:
        return print_with_usage(error, OPTIONS)
    return print_thrown_by_main(error)


TOOL = ToolSpec(
    "kafka-console-share-consumer",
    OPTIONS,
    run,
    "This tool helps to read data from Kafka topics using share groups and outputs it to standard"
    " output.",
    _failed,
)
