"""Control requests about the rebalances of a group: their accounts, and the same in words.

The topic `__group_events` has all rebalances up to its retention. The last rebalances of each group
are also in memory; without the topic (`group.events.enable`) there are no others. The topic is read
backwards in windows of offsets, the latest rebalances first.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

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
    from coordinator_server.control.request import ControlRequest
    from coordinator_server.rebalances.schema import RebalanceRecord
    from coordinator_server.steps import Computation
    from storage.partition_log import PartitionLog

_WINDOW, _MOST_SCANNED = 1_000, 20_000
"""Offsets that are read together, and the limit of offsets for one page."""

_READ_BYTES = 1024 * 1024


async def rebalances(request: ControlRequest) -> dict[str, Any]:
    """GET /groups/GROUP/rebalances: list rebalances, the latest first. Raises ControlError.

    Rebalances with topics that the user may not see are left out.
    """
    group_id, values = request.parameters["GROUP"], request.values
    end = None
    if values["after"] is not None:
        end = natural_number(values["after"])
        if end is None:
            raise ControlError(400, f"after={values['after'][:100]} is not from a page")
    unwritten = request.cluster.journal.history(group_id) if end is None else []
    partition = request.cluster.topics.partition(GROUP_EVENTS_TOPIC, 0)
    next_end = None
    records: list[RebalanceRecord] = []
    if partition is not None:
        try:
            records, next_end = await in_steps(_read(partition.log, group_id, end, values))
        except (StorageError, ProtocolError) as error:
            raise ControlError(500, f"{GROUP_EVENTS_TOPIC}: {error}") from error
    newest_ms = max((record["ended_ms"] for record in records), default=-1)
    records += [
        record
        for record in unwritten
        if record not in records and record["ended_ms"] >= newest_ms and _is_within(record, values)
    ]
    records = [record for record in records if may_see(request, record)]
    records.sort(key=lambda record: (record["ended_ms"], record["generation"]), reverse=True)
    return {
        "rebalances": [
            {
                "group": group_id,
                "started_ms": record["started_ms"],
                "ended_ms": record["ended_ms"],
                "account": record,
                "story": tell(record),
            }
            for record in records
        ],
        "next": None if next_end is None else str(next_end),
    }


def may_see(request: ControlRequest, record: RebalanceRecord) -> bool:
    """Return whether the user may see all topics of a rebalance."""
    return request.user is None or request.sees_topics(topics_of(record))


def _is_within(record: RebalanceRecord, values: Any) -> bool:
    since_ms, until_ms = values["since_ms"], values["until_ms"]
    return (since_ms is None or record["ended_ms"] >= since_ms) and (
        until_ms is None or record["ended_ms"] < until_ms
    )


def _read(
    log: PartitionLog, group_id: str, end: int | None, values: Any
) -> Computation[tuple[list[RebalanceRecord], int | None]]:
    """Return the records of a page, and the offset before which the next page ends.

    At least one window is read, so a page can have more records than its limit.
    """
    key = group_id.encode("utf-8", "surrogatepass")
    start = log.log_start_offset
    if values["since_ms"] is not None:
        since = log.offset_for_timestamp(values["since_ms"])
        start = log.high_watermark if since is None else since.offset
    end = log.high_watermark if end is None else min(end, log.high_watermark)
    limit, scanned = values["limit"], 0
    records: list[RebalanceRecord] = []
    while end > start and len(records) < limit and scanned < _MOST_SCANNED:
        first = max(start, end - _WINDOW)
        accounts = yield from _window(log, key, first, end)
        accounts = [record for record in accounts if _is_within(record, values)]
        records = accounts + records
        scanned += end - first
        end = first
    return records, end if end > start else None


def _window(
    log: PartitionLog, key: bytes, offset: int, end: int
) -> Computation[list[RebalanceRecord]]:
    """Return the records of a group within a window of offsets, in their order."""
    records = []
    while offset < end:
        data = log.read(offset, _READ_BYTES, up_to=log.high_watermark)
        before = offset
        for batch in iterate_batches(data):
            for record in iterate_records(data, batch):
                if offset <= record.offset < end and record.key == key and record.value:
                    records.append(json.loads(record.value))
                yield
            offset = max(offset, batch.next_offset)
        if offset == before:
            break
    return records
