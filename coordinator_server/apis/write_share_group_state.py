"""WriteShareGroupState: update the state of share partitions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from coordinator_server.apis.share_group_state import Answers, names_partitions
from coordinator_server.core.share_partitions.persister import SharePartitionKey
from coordinator_server.core.share_state.batches import combine_in_steps
from coordinator_server.core.share_state.shard import MOST_BATCHES, StateWrite
from protocol.apis.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
    WrittenPartition,
)

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps


def handle(broker: Broker, call: Call, request: WriteShareGroupStateRequest) -> Steps:
    """Respond once all updates are written."""
    response = WriteShareGroupStateResponse()
    if not names_partitions(request.group_id, request.topics):
        call.reply(response)
        return

    def add_topic(topic_id: bytes) -> WriteStateResult:
        response.results.append(WriteStateResult(topic_id=topic_id))
        return response.results[-1]

    answers: Answers[WrittenPartition] = Answers(call, response, add_topic)
    for topic in request.topics:
        for asked in topic.partitions:
            key = SharePartitionKey(request.group_id, topic.topic_id, asked.partition)
            result = answers.expect(topic.topic_id, WrittenPartition(partition=asked.partition))
            write = StateWrite(
                asked.state_epoch,
                asked.leader_epoch,
                asked.start_offset,
                asked.delivery_complete_count,
                (yield from combine_in_steps(asked.state_batches, MOST_BATCHES)),
            )
            broker.share_states.write(key, write, partial(answers.take, result))
            yield
        yield
    yield from answers.all_asked()
