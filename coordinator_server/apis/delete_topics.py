"""DeleteTopics: by name, from version 6 also by topic id. Internal topics can be deleted, as in
Kafka.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

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
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.topics.manager import Topic


def handle(broker: Broker, call: Call, request: DeleteTopicsRequest) -> None:
    """Answer with one result per topic; what is ambiguous is refused (Kafka's ControllerApis)."""
    asked = request.topics
    if call.api_version < 6:
        asked = [DeleteTopicState(name=name) for name in request.topic_names]
    if not broker.config.boolean("delete.topic.enable"):
        disabled = ErrorCode.TOPIC_DELETION_DISABLED
        code = disabled if call.api_version >= 3 else ErrorCode.INVALID_REQUEST
        results = [_refusal(state, code, code.message) for state in asked]
    else:
        results = _delete(broker, asked)
    call.reply(DeleteTopicsResponse(responses=results))


def _delete(broker: Broker, asked: list[DeleteTopicState]) -> list[DeletableTopicResult]:
    names = Counter(state.name for state in asked)
    ids = Counter(state.topic_id for state in asked)
    clear: list[DeleteTopicState] = []
    refused: dict[tuple[str | None, bytes], DeletableTopicResult] = {}
    for state in asked:
        message = _ambiguity(state, names, ids)
        if message is None:
            clear.append(state)
        else:
            refused[state.name, state.topic_id] = _refusal(
                state, ErrorCode.INVALID_REQUEST, message
            )
    found = [_find(broker, state) for state in clear]
    meant = Counter(topic for topic in found if topic is not None)
    results: list[DeletableTopicResult] = []
    for state, topic in zip(clear, found, strict=True):
        # Looked up again: when the offsets topic goes, parked requests are answered, and the next
        # requests of their clients are handled at once.
        if topic is None or broker.topics.topic_by_id(topic.topic_id) is None:
            by_id = state.name is None
            code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            results.append(_refusal(state, code, code.message))
        elif meant[topic] == 1:
            results.append(_delete_one(broker, topic))
        else:
            both = DeleteTopicState(name=topic.name, topic_id=topic.topic_id)
            message = "The provided topic name maps to an ID that was already supplied."
            refused[topic.name, topic.topic_id] = _refusal(both, ErrorCode.INVALID_REQUEST, message)
    return results + list(refused.values())


def _find(broker: Broker, state: DeleteTopicState) -> Topic | None:
    if state.name is not None:
        return broker.topics.topic(state.name)
    return broker.topics.topic_by_id(state.topic_id)


def _delete_one(broker: Broker, topic: Topic) -> DeletableTopicResult:
    result = DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)
    try:
        broker.topics.delete(topic)
    except StorageError as error:
        result.error_code = error.code
        result.error_message = error.message
    return result


def _ambiguity(
    state: DeleteTopicState, names: Counter[str | None], ids: Counter[bytes]
) -> str | None:
    """Why it is not clear what shall be deleted; None when it is."""
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
