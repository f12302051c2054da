"""InitializeShareGroupState: create or reset the state of share partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator_server.apis.share_group_state import serve_all
from protocol.apis.initialize_share_group_state import (
    InitializedPartition,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator_server.broker import Broker
    from coordinator_server.core.share_partitions.persister import SharePartitionKey
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps


def handle(broker: Broker, call: Call, request: InitializeShareGroupStateRequest) -> Steps:
    """Respond once the state of all partitions is written."""

    def ask(key: SharePartitionKey, asked: Any, done: Callable[[Any], None]) -> None:
        broker.share_states.initialize(key, asked.state_epoch, asked.start_offset, done)

    return serve_all(
        call,
        request,
        InitializeShareGroupStateResponse(),
        InitializeStateResult,
        InitializedPartition,
        ask,
    )
