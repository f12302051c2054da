"""The status entries of a heartbeat response, which concern the whole group.

Source: StreamsGroupHeartbeatResponse.Status.
"""

from __future__ import annotations

from enum import IntEnum

from protocol.apis.streams_group_heartbeat import StreamsStatus


class StatusCode(IntEnum):
    """The problems and conditions that a heartbeat response reports."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


def status(code: StatusCode, detail: str) -> StreamsStatus:
    """Return a status entry."""
    return StreamsStatus(status_code=code, status_detail=detail)
