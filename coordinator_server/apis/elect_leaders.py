"""ElectLeaders: elect the preferred replica, or any running replica (KIP-183, KIP-460).

Source: Kafka's ReplicationControlManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.net.error_response import Failure, error_response_steps
from coordinator_server.topics.leadership import NOBODY
from coordinator_server.topics.manager import MAX_RECORDS_PER_REQUEST, TOO_MANY_RECORDS
from protocol.apis.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from coordinator_server.topics.topic import Partition, Topic

    Error = tuple[ErrorCode, str | None]

_PREFERRED, _UNCLEAN = 0, 1
_NOT_AVAILABLE = {
    _PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    _UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


def handle(broker: Broker, call: Call, request: ElectLeadersRequest) -> Steps:
    """Respond with one result per named partition.

    A request for all partitions gets results only for partitions that needed an election.
    """
    kind = request.election_type
    if request.topic_partitions == []:
        call.reply(ElectLeadersResponse())
        return
    if request.timeout_ms <= 0:
        yield from _refused(call, request, ErrorCode.REQUEST_TIMED_OUT)
        return
    if kind not in _NOT_AVAILABLE:
        yield from _refused(
            call, request, ErrorCode.INVALID_REQUEST, f"Unknown election type {kind}"
        )
        return
    elections = 0
    for name, indexes in _wanted(broker, request):
        for index in indexes:
            elections += _error(broker, name, index, kind) is None
            yield
        yield
    if elections > MAX_RECORDS_PER_REQUEST:
        yield from _refused(call, request, ErrorCode.POLICY_VIOLATION, TOO_MANY_RECORDS)
        return
    response = ElectLeadersResponse()
    elected: dict[Topic, list[PartitionResult]] = {}
    for name, indexes in _wanted(broker, request):
        answered = ReplicaElectionResult(topic=name)
        response.replica_election_results.append(answered)
        for index in indexes:
            yield
            result = PartitionResult(partition_id=index)
            error = _error(broker, name, index, kind)
            if error is None:
                topic = broker.topics.topic(name)
                assert topic is not None
                partition = topic.partitions[index]
                broker.topics.leadership.lead(partition, _candidate(broker, partition, kind))
                elected.setdefault(topic, []).append(result)
            elif request.topic_partitions is None and error[0] is ErrorCode.ELECTION_NOT_NEEDED:
                continue
            else:
                result.error_code, result.error_message = error
            answered.partition_result.append(result)
        yield
    if elected:
        yield from broker.topics.keep_leaders(elected)
    call.reply(response)


def _refused(
    call: Call, request: ElectLeadersRequest, error: ErrorCode, message: str | None = None
) -> Steps:
    """Send the error for each partition, or an empty response if all partitions were requested."""
    steps = error_response_steps(
        ElectLeadersResponse, request, call.api_version, Failure(error, message)
    )
    call.reply((yield from steps) or ElectLeadersResponse())


def _wanted(broker: Broker, request: ElectLeadersRequest) -> Iterator[tuple[str, Iterable[int]]]:
    """Yield each requested topic name with its partition indexes."""
    if request.topic_partitions is None:
        for topic in broker.topics.listed_topics():
            yield topic.name, range(len(topic.partitions))
    else:
        for named in request.topic_partitions:
            yield named.topic, named.partitions


def _error(broker: Broker, name: str, index: int, kind: int) -> Error | None:
    """Return None if a leader can be elected for the partition, otherwise the error."""
    topic = broker.topics.topic(name)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
    if not 0 <= index < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
    partition = topic.partitions[index]
    if kind == _PREFERRED:
        is_needed = partition.leader_id != partition.replicas[0]
    else:
        is_needed = partition.leader_id == NOBODY
    error = ErrorCode.ELECTION_NOT_NEEDED
    if is_needed:
        if _candidate(broker, partition, kind) != NOBODY:
            return None
        error = _NOT_AVAILABLE[kind]
    return error, error.message


def _candidate(broker: Broker, partition: Partition, kind: int) -> int:
    return broker.topics.leadership.candidate(partition, is_unclean=kind == _UNCLEAN)
