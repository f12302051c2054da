"""kafka-console-producer.sh: each line of standard input becomes a record (ConsoleProducer)."""

from __future__ import annotations

import io
import os
import queue
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from coordinator_server.client import (
    ClientError,
    ClientSettings,
    parse_addresses,
)
from coordinator_server.kafka_tools.console import stopped_by_signals, warn_topic
from coordinator_server.kafka_tools.frame import (
    BOOTSTRAP_SERVER,
    EXECUTION,
    Failure,
    ToolError,
    ToolSpec,
    client_label,
    connect_to,
    print_stack_trace,
    print_with_usage,
    raise_wrapped,
)
from coordinator_server.kafka_tools.java import log
from coordinator_server.kafka_tools.line_reader import LineReader, TypedRecord
from coordinator_server.kafka_tools.options import (
    Option,
    Options,
    OptionsError,
    UsageError,
)
from coordinator_server.kafka_tools.properties import (
    choice,
    file_properties,
    key_values,
    merge_option,
    number,
)

if TYPE_CHECKING:
    from coordinator_server.client.producer import Producer, ProducerSettings
    from protocol.batch import Record

READER = "org.apache.kafka.tools.LineMessageReader"
CLIENT_ID = "console-producer"
_QUEUED_LINES = 10_000
_LONGEST_WAIT_S = 1.0
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_REPLACED = {
    "property": "reader-property",
    "producer-property": "command-property",
    "producer.config": "command-config",
}
_PROPERTIES = {
    "linger.ms": "timeout",
    "acks": "request-required-acks",
    "request.timeout.ms": "request-timeout-ms",
    "retries": "message-send-max-retries",
    "retry.backoff.ms": "retry-backoff-ms",
    "send.buffer.bytes": "socket-buffer-size",
    "buffer.memory": "max-memory-bytes",
    "batch.size": "batch-size",
    "metadata.max.age.ms": "metadata-expiry-ms",
    "max.block.ms": "max-block-ms",
}
"""The producer's settings that have their own option."""

_PROPERTY_HELP = (
    "parse.key, parse.headers and ignore.error (true or false), key.separator, headers.delimiter,"
    " headers.separator, headers.key.separator, and null.marker, the text of a null value."
)

OPTIONS = (
    BOOTSTRAP_SERVER,
    Option("topic", "REQUIRED: the topic to write to.", argument="topic"),
    Option("sync", "Send each record only after the previous record is acknowledged."),
    Option("reader-property", f"A reader property: {_PROPERTY_HELP}", argument="prop"),
    Option("property", "Deprecated name of --reader-property.", argument="prop"),
    Option("reader-config", "A properties file for the reader.", argument="config file"),
    Option(
        "line-reader", "The class that reads input lines.", argument="reader_class", default=READER
    ),
    Option("command-property", "A producer setting.", argument="producer_prop"),
    Option("producer-property", "Deprecated name of --command-property.", argument="producer_prop"),
    Option("command-config", "A properties file with producer settings.", argument="config file"),
    Option("producer.config", "Deprecated name of --command-config.", argument="config file"),
    Option(
        "compression-codec",
        "The compression type: none, gzip, snappy, lz4 or zstd; gzip if no value is given.",
        argument="compression-codec",
        is_argument_optional=True,
    ),
    Option(
        "batch-size",
        "The maximum size of a batch in bytes.",
        argument="size",
        kind="int",
        default="16384",
    ),
    Option(
        "max-partition-memory-bytes",
        "Deprecated name of --batch-size.",
        argument="memory in bytes per partition",
        kind="int",
        default="16384",
    ),
    Option(
        "timeout",
        "How long a record waits for further records of its batch, in ms (linger.ms).",
        argument="timeout_ms",
        kind="long",
        default="1000",
    ),
    Option(
        "request-required-acks",
        "The acknowledgements of a record: all or -1 (all in-sync replicas), 1 (the "
        "leader), 0 (none).",
        argument="request required acks",
        default="-1",
    ),
    Option(
        "request-timeout-ms",
        "The request timeout in ms.",
        argument="request timeout ms",
        kind="int",
        default="1500",
    ),
    Option(
        "message-send-max-retries",
        "The maximum number of retries of a batch.",
        argument="number",
        kind="int",
        default="3",
    ),
    Option(
        "retry-backoff-ms",
        "The pause before a retry in ms.",
        argument="milliseconds",
        kind="long",
        default="100",
    ),
    Option(
        "max-block-ms",
        "How long to wait for the metadata of the topic, in ms.",
        argument="max block on send",
        kind="long",
        default="60000",
    ),
    Option(
        "metadata-expiry-ms",
        "Accepted without effect: metadata is refreshed when a leader has moved.",
        argument="metadata expiration interval",
        kind="long",
        default="300000",
    ),
    Option(
        "max-memory-bytes",
        "Accepted without effect: the producer buffers few records.",
        argument="total memory in bytes",
        kind="long",
        default="33554432",
    ),
    Option(
        "socket-buffer-size",
        "Accepted without effect.",
        argument="size",
        kind="int",
        default="102400",
    ),
)


