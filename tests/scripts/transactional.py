"""Transactions for the cases of kafka-transactions, made with raw requests.

A client library would end its open transactions when it closes; this producer just disappears.
"""

from __future__ import annotations

from protocol.apis.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from protocol.apis.end_txn import EndTxnRequest
from protocol.apis.find_coordinator import FindCoordinatorRequest
from protocol.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.batch import Record, build_batch
from protocol.errors import ErrorCode
from tests.faults.client import Client
from tests.support import wait_for

TIMEOUT_MS = 600_000
WRITTEN_MS = 1_700_000_000_000
"""Timestamp of all records: long ago, so that open transactions count as hanging."""

# The key type of FindCoordinator for transactions.
_TRANSACTION = 1
# A version of transactions v1: the producer sends AddPartitionsToTxn.
_PRODUCE_VERSION = 11


class Transactions:
    """Make transactions on a broker that coordinates all of them and leads all partitions."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._client = Client(address)

    def close(self) -> None:
        """Close the connection; open transactions stay open."""
        self._client.close()

    def begin(self, transactional_id: str, topic: str, partition: int) -> InitProducerIdResponse:
        """Begin a transaction with one record; an open transaction of the same id is aborted."""
        find = FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=[transactional_id])

        def is_found() -> bool:
            return bool(self._client.ask(find).coordinators[0].error_code == ErrorCode.NONE)

        wait_for(is_found, "the id has a coordinator")
        init = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS
        )
        answers: list[InitProducerIdResponse] = []

        def is_initialized() -> bool:
            answers.append(self._client.ask(init))
            return answers[-1].error_code == ErrorCode.NONE

        wait_for(is_initialized, "the producer has an id")
        producer = answers[-1]
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[partition])],
        )

        def is_added() -> bool:
            (topic_result,) = self._client.ask(add, 3).results_by_topic_v3_and_below
            (result,) = topic_result.results_by_partition
            return bool(result.partition_error_code == ErrorCode.NONE)

        wait_for(is_added, "the partition is part of the transaction")
        self.write(
            transactional_id, topic, partition, producer.producer_id, producer.producer_epoch
        )
        return producer

    def end(
        self, transactional_id: str, producer: InitProducerIdResponse, *, commits: bool
    ) -> None:
        """Commit or abort a transaction that `begin` began."""
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=commits,
        )
        assert self._client.ask(request, 4).error_code == ErrorCode.NONE

    def write(self, name: str, topic: str, partition: int, producer_id: int, epoch: int) -> None:
        """Write a record of a hanging transaction, whose producer no coordinator knows."""
        batch = build_batch(
            [Record(0, WRITTEN_MS, None, b"x")],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            transactional=True,
        )
        data = PartitionProduceData(index=partition, records=batch.to_bytes())
        request = ProduceRequest(
            transactional_id=name,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        answer = self._client.ask(request, _PRODUCE_VERSION)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
