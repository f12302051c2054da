"""ReadShareGroupStateSummary: return the state of share partitions without in-flight records."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from coordinator_server.apis.share_group_state import Answers, names_partitions
from coordinator_server.core.share_partitions.persister import SharePartitionKey
from protocol.apis.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
    ReadSummaryResult,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.core.share_partitions.persister import ShareStateSummary
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps


def handle(broker: Broker, call: Call, request: ReadShareGroupStateSummaryRequest) -> Steps:
    """Respond with the summary of each partition."""
    response = ReadShareGroupStateSummaryResponse()
    if not names_partitions(request.group_id, request.topics):
        call.reply(response)
        return

    def add_topic(topic_id: bytes) -> ReadStateSummaryResult:
        response.results.append(ReadStateSummaryResult(topic_id=topic_id))
        return response.results[-1]

    answers: Answers[ReadSummaryResult] = Answers(call, response, add_topic)
    for topic in request.topics:
        for asked in topic.partitions:
            key = SharePartitionKey(request.group_id, topic.topic_id, asked.partition)
            result = answers.expect(topic.topic_id, ReadSummaryResult(partition=asked.partition))
            broker.share_states.read_summary(key, partial(_take, answers, result))
            yield
        yield
    yield from answers.all_asked()


def _take(
    answers: Answers[ReadSummaryResult], result: ReadSummaryResult, summary: ShareStateSummary
) -> None:
    if summary.error is ErrorCode.NONE:
        result.state_epoch = summary.state_epoch
        result.leader_epoch = summary.leader_epoch
        result.start_offset = summary.start_offset
        result.delivery_complete_count = summary.delivery_complete_count
    answers.take(result, summary)
