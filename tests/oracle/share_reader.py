"""A raw share session that acquires and acknowledges records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from protocol.apis.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from protocol.apis.share_fetch import (
    FetchAcknowledgementBatch,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchTopic,
)
from tests.faults.client import Client
from tests.oracle.group_script import GroupCluster

CLOSE = -1

Acquired = list[tuple[int, int, int]]
"""First offset, last offset and delivery count of each range."""
Range = tuple[int, int, int | Sequence[int]]
"""First offset, last offset, and the acknowledgement type, or one type per offset."""


class Reader:
    """A share session of one member and one partition, on a separate connection."""

    def __init__(
        self, cluster: GroupCluster, group: str, name: str, topic: str, partition: int = 0
    ) -> None:
        self._client = Client(cluster.address)
        self._group, self._name = group, name
        self._topic_id, self._partition = cluster.topic_id(topic), partition
        self._epoch = 0

    def fetch(self, *acks: Range, **fields: Any) -> Acquired:
        """Acknowledge and fetch; return the acquired ranges, maybe none if `max_wait_ms` is set."""
        partition = ShareFetchPartition(
            partition_index=self._partition,
            acknowledgement_batches=[
                FetchAcknowledgementBatch(
                    first_offset=first, last_offset=last, acknowledge_types=_listed(types)
                )
                for first, last, types in acks
            ],
        )
        asked = {"max_wait_ms": 15_000, "min_bytes": 1, "max_records": 500, "batch_size": 500}
        request = ShareFetchRequest(
            group_id=self._group,
            member_id=self._name,
            share_session_epoch=self._epoch,
            topics=[ShareFetchTopic(topic_id=self._topic_id, partitions=[partition])],
            **{**asked, **fields},
        )
        answer = self._client.ask(request, 2)
        assert answer.error_code == 0, answer
        self._epoch += 1
        acquired: Acquired = []
        for topic in answer.responses:
            for one in topic.partitions:
                assert (one.error_code, one.acknowledge_error_code) == (0, 0), one
                acquired += [
                    (batch.first_offset, batch.last_offset, batch.delivery_count)
                    for batch in one.acquired_records
                ]
        return acquired

    def nothing(self) -> None:
        """Send a fetch, and check that it acquires no record."""
        assert self.fetch(max_wait_ms=300) == []

    def acknowledge(self, *acks: Range, **fields: Any) -> None:
        """Send acknowledgements without a fetch."""
        partition = AcknowledgePartition(
            partition_index=self._partition,
            acknowledgement_batches=[
                AcknowledgementBatch(
                    first_offset=first, last_offset=last, acknowledge_types=_listed(types)
                )
                for first, last, types in acks
            ],
        )
        topics = [AcknowledgeTopic(topic_id=self._topic_id, partitions=[partition])]
        request = ShareAcknowledgeRequest(
            group_id=self._group,
            member_id=self._name,
            **{"share_session_epoch": self._epoch, "topics": topics, **fields},
        )
        answer = self._client.ask(request, 2)
        assert answer.error_code == 0, answer
        errors = [one.error_code for topic in answer.responses for one in topic.partitions]
        assert not any(errors), answer
        self._epoch += 1

    def close(self) -> None:
        """End the session, which releases its acquired records."""
        self.acknowledge(share_session_epoch=CLOSE, topics=[])
        self._client.close()


def _listed(types: int | Sequence[int]) -> list[int]:
    return [types] if isinstance(types, int) else list(types)


def joined(acquired: Iterable[tuple[int, int, int]]) -> Acquired:
    """Merge adjacent ranges with the same delivery count."""
    result: Acquired = []
    for first, last, count in sorted(acquired):
        if result and result[-1][1:] == (first - 1, count):
            result[-1] = (result[-1][0], last, count)
        else:
            result.append((first, last, count))
    return result
