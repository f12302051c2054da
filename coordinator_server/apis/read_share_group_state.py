"""ReadShareGroupState: return the state of share partitions to their leaders."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from coordinator_server.apis.share_group_state import Answers, names_partitions
from coordinator_server.core.share_partitions.persister import SharePartitionKey
from protocol.apis.read_share_group_state import (
    ReadPartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateBatch,
    ReadStateResult,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.core.share_partitions.persister import ShareState, StateBatch
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps


def handle(broker: Broker, call: Call, request: ReadShareGroupStateRequest) -> Steps:
    """Respond once every new leader epoch is written."""
    response = ReadShareGroupStateResponse()
    if not names_partitions(request.group_id, request.topics):
        call.reply(response)
        return

    def add_topic(topic_id: bytes) -> ReadStateResult:
        response.results.append(ReadStateResult(topic_id=topic_id))
        return response.results[-1]

    answers: Answers[ReadPartitionResult] = Answers(call, response, add_topic)
    for topic in request.topics:
        for asked in topic.partitions:
            key = SharePartitionKey(request.group_id, topic.topic_id, asked.partition)
            result = answers.expect(topic.topic_id, ReadPartitionResult(partition=asked.partition))
            done = partial(_take, answers, result)
            broker.share_states.read(key, asked.leader_epoch, done)
            yield
        yield
    yield from answers.all_asked()


def _take(
    answers: Answers[ReadPartitionResult], result: ReadPartitionResult, state: ShareState
) -> None:
    if state.error is ErrorCode.NONE:
        result.state_epoch = state.state_epoch
        result.start_offset = state.start_offset
        result.state_batches = [_to_message(batch) for batch in state.batches]
    answers.take(result, state)


def _to_message(batch: StateBatch) -> ReadStateBatch:
    return ReadStateBatch(
        first_offset=batch.first_offset,
        last_offset=batch.last_offset,
        delivery_state=batch.delivery_state,
        delivery_count=batch.delivery_count,
    )
