"""What the answer to a heartbeat says about the group as a whole.

Source: StreamsGroupHeartbeatResponse.Status.
"""

from __future__ import annotations

from enum import IntEnum

from protocol.apis.streams_group_heartbeat import StreamsStatus


class StatusCode(IntEnum):
    """What is the matter with a group."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


def status(code: StatusCode, detail: str) -> StreamsStatus:
    """An entry of the answer."""
    return StreamsStatus(status_code=code, status_detail=detail)
