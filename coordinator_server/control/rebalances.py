"""Control requests about the rebalances of a group: their accounts, and the same in words.

The topic `__group_events` has all rebalances up to its retention. The last rebalances of each group
are also in memory; without the topic (`group.events.enable`) there are no others. The topic is read
backwards in windows of offsets, the latest rebalances first.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.control.errors import ControlError, natural_number
from coordinator_server.control.pace import in_steps
from coordinator_server.rebalances.schema import topics_of
from coordinator_server.rebalances.story import tell
from coordinator_server.topics.names import GROUP_EVENTS_TOPIC
from protocol.batch import iterate_records
from protocol.batch_header import iterate_batches
from protocol.errors import ProtocolError
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from coordinator_server.control.request import ControlRequest
    from coordinator_server.rebalances.schema import RebalanceRecord
    from coordinator_server.steps import Computation
    from storage.partition_log import PartitionLog

_WINDOW, _MOST_SCANNED = 1_000, 20_000
"""Offsets that are read together, and the limit of offsets for one page."""

_READ_BYTES = 1024 * 1024


class _Cursor(NamedTuple):
    """Where a page begins: before an offset of the topic, or after some of the latest records.

    Records that are only in memory have no offset. `newest` is end and generation of the last
    record that a page had, and `shown` the number of records with these that it had.
    """

    end: int | None = None
    newest: tuple[int, int] | None = None
    shown: int = 0


async def rebalances(request: ControlRequest) -> dict[str, Any]:
    """GET /groups/GROUP/rebalances: list rebalances, the latest first. Raises ControlError.

    Rebalances with topics that the user may not see are left out.
    """
    group_id, values = request.parameters["GROUP"], request.values
    after = _cursor(values["after"])

    def is_wanted(record: RebalanceRecord) -> bool:
        is_older = after.newest is None or _key(record) <= after.newest
        return is_older and _is_within(record, values) and may_see(request, record)

    limit = values["limit"] + after.shown
    partition = request.cluster.topics.partition(GROUP_EVENTS_TOPIC, 0)
    next_end = None
    written: list[tuple[int, RebalanceRecord]] = []
    if partition is not None:
        since_ms = values["since_ms"]
        try:
            written, next_end = await in_steps(
                _read(partition.log, group_id, after.end, since_ms, limit, is_wanted)
            )
        except (StorageError, ProtocolError) as error:
            raise ControlError(500, f"{GROUP_EVENTS_TOPIC}: {error}") from error
    records: list[tuple[int | None, RebalanceRecord]] = [*written]
    if after.end is None:
        newest = written[0][1] if written else None
        unwritten = _unwritten(request.cluster.journal.history(group_id), newest)
        records[:0] = [(None, record) for record in unwritten if is_wanted(record)]
    shown = records[after.shown : limit]
    next_page = None if next_end is None else str(next_end)
    if len(records) > limit:
        next_page = _next_page(shown, after)
    return {"rebalances": [_rebalance(group_id, record) for _, record in shown], "next": next_page}


def _rebalance(group_id: str, record: RebalanceRecord) -> dict[str, Any]:
    return {
        "group": group_id,
        "started_ms": record["started_ms"],
        "ended_ms": record["ended_ms"],
        "account": record,
        "story": tell(record),
    }


def may_see(request: ControlRequest, record: RebalanceRecord) -> bool:
    """Return whether the user may see all topics of a rebalance."""
    return request.user is None or request.sees_topics(topics_of(record))


def _unwritten(
    history: Sequence[RebalanceRecord], newest: RebalanceRecord | None
) -> Iterator[RebalanceRecord]:
    """Yield the records in memory that are newer than the newest one of the topic, latest first."""
    for record in reversed(history):
        if newest is not None and (record == newest or record["ended_ms"] < newest["ended_ms"]):
            return
        yield record


def _key(record: RebalanceRecord) -> tuple[int, int]:
    return record["ended_ms"], record["generation"]


def _cursor(after: str | None) -> _Cursor:
    """Return where a page begins. Raises ControlError for a text that is not from a page."""
    if after is None:
        return _Cursor()
    numbers = [natural_number(text) for text in after.split(".")]
    match numbers:
        case [int(end)]:
            return _Cursor(end)
        case [int(ended_ms), int(generation), int(shown)]:
            return _Cursor(None, (ended_ms, generation), min(shown, _WINDOW))
    raise ControlError(400, f"after={after[:100]} is not from a page")


def _next_page(shown: list[tuple[int | None, RebalanceRecord]], after: _Cursor) -> str:
    """Return the cursor of the page after these records."""
    offset, last = shown[-1]
    if offset is not None:
        return str(offset)
    key = _key(last)
    count = sum(_key(record) == key for _, record in shown)
    if key == after.newest:
        count += after.shown
    return f"{key[0]}.{key[1]}.{count}"


def _is_within(record: RebalanceRecord, values: Any) -> bool:
    since_ms, until_ms = values["since_ms"], values["until_ms"]
    return (since_ms is None or record["ended_ms"] >= since_ms) and (
        until_ms is None or record["ended_ms"] < until_ms
    )


def _read(
    log: PartitionLog,
    group_id: str,
    end: int | None,
    since_ms: int | None,
    limit: int,
    is_wanted: Callable[[RebalanceRecord], bool],
) -> Computation[tuple[list[tuple[int, RebalanceRecord]], int | None]]:
    """Return up to `limit` offsets and records, the latest first, and where the next page ends."""
    key = group_id.encode("utf-8", "surrogatepass")
    start = log.log_start_offset
    if since_ms is not None:
        since = log.offset_for_timestamp(since_ms)
        start = log.high_watermark if since is None else since.offset
    end = log.high_watermark if end is None else min(end, log.high_watermark)
    scanned = 0
    records: list[tuple[int, RebalanceRecord]] = []
    while end > start and len(records) < limit and scanned < _MOST_SCANNED:
        first = max(start, end - _WINDOW)
        window = yield from _window(log, key, first, end)
        records += [(offset, record) for offset, record in reversed(window) if is_wanted(record)]
        scanned += end - first
        end = first
    if len(records) > limit:
        del records[limit:]
        end = records[-1][0]
    return records, end if end > start else None


def _window(
    log: PartitionLog, key: bytes, offset: int, end: int
) -> Computation[list[tuple[int, RebalanceRecord]]]:
    """Return offsets and records of a group within a window of offsets, in their order."""
    records: list[tuple[int, RebalanceRecord]] = []
    while offset < end:
        data = log.read(offset, _READ_BYTES, up_to=log.high_watermark)
        before = offset
        for batch in iterate_batches(data):
            for record in iterate_records(data, batch):
                if offset <= record.offset < end and record.key == key and record.value:
                    records.append((record.offset, json.loads(record.value)))
                yield
            offset = max(offset, batch.next_offset)
        if offset == before:
            break
    return records
