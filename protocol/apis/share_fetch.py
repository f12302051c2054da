"""ShareFetch (key 78): acquire records for a share group, and acknowledge earlier ones (KIP-932).

Versions 1-2. Version 0 was for the early access of Kafka 4.0 and is gone. Version 2 renews locks
(KIP-1222) and says how records are acquired (KIP-1206).
"""

from __future__ import annotations

from protocol.schema import (
    ARRAY,
    BOOL,
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UUID,
    Message,
    field,
)

BATCH_OPTIMIZED, RECORD_LIMIT = 0, 1
"""The acquire modes: whole batches beyond `max_records`, or never more records than that."""

GAP, ACCEPT, RELEASE, REJECT, RENEW = 0, 1, 2, 3, 4
"""The acknowledge types; a gap is an offset without a record, RENEW needs version 2."""


class FetchAcknowledgementBatch(Message):
    """Offsets from first to last, both included, with one type each, or one type for all."""

    first_offset: int = field(INT64)
    last_offset: int = field(INT64)
    acknowledge_types: list[int] = field(ARRAY(INT8))


class ShareFetchPartition(Message):
    """One partition to fetch from, with what is acknowledged there."""

    partition_index: int = field(INT32)
    acknowledgement_batches: list[FetchAcknowledgementBatch] = field(
        ARRAY(FetchAcknowledgementBatch)
    )


class ShareFetchTopic(Message):
    """Partitions of one topic."""

    topic_id: bytes = field(UUID)
    partitions: list[ShareFetchPartition] = field(ARRAY(ShareFetchPartition))


class ShareForgottenTopic(Message):
    """Partitions of one topic that leave the share session."""

    topic_id: bytes = field(UUID)
    partitions: list[int] = field(ARRAY(INT32))


class ShareFetchRequest(Message, versions=(1, 2), flexible_since=1):
    """What joins the share session, what leaves it, and how much to acquire.

    The share session epoch is 0 to open a session, -1 to close it.
    """

    group_id: str | None = field(STRING, nullable_since=0, default=None)
    member_id: str | None = field(STRING, nullable_since=0)
    share_session_epoch: int = field(INT32)
    max_wait_ms: int = field(INT32)
    min_bytes: int = field(INT32)
    max_bytes: int = field(INT32, default=0x7FFFFFFF)
    max_records: int = field(INT32)
    batch_size: int = field(INT32)
    share_acquire_mode: int = field(INT8, since=2, default=BATCH_OPTIMIZED)
    is_renew_ack: bool = field(BOOL, since=2)
    topics: list[ShareFetchTopic] = field(ARRAY(ShareFetchTopic))
    forgotten_topics_data: list[ShareForgottenTopic] = field(ARRAY(ShareForgottenTopic))


class FetchedLeader(Message):
    """Where the leader of a partition has gone: its broker, and the leader epoch."""

    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32)


class AcquiredRecords(Message):
    """Offsets that the member now holds, first to last, and how often they were delivered."""

    first_offset: int = field(INT64)
    last_offset: int = field(INT64)
    delivery_count: int = field(INT16)


class SharePartitionData(Message):
    """Batches of one partition, which of their records are acquired, and two errors.

    `error_code` is of the fetch, `acknowledge_error_code` of the acknowledgements. Without records
    there are no bytes: since version 1 they cannot be null.
    """

    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)
    acknowledge_error_code: int = field(INT16)
    acknowledge_error_message: str | None = field(STRING, nullable_since=0, default=None)
    current_leader: FetchedLeader = field(FetchedLeader)
    records: bytes | memoryview = field(RECORDS, default=b"")
    acquired_records: list[AcquiredRecords] = field(ARRAY(AcquiredRecords))


class ShareFetchableTopicResponse(Message):
    """One topic's answers."""

    topic_id: bytes = field(UUID)
    partitions: list[SharePartitionData] = field(ARRAY(SharePartitionData))


class ShareFetchNodeEndpoint(Message):
    """Address of a leader that is named in the same answer."""

    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, nullable_since=0, default=None)


class ShareFetchResponse(Message, versions=(1, 2), flexible_since=1):
    """Records by partition, and how long, in ms, the member holds what it acquired."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)
    acquisition_lock_timeout_ms: int = field(INT32)
    responses: list[ShareFetchableTopicResponse] = field(ARRAY(ShareFetchableTopicResponse))
    node_endpoints: list[ShareFetchNodeEndpoint] = field(ARRAY(ShareFetchNodeEndpoint))
