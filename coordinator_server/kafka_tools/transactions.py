"""kafka-transactions.sh: inspect transactions and abort hanging ones (TransactionsCommand)."""

from __future__ import annotations

import argparse

from coordinator_server.client import Client, ClientError, check
from coordinator_server.kafka_tools.commands import (
    INTEGER,
    LONG,
    SHORT,
    CommandError,
    CommandTool,
    Parser,
    Version,
    failed,
    print_table,
)
from coordinator_server.kafka_tools.frame import ToolError, admin_client, read_properties
from coordinator_server.kafka_tools.transactions_read import (
    Abort,
    Partition,
    abort_transaction,
    describe_producers,
    describe_transaction,
    fence_producers,
    list_transactions,
    now_ms,
)
from protocol.errors import ErrorCode

_NONE = "None"
_PARTITIONS_AT_ONCE = 500


def parser() -> Parser:
    """Return the top-level parser, with the options of all commands."""
    top = Parser("kafka-transactions.sh", PURPOSE)
    top.add_argument(
        "-v",
        "--version",
        action=Version,
        nargs=0,
        help="print the Kafka release that this tool implements",
    )
    top.add_argument(
        "--command-config", metavar="FILE", help="properties file with client settings"
    )
    top.add_argument(
        "--bootstrap-server", metavar="host:port", required=True, help="bootstrap servers"
    )
    return top


def commands() -> dict[str, Parser]:
    """Return the parser of each command, by name."""

    def add(name: str, description: str) -> Parser:
        parsers[name] = Parser(f"kafka-transactions.sh {name}", description)
        return parsers[name]

    parsers: dict[str, Parser] = {}
    listing = add("list", "list transactions")
    listing.add_argument(
        "--duration-filter",
        type=LONG,
        default=-1,
        help="list only transactions that have been open for longer than this time in ms",
    )
    listing.add_argument(
        "--transactional-id-pattern", help="regular expression of the transactional ids to list"
    )

    describe = add("describe", "describe a transactional id")
    describe.add_argument("--transactional-id", required=True, help="transactional id")

    producers = add("describe-producers", "describe the producers of a partition")
    producers.add_argument(
        "--broker-id", type=INTEGER, help="id of the broker that answers (default: the leader)"
    )
    producers.add_argument("--topic", required=True, help="topic of the partition")
    producers.add_argument("--partition", type=INTEGER, required=True, help="partition number")

    abort = add("abort", "abort a hanging transaction in a partition")
    abort.add_argument("--topic", required=True, help="topic of the partition")
    abort.add_argument("--partition", type=INTEGER, required=True, help="partition number")
    abort.add_argument("--start-offset", type=LONG, help="first offset of the transaction")
    abort.add_argument(
        "--producer-id",
        type=LONG,
        help="producer id; replaces --start-offset for brokers before Kafka 3.0",
    )
    abort.add_argument("--producer-epoch", type=SHORT, help="producer epoch, with --producer-id")
    abort.add_argument(
        "--coordinator-epoch",
        type=INTEGER,
        help="epoch of the transaction coordinator, with --producer-id",
    )

    hanging = add("find-hanging", "find transactions that no coordinator will end")
    hanging.add_argument("--broker-id", type=INTEGER, help="check only partitions of this broker")
    hanging.add_argument(
        "--max-transaction-timeout",
        type=INTEGER,
        default=15,
        help="maximum transaction timeout of the cluster in minutes (default: 15)",
    )
    hanging.add_argument("--topic", help="check only partitions of this topic")
    hanging.add_argument("--partition", type=INTEGER, help="check only this partition")

    force = add("forceTerminateTransaction", "abort the transaction of a transactional id")
    force.add_argument("--transactionalId", required=True, help="transactional id")
    return parsers


def run(options: argparse.Namespace) -> int:
    """Run one command."""
    properties: dict[str, str] = {}
    if options.command_config is not None:
        try:
            properties = read_properties(options.command_config)
        except ToolError as error:
            raise failed("Failed to load admin client properties", error) from error
    with admin_client(options.bootstrap_server, properties) as client:
        _COMMANDS[options.command](client, options)
    return 0


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
        now_ms() - start_ms if start_ms >= 0 else _NONE,
        ",".join(partitions),
    )
    print_table(_DESCRIBED, [row])


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
            producer.producer_id,
            producer.producer_epoch,
            producer.coordinator_epoch,
            producer.last_sequence,
            producer.last_timestamp,
            producer.current_txn_start_offset if producer.current_txn_start_offset >= 0 else _NONE,
        )
        for producer in producers
    ]
    print_table(_PRODUCERS, rows)


def _abort(client: Client, options: argparse.Namespace) -> None:
    abort = _abort_of(client, options)
    try:
        abort_transaction(client, abort)
    except ClientError as error:
        raise failed(f"Failed to abort transaction {abort}", error) from error


