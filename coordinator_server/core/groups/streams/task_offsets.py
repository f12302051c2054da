"""The task offsets that members of a streams group report; shown in descriptions, not recorded.

Source: MemberTaskOffsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.effects import STEP_ITEMS
from coordinator_server.core.groups.modern.members import RefusedError
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coordinator_server.steps import Computation
    from protocol.apis.streams_group_heartbeat import (
        StreamsGroupHeartbeatRequest,
        StreamsTaskOffset,
    )

Offsets = Mapping[tuple[str, int], int]
"""(subtopology id, partition) -> offset."""


class TaskOffsets(NamedTuple):
    """A member's restored offsets by task, and the end offsets."""

    reached: Offsets = {}
    ends: Offsets = {}


def reported(
    request: StreamsGroupHeartbeatRequest, before: TaskOffsets
) -> Computation[TaskOffsets | None]:
    """Return the offsets after a heartbeat, or None without a report.

    Raises RefusedError if a task is listed twice.
    """
    reached, ends = request.task_offsets, request.task_end_offsets
    if reached is None and ends is None:
        return None
    return TaskOffsets(
        before.reached if reached is None else (yield from _by_task(reached)),
        before.ends if ends is None else (yield from _by_task(ends)),
    )


def _by_task(offsets: Sequence[StreamsTaskOffset]) -> Computation[Offsets]:
    by_task: dict[tuple[str, int], int] = {}
    for number, entry in enumerate(offsets, start=1):
        task = entry.subtopology_id, entry.partition
        if task in by_task:
            message = (
                f"Task offsets contain a duplicate entry for subtopology {entry.subtopology_id} "
                f"and partition {entry.partition}."
            )
            raise RefusedError(ErrorCode.INVALID_REQUEST, message)
        by_task[task] = entry.offset
        if not number % STEP_ITEMS:
            yield
    return by_task
