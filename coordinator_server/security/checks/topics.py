"""Access checks of Metadata, CreateTopics, DeleteTopics and FindCoordinator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from coordinator_server.security.acl import (
    AUTHORIZATION_FAILED,
    Operation,
    ResourceType,
)
from coordinator_server.security.checks import refusals
from coordinator_server.security.checks.check import allows_everything
from coordinator_server.security.checks.entries import Entries
from coordinator_server.topics.names import is_internal, name_error
from protocol.apis.delete_topics import DeletableTopicResult, DeleteTopicState
from protocol.apis.find_coordinator import Coordinator, FindCoordinatorResponse
from protocol.apis.metadata import MetadataResponseTopic
from protocol.errors import ErrorCode
from protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from coordinator_server.security.checks.check import Asking
    from coordinator_server.steps import Steps
    from coordinator_server.topics.topic import Topic

_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_TOPIC_IDS_SINCE = 12
_REPLICA_STATE_SINCE = 15
_DELETE_BY_ID_SINCE = 6
_MANY_KEYS_SINCE = 4
# Indexed by the key type of FindCoordinator.
_COORDINATED = (ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
_SHARE = 2
_SHARE_SINCE = 6


def metadata(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Refuse named topics that the client may not describe; hide them in a list of all topics.

    Missing topics are auto-created only with CREATE on the cluster or on the topic.
    """
    access, asked = asking.access, request.topics
    version = asking.call.api_version
    is_all = asked is None or (version == 0 and not asked)
    if not is_all:
        for topic in asked:
            without_name = topic.name is None and (
                version < _TOPIC_IDS_SINCE or topic.topic_id == ZERO_UUID
            )
            if without_name or (version < _TOPIC_IDS_SINCE and topic.topic_id != ZERO_UUID):
                return True  # the handler will refuse the whole request
            yield
        yield from _asked_topics(asking, request)
    asking.rights.allowed = partial(access.unlogged.topic, Operation.DESCRIBE)
    return True


def _asked_topics(asking: Asking, request: Any) -> Steps:
    """Remove the refused topics. In the response, refused creations come before hidden topics."""
    access, topics = asking.access, asking.broker.topics
    by_id = any(topic.topic_id != ZERO_UUID for topic in request.topics)
    creates = (
        not by_id
        and request.allow_auto_topic_creation
        and asking.broker.config.boolean("auto.create.topics.enable")
        and not access.unlogged.cluster(Operation.CREATE)
    )
    left: list[Any] = []
    not_made: dict[str, MetadataResponseTopic] = {}
    hidden: dict[str, MetadataResponseTopic] = {}
    for topic in request.topics:
        known = topics.topic_by_id(topic.topic_id) if by_id else None
        name = topic.name if not by_id else None if known is None else known.name
        if name is None:
            left.append(topic)
        elif not access.topic(Operation.DESCRIBE, name):
            hidden[name] = MetadataResponseTopic(
                error_code=_REFUSED, name=None if by_id else name, topic_id=topic.topic_id
            )
        elif creates and topics.topic(name) is None and not access.topic(Operation.CREATE, name):
            not_made[name] = MetadataResponseTopic(
                error_code=_REFUSED, name=name, is_internal=is_internal(name)
            )
        else:
            left.append(topic)
        yield
    request.topics = left
    asking.rights.refused = dict(enumerate((*not_made.values(), *hidden.values())))


