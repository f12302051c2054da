"""WriteShareGroupState: update the state of share partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator_server.apis.share_group_state import serve_all
from coordinator_server.core.share_state.batches import combine_in_steps
from coordinator_server.core.share_state.shard import MOST_BATCHES, StateWrite
from protocol.apis.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
    WrittenPartition,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator_server.broker import Broker
    from coordinator_server.core.share_partitions.persister import SharePartitionKey
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps


def handle(broker: Broker, call: Call, request: WriteShareGroupStateRequest) -> Steps:
    """Respond once all updates are written."""

    def ask(key: SharePartitionKey, asked: Any, done: Callable[[Any], None]) -> Steps:
        write = StateWrite(
            asked.state_epoch,
            asked.leader_epoch,
            asked.start_offset,
            asked.delivery_complete_count,
            (yield from combine_in_steps(asked.state_batches, MOST_BATCHES)),
        )
        broker.share_states.write(key, write, done)

    return serve_all(
        call, request, WriteShareGroupStateResponse(), WriteStateResult, WrittenPartition, ask
    )
