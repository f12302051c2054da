"""Access checks of group member and producer requests."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from coordinator_server.security.acl import Operation, ResourceType
from coordinator_server.security.checks import refusals
from coordinator_server.security.checks.entries import Entries, named_topic
from coordinator_server.topics.topologies import topology_topics
from protocol.apis.add_partitions_to_txn import AddPartitionsToTxnResponse
from protocol.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from protocol.apis.produce import ProduceResponse
from protocol.apis.share_group_heartbeat import ShareGroupHeartbeatResponse
from protocol.apis.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from protocol.apis.sync_group import SyncGroupResponse
from protocol.batch_header import FLAGS_POSITION, MAGIC_POSITION, TRANSACTIONAL
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.security.checks.check import Asking, Serve
    from protocol.schema import Message

_BATCHED_SINCE = 4
_SYNC_PROTOCOL_SINCE = 5
_TOPIC_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _heartbeat(topics: Callable[[Any], Iterable[str]], response: Callable[..., Message]) -> Serve:
    """Return a check that refuses heartbeats with topics that the member may not describe."""

    def serve(asking: Asking, request: Any) -> Generator[None, None, bool]:
        for topic in topics(request):
            if not asking.access.topic(Operation.DESCRIBE, topic):
                asking.call.reply(response(error_code=_TOPIC_REFUSED))
                return False
            yield
        return True

    return serve


def _of_streams(request: Any) -> Iterable[str]:
    return () if request.topology is None else topology_topics(request.topology.subtopologies)


def _subscribed(request: Any) -> Iterable[str]:
    return request.subscribed_topic_names or ()


_consumer_heartbeat = _heartbeat(_subscribed, ConsumerGroupHeartbeatResponse)
share_group_heartbeat = _heartbeat(_subscribed, ShareGroupHeartbeatResponse)
_streams_heartbeat = _heartbeat(_of_streams, StreamsGroupHeartbeatResponse)


def streams_group_heartbeat(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Check the topics of the topology; missing internal topics are created only with CREATE."""
    access = asking.access

    def may_create(name: str) -> bool:
        return access.unlogged.cluster(Operation.CREATE) or access.topic(Operation.CREATE, name)

    asking.rights.allowed = may_create
    return (yield from _streams_heartbeat(asking, request))


def consumer_group_heartbeat(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Check the subscribed topics; a regex matches only topics that may be described."""
    asking.call.caller = asking.call.caller._replace(
        may_describe=partial(asking.access.unlogged.topic, Operation.DESCRIBE)
    )
    return (yield from _consumer_heartbeat(asking, request))


def join_group(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Allow the request; a subscription regex matches only topics that may be described."""
    yield
    asking.call.caller = asking.call.caller._replace(
        may_describe=partial(asking.access.unlogged.topic, Operation.DESCRIBE)
    )
    return True


def sync_group(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Check READ on the group, unless the protocol is missing: the handler then sends an error."""
    yield
    lacks_protocol = request.protocol_type is None or request.protocol_name is None
    if asking.call.api_version >= _SYNC_PROTOCOL_SINCE and lacks_protocol:
        return True
    is_allowed = asking.access.group(Operation.READ, request.group_id)
    if not is_allowed:
        error = ErrorCode.GROUP_AUTHORIZATION_FAILED
        asking.call.reply(SyncGroupResponse(error_code=error))
    return is_allowed


def init_producer_id(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Check WRITE on the transactional id; without one, WRITE on any topic or IDEMPOTENT_WRITE."""
    access, transactional_id = asking.access, request.transactional_id
    yield
    if transactional_id is not None:
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        is_allowed = access.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
    else:
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        # `any_of` does not log a denial, so only a denial of IDEMPOTENT_WRITE is logged.
        is_allowed = access.any_of(Operation.WRITE, ResourceType.TOPIC) or access.cluster(
            Operation.IDEMPOTENT_WRITE
        )
    if not is_allowed:
        asking.call.refuse(error)
    return is_allowed


def write_txn_markers(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Check ALTER or CLUSTER_ACTION on the cluster."""
    yield
    access = asking.access
    is_allowed = access.unlogged.cluster(Operation.ALTER) or access.cluster(
        Operation.CLUSTER_ACTION
    )
    if not is_allowed:
        asking.call.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return is_allowed


def add_partitions_to_txn(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Check CLUSTER_ACTION for brokers (batches), WRITE on the transactional id for clients.

    The handler asks about the topics of clients, because it fails all of them if one is refused.
    """
    call = asking.call
    yield
    if call.api_version >= _BATCHED_SINCE:
        if asking.access.cluster(Operation.CLUSTER_ACTION):
            return True
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        call.reply(AddPartitionsToTxnResponse(error_code=error))
        return False
    transactional_id = request.v3_and_below_transactional_id
    resource_type = ResourceType.TRANSACTIONAL_ID
    if asking.access.allows(Operation.WRITE, resource_type, transactional_id):
        asking.rights.allowed = partial(asking.access.topic, Operation.WRITE)
        return True
    call.refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return False


_PRODUCED = Entries(
    Operation.WRITE,
    ResourceType.TOPIC,
    named_topic,
    refusals.produce,
    "topic_data",
)


def produce(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Check WRITE on the transactional id, for transactional records, and on each topic.

    With acks=0 there is no response: the connection is closed, so that the producer notices.
    """
    call = asking.call
    if (yield from _is_transactional(request)):
        transactional_id = request.transactional_id
        if transactional_id is None or not asking.access.allows(
            Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
        ):
            error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            if request.acks:
                refused = []
                for topic in request.topic_data:
                    refused.append((yield from refusals.produce(topic, error)))
                call.reply(ProduceResponse(responses=refused))
            else:
                call.connection.refuse(f"acks=0 and {error.name}", call.api_name, call.api_version)
                call.reply_nothing()
            return False
    if request.acks:
        return (yield from _produced(asking, request))
    left = []
    for topic in request.topic_data:
        name = named_topic(asking.broker, topic)
        if name is None or asking.access.topic(Operation.WRITE, name):
            left.append(topic)
        yield
    if len(left) < len(request.topic_data):
        request.topic_data = left
        reason = f"acks=0 and {_TOPIC_REFUSED.name}"
        call.connection.refuse(reason, call.api_name, call.api_version)
    return True


def _produced(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Remove the topics that the client may not write; respond if no topic is left."""
    yield from _PRODUCED.serve(asking, request)
    refused = asking.rights.refused
    if refused and not request.topic_data:
        asking.call.reply(ProduceResponse(responses=list(refused.values())))
        return False
    return True


def _is_transactional(request: Any) -> Generator[None, None, bool]:
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if (
                records is not None
                and len(records) > FLAGS_POSITION
                and records[MAGIC_POSITION] == 2
                and records[FLAGS_POSITION] & TRANSACTIONAL
            ):
                return True
            yield
    return False
