"""InitializeShareGroupState: create or reset the state of share partitions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from coordinator_server.apis.share_group_state import Answers, names_partitions
from coordinator_server.core.share_partitions.persister import SharePartitionKey
from protocol.apis.initialize_share_group_state import (
    InitializedPartition,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
)

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps


def handle(broker: Broker, call: Call, request: InitializeShareGroupStateRequest) -> Steps:
    """Respond once the state of all partitions is written."""
    response = InitializeShareGroupStateResponse()
    if not names_partitions(request.group_id, request.topics):
        call.reply(response)
        return

    def add_topic(topic_id: bytes) -> InitializeStateResult:
        response.results.append(InitializeStateResult(topic_id=topic_id))
        return response.results[-1]

    answers: Answers[InitializedPartition] = Answers(call, response, add_topic)
    for topic in request.topics:
        for asked in topic.partitions:
            key = SharePartitionKey(request.group_id, topic.topic_id, asked.partition)
            result = answers.expect(topic.topic_id, InitializedPartition(partition=asked.partition))
            broker.share_states.initialize(
                key, asked.state_epoch, asked.start_offset, partial(answers.take, result)
            )
            yield
        yield
    yield from answers.all_asked()
