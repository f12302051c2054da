"""Settles what the core asked to write: append, replay, callbacks, in this order, until done.

Pure as well: the log is an object with one method. The task of a group runs it for every drain,
in production and in the simulation.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

from coordinator_server.group.records import OffsetRecords
from coordinator_server.group.storage_errors import TOO_LARGE
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.group.effects import Effects, ProducerIdAndEpoch, Write
    from coordinator_server.group.group import Group
    from coordinator_server.group.records import CoordinatorRecords


class GroupLog(Protocol):
    """Where the records of groups go: a partition of `__consumer_offsets`."""

    def append(
        self, writes: Sequence[CoordinatorRecords], producer: ProducerIdAndEpoch | None = None
    ) -> ErrorCode:
        """Append the records of `writes` as one batch, all or nothing; NONE or the log's error.

        With a `producer` it is a batch of its transaction.
        """


def settle(group: Group, effects: Effects, log: GroupLog, now_ms: int) -> None:
    """Settle every write in `effects` and what follows from it.

    Afterwards `effects` holds replies and events only. All writes so far share one append, but for
    those of transactions, which have batches of their own. A batch that is too large is tried again
    write by write, so that one oversized record fails no other request.
    """
    while effects.writes:
        writes, effects.writes = effects.writes, []
        for run in _runs(writes):
            error = _append(group, run, log)
            if error in TOO_LARGE and len(run) > 1:
                for write in run:
                    _finish([write], _append(group, [write], log), now_ms, effects)
            else:
                _finish(run, error, now_ms, effects)


def _runs(writes: list[Write]) -> Sequence[list[Write]]:
    """Writes that can share a batch: those of no transaction, or of one and the same."""
    if len(writes) == 1 or all(write.producer is None for write in writes):
        return (writes,)
    return [list(run) for _, run in groupby(writes, key=attrgetter("producer"))]


def _append(group: Group, writes: Sequence[Write], log: GroupLog) -> ErrorCode:
    records = [write.records for write in writes]
    producer = writes[0].producer
    error = log.append(records, producer)
    if error is ErrorCode.NONE:
        for of_write in records:
            if producer is not None:
                group.replay_pending(of_write, producer.producer_id)
            elif isinstance(of_write, OffsetRecords):
                group.replay_offsets(of_write)
            else:
                for record in of_write:
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
