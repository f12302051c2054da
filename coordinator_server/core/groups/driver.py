"""Settles the writes of the core: append, replay, then callbacks, until no write is left.

The code is pure: the log is an object with one method. The group's task calls `settle` for every
batch of operations from its mailbox, in production and in the simulation.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

from coordinator_server.core.groups.modern import account
from coordinator_server.core.groups.records import OffsetRecords
from coordinator_server.core.groups.settings import GroupKind
from coordinator_server.steps import run_all
from protocol.coordinator_errors import TOO_LARGE
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.groups.effects import Effects, ProducerIdAndEpoch, Write
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.groups.records import CoordinatorRecord, CoordinatorRecords
    from coordinator_server.steps import Computation


class GroupLog(Protocol):
    """The log of group records: a partition of `__consumer_offsets`."""

    def append(
        self, writes: Sequence[CoordinatorRecords], producer: ProducerIdAndEpoch | None = None
    ) -> ErrorCode:
        """Append the records of `writes` as one atomic batch; return NONE or the log's error.

        With a `producer`, the batch belongs to the producer's transaction.
        """


def settle(group: Group, effects: Effects, log: GroupLog, now_ms: int) -> Group:
    """Settle `effects.writes`, and the writes of their callbacks; return the resulting group.

    Afterwards `effects` holds only replies and events. All pending writes share one append, except
    transactional writes, which have their own batches. If a batch is too large, each write is
    retried on its own, so that one oversized record does not fail other requests.
    """
    while effects.writes:
        writes, effects.writes = effects.writes, []
        for run in _runs(writes):
            group, error = _append(group, run, log, now_ms, effects)
            if error in TOO_LARGE and len(run) > 1:
                for write in run:
                    group, error = _append(group, [write], log, now_ms, effects)
                    _finish(group, [write], error, now_ms, effects)
            else:
                _finish(group, run, error, now_ms, effects)
    return group


def _runs(writes: list[Write]) -> Sequence[list[Write]]:
    """Group the writes that can share a batch: no transaction, or the same transaction."""
    if len(writes) == 1 or all(write.producer is None for write in writes):
        return (writes,)
    return [list(run) for _, run in groupby(writes, key=attrgetter("producer"))]


def _append(
    group: Group, writes: Sequence[Write], log: GroupLog, now_ms: int, effects: Effects
) -> tuple[Group, ErrorCode]:
    records = [write.records for write in writes]
    producer = writes[0].producer
    error = log.append(records, producer)
    if error is ErrorCode.NONE:
        for write, of_write in zip(writes, records, strict=True):
            if producer is not None:
                group.replay_pending(of_write, producer.producer_id)
            elif isinstance(of_write, OffsetRecords):
                group.replay_offsets(of_write)
            else:
                group = _replay(group, write, of_write, now_ms, effects)
    return group, error


def settle_large(group: Group, effects: Effects, log: GroupLog, now_ms: int) -> Computation[Group]:
    """Like `settle`, but settle a single write of records in steps.

    Anything else (several writes, committed offsets, transactions) is left to `settle`. No other
    code may read the group until the steps are done.
    """
    write = effects.writes[0] if len(effects.writes) == 1 else None
    if write is None or isinstance(write.records, OffsetRecords) or write.producer is not None:
        return group
    effects.writes = []
    error = log.append([write.records], None)
    yield
    if error is ErrorCode.NONE:
        group = yield from _replay_in_steps(group, write, write.records, now_ms, effects)
    _finish(group, [write], error, now_ms, effects)
    return group


def _replay(
    group: Group, write: Write, records: Sequence[CoordinatorRecord], now_ms: int, effects: Effects
) -> Group:
    """Replay records; for consumer, share and streams groups also update the rebalance report."""
    # A classic group has a single record only if a rebalance wrote its GroupMetadata record.
    if group.kind is GroupKind.CLASSIC and len(records) == 1:
        return group.replay(records[0])
    return run_all(_replay_in_steps(group, write, records, now_ms, effects))


def _replay_in_steps(
    group: Group, write: Write, records: Sequence[CoordinatorRecord], now_ms: int, effects: Effects
) -> Computation[Group]:
    before = account.before_write(group, records)
    for record in records:
        group = group.replay(record)
        yield
    if before is not None:
        account.after_write(before, group, write.causes, now_ms, effects)
        yield
    return group


def _finish(
    group: Group, writes: Sequence[Write], error: ErrorCode, now_ms: int, effects: Effects
) -> None:
    effects.group = group
    effects.after_append = error is ErrorCode.NONE
    if error is not ErrorCode.NONE:
        effects.event("write.failed", error=error.name)
    for write in writes:
        for done in write.callbacks:
            done(error, now_ms, effects)
    effects.after_append = False
