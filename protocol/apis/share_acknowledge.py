"""ShareAcknowledge (key 79): accept, release or reject acquired records (KIP-932). Versions 1-2.

Version 0 was for the early access of Kafka 4.0 and is gone. Version 2 renews locks, and its answer
says how long they hold (KIP-1222). The acknowledge types are those of `protocol.apis.share_fetch`.
"""

from __future__ import annotations

from protocol.schema import ARRAY, BOOL, INT8, INT16, INT32, INT64, STRING, UUID, Message, field


class AcknowledgementBatch(Message):
    """Offsets from first to last, both included, with one type each, or one type for all."""

    first_offset: int = field(INT64)
    last_offset: int = field(INT64)
    acknowledge_types: list[int] = field(ARRAY(INT8))


class AcknowledgePartition(Message):
    """What is acknowledged in one partition."""

    partition_index: int = field(INT32)
    acknowledgement_batches: list[AcknowledgementBatch] = field(ARRAY(AcknowledgementBatch))


class AcknowledgeTopic(Message):
    """Partitions of one topic."""

    topic_id: bytes = field(UUID)
    partitions: list[AcknowledgePartition] = field(ARRAY(AcknowledgePartition))


class ShareAcknowledgeRequest(Message, versions=(1, 2), flexible_since=1):
    """Acknowledgements of a share session; the epoch is -1 to close it."""

    group_id: str | None = field(STRING, nullable_since=0, default=None)
    member_id: str | None = field(STRING, nullable_since=0)
    share_session_epoch: int = field(INT32)
    is_renew_ack: bool = field(BOOL, since=2)
    topics: list[AcknowledgeTopic] = field(ARRAY(AcknowledgeTopic))


class AcknowledgedLeader(Message):
    """Where the leader of a partition has gone: its broker, and the leader epoch."""

    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32)


class AcknowledgedPartition(Message):
    """How the acknowledgements of one partition went."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)
    current_leader: AcknowledgedLeader = field(AcknowledgedLeader)


class ShareAcknowledgeTopicResponse(Message):
    """One topic's answers."""

    topic_id: bytes = field(UUID)
    partitions: list[AcknowledgedPartition] = field(ARRAY(AcknowledgedPartition))


class ShareAcknowledgeNodeEndpoint(Message):
    """Address of a leader that is named in the same answer."""

    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, nullable_since=0, default=None)


class ShareAcknowledgeResponse(Message, versions=(1, 2), flexible_since=1):
    """One answer per partition, and how long, in ms, a renewed lock holds."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)
    acquisition_lock_timeout_ms: int = field(INT32, since=2)
    responses: list[ShareAcknowledgeTopicResponse] = field(ARRAY(ShareAcknowledgeTopicResponse))
    node_endpoints: list[ShareAcknowledgeNodeEndpoint] = field(ARRAY(ShareAcknowledgeNodeEndpoint))
