"""The sorted, distinct topic names of a subscription, limited to the size of a record."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from coordinator_server.core.groups.effects import STEP_ITEMS, Pace
from coordinator_server.core.groups.modern.members import RefusedError
from protocol.coordinator_errors import client_error
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coordinator_server.core.groups.group import Group
    from coordinator_server.steps import Computation


def topic_names(group: Group, names: Sequence[str]) -> Computation[tuple[str, ...]]:
    """Return the sorted, distinct topic names that a member subscribes to.

    Raises RefusedError if the names exceed the largest record, with the same error as when the log
    refuses the record: such a subscription would take too long to process.
    """
    if len(names) <= STEP_ITEMS:
        return tuple(sorted(set(names)))
    left_bytes = group.environment.largest_write_bytes()
    found: set[str] = set()
    runs: deque[list[str]] = deque()
    for start in range(0, len(names), STEP_ITEMS):
        new = set(names[start : start + STEP_ITEMS]) - found
        left_bytes -= sum(map(len, new)) + len(new)
        if left_bytes < 0:
            error = client_error(ErrorCode.MESSAGE_TOO_LARGE)
            raise RefusedError(error, "The member subscribes to too many topics.")
        found |= new
        runs.append(sorted(new))
        yield
    pace = Pace()
    while len(runs) > 1:
        run = runs.popleft()
        run += runs.popleft()
        run.sort()  # fast: sort() merges two sorted runs in linear time
        runs.append(run)
        if pace.is_due(len(run)):
            yield
    return tuple(runs[0])
