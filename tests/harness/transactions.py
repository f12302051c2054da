"""A broker with transactions and groups, and requests of transactional producers."""

from __future__ import annotations

from typing import Any

from coordinator_server.core.transactions.metadata import TransactionMetadata
from protocol.apis.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.apis.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from protocol.apis.end_txn import EndTxnRequest
from protocol.apis.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.apis.init_producer_id import InitProducerIdRequest
from protocol.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.batch import Record, build_batch, iterate_records
from protocol.batch_header import iterate_batches
from protocol.errors import ErrorCode
from storage.memory_disk import MemoryDisk
from tests.harness.groups import GroupBroker

Producer = tuple[int, int]
V1, V2 = 4, 5
"""The EndTxn versions of producers with transactions v1 and v2."""


class TransactionBroker(GroupBroker):
    """A broker with transactions; topic "t" has four partitions, `__transaction_state` two."""

    defaults = {**GroupBroker.defaults, "transaction_state_log_num_partitions": "2"}

    def __init__(self, disk: MemoryDisk | None = None, /, **overrides: Any) -> None:
        super().__init__(disk, **overrides)
        self.turn()

    def state(self, transactional_id: str = "id") -> TransactionMetadata:
        """Return the state of an existing transactional id."""
        metadata = self.transactions.metadata(transactional_id)
        assert metadata is not None
        return metadata

    def init(self, transactional_id: str = "id", timeout_ms: int = 60_000) -> Producer:
        """Send InitProducerId until an open transaction is aborted; return the producer."""
        for _ in range(20):  # on a busy machine, ending the transaction may take several turns
            response = self.init_once(transactional_id, timeout_ms)
            if response.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                break
            self.turn()
        assert response.error_code == ErrorCode.NONE, ErrorCode(response.error_code)
        return response.producer_id, response.producer_epoch

    def init_once(self, transactional_id: str, timeout_ms: int) -> Any:
        """Send InitProducerId; return the response."""
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        return self.ask(request)

    def add_offsets(self, producer: Producer, group: str, transactional_id: str) -> ErrorCode:
        """Send AddOffsetsToTxn; return the error."""
        request = AddOffsetsToTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            group_id=group,
        )
        return ErrorCode(self.ask(request, 3).error_code)

    def add(self, producer: Producer, *partitions: int, transactional_id: str = "id") -> ErrorCode:
        """Send AddPartitionsToTxn for partitions of "t"; return the last error."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=list(partitions))],
        )
        response = self.ask(request, 3)
        result = response.results_by_topic_v3_and_below[-1].results_by_partition[-1]
        return ErrorCode(result.partition_error_code)

    def produce(
        self,
        producer: Producer,
        value: bytes,
        partition: int = 0,
        *,
        sequence: int = 0,
        version: int = 11,
        transactional_id: str = "id",
    ) -> ErrorCode:
        """Send one record of a transaction; return the error."""
        batch = build_batch(
            [Record(0, self.clock.now_ms(), b"k", value)],
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            transactional=True,
        )
        topic = self.topics.topic("t")
        assert topic is not None
        data = PartitionProduceData(index=partition, records=batch.to_bytes())
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            topic_data=[TopicProduceData(name="t", topic_id=topic.topic_id, partition_data=[data])],
        )
        response = self.ask(request, version)
        return ErrorCode(response.responses[0].partition_responses[0].error_code)

    def end(
        self,
        producer: Producer,
        *,
        commits: bool = True,
        version: int = V1,
        transactional_id: str = "id",
    ) -> Any:
        """Send EndTxn; return the response, or None if it is delayed."""
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=commits,
        )
        call = self.send(request, version)
        self.turn()
        return call.replies[0] if call.replies else None

    def committed_values(self, partition: int = 0) -> list[bytes | None]:
        """Return the values that a read_committed consumer gets from a partition of "t"."""
        request = FetchRequest(
            max_bytes=1 << 20,
            isolation_level=1,
            topics=[
                FetchTopic(
                    topic="t",
                    partitions=[
                        FetchPartition(
                            partition=partition, fetch_offset=0, partition_max_bytes=1 << 20
                        )
                    ],
                )
            ],
        )
        response = self.ask(request, 11)
        data = response.responses[0].partitions[0]
        aborted = sorted(
            (one.first_offset, one.producer_id) for one in data.aborted_transactions or ()
        )
        records = bytes(data.records or b"")
        values: list[bytes | None] = []
        gone: set[int] = set()
        for header in iterate_batches(records):
            while aborted and aborted[0][0] <= header.last_offset:
                gone.add(aborted.pop(0)[1])
            if header.is_control:
                gone.discard(header.producer_id)
            elif header.producer_id not in gone or not header.is_transactional:
                values += [record.value for record in iterate_records(records, header)]
        return values
