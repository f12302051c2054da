"""kafka-transactions.sh: look at transactions, and end those that hang (TransactionsCommand)."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from coordinator_server.client import Client, ClientError, check, read_settings
from coordinator_server.client.client import TRANSACTION_COORDINATOR
from coordinator_server.kafka_tools.commands import (
    CommandError,
    CommandTool,
    Parser,
    Version,
    failed,
    print_table,
)
from coordinator_server.kafka_tools.frame import ToolError, connect_to, read_properties
from protocol.errors import ErrorCode

Partition = tuple[str, int]

_NONE = "None"
_UNEXPECTED = "ListTransactions request sent to broker {} failed with an unexpected exception"
_MISSING = (
    "DescribeTransactions request for transactionalId `{}` failed because the ID could not be found"
)
_LIST_VERSION_WITH_DURATION, _LIST_VERSION_WITH_PATTERN = 1, 2
_FENCING_TIMEOUT_MS = 1


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = Parser("kafka-transactions.sh", description=PURPOSE)
    top.add_argument("-v", "--version", action=Version, nargs=0, help="print the version")
    top.add_argument("--command-config", metavar="FILE", help="settings of the client")
    top.add_argument("--bootstrap-server", metavar="host:port", required=True)
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)

    listing = commands.add_parser("list", help="list transactions")
    listing.add_argument("--duration-filter", type=int, default=-1, help="older than so many ms")
    listing.add_argument("--transactional-id-pattern", help="a regular expression")

    describe = commands.add_parser("describe", help="the state of a transactional id")
    describe.add_argument("--transactional-id", required=True)

    producers = commands.add_parser("describe-producers", help="the producers of a partition")
    producers.add_argument("--broker-id", type=int, help="the broker to ask, not the leader")
    producers.add_argument("--topic", required=True)
    producers.add_argument("--partition", type=int, required=True)

    abort = commands.add_parser("abort", help="abort a hanging transaction in a partition")
    abort.add_argument("--topic", required=True)
    abort.add_argument("--partition", type=int, required=True)
    abort.add_argument("--start-offset", type=int, help="where the transaction begins")
    abort.add_argument("--producer-id", type=int, help="instead, for brokers before 3.0")
    abort.add_argument("--producer-epoch", type=int)
    abort.add_argument("--coordinator-epoch", type=int)

    hanging = commands.add_parser("find-hanging", help="transactions that nobody will end")
    hanging.add_argument("--broker-id", type=int)
    hanging.add_argument("--max-transaction-timeout", type=int, default=15, help="minutes")
    hanging.add_argument("--topic")
    hanging.add_argument("--partition", type=int)

    force = commands.add_parser(
        "forceTerminateTransaction", help="abort the transaction of a transactional id"
    )
    force.add_argument("--transactionalId", required=True)
    return top


def run(options: argparse.Namespace) -> int:
    """Run one command."""
    properties: dict[str, str] = {}
    if options.command_config is not None:
        try:
            properties = read_properties(options.command_config)
        except ToolError as error:
            raise failed("Failed to load admin client properties", error) from error
    client = connect_to(
        options.bootstrap_server,
        properties,
        name="AdminClient",
        failure="Failed to create new KafkaAdminClient",
        settings=read_settings(properties, None),
    )
    try:
        _COMMANDS[options.command](client, options)
    finally:
        client.close()
    return 0


class Listed(NamedTuple):
    """One transactional id of a broker."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


def _list(client: Client, options: argparse.Namespace) -> None:
    try:
        listed = list_transactions(
            client,
            duration_ms=options.duration_filter,
            pattern=options.transactional_id_pattern,
        )
    except ClientError as error:
        raise failed("Failed to list transactions", error) from error
    headers = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
    print_table(headers, listed)


def list_transactions(
    client: Client,
    *,
    producer_ids: Iterable[int] = (),
    duration_ms: int = -1,
    pattern: str | None = None,
) -> list[Listed]:
    """The transactional ids of all brokers, filtered. Raises ClientError."""
    from protocol.apis.list_transactions import ListTransactionsRequest

    request = ListTransactionsRequest(
        producer_id_filters=list(producer_ids),
        duration_filter=duration_ms,
        transactional_id_pattern=pattern,
    )
    least = _LIST_VERSION_WITH_DURATION if duration_ms >= 0 else 0
    least = least if pattern is None else _LIST_VERSION_WITH_PATTERN

    def ask(node_id: int) -> Any:
        answer = client.ask(request, node_id, min_version=least)
        code = ErrorCode(answer.error_code)
        check(code, None if code.retriable else _UNEXPECTED.format(node_id))
        return answer

    client.call("listTransactions", partial(client.metadata, []))
    listed = []
    for node_id in sorted(client.nodes):
        answer = client.call("listTransactions", partial(ask, node_id))
        listed += [
            Listed(one.transactional_id, node_id, one.producer_id, one.transaction_state)
            for one in answer.transaction_states
        ]
    return listed


