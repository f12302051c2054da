"""kafka-producer-perf-test.sh: measure the speed of writing records (ProducerPerformance)."""

from __future__ import annotations

import argparse
import random
import re
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from coordinator_server.client import ClientError, ClientSettings
from coordinator_server.kafka_tools.commands import INTEGER, LONG, Parser, ParserTool
from coordinator_server.kafka_tools.console import stopped_by_signals, warn_topic
from coordinator_server.kafka_tools.console_producer import producer_settings
from coordinator_server.kafka_tools.frame import (
    NotHereError,
    client_label,
    connect_to,
    illegal_argument,
    print_stack_trace,
    read_properties,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from protocol.batch import Record

_CLIENT_ID = "perf-producer-client"
_MEGABYTE = 1024 * 1024
_LONGEST_SLEEP_S = 0.1
_SAMPLES = 500_000
_UPPER_CASE = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}
_KEYS = ("none", "range", "random")
_PAYLOADS = {
    "--record-size": "record_size",
    "--payload-file": "payload_file",
    "--payload-monotonic": "payload_monotonic",
}
_SOURCES = {
    "--bootstrap-server": "bootstrap_server",
    "--command-property": "command_property",
    "--producer-props": "producer_props",
    "--producer.config": "old_config",
    "--command-config": "command_config",
}
_REPLACED = {
    "--producer-props": "--command-property",
    "--producer.config": "--command-config",
}


def parser() -> Parser:
    """Return the parser of the options."""
    top = Parser("kafka-producer-perf-test", "Write records and print throughput and latencies.")
    top.add_argument("--bootstrap-server", help="bootstrap servers")
    top.add_argument("--topic", required=True, help="the topic to write to")
    top.add_argument("--num-records", type=LONG, required=True, help="number of records to write")
    top.add_argument(
        "--payload-delimiter", default="\\n", help="delimiter of the payloads in --payload-file"
    )
    top.add_argument(
        "--throughput",
        type=_number,
        required=True,
        help="maximum number of records per second; -1: no limit",
    )
    for name in ("--producer-props", "--command-property"):
        top.add_argument(name, nargs="+", metavar="NAME=VALUE", help="producer settings")
    top.add_argument(
        "--producer.config",
        dest="old_config",
        metavar="CONFIG-FILE",
        help="deprecated name of --command-config",
    )
    top.add_argument(
        "--command-config", metavar="CONFIG-FILE", help="properties file with producer settings"
    )
    top.add_argument(
        "--print-metrics",
        action="store_true",
        help="not supported: only the Java producer has these metrics",
    )
    top.add_argument(
        "--transactional-id", help="not supported: this tool writes without transactions"
    )
    top.add_argument(
        "--transaction-duration-ms",
        type=LONG,
        help="not supported: this tool writes without transactions",
    )
    top.add_argument(
        "--warmup-records",
        type=LONG,
        default=0,
        help="number of records to write first; the summary is also printed without them",
    )
    top.add_argument(
        "--reporting-interval",
        type=LONG,
        default=5000,
        metavar="INTERVAL-MS",
        help="time between two reports in ms (default: 5000)",
    )
    _add_record_options(top)
    return top


def _add_record_options(top: Parser) -> None:
    """Add the options for the keys and payloads of the records."""
    top.add_argument(
        "--record-key-range", type=LONG, help="keys are numbers below this limit (default: no keys)"
    )
    top.add_argument(
        "--key-distribution", type=_distribution, default="none", help="distribution of the keys"
    )
    top.add_argument(
        "--random-seed", type=LONG, default=0, help="seed of the random payloads and keys"
    )
    top.add_argument("--record-size", type=INTEGER, help="size of a payload in bytes")
    top.add_argument(
        "--payload-file", help="file with payloads, from which each record gets a random one"
    )
    top.add_argument(
        "--payload-monotonic",
        action="store_true",
        default=None,
        help="payloads are increasing numbers",
    )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        message = f"could not convert '{text}' to Double (For input string: \"{text}\")"
        raise argparse.ArgumentTypeError(message) from None


def _distribution(text: str) -> str:
    if text not in _KEYS:
        message = f"invalid choice: '{text}' (choose from {{{','.join(_KEYS)}}})"
        raise argparse.ArgumentTypeError(message)
    return text


class _Sum:
    """Count and size of records, and the sum and the maximum of their latencies."""

    __slots__ = ("count", "max_ms", "size", "sum_ms")

    def __init__(self) -> None:
        self.count = self.size = self.sum_ms = self.max_ms = 0

    def add(self, size: int, latency_ms: int) -> None:
        """Count a record and its latency."""
        self.count += 1
        self.size += size
        self.sum_ms += latency_ms
        if latency_ms > self.max_ms:
            self.max_ms = latency_ms


