"""The topic names of a subscription: in order, each once, and no more than can be written down."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from coordinator_server.core.groups.effects import STEP_ITEMS
from coordinator_server.core.groups.modern.refusal import RefusedError
from coordinator_server.core.groups.pace import Pace
from protocol.coordinator_errors import client_error
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coordinator_server.core.groups.group import Group
    from coordinator_server.steps import Computation


def topic_names(group: Group, names: Sequence[str]) -> Computation[tuple[str, ...]]:
    """The names that a member subscribes to.

    Raises RefusedError, as when the log refuses the record, for more than a record can hold: so
    many could not even be looked at in a short time.
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
        run.sort()  # which merges the two in a moment
        runs.append(run)
        if pace.is_due(len(run)):
            yield
    return tuple(runs[0])
