"""DeleteShareGroupState: delete the state of share partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator_server.apis.share_group_state import serve_all
from protocol.apis.delete_share_group_state import (
    DeletedPartition,
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator_server.broker import Broker
    from coordinator_server.core.share_partitions.persister import SharePartitionKey
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps


def handle(broker: Broker, call: Call, request: DeleteShareGroupStateRequest) -> Steps:
    """Respond once all tombstones are written."""

    def ask(key: SharePartitionKey, asked: Any, done: Callable[[Any], None]) -> None:
        broker.share_states.delete(key, done)

    return serve_all(
        call, request, DeleteShareGroupStateResponse(), DeleteStateResult, DeletedPartition, ask
    )
