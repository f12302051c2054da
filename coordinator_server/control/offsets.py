"""Control requests that change the offsets of a group, or delete the group.

All changes are requests to the coordinator, which refuses what it refuses from Kafka's tools: a
group with members keeps its offsets, and a topic with subscribed members too.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from coordinator_server.control.errors import ControlError
from coordinator_server.control.groups import group_of
from coordinator_server.control.lag import LagReader
from coordinator_server.control.local import ask, check, error_text
from coordinator_server.control.pace import in_steps
from coordinator_server.core.groups.settings import GroupKind
from coordinator_server.topics.names import OFFSETS_TOPIC
from protocol.errors import ErrorCode, ProtocolError
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

    from coordinator_server.control.request import ControlRequest
    from coordinator_server.core.groups.group import Group
    from coordinator_server.steps import Computation
    from coordinator_server.topics.topic import Partition

Place = tuple[str, int]
Errors = dict[Place, str | None]

_WITH_NAMES = 9
"""The last version of OffsetCommit with topic names."""

_PART_OFFSETS, _RECORD_BYTES = 500, 128
"""Limits of the offsets that are changed together, and of an offset's bytes without its texts."""

_NAMED = 5
"""Limit of the partitions that an error names."""

_REQUIRED = {"timestamp": "timestamp_ms", "shift": "shift_by", "offset": "offset"}


async def set_offsets(request: ControlRequest) -> dict[str, Any]:
    """PUT /groups/GROUP/offsets: commit offsets. Raises ControlError.

    A group that does not exist is created, as in Kafka's tools.
    """
    body = await request.shaped()
    wanted, metadata = await in_steps(_wanted(body["offsets"]))
    group = _group(request)
    before = {} if group is None else await _committed(request, group)
    errors = await _commit(request, group, wanted, metadata)
    return await in_steps(_changes(request, before, wanted, errors))


