"""WriteTxnMarkers (key 27): writes transaction markers. Versions 1-2.

Brokers send the request to the leaders of a transaction's partitions; administrators send it to
abort a hanging transaction. Version 1 is flexible and the lowest since Kafka 4.0, 2 adds the
transaction version of each marker (KIP-1228).
"""

from __future__ import annotations

from protocol.schema import ARRAY, BOOL, INT8, INT16, INT32, INT64, STRING, Message, field


class WritableTxnMarkerTopic(Message):
    """Partitions of one topic that get the marker."""

    name: str = field(STRING)
    partition_indexes: list[int] = field(ARRAY(INT32))


class WritableTxnMarker(Message):
    """One marker; `transaction_version` is 2 for transactions v2, else 0 or 1."""

    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    transaction_result: bool = field(BOOL)
    topics: list[WritableTxnMarkerTopic] = field(ARRAY(WritableTxnMarkerTopic))
    coordinator_epoch: int = field(INT32)
    transaction_version: int = field(INT8, since=2, default=0)


class WriteTxnMarkersRequest(Message, versions=(1, 2), flexible_since=1):
    """Markers to write; `transaction_result` true means commit."""

    markers: list[WritableTxnMarker] = field(ARRAY(WritableTxnMarker))


class WritableTxnMarkerPartitionResult(Message):
    """One partition's error code."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)


class WritableTxnMarkerTopicResult(Message):
    """One topic's results."""

    name: str = field(STRING)
    partitions: list[WritableTxnMarkerPartitionResult] = field(
        ARRAY(WritableTxnMarkerPartitionResult)
    )


class WritableTxnMarkerResult(Message):
    """The results of one producer's marker."""

    producer_id: int = field(INT64)
    topics: list[WritableTxnMarkerTopicResult] = field(ARRAY(WritableTxnMarkerTopicResult))


class WriteTxnMarkersResponse(Message, versions=(1, 2), flexible_since=1):
    """An error code per partition of each marker."""

    markers: list[WritableTxnMarkerResult] = field(ARRAY(WritableTxnMarkerResult))
