"""ShareFetch (key 78): acquires and acknowledges records of a share group (KIP-932).

Versions 1-2. Version 0 of Kafka 4.0's early access was removed. Version 2 can renew acquisition
locks (KIP-1222) and adds the acquire mode (KIP-1206).
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
"""The acquire modes: whole batches, which may exceed `max_records`, or at most `max_records`."""

GAP, ACCEPT, RELEASE, REJECT, RENEW = 0, 1, 2, 3, 4
"""The acknowledge types; a gap is an offset without a record, RENEW needs version 2."""


class FetchAcknowledgementBatch(Message):
    """Offsets from first to last, inclusive, with one type for each or one type for all."""

    first_offset: int = field(INT64)
    last_offset: int = field(INT64)
    acknowledge_types: list[int] = field(ARRAY(INT8))


class ShareFetchPartition(Message):
    """One partition to fetch from, with its acknowledgements."""

    partition_index: int = field(INT32)
    acknowledgement_batches: list[FetchAcknowledgementBatch] = field(
        ARRAY(FetchAcknowledgementBatch)
    )


class ShareFetchTopic(Message):
    """Partitions of one topic."""

    topic_id: bytes = field(UUID)
    partitions: list[ShareFetchPartition] = field(ARRAY(ShareFetchPartition))


class ShareForgottenTopic(Message):
    """Partitions of one topic to remove from the share session."""

    topic_id: bytes = field(UUID)
    partitions: list[int] = field(ARRAY(INT32))


class ShareFetchRequest(Message, versions=(1, 2), flexible_since=1):
    """Partitions to add to and remove from the share session, and limits for acquiring.

    The share session epoch is 0 to open and -1 to close a session.
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
    """The current leader of a partition: its broker and leader epoch."""

    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32)


class AcquiredRecords(Message):
    """A range of offsets that the member has acquired, and its delivery count."""

    first_offset: int = field(INT64)
    last_offset: int = field(INT64)
    delivery_count: int = field(INT16)


class SharePartitionData(Message):
    """One partition's batches, acquired offsets, and two errors.

    `error_code` is of the fetch, `acknowledge_error_code` of the acknowledgements. Without records,
    `records` is empty: since version 1 it cannot be null.
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
    """One topic's results."""

    topic_id: bytes = field(UUID)
    partitions: list[SharePartitionData] = field(ARRAY(SharePartitionData))


class ShareFetchNodeEndpoint(Message):
    """The address of a leader that the response names."""

    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, nullable_since=0, default=None)


class ShareFetchResponse(Message, versions=(1, 2), flexible_since=1):
    """Records by partition, and the acquisition lock timeout in ms."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)
    acquisition_lock_timeout_ms: int = field(INT32)
    responses: list[ShareFetchableTopicResponse] = field(ARRAY(ShareFetchableTopicResponse))
    node_endpoints: list[ShareFetchNodeEndpoint] = field(ARRAY(ShareFetchNodeEndpoint))
