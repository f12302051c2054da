"""The offsets that a control request commits or resets to, and warnings about them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from coordinator_server.control.errors import ControlError
from protocol.errors import ProtocolError
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from coordinator_server.control.request import ControlRequest
    from coordinator_server.steps import Computation
    from coordinator_server.topics.topic import Partition
    from storage.partition_log import PartitionLog

Place = tuple[str, int]
Warnings = dict[Place, str]


def wanted_of(
    offsets: Iterable[Mapping[str, Any]],
) -> Computation[tuple[dict[Place, int], dict[Place, str]]]:
    """Return offsets and metadata by partition, in steps. Raises ControlError."""
    wanted: dict[Place, int] = {}
    metadata: dict[Place, str] = {}
    for number, offset_to_set in enumerate(offsets):
        topic, index, offset = (offset_to_set[name] for name in ("topic", "partition", "offset"))
        place = topic, index
        if not 0 <= index < 1 << 31 or offset < 0:
            raise ControlError(400, f"offset {offset} of {topic}-{index}")
        if place in wanted:
            raise ControlError(400, f"offsets[{number}]: {topic}-{index} has two offsets")
        wanted[place] = offset
        metadata[place] = offset_to_set.get("metadata", "")
        yield
    return wanted, metadata


def places_of(
    request: ControlRequest, body: Mapping[str, Any], before: Mapping[Place, int]
) -> list[Place]:
    """Return the partitions of a reset, all of topics that the user may read.

    Raises ControlError for other topics.
    """
    topics, indexes = body.get("topics"), body.get("partitions")
    if topics is None:
        places = list(before)
    else:
        places = []
        for name in topics:
            topic = request.cluster.topics.topic(name)
            if topic is None or not request.sees_topic(name):
                raise ControlError(404, f"there is no topic {name}")
            places += [(name, partition.index) for partition in topic.partitions]
    places = sorted(place for place in places if indexes is None or place[1] in indexes)
    if not places:
        raise ControlError(400, "no partition is selected: name topics, or commit an offset first")
    for name in {name for name, _ in places}:
        request.require("READ", "TOPIC", name)
    return places


def targets(
    request: ControlRequest,
    body: Mapping[str, Any],
    before: Mapping[Place, int],
    places: Iterable[Place],
    warnings: Warnings,
) -> Computation[dict[Place, int]]:
    """Return the new offsets of a reset, in steps, and add warnings. Raises ControlError.

    As in Kafka's tools, an offset outside the log becomes its first or last offset, with a warning.
    """
    new_offsets = {}
    for place in places:
        partition = request.cluster.topics.partition(*place)
        if partition is None:
            raise ControlError(404, f"there is no partition {place[0]}-{place[1]}")
        try:
            log, target = partition.log, _target(partition, body, before.get(place))
        except (StorageError, ProtocolError) as error:
            raise ControlError(500, f"{place[0]}-{place[1]}: {error}") from error
        if target is not None:
            new_offsets[place] = max(log.log_start_offset, min(target, log.high_watermark))
            where = _position(target, log)
            if where:
                warnings[place] = f"offset {target} is {where}: {new_offsets[place]} is used"
        yield
    return new_offsets


def _position(offset: int, log: PartitionLog) -> str:
    """Return where an offset is outside a log; "" if it is within the log."""
    if offset > log.high_watermark:
        return f"beyond the log end offset {log.high_watermark}"
    if offset < log.log_start_offset:
        return f"before the log start offset {log.log_start_offset}"
    return ""


def outside(request: ControlRequest, wanted: Mapping[Place, int]) -> Computation[Warnings]:
    """Return a warning for each committed offset outside its log, in steps."""
    warnings: Warnings = {}
    for place, offset in wanted.items():
        partition = request.cluster.topics.partition(*place)
        with suppress(StorageError):
            where = "" if partition is None else _position(offset, partition.log)
            if where:
                warnings[place] = f"offset {offset} is {where}"
        yield
    return warnings


def _target(partition: Partition, body: Mapping[str, Any], before: int | None) -> int | None:
    """Return the new offset of a partition, which may be outside the log; None to leave it out."""
    log, to = partition.log, body["to"]
    if to == "earliest":
        return log.log_start_offset
    if to == "timestamp":
        since = log.offset_for_timestamp(body["timestamp_ms"])
        return log.high_watermark if since is None else min(since.offset, log.high_watermark)
    if to == "offset":
        return int(body["offset"])
    if to == "shift":
        return None if before is None else int(before + body["shift_by"])
    return log.high_watermark if to == "latest" or before is None else before
