"""DeleteShareGroupState: delete the state of share partitions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from coordinator_server.apis.share_group_state import Answers, names_partitions
from coordinator_server.core.share_partitions.persister import SharePartitionKey
from protocol.apis.delete_share_group_state import (
    DeletedPartition,
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
)

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps


def handle(broker: Broker, call: Call, request: DeleteShareGroupStateRequest) -> Steps:
    """Respond once all tombstones are written."""
    response = DeleteShareGroupStateResponse()
    if not names_partitions(request.group_id, request.topics):
        call.reply(response)
        return

    def add_topic(topic_id: bytes) -> DeleteStateResult:
        response.results.append(DeleteStateResult(topic_id=topic_id))
        return response.results[-1]

    answers: Answers[DeletedPartition] = Answers(call, response, add_topic)
    for topic in request.topics:
        for asked in topic.partitions:
            key = SharePartitionKey(request.group_id, topic.topic_id, asked.partition)
            result = answers.expect(topic.topic_id, DeletedPartition(partition=asked.partition))
            broker.share_states.delete(key, partial(answers.take, result))
            yield
        yield
    yield from answers.all_asked()