def run(options: Options) -> int:
    """Write standard input to the topic and return the exit code."""
    _check_arguments(options)
    try:
        return _produce(options, _reader(options))
    except OptionsError as error:
        print(error, file=sys.stderr)
        return 1


def _check_arguments(options: Options) -> None:
    options.required("topic")
    for old, new in _REPLACED.items():
        if options.has(old) and options.has(new):
            raise UsageError(f"Options --{new} and --{old} cannot be specified together.")
    for old, new in _REPLACED.items():
        if options.has(old):
            print(
                f"Warning: --{old} is deprecated and will be removed in a future version."
                f" Use --{new} instead."
            )
    if options.has("max-partition-memory-bytes"):
        print(
            "Warning: --max-partition-memory-bytes is deprecated and will be removed in Apache"
            " Kafka 5.0. Use --batch-size instead."
        )
    address = options.value("bootstrap-server")
    if not address:
        raise UsageError("Error while validating the bootstrap address\n")
    try:
        parse_addresses(address)
    except ClientError as error:
        message = "Please provide valid host:port like host1:9091,host2:9092\n"
        raise UsageError(message) from error


def _reader(options: Options) -> LineReader:
    name = options.value("line-reader") or ""
    if name != READER:
        is_of_java = name.startswith("java.lang.")
        if is_of_java:
            message = "The reader must implement org.apache.kafka.tools.api.RecordReader interface"
            raise ToolError("java.lang.IllegalArgumentException", message)
        raise ToolError("java.lang.ClassNotFoundException", name)
    properties = file_properties(options, "reader-config")
    properties |= key_values(options.values("property") + options.values("reader-property"))
    return LineReader(properties)


def _produce(options: Options, reader: LineReader) -> int:
    """Write all lines and return the exit code. Raises ToolError, OptionsError."""
    from coordinator_server.client.producer import Producer

    properties = _properties(options)
    settings = producer_settings(properties)
    client = connect_to(
        options.value("bootstrap-server") or "",
        properties,
        name="Producer",
        failure="Failed to construct kafka producer",
        settings=ClientSettings(client_id=CLIENT_ID),
    )
    topic = options.value("topic") or ""
    is_synchronous = options.has("sync")
    label = client_label("Producer", client.settings.client_id)

    def failed(record: Record, error: ClientError) -> None:
        if is_synchronous:
            raise_wrapped(error, EXECUTION)
        key = "null" if record.key is None else f"{len(record.key)} bytes"
        value = "null" if record.value is None else f"{len(record.value)} bytes"
        log(
            "ERROR",
            f"Error when sending message to topic {topic} with key: {key}, value: {value}"
            " with error:",
            "org.apache.kafka.clients.producer.internals.ErrorLoggingCallback",
        )
        print_stack_trace(error)

    producer = Producer(client, topic, settings, failed, partial(warn_topic, label, topic))
    typed = _Typed(reader)
    with closing(client), stopped_by_signals(typed.end) as stop:
        try:
            for line in typed.lines(producer):
                producer.add(line.key, line.value, line.headers)
                if is_synchronous:
                    producer.flush()
        finally:
            # Flush also after an invalid line, like the shutdown hook of Kafka's tool.
            producer.flush()
    return stop.code


