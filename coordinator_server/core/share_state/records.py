"""The records of `__share_group_state`: snapshots of a share partition, and updates.

Source: ShareCoordinatorRecordHelpers.
"""

from __future__ import annotations

from typing import NamedTuple

from coordinator_server.core.share_partitions.persister import (
    UNINITIALIZED_DELIVERY_COMPLETE_COUNT,
    UNINITIALIZED_START_OFFSET,
    SharePartitionKey,
    StateBatch,
)
from protocol.errors import ProtocolError
from protocol.share_state_log import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    decode_share_state_key,
    decode_share_state_value,
    encode_share_state_key,
    encode_share_state_value,
)
from protocol.share_state_log import StateBatch as StateBatchMessage


class ShareGroupOffset(NamedTuple):
    """One immutable state; a new value replaces it. Times are in ms.

    `snapshot_epoch` counts the snapshots. `state_epoch` rises when the share partition is
    initialized again; `leader_epoch` is the epoch of the last leader that read the state. A
    snapshot that is rewritten because of its age keeps its `create_ms`.
    """

    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = UNINITIALIZED_START_OFFSET
    delivery_complete_count: int = UNINITIALIZED_DELIVERY_COMPLETE_COUNT
    batches: tuple[StateBatch, ...] = ()
    create_ms: int = 0
    write_ms: int = 0


class ShareSnapshot(NamedTuple):
    """The whole state of a share partition; if `state` is None, the tombstone of the partition."""

    key: SharePartitionKey
    state: ShareGroupOffset | None


class ShareUpdate(NamedTuple):
    """The changes since a snapshot; start offset -1 keeps the current start offset."""

    key: SharePartitionKey
    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]
    delivery_complete_count: int = UNINITIALIZED_DELIVERY_COMPLETE_COUNT


ShareRecord = ShareSnapshot | ShareUpdate


def encode_record(record: ShareRecord) -> tuple[bytes, bytes | None]:
    """Encode key and value; the value is None for a tombstone."""
    group_id, topic_id, partition = record.key
    if isinstance(record, ShareUpdate):
        update_key = ShareUpdateKey(group_id=group_id, topic_id=topic_id, partition=partition)
        update = ShareUpdateValue(
            snapshot_epoch=record.snapshot_epoch,
            leader_epoch=record.leader_epoch,
            start_offset=record.start_offset,
            delivery_complete_count=record.delivery_complete_count,
            state_batches=_to_messages(record.batches),
        )
        return encode_share_state_key(update_key), encode_share_state_value(update)
    key = ShareSnapshotKey(group_id=group_id, topic_id=topic_id, partition=partition)
    state = record.state
    if state is None:
        return encode_share_state_key(key), None
    value = ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.create_ms,
        write_timestamp=state.write_ms,
        state_batches=_to_messages(state.batches),
    )
    return encode_share_state_key(key), encode_share_state_value(value)


def decode_record(key_data: bytes, value_data: bytes | None) -> ShareRecord:
    """Decode a log record. Raises ProtocolError if the bytes are malformed."""
    key = decode_share_state_key(key_data)
    share_partition = SharePartitionKey(key.group_id, key.topic_id, key.partition)
    if value_data is None:
        if isinstance(key, ShareUpdateKey):
            raise ProtocolError("an update of a share partition without a value")
        return ShareSnapshot(share_partition, None)
    value, _ = decode_share_state_value(key, value_data)
    batches = tuple(
        StateBatch(
            batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count
        )
        for batch in value.state_batches
    )
    if isinstance(value, ShareUpdateValue):
        return ShareUpdate(
            share_partition,
            value.snapshot_epoch,
            value.leader_epoch,
            value.start_offset,
            batches,
            value.delivery_complete_count,
        )
    state = ShareGroupOffset(
        value.snapshot_epoch,
        value.state_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        batches,
        value.create_timestamp,
        value.write_timestamp,
    )
    return ShareSnapshot(share_partition, state)


def _to_messages(batches: tuple[StateBatch, ...]) -> list[StateBatchMessage]:
    return [
        StateBatchMessage(
            first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
        )
        for first, last, state, count in batches
    ]
