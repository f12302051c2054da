"""CPU per message of the generated codec, compared with construct, in microseconds.

    python -m benchmarks.codec

Each figure is the minimum of several rounds in microseconds; the minimum is the least disturbed
value. The last table shows the cost of the first use of a message, which occurs once per API
version.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from timeit import Timer

from protocol import codec
from protocol.apis.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from protocol.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.apis.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.batch import Record, build_batch, iterate_records
from protocol.batch_header import crc_is_valid, iterate_batches, read_header
from protocol.headers import decode_request_header, response_prefix
from protocol.raw_records import batch_records
from protocol.schema import Message

MEMBER_ID = "consumer-orders-1-5b2f8e0c-9a44-4d43-8c57-1f2e3a4b5c6d"


def microseconds(call: Callable[[], object], rounds: int = 7) -> float:
    """Return the minimum time of one call in microseconds."""
    timer = Timer(call, timer=time.process_time)
    count = 1
    while (taken := timer.timeit(count)) < 0.02:
        count = max(2 * count, int(count * 0.03 / taken) if taken else 0)
    return min(timer.timeit(count) for _ in range(rounds)) / count * 1e6


def group_samples() -> list[tuple[str, Message, int]]:
    """Return messages that group members exchange with the coordinator."""
    commits = [
        OffsetCommitRequestPartition(partition_index=i, committed_offset=i) for i in range(6)
    ]
    return [
        (
            "Heartbeat request",
            HeartbeatRequest(group_id="orders", generation_id=3, member_id=MEMBER_ID),
            4,
        ),
        ("Heartbeat response", HeartbeatResponse(), 4),
        (
            "JoinGroup request",
            JoinGroupRequest(
                group_id="orders",
                session_timeout_ms=45_000,
                rebalance_timeout_ms=300_000,
                member_id=MEMBER_ID,
                protocol_type="consumer",
                protocols=[
                    JoinGroupRequestProtocol(name="range", metadata=bytes(30)),
                    JoinGroupRequestProtocol(name="cooperative-sticky", metadata=bytes(40)),
                ],
                reason="",
            ),
            9,
        ),
        (
            "OffsetCommit request, 6 partitions",
            OffsetCommitRequest(
                group_id="orders",
                generation_id_or_member_epoch=3,
                member_id=MEMBER_ID,
                topics=[OffsetCommitRequestTopic(name="orders", partitions=commits)],
            ),
            9,
        ),
    ]


def data_samples() -> list[tuple[str, Message, int]]:
    """Return messages of producers and of consumers between rebalances."""
    built = build_batch([Record(i, 1, b"key", bytes(100)) for i in range(100)])
    records = built.to_bytes()
    partitions = [
        MetadataResponsePartition(
            partition_index=i, leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1]
        )
        for i in range(50)
    ]
    return [
        (
            "Produce request, 1 batch of 100 records",
            ProduceRequest(
                acks=-1,
                timeout_ms=30_000,
                topic_data=[
                    TopicProduceData(
                        name="orders",
                        partition_data=[PartitionProduceData(index=0, records=records)],
                    )
                ],
            ),
            12,
        ),
        (
            "Fetch response, 1 partition with it",
            FetchResponse(
                responses=[
                    FetchableTopicResponse(
                        partitions=[PartitionData(high_watermark=100, records=records)]
                    )
                ]
            ),
            16,
        ),
        (
            "Metadata response, 50 partitions",
            MetadataResponse(
                brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=9092)],
                cluster_id="a-cluster",
                controller_id=1,
                topics=[MetadataResponseTopic(name="orders", partitions=partitions)],
            ),
            12,
        ),
    ]


def print_codec() -> None:
    """Print the times to decode and encode, with the generated codec and with construct."""
    print(f"{'us per message':<48}{'decode':>8}{'encode':>8}{'construct parse':>17}{'build':>8}")
    for title, message, version in group_samples() + data_samples():
        print_message(f"{title}, v{version}", message, version)


def print_message(title: str, message: Message, version: int) -> None:
    """Print one line of the first table."""
    encode = codec.encoder(type(message), version)
    decode = codec.decoder(type(message), version)
    struct = message.at(version)
    data = encode(message)
    decoding = microseconds(lambda: decode(data, 0))
    encoding = microseconds(lambda: encode(message))
    parsing = microseconds(lambda: struct.parse(data))
    building = microseconds(lambda: struct.build(message))
    print(f"{title:<48}{decoding:8.2f}{encoding:8.2f}{parsing:17.1f}{building:8.1f}")


def print_parts() -> None:
    """Print the times for headers and batches."""
    frame = bytes.fromhex("000c000400000007000e") + b"orders-client1\x00"
    records = [Record(i, 1, b"key", bytes(100)) for i in range(100)]
    data = build_batch(records).to_bytes()
    header = read_header(data)
    many = build_batch(records[:1]).to_bytes() * 1000
    rows: list[tuple[str, Callable[[], object]]] = [
        ("request header", lambda: decode_request_header(frame)),
        ("response prefix", lambda: response_prefix(7, True, 6)),
        ("walk over 1000 batches", lambda: list(iterate_batches(many))),
        (f"batch crc, {len(data)} bytes", lambda: crc_is_valid(data, header)),
        ("read 100 records", lambda: list(iterate_records(data, header))),
        ("read 100 records as tuples", lambda: list(batch_records(data, header))),
        ("build a batch of 100 records", lambda: build_batch(records)),
    ]
    print("\nus")
    for title, call in rows:
        print(f"{title:<48}{microseconds(call):9.2f}")


def print_first_use() -> None:
    """Print the CPU time of generating and compiling the codecs of all APIs."""
    from protocol.registry import SPECS

    started = time.process_time()
    count = 0
    for spec in SPECS:
        for message_type in (spec.request_type, spec.response_type):
            codec.decoder(message_type, spec.max_version)
            codec.encoder(message_type, spec.max_version)
            count += 2
    taken = time.process_time() - started
    print(
        f"\nfirst use: {count} functions in {taken * 1e3:.0f} ms, {taken / count * 1e3:.2f} ms each"
    )


def main() -> int:
    """Print all tables."""
    print_codec()
    print_parts()
    print_first_use()
    return 0


if __name__ == "__main__":
    sys.exit(main())
