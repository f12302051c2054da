"""kafka-replica-verification.sh: compare the replicas of partitions (ReplicaVerificationTool)."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any, NoReturn

from coordinator_server.client import (
    Client,
    ClientConnection,
    ClientError,
    check,
    parse_addresses,
)
from coordinator_server.kafka_tools.console import ended_by_sigterm
from coordinator_server.kafka_tools.filters import topic_filter
from coordinator_server.kafka_tools.frame import (
    EXECUTION,
    ToolError,
    ToolSpec,
    connect_to,
    illegal_argument,
    raise_wrapped,
)
from coordinator_server.kafka_tools.get_offsets import list_offsets
from coordinator_server.kafka_tools.java import in_hash_order, log
from coordinator_server.kafka_tools.options import Option, Options, UsageError
from coordinator_server.kafka_tools.reassignments import Place, by_topic

if TYPE_CHECKING:
    from protocol.batch_header import BatchHeader

_LOGGER = "org.apache.kafka.tools.ReplicaVerificationTool"
_DEBUGGING_CONSUMER = -2
_RETRY_S = 0.1
_EARLIEST = -2

OPTIONS = (
    Option(
        "broker-list",
        "REQUIRED: the bootstrap servers.",
        argument="hostname:port,...,hostname:port",
    ),
    Option(
        "fetch-size",
        "The maximum bytes of a partition per fetch.",
        argument="bytes",
        kind="int",
        default="1048576",
    ),
    Option(
        "max-wait-ms",
        "How long each fetch waits for records, in ms.",
        argument="ms",
        kind="int",
        default="1000",
    ),
    Option(
        "topics-include",
        "The topics to compare.",
        argument="Java regex (String)",
        default=".*",
    ),
    Option(
        "time",
        "The timestamp of the first records to compare, in ms.",
        argument="timestamp/-1(latest)/-2(earliest)",
        kind="long",
        default="-1",
    ),
    Option(
        "report-interval-ms",
        "The time between two reports in ms.",
        argument="ms",
        kind="long",
        default="30000",
    ),
)


def run(options: Options) -> int:
    """Compare replicas until interrupted; return the exit code for wrong arguments."""
    options.required("broker-list")
    servers = options.value("broker-list") or ""
    if not servers.strip():
        raise UsageError("Error while validating the bootstrap address\n")
    try:
        parse_addresses(servers)
    except ClientError as error:
        message = "Please provide valid host:port like host1:9091,host2:9092\n"
        raise UsageError(message) from error
    client = connect_to(
        servers, {}, name="AdminClient", failure="Failed to create new KafkaAdminClient"
    )
    with ended_by_sigterm(), closing(client):
        topics = _topics(client, options)
        if not topics:
            log(
                "ERROR",
                "No topics found. [topics-include] if specified, is either filtering out all "
                "topics or there is no topic.",
                _LOGGER,
            )
            return 1
        verification = _Verification(client, topics, options)
        print(f"{_now()}: verification process is started", flush=True)
        verification.run()
    raise AssertionError("run has no end")


def _topics(client: Client, options: Options) -> list[Any]:
    """Return the Metadata of the selected topics. Raises ToolError."""
    try:
        topics = client.call("listTopics", lambda: client.metadata(None)).topics
        for topic in topics:
            check(topic.error_code)
    except ClientError as error:
        raise_wrapped(error, EXECUTION)
    expression = options.value("topics-include") or ""
    if not topics:
        return []
    try:
        re.compile(expression)
    except re.error as error:
        text = f"{expression} is an invalid regex"
        raise ToolError("java.lang.RuntimeException", text) from error
    is_wanted = topic_filter(expression)
    return [topic for topic in topics if is_wanted(topic.name)]


class _Verification:
    """Fetches all replicas of some topics from the same offsets and compares their batches."""

    def __init__(self, client: Client, topics: list[Any], options: Options) -> None:
        self._client = client
        self._ids = {topic.name: topic.topic_id for topic in topics}
        self._names = {topic_id: name for name, topic_id in self._ids.items()}
        self._places: dict[int, list[Place]] = {}
        """The partitions of which each broker has a replica."""
        places = []
        for topic in topics:
            for partition in topic.partitions:
                places.append((topic.name, partition.partition_index))
                for broker in partition.replica_nodes:
                    self._places.setdefault(broker, []).append(places[-1])
        self._order = in_hash_order(places)
        self._offsets = self._first_offsets(options.integer("time") or 0)
        self._fetch_size = options.integer("fetch-size") or 0
        self._max_wait_ms = options.integer("max-wait-ms") or 0
        self._interval_s = (options.integer("report-interval-ms") or 0) / 1000
        self._furthest = "partition null at offset -1"
        self._connections: dict[int, ClientConnection] = {}

    def _first_offsets(self, timestamp: int) -> dict[Place, int]:
        if timestamp < _EARLIEST:
            topic, index = self._order[0]
            illegal_argument(
                f"The target time for partition {topic}-{index} is {timestamp}. The target time "
                "cannot be negative."
            )
        offsets: dict[Place, int] = {}
        for place, offset in list_offsets(
            self._client, dict.fromkeys(self._order, timestamp)
        ).items():
            if isinstance(offset, ClientError):
                raise offset
            if offset < 0:
                text = (
                    'Cannot invoke "org.apache.kafka.clients.consumer.OffsetAndTimestamp.offset()" '
                    'because the return value of "java.util.Map$Entry.getValue()" is null'
                )
                raise ToolError("java.lang.NullPointerException", text)
            offsets[place] = offset
        return offsets

    def run(self) -> NoReturn:
        """Compare the replicas until the process is ended, and print the largest lag at intervals.

        Raises SystemExit if the batches of two replicas end at different offsets.
        """
        reported_s = time.monotonic()
        with ThreadPoolExecutor(len(self._places)) as pool:
            while True:
                self._connect()
                answers = dict(zip(self._places, pool.map(self._fetch, self._places), strict=True))
                if None in answers.values():
                    time.sleep(_RETRY_S)
                lag = self._compare(answers)
                now_s = time.monotonic()
                if now_s - reported_s > self._interval_s:
                    print(f"{_now()}: {lag} among {len(self._order)} partitions", flush=True)
                    reported_s = now_s

    def _connect(self) -> None:
        for broker in self._places:
            connection = self._connections.get(broker)
            if connection is None or not connection.is_open:
                try:
                    self._connections[broker] = self._client.open_connection(broker)
                except ClientError:
                    self._connections.pop(broker, None)

    def _fetch(self, broker: int) -> dict[Place, Any] | None:
        """Return a broker's response for its partitions; None if the broker does not respond."""
        from protocol.apis.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState

        connection = self._connections.get(broker)
        if connection is None:
            return None
        request = FetchRequest(
            replica_id=_DEBUGGING_CONSUMER,
            replica_state=ReplicaState(replica_id=_DEBUGGING_CONSUMER),
            max_wait_ms=self._max_wait_ms,
            min_bytes=1,
            topics=[
                FetchTopic(
                    topic=topic,
                    topic_id=self._ids[topic],
                    partitions=[
                        FetchPartition(
                            partition=index,
                            fetch_offset=self._offsets[topic, index],
                            log_start_offset=0,
                            partition_max_bytes=self._fetch_size,
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(self._places[broker]).items()
            ],
        )
        timeout_ms = self._client.settings.request_timeout_ms + self._max_wait_ms
        try:
            answer = connection.ask(request, timeout_ms=timeout_ms)
        except ClientError:
            return None
        return {
            (topic.topic or self._names[topic.topic_id], partition.partition_index): partition
            for topic in answer.responses
            for partition in topic.partitions
        }

    def _compare(self, answers: Mapping[int, dict[Place, Any] | None]) -> str:
        """Compare the batches of each partition; return the partition with the largest lag."""
        most = -1
        for place in self._order:
            fetched = {
                broker: (answers[broker] or {}).get(place)
                for broker in sorted(self._places)
                if place in self._places[broker]
            }
            behind = compare_batches(f"{place[0]}-{place[1]}", fetched)
            if behind is not None:
                self._offsets[place] = behind
            watermark = max(fetch.high_watermark if fetch else -1 for fetch in fetched.values())
            offset = self._offsets[place]
            if watermark - offset > most:
                most = watermark - offset
                self._furthest = f"partition {place[0]}-{place[1]} at offset {offset}"
        return f"max lag is {most} for {self._furthest}"


def compare_batches(name: str, fetched: Mapping[int, Any]) -> int | None:
    """Compare the fetched batches of a partition's replicas and print differences.

    Returns the offset after the batches that all replicas have, or None if they have no batch in
    common. Raises SystemExit if two batches end at different offsets, because later batches cannot
    be compared.
    """
    batches = {broker: _batches(partition) for broker, partition in fetched.items()}
    next_offset = None
    while True:
        headers: dict[int, BatchHeader] = {}
        for broker in batches:
            header = next(batches[broker], None)
            if header is None or header.last_offset >= fetched[broker].high_watermark:
                continue
            headers[broker] = header
            first_broker, first = next(iter(headers.items()))
            if first.last_offset != header.last_offset:
                print(
                    f"{_now()}: partition {name}: replica {first_broker}'s offset "
                    f"{first.last_offset} doesn't match replica {broker}'s offset "
                    f"{header.last_offset}"
                )
                sys.exit(1)
            if first.crc != header.crc:
                print(
                    f"{_now()}: partition {name} has unmatched checksum at offset "
                    f"{header.last_offset}; replica {first_broker}'s checksum {first.crc}; "
                    f"replica {broker}'s checksum {header.crc}"
                )
        if len(headers) < len(batches):
            return next_offset
        next_offset = first.next_offset


def _batches(fetched: Any) -> Iterator[BatchHeader]:
    from protocol.batch_header import iterate_batches

    return iterate_batches(fetched.records or b"") if fetched else iter(())


def _now() -> str:
    now = time.time()
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    return f"{stamp},{int(now * 1000) % 1000:03}"


def _warn() -> None:
    log("WARN", "This tool is deprecated and may be removed in a future major release.", _LOGGER)


TOOL = ToolSpec(
    "kafka-replica-verification",
    OPTIONS,
    run,
    "Validate that all replicas for a set of topics have the same data.",
    before=_warn,
)