def _abort_of(client: Client, options: argparse.Namespace) -> Abort:
    """Return the transaction that the options identify. Raises CommandError."""
    partition = options.topic, options.partition
    name = f"{options.topic}-{options.partition}"
    if options.start_offset is None:
        if options.producer_id is None:
            raise CommandError(_ABORT_USAGE)
        for option in ("producer_epoch", "coordinator_epoch"):
            if getattr(options, option) is None:
                raise CommandError(f"Missing required argument --{option.replace('_', '-')}")
        epoch = max(options.coordinator_epoch, 0)
        return Abort(partition, options.producer_id, options.producer_epoch, epoch)
    try:
        producers = describe_producers(client, partition)
    except ClientError as error:
        what = f"Failed to validate producer state for partition {name}"
        raise failed(what, error) from error
    for producer in producers:
        if producer.current_txn_start_offset == options.start_offset:
            # If the producer's first transaction hangs, no marker was written and the coordinator
            # epoch is -1.
            epoch = max(producer.coordinator_epoch, 0)
            return Abort(partition, producer.producer_id, producer.producer_epoch, epoch)
    raise CommandError(
        f"Could not find any open transactions starting at offset {options.start_offset} on"
        f" partition {name}"
    )


def _find_hanging(client: Client, options: argparse.Namespace) -> None:
    """Print transactions that are open for too long and that no coordinator knows."""
    if options.topic is None and options.broker_id is None:
        raise CommandError(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope"
            " of the search"
        )
    if options.partition is not None and options.topic is None:
        raise CommandError("The --partition argument requires --topic to be provided")
    oldest_ms = now_ms() - options.max_transaction_timeout * 60_000
    opened = []
    partitions = _partitions(client, options)
    for start in range(0, len(partitions), _PARTITIONS_AT_ONCE):
        part = partitions[start : start + _PARTITIONS_AT_ONCE]
        try:
            described = [
                (partition, describe_producers(client, partition, options.broker_id))
                for partition in part
            ]
        except ClientError as error:
            broker = "Optional.empty"
            if options.broker_id is not None:
                broker = f"Optional[{options.broker_id}]"
            what = f"Failed to describe producers for {len(part)} partitions on broker {broker}"
            raise failed(what, error) from error
        opened += [
            (partition, producer)
            for partition, producers in described
            for producer in producers
            if producer.current_txn_start_offset >= 0 and producer.last_timestamp < oldest_ms
        ]
    known = _known(client, {producer.producer_id for _, producer in opened}) if opened else set()
    rows = [
        (
            *partition,
            producer.producer_id,
            producer.producer_epoch,
            producer.coordinator_epoch,
            producer.current_txn_start_offset,
            producer.last_timestamp,
            (now_ms() - producer.last_timestamp) // 60_000,
        )
        for partition, producer in opened
        if (partition, producer.producer_id) not in known
    ]
    print_table(_HANGING, rows)


def _partitions(client: Client, options: argparse.Namespace) -> list[Partition]:
    """Return the partitions to inspect: the given one, or all partitions of a topic or a broker."""
    if options.partition is not None:
        return [(options.topic, options.partition)]
    topics = None if options.topic is None else [options.topic]
    call = "listTopics" if topics is None else "listNodes"
    try:
        answer = client.call(call, lambda: client.metadata(topics))
        for topic in answer.topics:
            check(topic.error_code)
    except ClientError as error:
        what = "list topics" if topics is None else f"describe {len(topics)} topics"
        raise failed(f"Failed to {what}", error) from error
    return [
        (topic.name, int(partition.partition_index))
        for topic in sorted(answer.topics, key=lambda topic: str(topic.name))
        for partition in sorted(
            topic.partitions, key=lambda partition: int(partition.partition_index)
        )
        if options.broker_id in (None, *partition.replica_nodes)
    ]


def _known(client: Client, producer_ids: set[int]) -> set[tuple[Partition, int]]:
    """Return partition and producer id of each open transaction that a coordinator knows."""
    try:
        listed = list_transactions(client, producer_ids=producer_ids)
    except ClientError as error:
        what = f"Failed to list transactions for {len(producer_ids)} producers"
        raise failed(what, error) from error
    known = set()
    for listing in listed:
        try:
            _, state = describe_transaction(client, listing.transactional_id)
        except ClientError as error:
            if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                continue  # the transactional id has expired, so its open transactions hang
            raise failed(f"Failed to describe {len(listed)} transactions", error) from error
        known |= {
            ((topic.topic, index), listing.producer_id)
            for topic in state.topics
            for index in topic.partitions
        }
    return known


def _force(client: Client, options: argparse.Namespace) -> None:
    name = options.transactionalId
    try:
        fence_producers(client, name)
    except ClientError as error:
        what = f"Failed to force terminate transactionalId `{name}`"
        raise failed(what, error) from error


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
PURPOSE = "Describe the transactions of a cluster, and abort hanging transactions."

TOOL = CommandTool("kafka-transactions", parser, commands, run)