def fetch(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Let consumers read topics with READ; followers read all topics, with CLUSTER_ACTION."""
    access = asking.access
    has_state = asking.call.api_version >= _REPLICA_STATE_SINCE
    replica_id = request.replica_state.replica_id if has_state else request.replica_id

    def may_read(name: str | None) -> bool:
        # The handler returns an error for unknown ids.
        return name is None or access.topic(Operation.READ, name)

    if replica_id < 0:
        asking.rights.allowed = may_read
    elif access.cluster(Operation.CLUSTER_ACTION):
        asking.rights.allowed = allows_everything
    yield
    return True


def valid_name(broker: object, topic: Any) -> str | None:
    """Return a topic's name, or None if the name is invalid, which the handler reports."""
    return None if name_error(topic.name) is not None else str(topic.name)


_CREATIONS = Entries(
    Operation.CREATE,
    ResourceType.TOPIC,
    lambda broker, topic: None if topic.name == "__cluster_metadata" else str(topic.name),
    refusals.create_topic,
    unless=(Operation.CREATE,),
    passes_duplicates=True,
)


def create_topics(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Remove the topics that the client may not create; their configs need DESCRIBE_CONFIGS."""
    yield from _CREATIONS.serve(asking, request)
    asking.rights.allowed = partial(asking.access.unlogged.topic, Operation.DESCRIBE_CONFIGS)
    return True


def delete_topics(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Remove the topics that the client may not delete; existence is shown only with DESCRIBE."""
    if not asking.broker.config.boolean("delete.topic.enable") or asking.access.unlogged.cluster(
        Operation.DELETE
    ):
        return True
    by_state = asking.call.api_version >= _DELETE_BY_ID_SINCE
    field = "topics" if by_state else "topic_names"
    states = getattr(request, field)
    if not by_state:
        states = [DeleteTopicState(name=name) for name in states]
    names = Counter(state.name for state in states)
    ids = Counter(state.topic_id for state in states)
    left: list[Any] = []
    refused: dict[int, DeletableTopicResult] = {}
    for number, state in enumerate(states):
        is_odd = (state.name is None) == (state.topic_id == ZERO_UUID)
        is_twice = (ids[state.topic_id] if state.name is None else names[state.name]) > 1
        answer = None if is_odd or is_twice else _deletion_refusal(asking, state)
        if answer is None:
            left.append(state if by_state else state.name)
        else:
            refused[number] = answer
        yield
    setattr(request, field, left)
    asking.rights.refused = refused
    return True


def _deletion_refusal(asking: Asking, state: DeleteTopicState) -> DeletableTopicResult | None:
    """Return the refusal of a topic, or None.

    A request by id does not reveal the name of a topic that the client may not describe.
    """
    access, topics = asking.access, asking.broker.topics
    by_id = state.name is None
    topic: Topic | None
    topic = topics.topic_by_id(state.topic_id) if state.name is None else topics.topic(state.name)
    name = state.name if topic is None else topic.name
    if name is None:
        return None
    is_described = access.topic(Operation.DESCRIBE, name)
    if topic is None and is_described:
        return None  # the handler reports that the topic does not exist
    if access.topic(Operation.DELETE, name) and (by_id or is_described):
        return None
    return DeletableTopicResult(
        name=None if by_id and not is_described else name,
        topic_id=state.topic_id,
        error_code=_REFUSED,
        error_message=_REFUSED.message,
    )


def find_coordinator(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Remove the keys that the client may not describe; share partitions need CLUSTER_ACTION."""
    access, call = asking.access, asking.call
    key_type, version = request.key_type, call.api_version
    if key_type == _SHARE:
        if version >= _SHARE_SINCE and not access.cluster(Operation.CLUSTER_ACTION):
            error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            answers = [_no_coordinator(key, error) for key in request.coordinator_keys]
            call.reply(FindCoordinatorResponse(coordinators=answers))
            return False
        return True
    if not 0 <= key_type < len(_COORDINATED):
        return True
    resource_type = _COORDINATED[key_type]
    error = AUTHORIZATION_FAILED[resource_type]
    if version < _MANY_KEYS_SINCE:
        if not access.allows(Operation.DESCRIBE, resource_type, request.key):
            call.reply(
                FindCoordinatorResponse(
                    error_code=error, error_message=error.message, node_id=-1, port=-1
                )
            )
            return False
        return True
    refused: dict[int, Coordinator] = {}
    left: list[str] = []
    for number, key in enumerate(request.coordinator_keys):
        if access.allows(Operation.DESCRIBE, resource_type, key):
            left.append(key)
        else:
            refused[number] = _no_coordinator(key, error, message="")
        yield
    request.coordinator_keys = left
    asking.rights.refused = refused
    return True


def _no_coordinator(key: str, error: ErrorCode, message: str | None = None) -> Coordinator:
    return Coordinator(
        key=key,
        node_id=-1,
        port=-1,
        error_code=error,
        error_message=error.message if message is None else message,
    )