def _wanted(
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


async def _committed(request: ControlRequest, group: Group) -> dict[Place, int]:
    """Return the offsets of a group in the topics that the user may see.

    In a share group they are the start offsets.
    """
    positions = await in_steps(LagReader(request.cluster, request).positions(group))
    return {
        place: position.offset
        for place, position in positions.items()
        if request.sees_topic(place[0])
    }


async def reset_offsets(request: ControlRequest) -> dict[str, Any]:
    """POST /groups/GROUP/offsets/reset: reset offsets. Raises ControlError."""
    body = await request.shaped()
    field = _REQUIRED.get(body["to"])
    if field is not None and field not in body:
        raise ControlError(400, f"{field} is missing: to={body['to']} needs it")
    if body.get("offset", 0) < 0:
        raise ControlError(400, f"offset={body['offset']} is negative")
    _, group = group_of(request)
    before = await _committed(request, group)
    places = _places(request, body, before)
    wanted = await in_steps(_targets(request, body, before, places))
    is_dry_run = body.get("dry_run", False)
    errors: Errors = {}
    if not is_dry_run:
        errors = await _commit(request, group, wanted, {})
    return await in_steps(_changes(request, before, wanted, errors, is_dry_run=is_dry_run))


async def delete_offsets(request: ControlRequest) -> dict[str, Any]:
    """DELETE /groups/GROUP/offsets: delete the offsets of a topic. Raises ControlError."""
    _, group = group_of(request)
    topic, index = request.values["topic"], request.values["partition"]
    before = {
        place: offset
        for place, offset in (await _committed(request, group)).items()
        if place[0] == topic and index in (None, place[1])
    }
    if not before:
        where = topic if index is None else f"{topic}-{index}"
        raise ControlError(404, f"group {group.group_id} has no offset in {where}")
    if group.kind is GroupKind.SHARE:
        errors = await _delete_share(request, topic, before)
    else:
        errors = await _in_parts(request, before, {}, partial(_delete, request, topic))
    return await in_steps(_changes(request, before, dict.fromkeys(before), errors))


async def delete_group(request: ControlRequest) -> dict[str, Any]:
    """DELETE /groups/GROUP: delete a group without members. Raises ControlError."""
    from protocol.apis.delete_groups import DeleteGroupsRequest

    broker, group = group_of(request)
    message = DeleteGroupsRequest(groups_names=[group.group_id])
    (result,) = (await ask(request, "DeleteGroups", message, node_id=broker.node_id)).results
    check(result.error_code, result.error_message, f"group {group.group_id}")
    return {"deleted": [group.group_id]}


# --- which offsets --------------------------------------------------------------------------------


def _group(request: ControlRequest) -> Group | None:
    """Return the group in the path, or None. Raises ControlError if it cannot be known."""
    try:
        return group_of(request)[1]
    except ControlError as error:
        if error.status != 404:  # such as a coordinator that is not loaded
            raise
        return None


def _places(
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


def _targets(
    request: ControlRequest,
    body: Mapping[str, Any],
    before: Mapping[Place, int],
    places: Iterable[Place],
) -> Computation[dict[Place, int]]:
    """Return the new offsets of a reset, in steps. Raises ControlError."""
    targets = {}
    for place in places:
        partition = request.cluster.topics.partition(*place)
        if partition is None:
            raise ControlError(404, f"there is no partition {place[0]}-{place[1]}")
        try:
            target = _target(partition, body, before.get(place))
        except (StorageError, ProtocolError) as error:
            raise ControlError(500, f"{place[0]}-{place[1]}: {error}") from error
        if target is not None:
            targets[place] = target
        yield
    return targets


def _target(partition: Partition, body: Mapping[str, Any], before: int | None) -> int | None:
    """Return the new offset of a partition, within the log; None to leave out the partition."""
    log, to = partition.log, body["to"]
    start, end = log.log_start_offset, log.high_watermark
    if to == "earliest":
        return start
    if to == "latest":
        return end
    if to == "timestamp":
        since = log.offset_for_timestamp(body["timestamp_ms"])
        return end if since is None else min(since.offset, end)
    if to == "current":
        return end if before is None else max(start, min(before, end))
    if to == "offset":
        return int(max(start, min(body["offset"], end)))
    return None if before is None else int(max(start, min(before + body["shift_by"], end)))


def _changes(
    request: ControlRequest,
    before: Mapping[Place, int],
    wanted: Mapping[Place, int | None],
    errors: Errors,
    *,
    is_dry_run: bool = False,
) -> Computation[dict[str, Any]]:
    offsets = []
    for (topic, index), after in sorted(wanted.items()):
        old, error = before.get((topic, index)), errors.get((topic, index))
        offsets.append(
            {
                "topic": topic,
                "partition": index,
                "before": old,
                "after": after if error is None else old,
                "error": error,
            }
        )
        yield
    return {"group": request.parameters["GROUP"], "dry_run": is_dry_run, "offsets": offsets}


# --- the requests ---------------------------------------------------------------------------------


async def _commit(
    request: ControlRequest,
    group: Group | None,
    wanted: Mapping[Place, int],
    metadata: Mapping[Place, str],
) -> Errors:
    """Commit offsets; return the errors by partition.

    Raises ControlError if the first part is refused with one error for all partitions.
    """
    if not wanted:
        raise ControlError(400, "no offset is given: there is nothing to change")
    if group is not None and group.kind is GroupKind.SHARE:
        change = partial(_alter_share, request, wanted)
    else:
        change = partial(_commit_part, request, wanted, metadata)
    return await _in_parts(request, wanted, metadata, change)


async def _in_parts(
    request: ControlRequest,
    places: Iterable[Place],
    metadata: Mapping[Place, str],
    change: Callable[[list[Place]], Awaitable[Errors]],
) -> Errors:
    """Change offsets in parts that fit into a record batch; return the errors by partition.

    The coordinator writes the offsets of a request as one batch, and serves no other group
    meanwhile. Raises ControlError if the first part is refused.
    """
    _coordinator(request, request.parameters["GROUP"])  # creates the topic
    errors: Errors = {}
    for part in await in_steps(_parts(request, places, metadata)):
        try:
            errors |= await change(part)
        except ControlError as error:
            if not errors:
                raise
            errors |= dict.fromkeys(part, str(error))
    return errors


def _parts(
    request: ControlRequest, places: Iterable[Place], metadata: Mapping[Place, str]
) -> Computation[list[list[Place]]]:
    group_bytes = len(request.parameters["GROUP"].encode("utf-8", "surrogatepass"))
    most_bytes = request.cluster.offsets_topic.max_message_bytes() // 2
    parts: list[list[Place]] = [[]]
    size_bytes = 0
    for place in sorted(places):
        texts = place[0], metadata.get(place, "")
        record_bytes = _RECORD_BYTES + group_bytes + sum(len(text.encode()) for text in texts)
        if parts[-1] and (
            len(parts[-1]) == _PART_OFFSETS or size_bytes + record_bytes > most_bytes
        ):
            parts.append([])
            size_bytes = 0
        parts[-1].append(place)
        size_bytes += record_bytes
        yield
    return parts


async def _commit_part(
    request: ControlRequest,
    wanted: Mapping[Place, int],
    metadata: Mapping[Place, str],
    part: list[Place],
) -> Errors:
    from protocol.apis.offset_commit import (
        OffsetCommitRequest,
        OffsetCommitRequestPartition,
        OffsetCommitRequestTopic,
    )

    topics = [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=wanted[name, index],
                    committed_metadata=metadata.get((name, index), ""),
                )
                for index in indexes
            ],
        )
        for name, indexes in _by_topic(part).items()
    ]
    group_id = request.parameters["GROUP"]
    message = OffsetCommitRequest(group_id=group_id, topics=topics)
    node_id = _coordinator(request, group_id)
    response = await ask(request, "OffsetCommit", message, node_id=node_id, version=_WITH_NAMES)
    return _errors_of(group_id, response.topics)


