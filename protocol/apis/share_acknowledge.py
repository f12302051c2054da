"""ShareAcknowledge (key 79): accepts, releases or rejects acquired records (KIP-932). Versions 1-2.

Version 0 of Kafka 4.0's early access was removed. Version 2 can renew acquisition locks and returns
their timeout (KIP-1222). The acknowledge types are those of `protocol.apis.share_fetch`.
"""

from __future__ import annotations

from protocol.schema import ARRAY, BOOL, INT8, INT16, INT32, INT64, STRING, UUID, Message, field


class AcknowledgementBatch(Message):
    """Offsets from first to last, inclusive, with one type for each or one type for all."""

    first_offset: int = field(INT64)
    last_offset: int = field(INT64)
    acknowledge_types: list[int] = field(ARRAY(INT8))


class AcknowledgePartition(Message):
    """The acknowledgements of one partition."""

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
    """The current leader of a partition: its broker and leader epoch."""

    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32)


class AcknowledgedPartition(Message):
    """The result of one partition's acknowledgements."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)
    current_leader: AcknowledgedLeader = field(AcknowledgedLeader)


class ShareAcknowledgeTopicResponse(Message):
    """One topic's results."""

    topic_id: bytes = field(UUID)
    partitions: list[AcknowledgedPartition] = field(ARRAY(AcknowledgedPartition))


class ShareAcknowledgeNodeEndpoint(Message):
    """The address of a leader that the response names."""

    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, nullable_since=0, default=None)


class ShareAcknowledgeResponse(Message, versions=(1, 2), flexible_since=1):
    """One result per partition, and the acquisition lock timeout in ms."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)
    acquisition_lock_timeout_ms: int = field(INT32, since=2)
    responses: list[ShareAcknowledgeTopicResponse] = field(ARRAY(ShareAcknowledgeTopicResponse))
    node_endpoints: list[ShareAcknowledgeNodeEndpoint] = field(ARRAY(ShareAcknowledgeNodeEndpoint))
