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
from coordinator_server.control.offset_targets import (
    Place,
    Warnings,
    outside,
    places_of,
    targets,
    wanted_of,
)
from coordinator_server.control.pace import in_steps
from coordinator_server.core.groups.settings import GroupKind
from coordinator_server.topics.names import OFFSETS_TOPIC
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

    from coordinator_server.control.request import ControlRequest
    from coordinator_server.core.groups.group import Group
    from coordinator_server.steps import Computation

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
    wanted, metadata = await in_steps(wanted_of(body["offsets"]))
    group = _group(request)
    before = {} if group is None else await _committed(request, group)
    errors = await _commit(request, group, wanted, metadata)
    warnings = await in_steps(outside(request, wanted))
    return await in_steps(_changes(request, before, wanted, errors, warnings))


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
    """POST /groups/GROUP/offsets/reset: reset offsets. Raises ControlError.

    With topics, a group that does not exist is created, as in Kafka's tools.
    """
    body = await request.shaped()
    _check_reset(body)
    group = _group(request) if "topics" in body else group_of(request)[1]
    before = {} if group is None else await _committed(request, group)
    places = places_of(request, body, before)
    warnings: Warnings = {}
    wanted = await in_steps(targets(request, body, before, places, warnings))
    is_dry_run = body.get("dry_run", False)
    errors: Errors = {}
    if is_dry_run:
        _check_commit(request, group, wanted)
    else:
        errors = await _commit(request, group, wanted, {})
    changes = _changes(request, before, wanted, errors, warnings, is_dry_run=is_dry_run)
    return await in_steps(changes)


def _check_reset(body: Mapping[str, Any]) -> None:
    """Raise ControlError if a field is missing, negative, or of another kind of reset."""
    needed = _REQUIRED.get(body["to"])
    if needed is not None and needed not in body:
        raise ControlError(400, f"{needed} is missing: to={body['to']} needs it")
    for to, name in _REQUIRED.items():
        if name in body and name != needed:
            text = f"to={body['to']} and {name}={body[name]} contradict each other"
            raise ControlError(400, f"{text}: {name} is for to={to}")
    if body.get("offset", 0) < 0:
        raise ControlError(400, f"offset={body['offset']} is negative")


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
    return await in_steps(_changes(request, before, dict.fromkeys(before), errors, {}))


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


def _changes(
    request: ControlRequest,
    before: Mapping[Place, int],
    wanted: Mapping[Place, int | None],
    errors: Errors,
    warnings: Warnings,
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
                "warning": None if error is not None else warnings.get((topic, index)),
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
    _check_not_empty(wanted)
    if group is not None and group.kind is GroupKind.SHARE:
        change = partial(_alter_share, request, wanted)
    else:
        change = partial(_commit_part, request, wanted, metadata)
    return await _in_parts(request, wanted, metadata, change)


def _check_not_empty(wanted: Mapping[Place, int]) -> None:
    if not wanted:
        raise ControlError(400, "no offset is given: there is nothing to change")


def _check_commit(
    request: ControlRequest, group: Group | None, wanted: Mapping[Place, int]
) -> None:
    """Raise the ControlError with which `_commit` would be refused for the state of the group."""
    from protocol.apis.offset_commit import OffsetCommitRequest

    _check_not_empty(wanted)
    group_id = request.parameters["GROUP"]
    if group is None:
        return
    if group.kind is GroupKind.SHARE:
        error = ErrorCode.NON_EMPTY_GROUP if group.member_count else ErrorCode.NONE
        check(error, error.message, f"group {group_id}")
    else:
        error = group.check_commit(OffsetCommitRequest(group_id=group_id, topics=[]), _WITH_NAMES)
        check(error, None, f"group {group_id}: {_named(wanted)}")


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