def describe_transaction(client: Client, transactional_id: str) -> tuple[int, Any]:
    """The coordinator of an id, and its DescribedTransaction. Raises ClientError."""
    from protocol.apis.describe_transactions import DescribeTransactionsRequest

    def ask() -> tuple[int, Any]:
        node_id = client.coordinator(transactional_id, TRANSACTION_COORDINATOR)
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        described = client.ask(request, node_id).transaction_states[0]
        code = ErrorCode(described.error_code)
        is_missing = code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        check(code, _MISSING.format(transactional_id) if is_missing else None)
        return node_id, described

    return client.call("describeTransactions", ask)


def _describe(client: Client, options: argparse.Namespace) -> None:
    name = options.transactional_id
    try:
        node_id, state = describe_transaction(client, name)
    except ClientError as error:
        what = f"Failed to describe transaction state of transactional-id `{name}`"
        raise failed(what, error) from error
    start_ms = state.transaction_start_time_ms
    partitions = [f"{topic.topic}-{index}" for topic in state.topics for index in topic.partitions]
    row = (
        node_id,
        name,
        state.producer_id,
        state.producer_epoch,
        state.transaction_state,
        state.transaction_timeout_ms,
        start_ms if start_ms >= 0 else _NONE,
        _now_ms() - start_ms if start_ms >= 0 else _NONE,
        ",".join(partitions),
    )
    print_table(_DESCRIBED, [row])


def describe_producers(client: Client, partition: Partition, node_id: int | None = None) -> Any:
    """The ActiveProducers of a partition, of its leader or as a broker has them.

    Raises ClientError.
    """
    from protocol.apis.describe_producers import (
        DescribeProducersRequest,
        DescribeProducersTopicRequest,
    )

    topic, index = partition
    asked = DescribeProducersTopicRequest(name=topic, partition_indexes=[index])

    def ask() -> Any:
        asked_id = node_id
        if asked_id is None:
            (asked_id,) = client.leaders([partition])
        request = DescribeProducersRequest(topics=[asked])
        described = client.ask(request, asked_id).topics[0].partitions[0]
        check(described.error_code, described.error_message)
        return described.active_producers

    return client.call("describeProducers", ask)


def _describe_producers(client: Client, options: argparse.Namespace) -> None:
    topic, index = options.topic, options.partition
    try:
        producers = describe_producers(client, (topic, index), options.broker_id)
    except ClientError as error:
        where = "leader" if options.broker_id is None else f"broker {options.broker_id}"
        what = f"Failed to describe producers for partition {topic}-{index} on {where}"
        raise failed(what, error) from error
    rows = [
        (
            one.producer_id,
            one.producer_epoch,
            one.coordinator_epoch,
            one.last_sequence,
            one.last_timestamp,
            one.current_txn_start_offset if one.current_txn_start_offset >= 0 else _NONE,
        )
        for one in producers
    ]
    print_table(_PRODUCERS, rows)


class Abort(NamedTuple):
    """The transaction of a producer in one partition, that is to be aborted there."""

    partition: Partition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int

    def __str__(self) -> str:
        topic, index = self.partition
        return (
            f"AbortTransactionSpec(topicPartition={topic}-{index}, producerId={self.producer_id},"
            f" producerEpoch={self.producer_epoch}, coordinatorEpoch={self.coordinator_epoch})"
        )


def _abort(client: Client, options: argparse.Namespace) -> None:
    abort = _abort_of(client, options)
    try:
        client.call("abortTransaction", partial(_write_marker, client, abort))
    except ClientError as error:
        raise failed(f"Failed to abort transaction {abort}", error) from error


def _abort_of(client: Client, options: argparse.Namespace) -> Abort:
    """What the options name."""
    partition = options.topic, options.partition
    name = f"{options.topic}-{options.partition}"
    if options.start_offset is None:
        if options.producer_id is None:
            raise CommandError(_ABORT_USAGE)
        for option in ("producer_epoch", "coordinator_epoch"):
            if getattr(options, option) is None:
                raise CommandError(f"Missing required argument --{option.replace('_', '-')}")
        return Abort(
            partition, options.producer_id, options.producer_epoch, options.coordinator_epoch
        )
    try:
        producers = describe_producers(client, partition)
    except ClientError as error:
        what = f"Failed to validate producer state for partition {name}"
        raise failed(what, error) from error
    for one in producers:
        if one.current_txn_start_offset == options.start_offset:
            # A producer whose first transaction hangs has seen no marker: its coordinator is not
            # known.
            epoch = max(one.coordinator_epoch, 0)
            return Abort(partition, one.producer_id, one.producer_epoch, epoch)
    raise CommandError(
        f"Could not find any open transactions starting at offset {options.start_offset} on"
        f" partition {name}"
    )


def _write_marker(client: Client, abort: Abort) -> None:
    from protocol.apis.write_txn_markers import (
        WritableTxnMarker,
        WritableTxnMarkerTopic,
        WriteTxnMarkersRequest,
    )

    topic, index = abort.partition
    marker = WritableTxnMarker(
        producer_id=abort.producer_id,
        producer_epoch=abort.producer_epoch,
        transaction_result=False,
        coordinator_epoch=abort.coordinator_epoch,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
    )
    (node_id,) = client.leaders([abort.partition])
    answer = client.ask(WriteTxnMarkersRequest(markers=[marker]), node_id)
    check(answer.markers[0].topics[0].partitions[0].error_code)