def _properties(options: Options) -> dict[str, str]:
    """Return the producer's settings from files, properties and options. Raises ToolError."""
    properties = file_properties(options, "command-config", "producer.config")
    names = ("command-property", "producer-property")
    properties |= key_values([text for name in names for text in options.values(name)])
    properties["compression.type"] = "none"
    if options.has("compression-codec"):
        properties["compression.type"] = options.value("compression-codec") or "gzip"
    for name, option in _PROPERTIES.items():
        if name != "acks":
            options.integer(option)  # raises OptionsError if the value is not a number
        merge_option(properties, name, options, option)
    if options.has("max-partition-memory-bytes"):
        properties["batch.size"] = str(options.integer("max-partition-memory-bytes"))
    return properties


def producer_settings(properties: Mapping[str, str]) -> ProducerSettings:
    """Return the settings of this project's producer. Raises ToolError."""
    from coordinator_server.client.producer import ProducerSettings
    from protocol.compression import Compression

    acks = choice(properties, "acks", "all", "all", "-1", "0", "1")
    codec = choice(properties, "compression.type", "none", *_CODECS)
    is_idempotent = properties.get("enable.idempotence", "true").strip().lower() != "false"
    return ProducerSettings(
        acks=-1 if acks == "all" else int(acks),
        linger_ms=number(properties, "linger.ms", 1_000, "LONG"),
        batch_size=number(properties, "batch.size", 16_384),
        retries=number(properties, "retries", 3),
        retry_backoff_ms=number(properties, "retry.backoff.ms", 100, "LONG"),
        request_timeout_ms=number(properties, "request.timeout.ms", 1_500),
        delivery_timeout_ms=number(properties, "delivery.timeout.ms", 120_000),
        max_block_ms=number(properties, "max.block.ms", 60_000, "LONG"),
        max_request_size=number(properties, "max.request.size", 1_048_576),
        compression=Compression[codec.upper()],
        is_idempotent=is_idempotent and acks in ("all", "-1"),
    )


class _Typed:
    """Reads the records of standard input in a thread.

    Meanwhile the producer can send lingering batches.
    """

    def __init__(self, reader: LineReader) -> None:
        self._reader = reader
        # A signal handler may put items into a SimpleQueue, but not into a queue.Queue.
        self._queue: queue.SimpleQueue[TypedRecord | ToolError | None] = queue.SimpleQueue()
        self._free = threading.Semaphore(_QUEUED_LINES)

    def end(self) -> None:
        """Stop after the lines that were read so far."""
        self._queue.put(None)

    def lines(self, producer: Producer) -> Iterator[TypedRecord]:
        """Yield the records; while none is available, let `producer` send lingering batches.

        Raises ToolError for a line that the reader refuses.
        """
        threading.Thread(target=self._read, daemon=True).start()
        while True:
            wait_s = producer.wait_s()
            try:
                line = self._queue.get(timeout=_LONGEST_WAIT_S if wait_s is None else wait_s)
            except queue.Empty:
                producer.send_due()
                continue
            if line is None:
                return
            if isinstance(line, ToolError):
                raise line
            self._free.release()
            yield line
            if producer.wait_s() == 0:
                producer.send_due()

    def _read(self) -> None:
        try:
            for line in self._reader.read(_typed_lines()):
                self._free.acquire()
                self._queue.put(line)
        except ToolError as error:
            self._queue.put(error)
        self._queue.put(None)


def _typed_lines() -> Iterator[str]:
    """Yield the lines of standard input, with a prompt if a terminal is attached."""
    from protocol.utf8 import JAVA_REPLACE

    if sys.stdin is None:
        return
    try:
        # Do not read sys.stdin: a blocked reader thread would hold the lock of sys.stdin at
        # interpreter exit.
        typed: BinaryIO = os.fdopen(sys.stdin.fileno(), "rb", closefd=False)
    except OSError:
        typed = sys.stdin.buffer
    stream = io.TextIOWrapper(typed, encoding="utf-8", errors=JAVA_REPLACE)
    has_prompt = sys.stdin.isatty() and sys.stdout.isatty()
    while True:
        if has_prompt:
            print(">", end="", flush=True)
        line = stream.readline()
        if not line:
            break
        yield line


def _failed(error: Failure) -> int:
    """Print an error as Java's tool does: wrong options with the usage, others as an exception."""
    if isinstance(error, OptionsError):
        return print_with_usage(error, OPTIONS)
    print_stack_trace(error)
    return 1


TOOL = ToolSpec(
    "kafka-console-producer",
    OPTIONS,
    run,
    "This tool helps to read data from standard input and publish it to Kafka.",
    _failed,
)
