"""Control requests about topics and partitions."""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING, Any

from coordinator_server.control.errors import proposal, shown
from coordinator_server.control.local import ask, check, error_text, status_of
from coordinator_server.control.pace import in_steps
from coordinator_server.control.pages import page_of_names, page_of_places
from coordinator_server.control.request import ControlError, ControlRequest, natural_number
from coordinator_server.topics.leadership import NOBODY
from coordinator_server.topics.topic_configs import configs_error
from protocol.errors import ErrorCode
from protocol.json_form import uuid_to_text
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from coordinator_server.steps import Computation
    from coordinator_server.topics.topic import Partition, Topic

_PARTITIONS_MAX = 10_000
_TIMEOUT_MS = 30_000
_NAMED = 20


# --- topics ---------------------------------------------------------------------------------------


async def topics(request: ControlRequest) -> dict[str, Any]:
    """GET /topics: list a page of topics."""
    names = (
        topic.name
        if (request.values["internal"] or not topic.is_internal) and request.sees_topic(topic.name)
        else None
        for topic in tuple(request.cluster.topics.all_topics())
    )
    page, next_name = await in_steps(page_of_names(request, names))
    return {"topics": await in_steps(_described(request, page)), "next": next_name}


def _described(request: ControlRequest, names: Iterable[str]) -> Computation[list[dict[str, Any]]]:
    described = []
    for name in names:
        topic = request.cluster.topics.topic(name)
        if topic is not None:
            described.append((yield from _topic(topic)))
        yield
    return described


async def topic(request: ControlRequest) -> dict[str, Any]:
    """GET /topics/TOPIC: describe a topic. Raises ControlError."""
    return await in_steps(_topic(topic_of(request)))


def _topic(topic: Topic) -> Computation[dict[str, Any]]:
    partitions = []
    for partition in topic.partitions:
        partitions.append(_offsets_or_error(partition))
        yield
    return {
        "topic": topic.name,
        "topic_id": uuid_to_text(topic.topic_id),
        "is_internal": topic.is_internal,
        "configs": dict(topic.configs),
        "partitions": partitions,
    }


async def create(request: ControlRequest) -> dict[str, Any]:
    """POST /topics/TOPIC: create a topic. Raises ControlError.

    The body is such as {"partitions": 3, "configs": {"retention.ms": "1000"}}.
    """
    manager, name = request.cluster.topics, request.parameters["TOPIC"]
    body = await request.shaped()
    error = manager.creation_error(name)
    if error is not None:
        check(*error, f"topic {name}")
    count = body.get("partitions")
    if count is None:
        count = request.cluster.config.integer("num.partitions")
    _check_count(name, count)
    configs = body.get("configs") or {}
    texts = {key: None if value is None else str(value) for key, value in configs.items()}
    try:
        message = configs_error(request.cluster.config, texts.items())
        if message is not None:
            check(ErrorCode.INVALID_CONFIG, message, f"topic {name}")
        kept = {key: value.strip() for key, value in texts.items() if value is not None}
        created = manager.create(name, count, kept)
    except StorageError as refusal:
        text = error_text(refusal.code, str(refusal))
        raise ControlError(status_of(refusal.code), f"topic {name}: {text}") from refusal
    return await in_steps(_topic(created))


def _check_count(name: str, count: int) -> None:
    if not 0 < count <= _PARTITIONS_MAX:
        text = f"a topic has 1 to {_PARTITIONS_MAX} partitions, not {count}"
        check(ErrorCode.INVALID_PARTITIONS, text, f"topic {name}")


async def delete(request: ControlRequest) -> dict[str, Any]:
    """DELETE /topics/TOPIC: delete a topic. Raises ControlError."""
    from protocol.apis.delete_topics import DeleteTopicsRequest, DeleteTopicState

    name = topic_of(request).name
    message = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=_TIMEOUT_MS)
    (result,) = (await ask(request, "DeleteTopics", message)).responses
    check(result.error_code, result.error_message, f"topic {name}")
    return {"deleted": [name]}


async def grow(request: ControlRequest) -> dict[str, Any]:
    """POST /topics/TOPIC/partitions: add partitions to a topic. Raises ControlError."""
    from protocol.apis.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic

    count, name = (await request.shaped())["count"], topic_of(request).name
    _check_count(name, count)
    wanted = CreatePartitionsTopic(name=name, count=count, assignments=None)
    message = CreatePartitionsRequest(topics=[wanted], timeout_ms=_TIMEOUT_MS)
    (result,) = (await ask(request, "CreatePartitions", message)).results
    check(result.error_code, result.error_message, f"topic {name}")
    return await topic(request)


def topic_of(request: ControlRequest) -> Topic:
    """Return the topic in the path. Raises ControlError."""
    name = request.parameters["TOPIC"]
    topic = request.cluster.topics.topic(name)
    if topic is None:
        names = (topic.name for topic in request.cluster.topics.all_topics())
        visible = list(filter(request.sees_topic, names))
        seen = nsmallest(_NAMED + 1, visible)
        text = f"there is no topic {name}{_but(seen)}{proposal(name, visible)}"
        raise ControlError(404, text)
    return topic