def _find_hanging(client: Client, options: argparse.Namespace) -> None:
    """Open in a partition for longer than any transaction may be, and known to no coordinator."""
    if options.topic is None and options.broker_id is None:
        raise CommandError(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope"
            " of the search"
        )
    if options.partition is not None and options.topic is None:
        raise CommandError("The --partition argument requires --topic to be provided")
    oldest_ms = _now_ms() - options.max_transaction_timeout * 60_000
    opened = []
    for partition, node_id in _partitions(client, options):
        try:
            producers = describe_producers(client, partition, node_id)
        except ClientError as error:
            what = f"Failed to describe producers for 1 partitions on broker {node_id}"
            raise failed(what, error) from error
        opened += [
            (partition, one)
            for one in producers
            if one.current_txn_start_offset >= 0 and one.last_timestamp < oldest_ms
        ]
    rows = []
    if opened:
        known = _known(client, {one.producer_id for _, one in opened})
        rows = [
            (
                *partition,
                one.producer_id,
                one.producer_epoch,
                one.coordinator_epoch,
                one.current_txn_start_offset,
                one.last_timestamp,
                (_now_ms() - one.last_timestamp) // 60_000,
            )
            for partition, one in opened
            if (partition, one.producer_id) not in known
        ]
    print_table(_HANGING, rows)


def _partitions(client: Client, options: argparse.Namespace) -> list[tuple[Partition, int]]:
    """The partitions to look at, each with the broker to ask."""
    topics = None if options.topic is None else [options.topic]
    try:
        answer = client.call("describeTopics", partial(client.metadata, topics))
        for topic in answer.topics:
            check(topic.error_code)
    except ClientError as error:
        raise failed("Failed to describe 1 topics", error) from error
    return [
        ((topic.name, one.partition_index), options.broker_id or one.leader_id)
        for topic in sorted(answer.topics, key=lambda topic: str(topic.name))
        for one in sorted(topic.partitions, key=lambda one: int(one.partition_index))
        if options.partition in (None, one.partition_index)
        and options.broker_id in (None, *one.replica_nodes)
    ]


def _known(client: Client, producer_ids: set[int]) -> set[tuple[Partition, int]]:
    """Partition and producer id of what the coordinators know to be open."""
    try:
        listed = list_transactions(client, producer_ids=producer_ids)
    except ClientError as error:
        what = f"Failed to list transactions for {len(producer_ids)} producers"
        raise failed(what, error) from error
    known = set()
    for one in listed:
        try:
            _, state = describe_transaction(client, one.transactional_id)
        except ClientError as error:
            raise failed(f"Failed to describe {len(listed)} transactions", error) from error
        known |= {
            ((topic.topic, index), int(state.producer_id))
            for topic in state.topics
            for index in topic.partitions
        }
    return known


def _force(client: Client, options: argparse.Namespace) -> None:
    """Abort the open transaction of an id: a new producer of this id does that."""
    from protocol.apis.init_producer_id import InitProducerIdRequest

    name = options.transactionalId

    def fence() -> None:
        request = InitProducerIdRequest(
            transactional_id=name, transaction_timeout_ms=_FENCING_TIMEOUT_MS
        )
        node_id = client.coordinator(name, TRANSACTION_COORDINATOR)
        check(client.ask(request, node_id).error_code)

    try:
        client.call("fenceProducers", fence)
    except ClientError as error:
        what = f"Failed to force terminate transactionalId `{name}`"
        raise failed(what, error) from error


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


_COMMANDS = {
    "list": _list,
    "describe": _describe,
    "describe-producers": _describe_producers,
    "abort": _abort,
    "find-hanging": _find_hanging,
    "forceTerminateTransaction": _force,
}
_DESCRIBED = (
    "CoordinatorId",
    "TransactionalId",
    "ProducerId",
    "ProducerEpoch",
    "TransactionState",
    "TransactionTimeoutMs",
    "CurrentTransactionStartTimeMs",
    "TransactionDurationMs",
    "TopicPartitions",
)
_PRODUCERS = (
    "ProducerId",
    "ProducerEpoch",
    "LatestCoordinatorEpoch",
    "LastSequence",
    "LastTimestamp",
    "CurrentTransactionStartOffset",
)
_HANGING = (
    "Topic",
    "Partition",
    "ProducerId",
    "ProducerEpoch",
    "CoordinatorEpoch",
    "StartOffset",
    "LastTimestamp",
    "Duration(min)",
)
_ABORT_USAGE = (
    "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or"
    " above) or with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
)
PURPOSE = (
    "This tool looks at the transactions of the producers of a cluster, and ends those that hang."
)

TOOL = CommandTool("kafka-transactions", parser, run)
