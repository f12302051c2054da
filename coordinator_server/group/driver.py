"""Carries out what the heart wants: append, replay, callbacks, in this order, until all is settled.

Pure as well: the log is a callable. The asyncio task of a group and the simulation run the same
loop, so that what is simulated is what runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from coordinator_server.group.storage_errors import TOO_LARGE
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.group.classic.metadata import GroupMetadata
    from coordinator_server.group.effects import Effects, Write
    from coordinator_server.group.records import Record

Append = Callable[[Sequence["Record"]], ErrorCode]
"""Appends records as one batch, all or nothing; NONE or the error of the log."""


def drain(group: GroupMetadata, effects: Effects, append: Append, now_ms: int) -> None:
    """Settle every write in `effects` and what follows from it.

    Afterwards `effects` holds replies and events only; the replies may go out, in order. All
    writes so far share one append. A batch that is too large is tried again write by write, so
    that one oversized record spoils no other request.
    """
    while effects.writes or effects.later:
        if not effects.writes:
            effects.later.pop(0)(now_ms, effects)
            continue
        writes, effects.writes = effects.writes, []
        error = _append(group, writes, append)
        if error in TOO_LARGE and len(writes) > 1:
            for write in writes:
                _finish([write], _append(group, [write], append), now_ms, effects)
        else:
            _finish(writes, error, now_ms, effects)


def _append(group: GroupMetadata, writes: Sequence[Write], append: Append) -> ErrorCode:
    records = [record for write in writes for record in write.records]
    error = append(records)
    if error is ErrorCode.NONE:
        for record in records:
            group.replay(record)
    return error


def _finish(writes: Sequence[Write], error: ErrorCode, now_ms: int, effects: Effects) -> None:
    if error is not ErrorCode.NONE:
        effects.event("write.failed", error=error.name)
    for write in writes:
        for done in write.callbacks:
            done(error, now_ms, effects)
