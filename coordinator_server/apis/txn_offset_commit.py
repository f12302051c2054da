"""TxnOffsetCommit: commit offsets of a group within a transaction.

The transaction must contain the group's partition of the offsets topic, added by AddOffsetsToTxn
or, from version 5 on, by this request. The group then handles the request as a commit with a
producer. Source: KafkaApis.handleTxnOffsetCommitRequest,
GroupCoordinatorService.commitTransactionalOffsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.apis.merged_call import MergedCall
from coordinator_server.apis.offset_commit import split
from coordinator_server.apis.verification import TransactionSupport, commit_error
from coordinator_server.core.groups.effects import ProducerIdAndEpoch
from coordinator_server.core.groups.transactional_commit import TransactionalCommit, refuse
from coordinator_server.topics.names import OFFSETS_TOPIC
from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.apis.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from protocol.errors import ErrorCode
from storage.errors import StorageError

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.coordinator.operations import GroupCall
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps

LOAD_IN_PROGRESS_SINCE = 2
TRANSACTION_ABORTABLE_SINCE = 4
TRANSACTIONS_V2_SINCE = 5
TOPIC_IDS_SINCE = 6


def handle(broker: Broker, call: Call, request: TxnOffsetCommitRequest) -> Steps:
    """Submit the commit to the group after verification by the transaction coordinator."""
    commit = OffsetCommitRequest(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
    )
    for topic in request.topics:
        partitions: list[OffsetCommitRequestPartition] = []
        for partition in topic.partitions:
            partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=partition.partition_index,
                    committed_offset=partition.committed_offset,
                    committed_leader_epoch=partition.committed_leader_epoch,
                    committed_metadata=partition.committed_metadata,
                )
            )
            yield
        commit.topics.append(
            OffsetCommitRequestTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=partitions
            )
        )
        yield

    def answer(response: OffsetCommitResponse) -> Steps:
        return _answer(call, response)

    def submit(group_call: GroupCall[OffsetCommitResponse], commit: OffsetCommitRequest) -> None:
        _verify(broker, group_call, request, commit)

    by_id = call.api_version >= TOPIC_IDS_SINCE
    group_call = MergedCall(call, answer)
    yield from split(broker.topics, group_call, call.rights, commit, submit, by_id=by_id)


def _verify(
    broker: Broker,
    call: GroupCall[OffsetCommitResponse],
    request: TxnOffsetCommitRequest,
    commit: OffsetCommitRequest,
) -> None:
    """Let the transaction coordinator add or verify the group's partition, then submit."""
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    transactional = TransactionalCommit(request.group_id, producer, commit)
    version = call.caller.api_version
    adds = version >= TRANSACTIONS_V2_SINCE
    if not request.group_id:
        # The group coordinator will refuse the empty group id.
        broker.groups.submit(call, transactional)
        return
    error = broker.groups.unavailable(request.group_id)
    if error is not ErrorCode.NONE:
        call.reply(refuse(transactional, call.caller, error))
        return
    if not (adds or broker.transactions.settings.verifies_partitions) or _is_open(
        broker, request.group_id, producer
    ):
        broker.groups.submit(call, transactional)
        return
    partition = OFFSETS_TOPIC, broker.groups.partition_index(request.group_id)
    support = TransactionSupport.DEFAULT_ERROR
    if adds:
        support = TransactionSupport.ADD_PARTITION
    elif version >= TRANSACTION_ABORTABLE_SINCE:
        support = TransactionSupport.GENERIC_ERROR

    def done(error: ErrorCode) -> None:
        # The transaction may have ended during verification.
        if error is ErrorCode.NONE and not broker.transactions.is_open_in(
            request.transactional_id, *producer, partition
        ):
            error = ErrorCode.INVALID_TXN_STATE
        if error is ErrorCode.NONE:
            broker.groups.submit(call, transactional)
        else:
            call.reply(refuse(transactional, call.caller, commit_error(error, support)))

    broker.transactions.verify(
        request.transactional_id, *producer, (partition,), adds=adds, done=done
    )


def _is_open(broker: Broker, group_id: str, producer: ProducerIdAndEpoch) -> bool:
    """Return whether the transaction already has offsets in the group's partition."""
    partition = broker.topics.partition(OFFSETS_TOPIC, broker.groups.partition_index(group_id))
    try:
        return partition is not None and partition.log.producers.has_open_transaction(*producer)
    except StorageError:
        return True  # no error here, because the append will report it


def _answer(call: Call, response: OffsetCommitResponse) -> Steps:
    """Convert the group's response to this API's format and send it."""
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    answered = TxnOffsetCommitResponse()
    for topic in response.topics:
        partitions: list[TxnOffsetCommitResponsePartition] = []
        for partition in topic.partitions:
            error = partition.error_code
            if error == loading and call.api_version < LOAD_IN_PROGRESS_SINCE:
                error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            partitions.append(
                TxnOffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=error
                )
            )
            yield
        answered.topics.append(
            TxnOffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=partitions
            )
        )
        yield
    call.reply(answered)
