"""DeleteTopics: delete topics by name, from version 6 on also by topic id.

Internal topics can be deleted, as in Kafka.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from coordinator_server.topics.counts import Counts
from coordinator_server.topics.manager import MAX_RECORDS_PER_REQUEST
from protocol.apis.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from protocol.errors import ErrorCode
from protocol.schema import ZERO_UUID
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from coordinator_server.topics.topic import Topic


def handle(broker: Broker, call: Call, request: DeleteTopicsRequest) -> Steps:
    """Respond with one result per topic; ambiguous entries are refused (ControllerApis)."""
    asked: Iterable[DeleteTopicState] = request.topics
    if call.api_version < 6:
        asked = (DeleteTopicState(name=name) for name in request.topic_names)
    if broker.config.boolean("delete.topic.enable"):
        yield from _delete(broker, call, list(asked))
        return
    code = ErrorCode.TOPIC_DELETION_DISABLED if call.api_version >= 3 else ErrorCode.INVALID_REQUEST
    refusals = []
    for state in asked:
        refusals.append(_refusal(state, code, code.message))
        yield
    call.reply(DeleteTopicsResponse(responses=refusals))


def _delete(broker: Broker, call: Call, asked: list[DeleteTopicState]) -> Steps:
    names: Counts[str | None] = Counts()
    ids: Counts[bytes] = Counts()
    for state in asked:
        names.add(state.name)
        ids.add(state.topic_id)
        yield
    clear: deque[tuple[DeleteTopicState, Topic | None]] = deque()
    topic_counts: Counts[Topic | None] = Counts()
    results: list[DeletableTopicResult] = []
    refused: list[DeletableTopicResult] = []
    refused_keys: Counts[tuple[str | None, bytes]] = Counts()
    for state in asked:
        message = _ambiguity(state, names, ids)
        if message is None:
            topic = _find(broker, state)
            clear.append((state, topic))
            topic_counts.add(topic)
        elif refused_keys.add((state.name, state.topic_id)) == 1:
            refused.append(_refusal(state, ErrorCode.INVALID_REQUEST, message))
        yield
    deleted: dict[Topic, DeletableTopicResult] = {}
    while clear:
        state, topic = clear.popleft()
        if topic is None:
            by_id = state.name is None
            code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            results.append(_refusal(state, code, code.message))
        elif topic_counts[topic] > 1:
            if refused_keys.add((topic.name, topic.topic_id)) == 1:
                full_state = DeleteTopicState(name=topic.name, topic_id=topic.topic_id)
                message = "The provided topic name maps to an ID that was already supplied."
                refused.append(_refusal(full_state, ErrorCode.INVALID_REQUEST, message))
        else:
            result = DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)
            results.append(result)
            if not call.may_change_partitions(len(topic.partitions)):
                result.error_code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
                result.error_message = ErrorCode.THROTTLING_QUOTA_EXCEEDED.message
            elif len(deleted) < MAX_RECORDS_PER_REQUEST:
                deleted[topic] = result
            else:
                # As in Kafka, this error has no message.
                result.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
        yield
    yield from _delete_found(broker, deleted)
    for result in refused:
        results.append(result)
        yield
    call.reply(DeleteTopicsResponse(responses=call.rights.after(results)))
    for counts in (names, ids, topic_counts, refused_keys):
        yield from counts.clear()


def _delete_found(broker: Broker, results: dict[Topic, DeletableTopicResult]) -> Steps:
    """Delete these topics, except topics that another request has deleted meanwhile."""
    topics: list[Topic] = []
    for topic, result in results.items():
        if broker.topics.topic(topic.name) is topic:
            topics.append(topic)
        else:
            result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            result.error_message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message
    try:
        if topics:
            broker.recent_deletions.add(topic.name for topic in topics)
            yield from broker.topics.delete(topics)
    except StorageError as error:
        for topic in topics:
            results[topic].error_code, results[topic].error_message = error.code, error.message


def _find(broker: Broker, state: DeleteTopicState) -> Topic | None:
    if state.name is not None:
        return broker.topics.topic(state.name)
    return broker.topics.topic_by_id(state.topic_id)


def _ambiguity(
    state: DeleteTopicState, names: Counts[str | None], ids: Counts[bytes]
) -> str | None:
    """Return the message if an entry is ambiguous, or None."""
    if state.name is None:
        if state.topic_id == ZERO_UUID:
            return "Neither topic name nor id were specified."
        return "Duplicate topic id." if ids[state.topic_id] > 1 else None
    if state.topic_id != ZERO_UUID:
        return "You may not specify both topic name and topic id."
    return "Duplicate topic name." if names[state.name] > 1 else None


def _refusal(state: DeleteTopicState, code: ErrorCode, message: str) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=state.name, topic_id=state.topic_id, error_code=code, error_message=message
    )