def _but(names: list[str]) -> str:
    """Return the end of an error message that lists existing names."""
    some = [*names[:_NAMED], "..."] if len(names) > _NAMED else names
    return f", but {', '.join(some)}" if some else ""


# --- partitions -----------------------------------------------------------------------------------


def partition_of(request: ControlRequest, topic: Topic) -> Partition:
    """Return the topic's partition in the path. Raises ControlError."""
    return partition_at(topic, request.parameters["INDEX"])


def partition_at(topic: Topic, text: str) -> Partition:
    """Return the partition with this number, given as text. Raises ControlError."""
    index, count = natural_number(text), len(topic.partitions)
    if not text.isdecimal():
        raise ControlError(400, f"{shown(text)} is not the number of a partition")
    if index is None or index >= count:
        raise ControlError(404, f"topic {topic.name} has no partition {text}, but {count} of them")
    return topic.partitions[index]


def offsets_of(partition: Partition) -> dict[str, int]:
    """Return the start and end offset of a partition. Raises ControlError."""
    try:
        log = partition.log
    except StorageError as error:
        raise ControlError(500, _text(error)) from error
    return {"start_offset": log.log_start_offset, "end_offset": log.high_watermark}


def _offsets_or_error(partition: Partition) -> dict[str, Any]:
    """Return the start and end offset of a partition; -1 and the error if the log cannot be opened.

    Metadata shows such a partition as offline, too.
    """
    try:
        log = partition.log
    except StorageError as error:
        return {"start_offset": -1, "end_offset": -1, "error": _text(error)}
    return {"start_offset": log.log_start_offset, "end_offset": log.high_watermark}


def _text(error: StorageError) -> str:
    return f"{error.code.name}: {error}"


async def partitions(request: ControlRequest) -> dict[str, Any]:
    """GET /topics/TOPIC/partitions: describe a page of partitions. Raises ControlError."""
    topic = topic_of(request)
    return await _partitions(request, [topic])


async def all_partitions(request: ControlRequest) -> dict[str, Any]:
    """GET /partitions: describe a page of the partitions of all topics."""
    return await _partitions(request, tuple(request.cluster.topics.all_topics()))


async def _partitions(request: ControlRequest, topics: Iterable[Topic]) -> dict[str, Any]:
    page, next_place = await in_steps(page_of_places(request, _places(request, topics)))
    return {"partitions": await in_steps(_details(request, page)), "next": next_place}


def _places(request: ControlRequest, topics: Iterable[Topic]) -> Iterator[tuple[str, int] | None]:
    """Yield the partitions of the topics that the user may see; None for another topic."""
    for topic in topics:
        if request.sees_topic(topic.name):
            for partition in topic.partitions:
                yield topic.name, partition.index
        else:
            yield None


def _details(
    request: ControlRequest, places: Iterable[tuple[Any, ...]]
) -> Computation[list[dict[str, Any]]]:
    details = []
    for name, index in places:
        partition = request.cluster.topics.partition(name, index)
        if partition is not None:
            details.append(_partition(partition))
        yield
    return details


def _partition(partition: Partition) -> dict[str, Any]:
    details: dict[str, Any] = {
        "topic": partition.topic_name,
        "partition": partition.index,
        "leader": partition.leader_id,
        "leader_epoch": partition.known_epoch,
        "replicas": list(partition.replicas),
        "start_offset": -1,
        "end_offset": -1,
        "last_stable_offset": -1,
        "size_bytes": 0,
        "open_transactions": 0,
    }
    try:
        log = partition.log
    except StorageError as error:
        details |= {"leader": NOBODY, "error": _text(error)}
    else:
        details |= {
            "start_offset": log.log_start_offset,
            "end_offset": log.high_watermark,
            "last_stable_offset": log.last_stable_offset,
            "size_bytes": log.size_bytes,
            "open_transactions": len(log.producers.transactions),
        }
    return details


async def delete_records(request: ControlRequest) -> dict[str, Any]:
    """DELETE /partitions/TOPIC/INDEX/records: delete records before an offset.

    Raises ControlError.
    """
    from protocol.apis.delete_records import (
        DeleteRecordsPartition,
        DeleteRecordsRequest,
        DeleteRecordsTopic,
    )

    topic = topic_of(request)
    partition = partition_of(request, topic)
    wanted = DeleteRecordsPartition(
        partition_index=partition.index, offset=request.values["before"]
    )
    message = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic.name, partitions=[wanted])], timeout_ms=_TIMEOUT_MS
    )
    response = await ask(request, "DeleteRecords", message, node_id=partition.leader_id)
    result = response.topics[0].partitions[0]
    check(result.error_code, None, f"{topic.name}-{partition.index}")
    return {
        "topic": topic.name,
        "partition": partition.index,
        "start_offset": result.low_watermark,
    }
