"""TxnOffsetCommit (key 28): commits offsets in a transaction. Versions 0-6.

Version 2 adds the leader epoch, 3 is flexible and adds the member (KIP-447). Version 4 adds
TRANSACTION_ABORTABLE; version 5 adds the group's offsets partition to the transaction (KIP-890).
Version 6 identifies topics by id, and adds GROUP_ID_NOT_FOUND, STALE_MEMBER_EPOCH and
UNKNOWN_TOPIC_ID (KIP-1319).
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT16, INT32, INT64, STRING, UUID, Message, field


class TxnOffsetCommitRequestPartition(Message):
    """The offset of one partition; null metadata is treated as empty."""

    partition_index: int = field(INT32)
    committed_offset: int = field(INT64)
    committed_leader_epoch: int = field(INT32, since=2, default=-1)
    committed_metadata: str | None = field(STRING, nullable_since=0)


class TxnOffsetCommitRequestTopic(Message):
    """The offsets of one topic."""

    name: str = field(STRING, until=5)
    topic_id: bytes = field(UUID, since=6)
    partitions: list[TxnOffsetCommitRequestPartition] = field(
        ARRAY(TxnOffsetCommitRequestPartition)
    )


class TxnOffsetCommitRequest(Message, versions=(0, 6), flexible_since=3):
    """The producer with its transaction, and since version 3 the member of the group."""

    transactional_id: str = field(STRING)
    group_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    generation_id_or_member_epoch: int = field(INT32, since=3, default=-1)
    member_id: str = field(STRING, since=3, default="")
    group_instance_id: str | None = field(STRING, since=3, nullable_since=3, default=None)
    topics: list[TxnOffsetCommitRequestTopic] = field(ARRAY(TxnOffsetCommitRequestTopic))


class TxnOffsetCommitResponsePartition(Message):
    """One partition's result."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)


class TxnOffsetCommitResponseTopic(Message):
    """One topic's results."""

    name: str = field(STRING, until=5)
    topic_id: bytes = field(UUID, since=6)
    partitions: list[TxnOffsetCommitResponsePartition] = field(
        ARRAY(TxnOffsetCommitResponsePartition)
    )


class TxnOffsetCommitResponse(Message, versions=(0, 6), flexible_since=3):
    """An error for each partition."""

    throttle_time_ms: int = field(INT32)
    topics: list[TxnOffsetCommitResponseTopic] = field(ARRAY(TxnOffsetCommitResponseTopic))
