"""WriteShareGroupState: what changed in the state of share partitions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from coordinator_server.apis.share_group_state import Answers, names_partitions
from coordinator_server.share.persister import SharePartitionKey, StateBatch
from coordinator_server.share.state.batches import NO_OFFSET, combine_batches
from coordinator_server.share.state.shard import MOST_BATCHES, StateWrite
from protocol.apis.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
    WrittenPartition,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from coordinator_server.broker import Broker
    from coordinator_server.clock.step_runner import Steps
    from coordinator_server.net.call import Call
    from protocol.apis.write_share_group_state import WritePartition

_STEP_BATCHES = 2000


def handle(broker: Broker, call: Call, request: WriteShareGroupStateRequest) -> Steps:
    """Answer once all of it is written."""
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
            write = yield from _write(asked)
            broker.share_states.write(key, write, partial(answers.take, result))
            yield
        yield
    yield from answers.all_asked()


def _write(asked: WritePartition) -> Generator[None, None, StateWrite]:
    """What is asked for one share partition; very many batches are combined in steps before."""
    batches: Sequence[StateBatch] = ()
    for start in range(0, len(asked.state_batches), _STEP_BATCHES):
        some = [
            StateBatch(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
            for one in asked.state_batches[start : start + _STEP_BATCHES]
        ]
        batches = combine_batches(batches, some, NO_OFFSET) if batches else some
        if len(batches) > MOST_BATCHES:
            break  # they are refused
        yield
    return StateWrite(
        asked.state_epoch,
        asked.leader_epoch,
        asked.start_offset,
        asked.delivery_complete_count,
        batches,
    )
