"""kafka-verifiable-consumer.sh: read as a member of a group and print events.

Each line of output is a JSON object for test programs (Kafka's VerifiableConsumer).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from coordinator_server.client import ClientError, ClientSettings
from coordinator_server.client.fetcher import Fetched, Partition
from coordinator_server.kafka_tools.commands import INTEGER, Parser, ParserTool
from coordinator_server.kafka_tools.console import stopped_by_signals, warn_topic
from coordinator_server.kafka_tools.console_consumer import consumer_settings
from coordinator_server.kafka_tools.frame import (
    NotHereError,
    client_label,
    connect_to,
    illegal_argument,
)
from coordinator_server.kafka_tools.record_consumer import RecordConsumer
from coordinator_server.kafka_tools.verifiable_producer import content, print_event, read_config

_RANGE = "org.apache.kafka.clients.consumer.RangeAssignor"
_PROTOCOLS = ("CLASSIC", "CONSUMER")
_POLL_S, _POLL_RECORDS = 0.5, 500


def parser() -> Parser:
    """Return the parser of the options."""
    top = Parser(
        "verifiable-consumer",
        "Read a topic and print rebalances, read records and commits as JSON.",
    )
    top.add_argument("--topic", required=True, help="the topic to read")
    top.add_argument(
        "--group-protocol", default="classic", help="classic; this tool does not support consumer"
    )
    top.add_argument(
        "--group-remote-assignor", help="not supported: belongs to the protocol consumer"
    )
    top.add_argument("--group-id", required=True, help="the group to join")
    top.add_argument("--group-instance-id", help="group instance id of a static member")
    top.add_argument(
        "--max-messages", type=INTEGER, default=-1, help="stop after this number of records"
    )
    top.add_argument(
        "--session-timeout", type=INTEGER, metavar="TIMEOUT-MS", help="session timeout in ms"
    )
    top.add_argument("--verbose", action="store_true", help="print each record")
    top.add_argument("--enable-autocommit", action="store_true", help="commit offsets periodically")
    top.add_argument(
        "--close-timeout", type=INTEGER, default=30_000, help="accepted without effect"
    )
    top.add_argument(
        "--reset-policy",
        default="earliest",
        help="start position without a committed offset: earliest, latest or none",
    )
    top.add_argument("--assignment-strategy", default=_RANGE, help=f"{_RANGE} alone is here")
    top.add_argument(
        "--consumer.config",
        dest="old_config",
        metavar="CONFIG-FILE",
        help="deprecated name of --command-config",
    )
    top.add_argument(
        "--command-config", metavar="CONFIG-FILE", help="properties file with consumer settings"
    )
    top.add_argument(
        "--bootstrap-server",
        metavar="HOST1:PORT1[,HOST2:PORT2[...]]",
        required=True,
        help="bootstrap servers",
    )
    return top


def run(options: argparse.Namespace) -> int:
    """Read until the maximum is reached or a signal arrives; return the exit code."""
    consumer = _consumer(options)
    print_event("startup_complete")
    is_stopped = False

    def stop() -> None:
        nonlocal is_stopped
        is_stopped = True
        print_event("shutdown_requested")

    count = 0
    with stopped_by_signals(stop) as stopped:
        try:
            while options.max_messages == -1 or count < options.max_messages:
                polled = consumer.poll(_POLL_S, _POLL_RECORDS)
                if is_stopped:
                    break
                if polled:
                    count += _received(consumer, polled, options, count)
        finally:
            consumer.close()
            print_event("shutdown_complete")
    if not is_stopped:
        print_event("shutdown_requested")
    return stopped.code


def _received(
    consumer: RecordConsumer, polled: list[Fetched], options: argparse.Namespace, before: int
) -> int:
    """Print and commit the polled records, up to the maximum; return their count."""
    wanted = polled if options.max_messages < 0 else polled[: options.max_messages - before]
    by_partition: dict[Partition, list[Fetched]] = {}
    for fetched in wanted:
        by_partition.setdefault(fetched.partition, []).append(fetched)
        if options.verbose:
            assert fetched.record is not None
            place = _place(fetched.partition)
            print_event(
                "record_data", **content(fetched.record), **place, offset=fetched.record.offset
            )
    parts = [
        {
            **_place(partition),
            "count": len(records),
            "minOffset": records[0].next_offset - 1,
            "maxOffset": records[-1].next_offset - 1,
        }
        for partition, records in by_partition.items()
    ]
    print_event("records_consumed", count=len(polled), partitions=parts)
    if not options.enable_autocommit:
        _commit(
            consumer,
            {partition: records[-1].next_offset for partition, records in by_partition.items()},
        )
    return len(wanted)


def _commit(consumer: RecordConsumer, positions: Mapping[Partition, int]) -> None:
    offsets = [{**_place(partition), "offset": offset} for partition, offset in positions.items()]
    try:
        consumer.commit(positions)
    except ClientError as error:
        print_event("offsets_committed", offsets=offsets, success=False, error=str(error))
    else:
        print_event("offsets_committed", offsets=offsets, success=True)


def _consumer(options: argparse.Namespace) -> RecordConsumer:
    """Return a consumer that has subscribed. Raises ToolError, NotHereError."""
    protocol = options.group_protocol.upper()
    if protocol not in _PROTOCOLS:
        name = "org.apache.kafka.clients.consumer.GroupProtocol"
        illegal_argument(f"No enum constant {name}.{protocol}")
    if options.assignment_strategy != _RANGE:
        raise NotHereError(f"--assignment-strategy: {_RANGE} alone is here")
    properties = read_config(options, "--consumer.config", parser()) | {
        "group.protocol": protocol,
        "group.id": options.group_id,
        "enable.auto.commit": str(options.enable_autocommit).lower(),
        "auto.offset.reset": options.reset_policy,
    }
    if options.group_instance_id is not None:
        properties["group.instance.id"] = options.group_instance_id
    if options.session_timeout is not None:
        properties["session.timeout.ms"] = str(options.session_timeout)
    default_id = f"consumer-{options.group_id}-{options.group_instance_id or 1}"
    client_id = properties.setdefault("client.id", default_id)
    connect = partial(
        connect_to,
        options.bootstrap_server,
        properties,
        name="Consumer",
        failure="Failed to construct kafka consumer",
        settings=ClientSettings(client_id=client_id),
        group=options.group_id,
    )
    consumer = RecordConsumer(
        connect,
        consumer_settings(properties),
        partial(warn_topic, client_label("Consumer", client_id, options.group_id)),
        _tell("partitions_assigned"),
        _tell("partitions_revoked"),
    )
    consumer.subscribe([options.topic])
    return consumer


def _tell(name: str) -> Callable[[Iterable[Partition]], None]:
    return lambda partitions: print_event(
        name, partitions=[_place(partition) for partition in sorted(partitions)]
    )


def _place(partition: Partition) -> dict[str, object]:
    return {"topic": partition[0], "partition": partition[1]}


TOOL = ParserTool("kafka-verifiable-consumer", parser, run)
