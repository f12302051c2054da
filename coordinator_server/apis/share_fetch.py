"""ShareFetch: acquire records for a share group member and acknowledge earlier ones (KIP-932).

The share session defines the partitions, acknowledgements are applied first, and the response is
sent when both parts are done. Source: KafkaApis.handleShareFetchRequest.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.apis.share_acknowledgements import (
    fails_for_unknown_topic,
    leader_of,
    member_id_is_valid,
    valid_acknowledgements,
)
from coordinator_server.coordinator.share_request import (
    Acknowledgements,
    FetchPlan,
    ShareRequest,
)
from coordinator_server.core.share_partitions.acquire import AcquireMode
from coordinator_server.core.share_partitions.session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    PartitionKey,
    ShareSession,
    ShareSessionKey,
    next_epoch,
)
from coordinator_server.fetch.delayed_fetch import answer_bytes
from coordinator_server.fetch.purgatory import DelayedAnswer
from protocol.apis.share_fetch import (
    FetchedLeader,
    ShareFetchableTopicResponse,
    ShareFetchNodeEndpoint,
    ShareFetchRequest,
    ShareFetchResponse,
    SharePartitionData,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, MutableMapping, Sequence

    from coordinator_server.broker import Broker
    from coordinator_server.coordinator.delayed_share_fetch import Fetched
    from coordinator_server.coordinator.share_request import Outcomes
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps

_FIRST_VERSION_WITH_RENEWAL = 2
_ACQUIRE_MODES = frozenset(map(int, AcquireMode))


class _Context(NamedTuple):
    """A request with its share session.

    With an `error`, only the error is sent. Without a `session`, the response contains all
    partitions. `names` maps topic ids to the topic names that the session knows.
    """

    error: ErrorCode
    session: ShareSession | None = None
    partitions: Sequence[PartitionKey] = ()
    names: MutableMapping[bytes, str] | None = None


def handle(broker: Broker, call: Call, request: ShareFetchRequest) -> Steps:
    """Respond with the records that can be acquired, now or later."""
    group_id, member_id = request.group_id, request.member_id
    if group_id is None or member_id is None or not member_id_is_valid(member_id):
        call.reply(ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST))
        return
    renews = request.is_renew_ack and call.api_version >= _FIRST_VERSION_WITH_RENEWAL
    if renews and any(
        (request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms)
    ):  # a waiting fetch may outlast the acquisition locks that it renews (KIP-1222)
        call.reply(ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST))
        return
    has_acknowledgements = yield from _has_acknowledgements(request)
    key = ShareSessionKey(group_id, member_id)
    context = yield from _context_of(broker, call, key, request, has_acknowledgements)
    if context.error is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
        refusal = ShareFetchResponse(error_code=context.error)
        late = DelayedAnswer(call, _deadline_ms(broker, request), partial(call.reply, refusal))
        broker.fetch_purgatory.watch(late, [late])
        return
    if context.error is not ErrorCode.NONE:
        call.reply(ShareFetchResponse(error_code=context.error))
        return
    has_failed = has_acknowledgements and (
        yield from fails_for_unknown_topic(broker, call, request.topics)
    )
    if has_failed or (yield from _fails_for_unknown_topic(broker, call, context)):
        call.reply(ShareFetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
        return
    acknowledgements = Acknowledgements({}, {})
    if has_acknowledgements:
        acknowledgements = yield from valid_acknowledgements(
            broker,
            call,
            request.topics,
            knows_renewal=call.api_version >= _FIRST_VERSION_WITH_RENEWAL,
            renews=request.is_renew_ack,
        )
    plan = None if renews else (yield from _plan(broker, call, request, context))
    if plan and plan.partitions and request.share_acquire_mode not in _ACQUIRE_MODES:
        call.reply(ShareFetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
        plan = None  # as in Kafka, the acknowledgements are written although the fetch fails
    share_request = ShareRequest(
        broker.share_partitions,
        call,
        key,
        partial(_answer, broker, call, request, context),
        is_final=request.share_session_epoch == FINAL_EPOCH,
    )
    yield from share_request.serve(acknowledgements, plan)


def _has_acknowledgements(request: ShareFetchRequest) -> Generator[None, None, bool]:
    for topic in request.topics:
        for partition in topic.partitions:
            if partition.acknowledgement_batches:
                return True
            yield
    return False


def _context_of(
    broker: Broker,
    call: Call,
    key: ShareSessionKey,
    request: ShareFetchRequest,
    has_acknowledgements: bool,
) -> Generator[None, None, _Context]:
    """Look up, open or update the session of a request."""
    sessions = broker.share_partitions.sessions
    epoch = request.share_session_epoch
    if epoch == INITIAL_EPOCH:
        if has_acknowledgements:
            return _Context(ErrorCode.INVALID_REQUEST)
        partitions: dict[PartitionKey, bool] = {}
        for partition_key in _asked(request):
            if partition_key in partitions:  # Kafka removes the old session, then throws
                sessions.remove(key)
                return _Context(ErrorCode.UNKNOWN_SERVER_ERROR)
            partitions[partition_key] = False
            yield
        if call.connection.closed:  # the connection is closed, so nothing would close a new session
            return _Context(ErrorCode.SHARE_SESSION_NOT_FOUND)
        opened = sessions.open(key, partitions, call.connection)
        if opened is None:
            return _Context(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        return _Context(ErrorCode.NONE, None, list(partitions), opened.names)
    session = sessions.get(key)
    if session is None:
        return _Context(ErrorCode.SHARE_SESSION_NOT_FOUND)
    if epoch == FINAL_EPOCH:
        return _Context(ErrorCode.NONE)
    if session.epoch != epoch:
        return _Context(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    session.epoch = next_epoch(epoch)
    yield from session.update(_asked(request), _forgotten(request))
    return _Context(ErrorCode.NONE, session, list(session.partitions), session.names)


def _asked(request: ShareFetchRequest) -> Iterator[PartitionKey]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield topic.topic_id, partition.partition_index


def _forgotten(request: ShareFetchRequest) -> Iterator[PartitionKey]:
    for topic in request.forgotten_topics_data:
        for index in topic.partitions:
            yield topic.topic_id, index


def _fails_for_unknown_topic(
    broker: Broker, call: Call, context: _Context
) -> Generator[None, None, bool]:
    """Return whether a session with an unknown topic id makes the request fail, as in Kafka.

    This happens only with an authorizer.
    """
    if not call.rights.is_restricted:
        return False
    names = context.names or {}
    for topic_id, _ in context.partitions:
        if topic_id not in names and broker.topics.topic_by_id(topic_id) is None:
            return True
        yield
    return False


def _plan(
    broker: Broker, call: Call, request: ShareFetchRequest, context: _Context
) -> Generator[None, None, FetchPlan]:
    """Return the partitions of the session to fetch from, and the errors of all others."""
    errors: Fetched = {}
    wanted: list[PartitionKey] = []
    has_recreated = False
    rights = call.rights
    names = {} if context.names is None else context.names
    for key in context.partitions:
        topic = broker.topics.topic_by_id(key[0])
        if topic is not None:
            names[key[0]] = topic.name
        name = names.get(key[0])
        if name is None:
            errors[key] = _failed(key, ErrorCode.UNKNOWN_TOPIC_ID)
        elif not rights.allows(name):
            errors[key] = _failed(key, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        elif not 0 <= key[1] < broker.topics.partition_count(name):
            errors[key] = _failed(key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif topic is None:
            # The session still refers to the topic by name, but the topic was recreated with
            # another id. Kafka also returns UNKNOWN_SERVER_ERROR.
            errors[key] = _failed(key, ErrorCode.UNKNOWN_SERVER_ERROR)
            has_recreated = True
        else:
            wanted.append(key)
        yield
    reads_nothing = request.max_records == 0 or request.max_bytes == 0
    # If all topics of the fetch were recreated, Kafka waits on the deleted partitions and returns
    # the errors when the wait ends.
    only_waits = has_recreated and not wanted and not reads_nothing
    return FetchPlan(
        request, wanted, errors, _deadline_ms(broker, request), only_waits, reads_nothing
    )


def _deadline_ms(broker: Broker, request: ShareFetchRequest) -> int:
    return broker.client_clock.now_ms() + max(request.max_wait_ms, 0)


def _failed(key: PartitionKey, error: ErrorCode) -> SharePartitionData:
    return SharePartitionData(partition_index=key[1], error_code=error)


def _free(fetched: Fetched, named: Fetched) -> Steps:
    """Free the data of very many partitions in steps."""
    named.clear()
    while fetched:
        fetched.popitem()
        yield


def _answer(
    broker: Broker,
    call: Call,
    request: ShareFetchRequest,
    context: _Context,
    fetched: Fetched,
    outcomes: Outcomes,
) -> Steps:
    """Send the response to a request whose stages have all ended."""
    if call.answered:
        return
    settings = broker.share_partitions.settings_of(request.group_id or "")
    response = ShareFetchResponse(acquisition_lock_timeout_ms=settings.record_lock_duration_ms)
    session = context.session
    if session is not None and session.epoch != next_epoch(request.share_session_epoch):
        response.error_code = ErrorCode.INVALID_SHARE_SESSION_EPOCH
        fetched = {}
    if call.is_metered and call.must_throttle_fetch(answer_bytes(fetched.values())):
        # As in Kafka, records stay acquired and are redelivered after their locks expire.
        call.reply(ShareFetchResponse(error_code=response.error_code))
        return
    named: Fetched = {}
    for key, data in fetched.items():
        if session is None or session.has_news(
            key, has_records=bool(data.records), has_error=bool(data.error_code)
        ):
            named[key] = data
        yield
    _name_leaders(broker, call, response, named)
    for key, (error, message) in outcomes.items():
        data = named.setdefault(key, SharePartitionData(partition_index=key[1]))
        data.acknowledge_error_code = error
        data.acknowledge_error_message = message
        yield
    by_topic: dict[bytes, ShareFetchableTopicResponse] = {}
    for (topic_id, _), data in named.items():
        answered = by_topic.get(topic_id)
        if answered is None:
            answered = by_topic[topic_id] = ShareFetchableTopicResponse(topic_id=topic_id)
            response.responses.append(answered)
        answered.partitions.append(data)
        yield
    call.reply(response)
    yield from _free(fetched, named)


def _name_leaders(broker: Broker, call: Call, response: ShareFetchResponse, named: Fetched) -> None:
    """Add the current leaders of partitions that cannot be fetched from this broker (KIP-951)."""
    leaders: set[int] = set()
    for key, data in named.items():
        if data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            leader_id, epoch = leader_of(broker, key)
            data.current_leader = FetchedLeader(leader_id=leader_id, leader_epoch=epoch)
            leaders.add(leader_id)
    if leaders:
        response.node_endpoints = [
            ShareFetchNodeEndpoint(node_id=endpoint.node_id, host=endpoint.host, port=endpoint.port)
            for endpoint in broker.endpoints(call.connection)
            if endpoint.node_id in leaders
        ]
