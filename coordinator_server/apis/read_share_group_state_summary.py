"""ReadShareGroupStateSummary: return share-partition state, but no state of in-flight records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator_server.apis.share_group_state import serve_all
from protocol.apis.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
    ReadSummaryResult,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator_server.broker import Broker
    from coordinator_server.core.share_partitions.persister import (
        SharePartitionKey,
        ShareStateSummary,
    )
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps


def handle(broker: Broker, call: Call, request: ReadShareGroupStateSummaryRequest) -> Steps:
    """Respond with the summary of each partition."""

    def ask(key: SharePartitionKey, asked: Any, done: Callable[[Any], None]) -> None:
        broker.share_states.read_summary(key, done)

    return serve_all(
        call,
        request,
        ReadShareGroupStateSummaryResponse(),
        ReadStateSummaryResult,
        ReadSummaryResult,
        ask,
        _fill,
    )


def _fill(result: ReadSummaryResult, summary: ShareStateSummary) -> None:
    result.state_epoch = summary.state_epoch
    result.leader_epoch = summary.leader_epoch
    result.start_offset = summary.start_offset
    result.delivery_complete_count = summary.delivery_complete_count
