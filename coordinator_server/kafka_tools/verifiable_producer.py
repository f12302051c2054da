"""kafka-verifiable-producer.sh: write numbers and print each result (Kafka's VerifiableProducer).

Each line of output is a JSON object for test programs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from coordinator_server.client import ClientError, ClientSettings
from coordinator_server.kafka_tools.commands import INTEGER, LONG, Parser, ParserTool
from coordinator_server.kafka_tools.console import stopped_by_signals, warn_topic
from coordinator_server.kafka_tools.console_producer import producer_settings
from coordinator_server.kafka_tools.frame import (
    ToolError,
    client_label,
    connect_to,
    java_class,
    read_properties,
)

if TYPE_CHECKING:
    from coordinator_server.client.producer import Producer
    from protocol.batch import Record

_CLIENT_ID = "producer-1"  # the client id if client.id is not set
_ACKS = (0, 1, -1)
_LONGEST_SLEEP_S = 0.1


def parser() -> Parser:
    """Return the parser of the options."""
    top = Parser(
        "verifiable-producer",
        "Write increasing numbers to a topic and print the acknowledgements as JSON.",
    )
    top.add_argument("--topic", required=True, help="the topic to write to")
    top.add_argument(
        "--max-messages", type=INTEGER, default=-1, help="stop after this number of records"
    )
    top.add_argument(
        "--throughput",
        type=LONG,
        default=-1,
        help="maximum number of records per second; -1: no limit",
    )
    top.add_argument(
        "--acks",
        type=_acks,
        default=-1,
        help="acknowledgements: 0 (none), 1 (the leader), -1 (all in-sync replicas)",
    )
    top.add_argument(
        "--producer.config",
        dest="old_config",
        metavar="CONFIG-FILE",
        help="deprecated name of --command-config",
    )
    top.add_argument(
        "--message-create-time", type=LONG, default=-1, help="timestamp of the first record in ms"
    )
    top.add_argument(
        "--value-prefix",
        type=INTEGER,
        help="prefix of each value, followed by a dot and the number",
    )
    top.add_argument(
        "--repeating-keys", type=INTEGER, help="keys are numbers from 0 to this limit, exclusive"
    )
    top.add_argument(
        "--command-config", metavar="CONFIG-FILE", help="properties file with producer settings"
    )
    top.add_argument(
        "--bootstrap-server", metavar="HOST1:PORT1[,HOST2:PORT2[...]]", help="bootstrap servers"
    )
    return top


def _acks(text: str) -> int:
    value = INTEGER(text)
    if value not in _ACKS:
        raise argparse.ArgumentTypeError(f"invalid choice: '{value}' (choose from {{0,1,-1}})")
    return value


def read_config(options: argparse.Namespace, old_name: str, parser: Parser) -> dict[str, str]:
    """Return the properties of the given file, if any. Exits if the file cannot be read."""
    if options.old_config is not None:
        print(
            f"Option {old_name} has been deprecated and will be removed in a future version."
            " Use --command-config instead."
        )
    path = options.command_config or options.old_config
    try:
        return {} if path is None else read_properties(path)
    except ToolError as error:
        parser.error(str(error))


class _Counts:
    """Counts sent and acknowledged records, and prints the lines about them."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self.sent = self.acknowledged = 0
        self.start_s = time.time()

    def written(self, record: Record, partition: int) -> None:
        """Print that a record was acknowledged."""
        self.acknowledged += 1
        event = {**content(record), "offset": record.offset, "topic": self._topic}
        print_event("producer_send_success", **event, partition=partition)

    def failed(self, record: Record, error: ClientError) -> None:
        """Print why a record was not written."""
        print_event(
            "producer_send_error",
            **content(record),
            exception=f"class {java_class(error)}",
            message=str(error),
            topic=self._topic,
        )


def run(options: argparse.Namespace) -> int:
    """Write until the maximum is reached or a signal arrives; return the exit code."""
    if options.bootstrap_server is None:
        parser().error("one of the arguments --bootstrap-server is required")
    properties = read_config(options, "--producer.config", parser())
    from coordinator_server.client.producer import Producer

    properties |= {"acks": str(options.acks), "retries": "0"}
    for name, default in (("linger.ms", "5"), ("request.timeout.ms", "30000")):
        properties.setdefault(name, default)
    client = connect_to(
        options.bootstrap_server,
        properties,
        name="Producer",
        failure="Failed to construct kafka producer",
        settings=ClientSettings(client_id=_CLIENT_ID),
    )
    counts = _Counts(options.topic)
    label = client_label("Producer", client.settings.client_id)
    warn = partial(warn_topic, label, options.topic)
    settings = producer_settings(properties)
    producer = Producer(client, options.topic, settings, counts.failed, warn, counts.written)
    print_event("startup_complete")
    is_stopped = False

    def stop() -> None:
        nonlocal is_stopped
        is_stopped = True

    with closing(client), stopped_by_signals(stop) as stopped:
        while counts.sent != max(options.max_messages, -1) and not is_stopped:
            _send(producer, options, counts)
            _throttle(producer, options.throughput, counts, lambda: is_stopped)
        producer.flush()
    print_event("shutdown_complete")
    seconds = max(time.time() - counts.start_s, 0.001)
    print_event(
        "tool_data",
        sent=counts.sent,
        acked=counts.acknowledged,
        target_throughput=options.throughput,
        avg_throughput=counts.acknowledged / seconds,
    )
    return stopped.code


def _send(producer: Producer, options: argparse.Namespace, counts: _Counts) -> None:
    """Send a record with the next number."""
    number = counts.sent
    counts.sent += 1
    prefix = "" if options.value_prefix is None else f"{options.value_prefix}."
    key = None
    if options.repeating_keys is not None:
        key = str(number % options.repeating_keys if options.repeating_keys else 0).encode()
    timestamp_ms = None
    if options.message_create_time != -1:
        passed_ms = int((time.time() - counts.start_s) * 1000)
        timestamp_ms = options.message_create_time + passed_ms
    producer.add(key, f"{prefix}{number}".encode(), [], timestamp_ms)


def _throttle(
    producer: Producer, throughput: int, counts: _Counts, is_stopped: Callable[[], bool]
) -> None:
    """Send lingering batches; wait while the rate is above `throughput` records per second."""
    due_s = counts.start_s + counts.sent / throughput if throughput > 0 else 0.0
    while True:
        if producer.wait_s() == 0:
            producer.send_due()
        # As in Kafka's tool, a throughput of 0 sends one record and then waits until the process
        # is stopped.
        rest_s = _LONGEST_SLEEP_S if throughput == 0 else due_s - time.time()
        if rest_s <= 0 or is_stopped():
            return
        time.sleep(min(rest_s, _LONGEST_SLEEP_S, producer.wait_s() or _LONGEST_SLEEP_S))


def content(record: Record) -> dict[str, str | None]:
    """Return key and value as text."""
    return {
        name: None if data is None else data.decode(errors="replace")
        for name, data in (("key", record.key), ("value", record.value))
    }


def print_event(name: str, **fields: object) -> None:
    """Print an event at once: its time, name and fields."""
    event = {"timestamp": int(time.time() * 1000), "name": name, **fields}
    json.dump(event, sys.stdout, separators=(",", ":"), ensure_ascii=False)
    print(flush=True)


TOOL = ParserTool("kafka-verifiable-producer", parser, run)
