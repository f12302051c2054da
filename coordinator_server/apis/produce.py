"""Produce: append record batches.

This is the hot path of the broker: each batch is checked once and written once. All replicas share
one log, so acks=1 and acks=all are equivalent: the response follows the append. Delayed fetches are
completed after the producer's response (see `KeyedPurgatory.notify`).
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from coordinator_server.apis.verification import (
    TransactionSupport,
    TransactionVerification,
    error_message,
    produce_error,
)
from coordinator_server.events.log import LOG
from protocol.apis.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from protocol.batch_header import (
    COMPRESSION_MASK,
    FLAGS_POSITION,
    MAGIC_POSITION,
    TRANSACTIONAL,
)
from protocol.compression import Compression
from protocol.errors import ErrorCode
from storage.append_check import check_frame, is_transactional
from storage.errors import (
    CorruptFrameError,
    InvalidFrameError,
    StorageError,
    UnreadableBatchError,
    UnreadableFrameError,
)
from storage.record_check import LongCheckError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sized

    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from coordinator_server.topics.topic import BatchCheck, Partition, Topic

    Unsynced = list[tuple[Partition, PartitionProduceResponse]]
    """Partitions with appends that must be flushed before the response, and their results."""

    Progress = tuple[
        list[TopicProduceResponse], list[PartitionProduceResponse], Unsynced, ErrorCode
    ]
    """Progress of a request: finished topics, finished partitions of the next topic, appends that
    need a flush, and the first error."""

T = TypeVar("T")

ADMIN_CLIENT_ID = "__admin_client"
"""The only client id that may write to internal topics, as in Kafka."""

_FIRST_VERSION_WITH_LEADERS = 10
_FIRST_VERSION_WITH_TRANSACTION_ABORTABLE = 11
_FIRST_VERSION_OF_TRANSACTIONS_V2 = 12
_FIRST_VERSION_WITH_TOPIC_IDS = 13

# Errors for which Kafka returns no log start offset.
_BARE_ERRORS = frozenset(
    (
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
)

_ACKS = (-1, 0, 1)
_FRAME_ERRORS = (InvalidFrameError, UnreadableFrameError)


def handle(broker: Broker, call: Call, request: ProduceRequest) -> Steps | None:
    """Append each partition's batch and respond; with acks=0, do not respond.

    With acks=0 an error closes the connection. The first records of a transaction in a partition
    wait for verification by the transaction coordinator.
    """
    if request.transactional_id is None:
        steps = _append_all(broker, call, request, None)
    else:
        steps = _verify(broker, call, request, request.transactional_id)
    # A request with a single batch needs no scan, because the append finds the same errors.
    topics = request.topic_data
    if request.acks in _ACKS and len(topics) == 1 and len(topics[0].partition_data) == 1:
        return steps
    return _scan(call, request, steps)


def _scan(call: Call, request: ProduceRequest, steps: Steps) -> Steps:
    """Check the batches first, then run `steps`; the first invalid batch fails the whole request.

    A batch is invalid if its size or magic is impossible, or if it is transactional without a
    transactional id. As in Kafka's RequestUtils, batches after a transactional batch are not
    checked.
    """
    for topic in request.topic_data:
        for data in topic.partition_data:
            yield
            if data.records is None:
                continue
            try:
                if not is_transactional(data.records):
                    continue
            except CorruptFrameError as error:
                yield from _refuse_all(call, request, error.code, error.message)
                return
            if request.transactional_id is None:
                denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                yield from _refuse_all(call, request, denied, None)
                return
            yield from steps
            return
    yield from steps


def _refuse_all(
    call: Call, request: ProduceRequest, error: ErrorCode, message: str | None
) -> Steps:
    """Send the error for every partition."""
    response = ProduceResponse()
    for topic in request.topic_data:
        answers: list[PartitionProduceResponse] = []
        for data in topic.partition_data:
            answers.append(
                PartitionProduceResponse(
                    index=data.index, error_code=error, base_offset=-1, error_message=message
                )
            )
            yield
        response.responses.append(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=answers
            )
        )
    if request.acks != 0:
        response.responses = call.rights.after(response.responses)
        call.reply(response)
        return
    call.connection.refuse(f"acks=0 and {error.name}", call.api_name, call.api_version)
    call.reply_nothing()


def _verify(broker: Broker, call: Call, request: ProduceRequest, transactional_id: str) -> Steps:
    """Let the transaction coordinator add or verify the partitions, then append."""
    support = TransactionSupport.DEFAULT_ERROR
    if call.api_version >= _FIRST_VERSION_OF_TRANSACTIONS_V2:
        support = TransactionSupport.ADD_PARTITION
    elif call.api_version >= _FIRST_VERSION_WITH_TRANSACTION_ABORTABLE:
        support = TransactionSupport.GENERIC_ERROR
    adds = support is TransactionSupport.ADD_PARTITION
    verification = TransactionVerification(broker, transactional_id, support)
    if adds or broker.transactions.settings.verifies_partitions:
        for topic_data in request.topic_data:
            topic = _topic(broker, call, topic_data)
            for data in topic_data.partition_data:
                if _refusal(call, request, topic, data) is ErrorCode.NONE:
                    assert topic is not None
                    assert data.records is not None
                    verification.needs(topic.partitions[data.index], data.records)
                yield
            yield
    else:
        verification.is_off = True
    if not verification.partitions:
        yield from _append_all(broker, call, request, verification)
        return

    def done(error: ErrorCode) -> None:
        verification.error = produce_error(error, support)
        call.run(_append_all(broker, call, request, verification))

    broker.transactions.verify(
        transactional_id,
        verification.producer_id,
        verification.producer_epoch,
        verification.partitions,
        adds=adds,
        done=done,
    )


def _topic(broker: Broker, call: Call, topic_data: TopicProduceData) -> Topic | None:
    if call.api_version < _FIRST_VERSION_WITH_TOPIC_IDS:
        return broker.topics.topic(topic_data.name)
    return broker.topics.topic_by_id(topic_data.topic_id)


def _append_all(
    broker: Broker,
    call: Call,
    request: ProduceRequest,
    verification: TransactionVerification | None,
    progress: Progress | None = None,
    check: BatchCheck | None = None,
) -> Steps:
    """Append the batches after `progress` and respond.

    `check` is the finished check of the next batch. A batch that takes long to check is checked in
    a worker thread. `_go_on` then repeats that batch's other checks, because its topic may be
    deleted or its transaction ended meanwhile.
    """
    now_ms = broker.clock.now_ms()
    responses, answers, unsynced, first_error = progress or ([], [], [], ErrorCode.NONE)
    for topic_data in _from(request.topic_data, responses) if responses else request.topic_data:
        topic = _topic(broker, call, topic_data)
        partitions = topic_data.partition_data
        for data in _from(partitions, answers) if answers else partitions:
            refusal, message = _refusal(call, request, topic, data), None
            if refusal is ErrorCode.NONE and verification is not None:
                assert topic is not None
                assert data.records is not None
                refusal = verification.refusal(topic.partitions[data.index], data.records)
                message = error_message(refusal)
            if refusal is ErrorCode.NONE and request.acks not in _ACKS:
                refusal = ErrorCode.INVALID_REQUIRED_ACKS
            if refusal is ErrorCode.NONE and topic is not None and topic.is_internal:
                # As in Kafka, this check is done only after the partition was added to the
                # transaction.
                is_allowed = call.client_id == ADMIN_CLIENT_ID
                refusal = ErrorCode.NONE if is_allowed else ErrorCode.INVALID_TOPIC_EXCEPTION
            if refusal is ErrorCode.NONE:
                assert topic is not None
                try:
                    answer = _append(broker, call, topic, data, now_ms, unsynced, check)
                except LongCheckError:
                    assert data.records is not None
                    progress = (responses, answers, unsynced, first_error)
                    go_on = partial(_go_on, broker, call, request, verification, progress)
                    topic.partitions[data.index].check_in_thread(data.records, now_ms, go_on)
                    return
            else:
                answer = PartitionProduceResponse(
                    index=data.index, error_code=refusal, base_offset=-1, error_message=message
                )
            check = None
            if answer.error_code:
                first_error = first_error or ErrorCode(answer.error_code)
                if answer.error_code == ErrorCode.CORRUPT_MESSAGE and (responses or answers):
                    # As in Kafka, CORRUPT_MESSAGE has a message only for the first partition.
                    answer.error_message = None
            answers.append(answer)
            yield
        responses.append(
            TopicProduceResponse(
                name=topic_data.name, topic_id=topic_data.topic_id, partition_responses=answers
            )
        )
        answers = []
        yield
    _reply(broker, call, request, responses, unsynced, first_error)


def _from(asked: Iterable[T], answered: Sized) -> Iterator[T]:
    """Return the entries of `asked` that have no answer yet."""
    return islice(asked, len(answered), None)


def _go_on(
    broker: Broker,
    call: Call,
    request: ProduceRequest,
    verification: TransactionVerification | None,
    progress: Progress,
    check: BatchCheck,
) -> None:
    """Continue a request after the check of its next batch."""
    call.run(_append_all(broker, call, request, verification, progress, check))


def _reply(
    broker: Broker,
    call: Call,
    request: ProduceRequest,
    responses: list[TopicProduceResponse],
    unsynced: Unsynced,
    first_error: ErrorCode,
) -> None:
    """Respond, or close the connection if acks=0 and there was an error."""
    version = call.api_version
    if request.acks != 0:
        if call.rights.refused:
            responses = call.rights.after(responses)
        response = ProduceResponse(responses=responses)
        if first_error and version >= _FIRST_VERSION_WITH_LEADERS:
            _name_leaders(broker, call, response)
        if unsynced:
            _reply_when_flushed(call, response, unsynced)
        else:
            call.reply(response)
        return
    if first_error:
        # The producer refreshes its metadata only after a disconnect.
        call.connection.refuse(f"acks=0 and {first_error.name}", call.api_name, version)
    for partition, _ in unsynced:
        partition.when_flushed(_ignore)
    call.reply_nothing()


def _ignore(_: StorageError | None) -> None:
    """Ignore the result: with acks=0 no response waits for the flush."""


def _reply_when_flushed(call: Call, response: ProduceResponse, unsynced: Unsynced) -> None:
    """Respond once the appends are flushed; failed flushes become errors (`flush.messages`)."""
    missing = len(unsynced)

    def settle(answer: PartitionProduceResponse, error: StorageError | None) -> None:
        nonlocal missing
        missing -= 1
        if error is not None:
            answer.error_code, answer.base_offset = error.code, -1
            answer.log_append_time_ms = answer.log_start_offset = -1
        if not missing:
            call.reply(response)

    for partition, answer in unsynced:
        partition.when_flushed(partial(settle, answer))


def _append(
    broker: Broker,
    call: Call,
    topic: Topic,
    data: PartitionProduceData,
    now_ms: int,
    unsynced: Unsynced,
    check: BatchCheck | None,
) -> PartitionProduceResponse:
    """Append one batch, using the finished `check` if given. Raises LongCheckError."""
    partition = topic.partitions[data.index]
    assert data.records is not None
    if partition.leader_id != broker.node_id:
        return PartitionProduceResponse(
            index=data.index,
            error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
            base_offset=-1,
            current_leader=LeaderIdAndEpoch(
                leader_id=partition.leader_id, leader_epoch=partition.known_epoch
            ),
        )
    try:
        # The topic may have been recreated since the check.
        if check is None or check.partition is not partition:
            may_block = not partition.has_threads
            result = partition.append(data.records, now_ms, may_block=may_block)
        else:
            result = partition.append_checked(check, now_ms)
    except StorageError as error:
        if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
            LOG.emit("log.failed", topic=topic.name, partition=data.index, reason=error.message)
        elif isinstance(error, UnreadableBatchError):
            # Log the error, as Kafka does: the response has no message.
            LOG.emit(
                "batch.refused",
                topic=topic.name,
                partition=data.index,
                client_id=call.client_id,
                reason=error.message,
            )
        response = PartitionProduceResponse(index=data.index, error_code=error.code, base_offset=-1)
        if error.code not in _BARE_ERRORS and not isinstance(error, _FRAME_ERRORS):
            response.log_start_offset = partition.known_log_start_offset
        if error.record_errors or isinstance(error, CorruptFrameError):
            response.error_message = error.message
            response.record_errors = [
                BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
                for index, message in error.record_errors
            ]
        return response
    answer = PartitionProduceResponse(
        index=data.index,
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=result.log_start_offset,
    )
    if partition.flush_is_due:
        unsynced.append((partition, answer))
    return answer


def _name_leaders(broker: Broker, call: Call, response: ProduceResponse) -> None:
    """Add the endpoints of the current leaders in the results (KIP-951)."""
    named = {
        answer.current_leader.leader_id
        for topic in response.responses
        for answer in topic.partition_responses
        if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    }
    if named:
        response.node_endpoints = [
            NodeEndpoint(
                node_id=endpoint.node_id, host=endpoint.host, port=endpoint.port, rack=endpoint.rack
            )
            for endpoint in broker.endpoints(call.connection)
            if endpoint.node_id in named
        ]


def _refusal(
    call: Call, request: ProduceRequest, topic: Topic | None, data: PartitionProduceData
) -> ErrorCode:
    """Return the error that keeps a batch from the log, or NONE; checks are in Kafka's order."""
    version, records = call.api_version, data.records
    attributes = None
    if records is not None and len(records) > FLAGS_POSITION:
        # The log refuses batches of other formats than v2.
        attributes = records[FLAGS_POSITION] if records[MAGIC_POSITION] == 2 else 0
        if attributes & TRANSACTIONAL and request.transactional_id is None:
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if topic is None or topic.partitions[0].is_deleted:
        # The topic may have been deleted during the check.
        by_id = version >= _FIRST_VERSION_WITH_TOPIC_IDS
        return ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not 0 <= data.index < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if records is None or attributes is None:
        return ErrorCode.INVALID_RECORD
    if version < 7 and attributes & COMPRESSION_MASK == Compression.ZSTD:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if request.acks not in _ACKS:
        try:
            check_frame(records)
        except StorageError as error:
            return error.code
    return ErrorCode.NONE