def _errors_of(group_id: str, topics: Iterable[Any]) -> Errors:
    """Return the errors by partition. Raises ControlError if every partition has the same one."""
    codes = {
        (
            topic.name if hasattr(topic, "name") else topic.topic_name,
            partition.partition_index,
        ): partition.error_code
        for topic in topics
        for partition in topic.partitions
    }
    distinct = set(codes.values())
    if len(distinct) == 1:
        check(distinct.pop(), None, f"group {group_id}: {_named(codes)}")
    return {
        place: None if code == ErrorCode.NONE else error_text(code) for place, code in codes.items()
    }


def _named(places: Collection[Place]) -> str:
    """Return the names of the first partitions, and the number of the others."""
    names = [f"{topic}-{index}" for topic, index in islice(sorted(places), _NAMED)]
    rest = len(places) - len(names)
    return ", ".join(names) + (f" and {rest} more" if rest else "")


async def _alter_share(
    request: ControlRequest, wanted: Mapping[Place, int], part: list[Place]
) -> Errors:
    from protocol.apis.alter_share_group_offsets import (
        AlterShareGroupOffsetsRequest,
        AlterShareGroupOffsetsRequestPartition,
        AlterShareGroupOffsetsRequestTopic,
    )

    topics = [
        AlterShareGroupOffsetsRequestTopic(
            topic_name=name,
            partitions=[
                AlterShareGroupOffsetsRequestPartition(
                    partition_index=index, start_offset=wanted[name, index]
                )
                for index in indexes
            ],
        )
        for name, indexes in _by_topic(part).items()
    ]
    group_id = request.parameters["GROUP"]
    message = AlterShareGroupOffsetsRequest(group_id=group_id, topics=topics)
    node_id = _coordinator(request, group_id)
    response = await ask(request, "AlterShareGroupOffsets", message, node_id=node_id)
    check(response.error_code, response.error_message, f"group {group_id}")
    return _errors_of(group_id, response.responses)


async def _delete(request: ControlRequest, topic: str, part: list[Place]) -> Errors:
    from protocol.apis.offset_delete import (
        OffsetDeleteRequest,
        OffsetDeleteRequestPartition,
        OffsetDeleteRequestTopic,
    )

    partitions = [OffsetDeleteRequestPartition(partition_index=index) for _, index in part]
    group_id = request.parameters["GROUP"]
    message = OffsetDeleteRequest(
        group_id=group_id, topics=[OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
    )
    node_id = _coordinator(request, group_id)
    response = await ask(request, "OffsetDelete", message, node_id=node_id)
    check(response.error_code, None, f"group {group_id}")
    return _errors_of(group_id, response.topics)


async def _delete_share(request: ControlRequest, topic: str, places: Iterable[Place]) -> Errors:
    from protocol.apis.delete_share_group_offsets import (
        DeleteShareGroupOffsetsRequest,
        DeleteShareGroupOffsetsRequestTopic,
    )

    if request.values["partition"] is not None:
        raise ControlError(400, "the offsets of a share group are deleted by topic only")
    group_id = request.parameters["GROUP"]
    message = DeleteShareGroupOffsetsRequest(
        group_id=group_id, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=topic)]
    )
    node_id = _coordinator(request, group_id)
    response = await ask(request, "DeleteShareGroupOffsets", message, node_id=node_id)
    check(response.error_code, response.error_message, f"group {group_id}")
    for topic_response in response.responses:
        check(
            topic_response.error_code,
            topic_response.error_message,
            f"group {group_id}, topic {topic}",
        )
    return dict.fromkeys(places)


def _coordinator(request: ControlRequest, group_id: str) -> int:
    """Return the coordinator of a group, which need not exist yet. Raises ControlError."""
    offsets_topic = request.cluster.offsets_topic
    if offsets_topic.ensure() is not ErrorCode.NONE:
        raise ControlError(500, f"{OFFSETS_TOPIC} cannot be created")
    return offsets_topic.partition_of(group_id).leader_id


def _by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for name, index in sorted(places):
        topics.setdefault(name, []).append(index)
    return topics
