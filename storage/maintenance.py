"""The background work of a data directory, as one generator of small steps.

A round removes files of deleted topics, applies retention, syncs sealed segments, compacts logs and
writes checkpoints. `flush.ms` and idle producers are handled between rounds. The server runs steps
when it has time. If the disk fails for a partition, the error is reported and the round continues
with the other partitions.
"""

from __future__ import annotations

from collections.abc import Iterator

from storage.cleaner import CleaningResult, dirty_bytes, first_uncleanable_offset
from storage.config_def import LONG_MAX
from storage.errors import StorageError, UnknownPartitionError
from storage.flush import Flush
from storage.log_manager import LogManager
from storage.own_logs import (
    LEAST_BYTES_AT_START,
    clean,
    first_dirty_offset,
    is_own,
    own_log_of,
    own_pass,
)
from storage.partition_log import PartitionLog
from storage.retention import DeletedSegment, delete_old_segments
from storage.worker import Pause, in_worker

Event = DeletedSegment | CleaningResult | StorageError
Step = Event | Pause | None
"""An event, a wait for a worker, or None at the end of a small step."""


def maintenance_steps(
    manager: LogManager, now_ms: int, *, starting: bool = False, retention: bool = True
) -> Iterator[Step]:
    """Do one round over all partitions, applying retention only if `retention` is set.

    With `starting`, internal topics are compacted if at least half of a log is dirty.
    """
    try:
        yield from manager.remove_deleted()
    except OSError as error:
        yield StorageError(f"files of deleted topics cannot be removed: {error}")
    for name, partition in manager.partitions():
        yield None
        if not manager.is_on_disk(name, partition):
            continue
        try:
            log = manager.log(name, partition)
            if retention:
                yield from delete_old_segments(log, now_ms)
            yield from flush_steps(log, sealed_only=not _flush_is_due(manager, log, now_ms))
            if log.config.compacts and not log.closed:
                yield from compaction_steps(manager, log, now_ms, starting=starting)
        except UnknownPartitionError:
            continue  # the topic was deleted during the round
        except StorageError as error:
            yield error
    try:
        yield from manager.checkpoint_steps()
        yield from manager.compaction_steps()
    except StorageError as error:
        yield error


def flush_ms_steps(manager: LogManager, now_ms: int) -> Iterator[Step]:
    """Sync the open logs whose `flush.ms` has elapsed."""
    for log in manager.open_logs():
        yield None
        try:
            if log.config.flush_ms < LONG_MAX and _flush_is_due(manager, log, now_ms):
                yield from flush_steps(log)
        except StorageError as error:
            yield error


def expiry_steps(manager: LogManager, now_ms: int) -> Iterator[Step]:
    """Expire producers of open logs that were idle for `producer.id.expiration.ms`."""
    for log in manager.open_logs():
        yield None
        log.producers.expire(now_ms, log.config.producer_id_expiration_ms)


def flush_steps(log: PartitionLog, *, sealed_only: bool = False) -> Iterator[Pause]:
    """Sync a log in the worker. Raises StorageError."""
    flush = Flush(log, sealed_only=sealed_only)
    try:
        if flush.is_needed:
            yield from in_worker(log.files.worker, flush.run)
    except OSError as error:
        raise log.give_up(error) from error
    flush.done()


def _flush_is_due(manager: LogManager, log: PartitionLog, now_ms: int) -> bool:
    """Return whether `flush.ms` has elapsed since the first append that is not synced."""
    key = (log.topic, log.partition)
    if log.recovery_point >= log.log_end_offset:
        manager.unsynced_since_ms.pop(key, None)
        return False
    since_ms = manager.unsynced_since_ms.setdefault(key, now_ms)
    return now_ms - since_ms >= log.config.flush_ms


def compaction_steps(
    manager: LogManager, log: PartitionLog, now_ms: int, *, starting: bool = False
) -> Iterator[CleaningResult | Pause | None]:
    """Compact one log if it is dirty enough; yield None between steps, the result at the end.

    Own logs (of internal topics) are compacted here only when `starting`, so that the next start
    reads less. Later `OwnLogs` compacts them.
    """
    if is_own(log):
        if starting:
            own = own_log_of(manager, log, now_ms)
            if own.dirty_bytes >= max(own.clean_bytes, LEAST_BYTES_AT_START):
                yield from own_pass(manager, log, now_ms)
    elif _is_dirty_enough(log, first_dirty_offset(manager, log), now_ms):
        yield from clean(manager, log, now_ms)


def _is_dirty_enough(log: PartitionLog, first_dirty: int, now_ms: int) -> bool:
    """Return whether a log must be compacted, by dirty ratio or `max.compaction.lag.ms`."""
    dirty, total = dirty_bytes(log, first_dirty, now_ms)
    if not dirty:
        return False
    if dirty / total >= log.config.min_cleanable_dirty_ratio:
        return True
    end = first_uncleanable_offset(log, now_ms)
    for segment in log.segments[:-1]:
        if first_dirty <= segment.base_offset < end:
            try:
                first = next(segment.batches(), None)
            except OSError as error:
                raise log.failed("read", error) from error
            oldest_ms = first.max_timestamp_ms if first is not None else now_ms
            return now_ms - oldest_ms > log.config.max_compaction_lag_ms
    return False
