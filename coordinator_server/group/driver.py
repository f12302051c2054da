"""Settles what the core asked to write: append, replay, callbacks, in this order, until done.

Pure as well: the log is an object with one method. The task of a group runs it for every drain,
in production and in the simulation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from coordinator_server.group.storage_errors import TOO_LARGE
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.group.effects import Effects, Write
    from coordinator_server.group.group import Group
    from coordinator_server.group.records import CoordinatorRecord


class GroupLog(Protocol):
    """Where the records of groups go: a partition of `__consumer_offsets`."""

    def append(self, records: Sequence[CoordinatorRecord]) -> ErrorCode:
        """Append records as one batch, all or nothing; NONE or the error of the log."""


def settle(group: Group, effects: Effects, log: GroupLog, now_ms: int) -> None:
    """Settle every write in `effects` and what follows from it.

    Afterwards `effects` holds replies and events only. All writes so far share one append. A batch
    that is too large is tried again write by write, so that one oversized record fails no other
    request.
    """
    while effects.writes:
        writes, effects.writes = effects.writes, []
        error = _append(group, writes, log)
        if error in TOO_LARGE and len(writes) > 1:
            for write in writes:
                _finish([write], _append(group, [write], log), now_ms, effects)
        else:
            _finish(writes, error, now_ms, effects)


def _append(group: Group, writes: Sequence[Write], log: GroupLog) -> ErrorCode:
    records = [record for write in writes for record in write.records]
    error = log.append(records)
    if error is ErrorCode.NONE:
        for record in records:
            group.replay(record)
    return error


def _finish(writes: Sequence[Write], error: ErrorCode, now_ms: int, effects: Effects) -> None:
    effects.after_append = error is ErrorCode.NONE
    if error is not ErrorCode.NONE:
        effects.event("write.failed", error=error.name)
    for write in writes:
        for done in write.callbacks:
            done(error, now_ms, effects)
    effects.after_append = False
