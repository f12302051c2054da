"""ReadShareGroupState: return the state of share partitions to their leaders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator_server.apis.share_group_state import serve_all
from protocol.apis.read_share_group_state import (
    ReadPartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateBatch,
    ReadStateResult,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator_server.broker import Broker
    from coordinator_server.core.share_partitions.persister import (
        SharePartitionKey,
        ShareState,
        StateBatch,
    )
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps


def handle(broker: Broker, call: Call, request: ReadShareGroupStateRequest) -> Steps:
    """Respond once every new leader epoch is written."""

    def ask(key: SharePartitionKey, asked: Any, done: Callable[[Any], None]) -> None:
        broker.share_states.read(key, asked.leader_epoch, done)

    return serve_all(
        call,
        request,
        ReadShareGroupStateResponse(),
        ReadStateResult,
        ReadPartitionResult,
        ask,
        _fill,
    )


def _fill(result: ReadPartitionResult, state: ShareState) -> None:
    result.state_epoch = state.state_epoch
    result.start_offset = state.start_offset
    result.state_batches = [_to_message(batch) for batch in state.batches]


def _to_message(batch: StateBatch) -> ReadStateBatch:
    return ReadStateBatch(
        first_offset=batch.first_offset,
        last_offset=batch.last_offset,
        delivery_state=batch.delivery_state,
        delivery_count=batch.delivery_count,
    )
