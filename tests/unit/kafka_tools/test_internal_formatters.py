"""Formatters of internal topics; the texts are those of Kafka 4.4.0's console consumer."""

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
from protocol.share_group_records import ShareGroupMetadataKey, ShareGroupMetadataValue
from protocol.share_state_log import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    StateBatch,
    encode_share_state_key,
    encode_share_state_value,
)
from protocol.transaction_log import (
    TransactionLogValue,
    encode_transaction_key,
    encode_transaction_value,
)

COMMIT = OffsetCommitKey(group="gü", topic="t", partition=0)
GROUP = GroupMetadataKey(group="g")


def show(name: str, key: bytes | None, value: bytes | None) -> str:
    """Return the output of a formatter for a record at offset 9."""
    record = Record(9, 0, key, value)
    header = build_batch([record]).header
    return make_formatter(PACKAGE + name, {})(Fetched(("t", 0), record, header, 10)).decode()


def test_a_committed_offset() -> None:
    """Key and value are printed with type and version in Kafka's JSON, without a line end."""
    value = OffsetCommitValue(offset=2, leader_epoch=-1, metadata="", commit_timestamp=5)
    assert show("OffsetsMessageFormatter", encode_key(COMMIT), encode_value(value, 3)) == (
        '{"key":{"type":1,"data":{"group":"gü","topic":"t","partition":0}},"value":{"version":3,'
        '"data":{"offset":2,"leaderEpoch":-1,"metadata":"","commitTimestamp":5}}}'
    )


def test_a_tombstone() -> None:
    """The value of a tombstone is null."""
    assert show("OffsetsMessageFormatter", encode_key(COMMIT), None) == (
        '{"key":{"type":1,"data":{"group":"gü","topic":"t","partition":0}},"value":null}'
    )


def test_a_group() -> None:
    """A group is printed as recorded at the end of a rebalance."""
    value = GroupMetadataValue(protocol_type="consumer", generation=2, protocol=None, leader=None)
    assert show("GroupMetadataMessageFormatter", encode_key(GROUP), encode_value(value, 3)) == (
        '{"key":{"type":2,"data":{"group":"g"}},"value":{"version":3,"data":{"protocolType":'
        '"consumer","generation":2,"protocol":null,"leader":null,"currentStateTimestamp":-1,'
        '"members":[]}}}'
    )


def test_a_transaction() -> None:
    """A transaction is printed as the coordinator records it."""
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
        '"transactionStatus":"Empty","transactionPartitions":null,'
        '"transactionLastUpdateTimestampMs":7,"transactionStartTimestampMs":-1}}}'
    )


def test_a_share_group() -> None:
    """The share group formatter prints only share group records of the offsets topic."""
    key = encode_key(ShareGroupMetadataKey(group_id="g"))
    value = encode_value(ShareGroupMetadataValue(epoch=5, metadata_hash=9), 0)
    assert show("ShareGroupMessageFormatter", key, value) == (
        '{"key":{"type":11,"data":{"groupId":"g"}},"value":{"version":0,"data":{"epoch":5,'
        '"metadataHash":9}}}'
    )


def test_the_state_of_a_share_partition() -> None:
    """Snapshots, updates and tombstones of share state are printed; other types are skipped."""
    name, topic_id = "group.share.ShareGroupStateMessageFormatter", bytes(15) + b"\x01"
    value = ShareSnapshotValue(
        snapshot_epoch=1,
        leader_epoch=2,
        start_offset=9,
        delivery_complete_count=2,
        create_timestamp=7,
        write_timestamp=8,
        state_batches=[
            StateBatch(first_offset=9, last_offset=10, delivery_state=2, delivery_count=1)
        ],
    )
    key = encode_share_state_key(ShareSnapshotKey(group_id="g", topic_id=topic_id, partition=3))
    assert show(name, key, encode_share_state_value(value)) == (
        '{"key":{"type":0,"data":{"groupId":"g","topicId":"AAAAAAAAAAAAAAAAAAAAAQ","partition":3}},'
        '"value":{"version":0,"data":{"snapshotEpoch":1,"stateEpoch":0,"leaderEpoch":2,'
        '"startOffset":9,"deliveryCompleteCount":2,"createTimestamp":7,"writeTimestamp":8,'
        '"stateBatches":[{"firstOffset":9,"lastOffset":10,"deliveryState":2,"deliveryCount":1}]}}}'
    )
    key = encode_share_state_key(ShareUpdateKey(group_id="g", topic_id=topic_id, partition=3))
    assert show(name, key, None) == (
        '{"key":{"type":1,"data":{"groupId":"g","topicId":"AAAAAAAAAAAAAAAAAAAAAQ","partition":3}},'
        '"value":null}'
    )
    assert show(name, b"\0\2\0\1g", None) == ""


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("OffsetsMessageFormatter", GROUP),
        ("GroupMetadataMessageFormatter", COMMIT),
        ("TransactionLogMessageFormatter", COMMIT),
        ("ShareGroupMessageFormatter", GROUP),
        ("OffsetsMessageFormatter", None),
    ],
)
def test_other_records_are_left_out(name: str, key: Message | None) -> None:
    """Records of another type, and records without a key, are skipped."""
    assert show(name, None if key is None else encode_key(key), None) == ""


@pytest.mark.parametrize(("key", "value"), [(b"\0\0", None), (encode_key(COMMIT), b"\0\3")])
def test_damaged_bytes(key: bytes, value: bytes | None) -> None:
    """For damaged bytes the output has the offset, and whether key or value is truncated."""
    side, version = ("key", 0) if value is None else ("value", 3)
    with pytest.raises(ToolError) as raised:
        show("OffsetsMessageFormatter", key, value)
    assert str(raised.value) == (
        "Could not read record at offset 9 due to: Could not read record with version"
        f" {version} from {side}'s buffer due to: null."
    )
