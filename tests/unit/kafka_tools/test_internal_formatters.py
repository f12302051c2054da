"""What the formatters of internal topics print; the texts are of Kafka 4.3.1's console consumer."""

from __future__ import annotations

import pytest

from coordinator_server.client.fetcher import Fetched
from coordinator_server.kafka_tools.formatters import PACKAGE, make_formatter
from coordinator_server.kafka_tools.frame import ToolError
from protocol.batch import Record, build_batch
from protocol.offsets_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from protocol.schema import Message
from protocol.transaction_log import (
    TransactionLogValue,
    encode_transaction_key,
    encode_transaction_value,
)

COMMIT = OffsetCommitKey(group="gü", topic="t", partition=0)
GROUP = GroupMetadataKey(group="g")


def show(name: str, key: bytes | None, value: bytes | None) -> str:
    """What a formatter prints of a record at offset 9."""
    record = Record(9, 0, key, value)
    header = build_batch([record]).header
    return make_formatter(PACKAGE + name, {})(Fetched(("t", 0), record, header, 10)).decode()


def test_a_committed_offset() -> None:
    """Key and value with type and version, in Kafka's JSON, without an end of line."""
    value = OffsetCommitValue(offset=2, leader_epoch=-1, metadata="", commit_timestamp=5)
    assert show("OffsetsMessageFormatter", encode_key(COMMIT), encode_value(value, 3)) == (
        '{"key":{"type":1,"data":{"group":"gü","topic":"t","partition":0}},"value":{"version":3,'
        '"data":{"offset":2,"leaderEpoch":-1,"metadata":"","commitTimestamp":5}}}'
    )


def test_a_tombstone() -> None:
    """The value is null."""
    assert show("OffsetsMessageFormatter", encode_key(COMMIT), None) == (
        '{"key":{"type":1,"data":{"group":"gü","topic":"t","partition":0}},"value":null}'
    )


def test_a_group() -> None:
    """As it is recorded at the end of a rebalance."""
    value = GroupMetadataValue(protocol_type="consumer", generation=2, protocol=None, leader=None)
    assert show("GroupMetadataMessageFormatter", encode_key(GROUP), encode_value(value, 3)) == (
        '{"key":{"type":2,"data":{"group":"g"}},"value":{"version":3,"data":{"protocolType":'
        '"consumer","generation":2,"protocol":null,"leader":null,"currentStateTimestamp":-1,'
        '"members":[]}}}'
    )


def test_a_transaction() -> None:
    """As the coordinator records it."""
    value = TransactionLogValue(
        producer_id=2,
        previous_producer_id=2,
        transaction_timeout_ms=600_000,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=7,
        transaction_start_timestamp_ms=-1,
    )
    key, encoded = encode_transaction_key("x"), encode_transaction_value(value)
    assert show("TransactionLogMessageFormatter", key, encoded) == (
        '{"key":{"type":0,"data":{"transactionalId":"x"}},"value":{"version":1,"data":'
        '{"producerId":2,"previousProducerId":2,"producerEpoch":0,"transactionTimeoutMs":600000,'
        '"transactionStatus":0,"transactionPartitions":null,'
        '"transactionLastUpdateTimestampMs":7,"transactionStartTimestampMs":-1}}}'
    )


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("OffsetsMessageFormatter", GROUP),
        ("GroupMetadataMessageFormatter", COMMIT),
        ("TransactionLogMessageFormatter", COMMIT),
        ("OffsetsMessageFormatter", None),
    ],
)
def test_other_records_are_left_out(name: str, key: Message | None) -> None:
    """Those of another type, and those without a key."""
    assert show(name, None if key is None else encode_key(key), None) == ""


@pytest.mark.parametrize(("key", "value"), [(b"\0\0", None), (encode_key(COMMIT), b"\0\3")])
def test_damaged_bytes(key: bytes, value: bytes | None) -> None:
    """The offset, and which side ends before its fields do."""
    side, version = ("key", 0) if value is None else ("value", 3)
    with pytest.raises(ToolError) as raised:
        show("OffsetsMessageFormatter", key, value)
    assert str(raised.value) == (
        "Could not read record at offset 9 due to: Could not read record with version"
        f" {version} from {side}'s buffer due to: null."
    )
