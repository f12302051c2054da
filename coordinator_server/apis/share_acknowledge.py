"""ShareAcknowledge: acknowledge records of a share group without fetching (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.apis.share_acknowledgements import (
    fails_for_unknown_topic,
    leader_of,
    member_id_is_valid,
    valid_acknowledgements,
)
from coordinator_server.coordinator.share_request import ShareRequest
from coordinator_server.core.share_partitions.session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    ShareSessionKey,
    next_epoch,
)
from protocol.apis.share_acknowledge import (
    AcknowledgedLeader,
    AcknowledgedPartition,
    ShareAcknowledgeNodeEndpoint,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.coordinator.share_request import Outcomes
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps

_FIRST_VERSION_WITH_RENEWAL = 2


def handle(broker: Broker, call: Call, request: ShareAcknowledgeRequest) -> Steps:
    """Respond once all acknowledgements are written or refused."""
    group_id, member_id = request.group_id, request.member_id
    if group_id is None or member_id is None or not member_id_is_valid(member_id):
        call.reply(ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_REQUEST))
        return
    key = ShareSessionKey(group_id, member_id)
    error = _next_request(broker, key, request.share_session_epoch)
    if error is not ErrorCode.NONE:
        call.reply(ShareAcknowledgeResponse(error_code=error))
        return
    if (yield from fails_for_unknown_topic(broker, call, request.topics)):
        call.reply(ShareAcknowledgeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
        return
    acknowledgements = yield from valid_acknowledgements(
        broker,
        call,
        request.topics,
        knows_renewal=call.api_version >= _FIRST_VERSION_WITH_RENEWAL,
        renews=request.is_renew_ack,
    )
    share_request = ShareRequest(
        broker.share_partitions,
        call,
        key,
        lambda _, outcomes: _answer(broker, call, key, outcomes),
        is_final=request.share_session_epoch == FINAL_EPOCH,
    )
    yield from share_request.serve(acknowledgements, None)


def _next_request(broker: Broker, key: ShareSessionKey, epoch: int) -> ErrorCode:
    """Check the session epoch of a request, and advance it; return the error or NONE."""
    if epoch == INITIAL_EPOCH:  # only ShareFetch can open a session
        return ErrorCode.INVALID_SHARE_SESSION_EPOCH
    session = broker.share_partitions.sessions.get(key)
    if session is None:
        return ErrorCode.SHARE_SESSION_NOT_FOUND
    if epoch != FINAL_EPOCH:
        if session.epoch != epoch:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        session.epoch = next_epoch(epoch)
    return ErrorCode.NONE


def _answer(broker: Broker, call: Call, key: ShareSessionKey, outcomes: Outcomes) -> Steps:
    settings = broker.share_partitions.settings_of(key.group_id)
    response = ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=settings.record_lock_duration_ms
    )
    by_topic: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    leaders: set[int] = set()
    for (topic_id, index), (error, message) in outcomes.items():
        answered = by_topic.get(topic_id)
        if answered is None:
            answered = by_topic[topic_id] = ShareAcknowledgeTopicResponse(topic_id=topic_id)
            response.responses.append(answered)
        data = AcknowledgedPartition(partition_index=index, error_code=error, error_message=message)
        if error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            leader_id, epoch = leader_of(broker, (topic_id, index))
            data.current_leader = AcknowledgedLeader(leader_id=leader_id, leader_epoch=epoch)
            leaders.add(leader_id)
        answered.partitions.append(data)
        yield
    if leaders:
        response.node_endpoints = [
            ShareAcknowledgeNodeEndpoint(
                node_id=endpoint.node_id, host=endpoint.host, port=endpoint.port
            )
            for endpoint in broker.endpoints(call.connection)
            if endpoint.node_id in leaders
        ]
    call.reply(response)