class _Stats:
    """Statistics of up to `record_count` written records; times in milliseconds since `start_s`.

    Percentiles use every Nth record, as in Kafka's tool, to bound the memory use.
    """

    def __init__(self, record_count: int, interval_s: float = 0.0, what: str = "") -> None:
        self.start_s = self._window_s = time.time()
        self._interval_s = interval_s
        self._what = what
        self._sampling = record_count // min(record_count, _SAMPLES)
        self._samples_ms: list[int] = []
        self._sum, self._window = _Sum(), _Sum()

    def add(self, size: int, latency_ms: int) -> None:
        """Count a record and print a line if one is due."""
        if self._sum.count % self._sampling == 0:
            self._samples_ms.append(latency_ms)
        self._sum.add(size, latency_ms)
        if self._interval_s:
            self._window.add(size, latency_ms)
            if time.time() - self._window_s >= self._interval_s:
                self._print_window()

    def _print_window(self) -> None:
        seconds = time.time() - self._window_s
        window = self._window
        print(
            f"{window.count} records sent, {window.count / seconds:.1f} records/sec"
            f" ({window.size / _MEGABYTE / seconds:.2f} MB/sec),"
            f" {window.sum_ms / window.count:.1f} ms avg latency,"
            f" {window.max_ms:.1f} ms max latency.",
            flush=True,
        )
        self._window_s = time.time()
        self._window = _Sum()

    def print_sum(self) -> None:
        """Print the last line, which covers the whole test."""
        seconds = max(time.time() - self.start_s, 0.001)
        count = self._sum.count
        ordered = sorted(self._samples_ms) or [0]
        average = f"{self._sum.sum_ms / count:.2f}" if count else "NaN"
        percentiles = ", ".join(
            f"{ordered[int(part * len(ordered))]} ms {name}"
            for part, name in ((0.5, "50th"), (0.95, "95th"), (0.99, "99th"), (0.999, "99.9th"))
        )
        print(
            f"{count} {self._what}records sent, {count / seconds:.6f} records/sec"
            f" ({self._sum.size / _MEGABYTE / seconds:.2f} MB/sec), {average} ms avg latency,"
            f" {self._sum.max_ms:.2f} ms max latency, {percentiles}."
        )


def run(options: argparse.Namespace) -> int:
    """Write the records, print the statistics and return the exit code."""
    _check(options, parser())
    payloads = _payloads(options)
    properties = _properties(options)
    from coordinator_server.client.producer import Producer

    client = connect_to(
        options.bootstrap_server or properties.get("bootstrap.servers", ""),
        properties,
        name="Producer",
        failure="Failed to construct kafka producer",
        settings=ClientSettings(client_id=_CLIENT_ID),
    )
    stats = _Stats(options.num_records, options.reporting_interval / 1000)
    steady: _Stats | None = None
    done = 0

    def written(record: Record, _: int) -> None:
        nonlocal steady, done
        latency_ms = int(time.time() * 1000) - record.timestamp_ms
        size = len(record.value or b"")
        stats.add(size, latency_ms)
        if options.warmup_records and done >= options.warmup_records:
            steady_count = options.num_records - options.warmup_records
            steady = steady or _Stats(steady_count, what="steady state ")
            steady.add(size, latency_ms)
        done += 1

    label = client_label("Producer", client.settings.client_id)
    settings = producer_settings(properties)
    warn = partial(warn_topic, label, options.topic)
    producer = Producer(client, options.topic, settings, _print_failure, warn, written)
    keys = _keys(options)
    is_stopped = False

    def stop() -> None:
        nonlocal is_stopped
        is_stopped = True

    if options.warmup_records:
        print(
            f"Warmup first {options.warmup_records} records. Steady state results will print after"
            " the complete test summary."
        )
    with closing(client), stopped_by_signals(stop) as stopped:
        for number in range(options.num_records):
            producer.add(next(keys), next(payloads), [])
            due_s = stats.start_s + number / options.throughput if options.throughput > 0 else 0.0
            while not is_stopped:
                if producer.wait_s() == 0:
                    producer.send_due()
                rest_s = due_s - time.time() if options.throughput else _LONGEST_SLEEP_S
                if rest_s <= 0:
                    break
                time.sleep(min(rest_s, producer.wait_s() or _LONGEST_SLEEP_S, _LONGEST_SLEEP_S))
            if is_stopped:
                break
        producer.flush()
    stats.print_sum()
    if steady is not None:
        steady.print_sum()
    return stopped.code


def _print_failure(_: Record, error: ClientError) -> None:
    print_stack_trace(error)


def _check(options: argparse.Namespace, parser: Parser) -> None:
    """Exit for invalid option combinations, in the order of Kafka's tool. Raises NotHereError."""
    given = [name for name, place in _PAYLOADS.items() if getattr(options, place) is not None]
    if not given:
        parser.error(f"one of the arguments {' '.join(_PAYLOADS)} is required")
    if len(given) > 1:
        parser.error(f"argument {given[1]}: not allowed with argument {given[0]}")
    if all(getattr(options, place) is None for place in _SOURCES.values()):
        *names, last = _SOURCES
        parser.error(f"At least one of {', '.join(names)} or {last} must be specified.")
    for old, new in _REPLACED.items():
        if getattr(options, _SOURCES[old]) is not None:
            if getattr(options, _SOURCES[new]) is not None:
                parser.error(f"{new} and {old} cannot be specified together.")
            print(
                f"Option {old} has been deprecated and will be removed in a future version."
                f" Use {new} instead."
            )
    for name in ("num-records", "record-size", "reporting-interval", "transaction-duration-ms"):
        value = getattr(options, name.replace("-", "_"))
        if value is not None and value <= 0:
            parser.error(f"--{name} should be greater than zero.")
    if options.warmup_records >= options.num_records:
        parser.error(
            "The value for --warmup-records must be strictly fewer than the number of records in"
            " the test, --num-records."
        )
    if options.record_key_range is not None and options.record_key_range <= 0:
        parser.error("--record-key-range should be greater than zero.")
    has_keys = options.key_distribution != "none"
    if has_keys and options.record_key_range is None:
        message = "--record-key-range is required when --key-distribution is 'range' or 'random'."
        parser.error(message)
    if not has_keys and options.record_key_range is not None:
        parser.error(
            "--key-distribution must be 'range' or 'random' when --record-key-range is specified."
        )
    if options.transactional_id is not None or options.transaction_duration_ms is not None:
        raise NotHereError("transactions are not here: use Apache Kafka's tool")
    if options.print_metrics:
        raise NotHereError("--print-metrics: these metrics are those of Java's client")


def _properties(options: argparse.Namespace) -> dict[str, str]:
    """Return the producer's settings. Raises ToolError."""
    path = options.command_config or options.old_config
    properties = {} if path is None else read_properties(path)
    for text in options.command_property or options.producer_props or ():
        name, separator, value = text.partition("=")
        if not separator:
            illegal_argument(f"Invalid property: {text}")
        properties[name] = value
    for name, default in (("linger.ms", "5"), ("request.timeout.ms", "30000")):
        properties.setdefault(name, default)
    return properties


def _payloads(options: argparse.Namespace) -> Iterator[bytes]:
    """Return an endless iterator of payloads. Raises ToolError."""
    if options.payload_monotonic:
        return _numbers()
    chance = random.Random(options.random_seed)
    if options.record_size is not None:
        return _random_payloads(chance, options.record_size)
    print(f"Reading payloads from: {options.payload_file}")
    path = Path(options.payload_file)
    if not path.is_file() or not path.stat().st_size:
        illegal_argument("File does not exist or empty file provided.")
    delimiter = re.sub(r"\\([nrt\\])", lambda match: _ESCAPES[match[1]], options.payload_delimiter)
    listed = path.read_bytes().decode(errors="replace").split(delimiter)
    if not listed[-1]:  # drop the empty text after the final delimiter
        listed.pop()
    print(f"Number of records read: {len(listed)}")
    return _chosen(chance, [text.encode() for text in listed])


def _numbers() -> Iterator[bytes]:
    number = 0
    while True:
        yield str(number).encode()
        number += 1


def _random_payloads(chance: random.Random, size: int) -> Iterator[bytes]:
    while True:
        yield bytes(chance.choices(_UPPER_CASE, k=size))


def _chosen(chance: random.Random, listed: Sequence[bytes]) -> Iterator[bytes]:
    while True:
        yield chance.choice(listed)


def _keys(options: argparse.Namespace) -> Iterator[bytes | None]:
    """Yield keys endlessly, by `--key-distribution`; None for records without a key."""
    chance = random.Random(options.random_seed)
    number = 0
    while True:
        if options.key_distribution == "none":
            yield None
            continue
        if options.key_distribution == "random":
            number = chance.randrange(options.record_key_range)
        yield str(number).encode()
        number = (number + 1) % options.record_key_range


TOOL = ParserTool("kafka-producer-perf-test", parser, run)
