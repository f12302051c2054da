"""The authorization table: the checks of each API, in Kafka's order.

Source: KafkaApis and ControllerApis. docs/authorizer.md documents the table; a test compares it
with `protocol.registry`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from itertools import chain
from typing import TYPE_CHECKING, Any

from coordinator_server.security.acl import AUTHORIZATION_FAILED, Operation, ResourceType
from coordinator_server.security.checks import (
    configs,
    lists,
    members,
    offsets,
    refusals,
    tokens,
    topics,
)
from coordinator_server.security.checks.check import AccessCheck, Row, Serve, Whole, each_topic
from coordinator_server.security.checks.entries import Entries, named_topic
from coordinator_server.topics.counts import Counts
from protocol.apis.alter_partition_reassignments import AlterPartitionReassignmentsResponse
from protocol.apis.join_group import JoinGroupResponse
from protocol.errors import ErrorCode
from protocol.registry import SPEC_BY_NAME
from protocol.schema import Message

if TYPE_CHECKING:
    from coordinator_server.security.checks.ports import CheckedCall

_TOPIC = ResourceType.TOPIC
_GROUP = ResourceType.GROUP
_CLUSTER = ResourceType.CLUSTER
_TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID

_EACH_TOPIC = "each topic"
_LEFT_OUT = "left out"
_NULL_PROTOCOL_NAME_SINCE = 7
_CLUSTER_REFUSED = AUTHORIZATION_FAILED[_CLUSTER].message


Answer = Generator[None, None, Message]


def _join_refusal(call: CheckedCall, request: Any, error: ErrorCode, message: str | None) -> Answer:
    """Return the JoinGroup error; the protocol name is null since v7, "" before (KIP-559)."""
    yield
    name = None if call.api_version >= _NULL_PROTOCOL_NAME_SINCE else ""
    return JoinGroupResponse(error_code=error, protocol_name=name)


def _bare(call: CheckedCall, request: Any, error: ErrorCode, message: str | None) -> Answer:
    """Return a response with only the top-level error."""
    yield
    make: Callable[..., Message] = SPEC_BY_NAME[call.api_name].response_type
    return (
        make(error_code=error) if message is None else make(error_code=error, error_message=message)
    )


def _without_entries(
    call: CheckedCall, request: Any, error: ErrorCode, message: str | None
) -> Answer:
    """Return the DescribeClientQuotas error with null entries."""
    yield
    return _response(call.api_name)(error_code=error, error_message=None, entries=None)


def _each_unnamed(call: CheckedCall, request: Any, error: ErrorCode, message: str | None) -> Answer:
    """Return the DescribeUserScramCredentials error, also for each user without its name."""
    results = []
    for _ in request.users or ():
        results.append(refusals.describe_user(error))
        yield
    return _response(call.api_name)(error_code=error, error_message=None, results=results)


def _each_user(call: CheckedCall, request: Any, error: ErrorCode, message: str | None) -> Answer:
    """Return the AlterUserScramCredentials error once for each distinct user."""
    counts: Counts[str] = Counts()
    results = []
    for change in chain(request.deletions, request.upsertions):
        if counts.add(change.name) == 1:
            results.append(refusals.alter_user(change.name, error, message))
        yield
    yield from counts.clear()
    return _response(call.api_name)(results=results)


def _each_reassignment(
    call: CheckedCall, request: Any, error: ErrorCode, message: str | None
) -> Answer:
    """Return the error for each partition, with the default of allow_replication_factor_change."""
    refused = yield from _each_entry(call, request, error, message)
    assert isinstance(refused, AlterPartitionReassignmentsResponse)
    refused.allow_replication_factor_change = True
    return refused


def _each_entry(call: CheckedCall, request: Any, error: ErrorCode, message: str | None) -> Answer:
    """Return the error for each entry of the request; without entries the response is empty."""
    answer = yield from call.error_response(error, message)
    return answer or _response(call.api_name)()


def _group(operation: Operation, message: str | None = None) -> Whole:
    return Whole(operation, _GROUP, "group_id", message)


def _cluster(operation: Operation, message: str | None = None) -> tuple[Whole, ...]:
    return (Whole(operation, _CLUSTER, None, message),)


def _request_needs(api: str, operation: Operation) -> tuple[Whole, ...]:
    return _cluster(operation, f"Request {api} needs {operation.name} permission.")


def _topics(operation: Operation, refused: str = "") -> AccessCheck:
    return AccessCheck(operation, _TOPIC, _EACH_TOPIC, refused)


def _name(broker: object, entry: Any) -> str:
    return str(entry.name)


def _topic_name(broker: object, entry: Any) -> str:
    return str(entry.topic_name)


def _row(
    entries: Entries,
    resource: str = _EACH_TOPIC,
    wholes: tuple[Whole, ...] = (),
    *,
    refuse: Any = None,
) -> Row:
    """Return a row that checks each entry, unless an operation on the cluster is allowed."""
    checks = [
        AccessCheck(operation, _CLUSTER, "kafka-cluster", "topics are asked")
        for operation in entries.unless
    ]
    checks.append(AccessCheck(entries.operation, entries.resource_type, resource))
    return Row(wholes, tuple(checks), entries.serve, refuse)


def _described_groups(serve: Serve, *, hides_topics: bool = True) -> Row:
    checks = [AccessCheck(Operation.DESCRIBE, _GROUP, "each group")]
    if hides_topics:
        checks.append(AccessCheck(Operation.DESCRIBE, _TOPIC, "each topic of the description"))
    return Row(checks=tuple(checks), serve=serve)


def _configs(operation: Operation, serve: Serve) -> Row:
    """Return a row for configs of topics, groups and brokers, by resource type."""
    checks = (
        AccessCheck(operation, _TOPIC, "a topic"),
        AccessCheck(operation, _GROUP, "a group"),
        AccessCheck(operation, _CLUSTER, "kafka-cluster, for a broker"),
    )
    return Row(checks=checks, serve=serve)


_SHARE_STATE = Row(_cluster(Operation.CLUSTER_ACTION, _CLUSTER_REFUSED))

TABLE: dict[str, Row] = {
    "ApiVersions": Row(),
    "SaslHandshake": Row(),
    "SaslAuthenticate": Row(),
    "GetTelemetrySubscriptions": Row(),
    "PushTelemetry": Row(),
    "Produce": Row(
        checks=(
            AccessCheck(Operation.WRITE, _TRANSACTIONAL_ID, "transactional_id, for such records"),
            _topics(Operation.WRITE),
        ),
        serve=members.produce,
    ),
    "Fetch": Row(
        checks=(
            AccessCheck(Operation.CLUSTER_ACTION, _CLUSTER, "kafka-cluster, for a follower"),
            _topics(Operation.READ),
        ),
        serve=topics.fetch,
    ),
    "ListOffsets": _row(Entries(Operation.DESCRIBE, _TOPIC, _name, refusals.list_offsets)),
    "Metadata": Row(
        checks=(
            _topics(Operation.DESCRIBE, "TOPIC_AUTHORIZATION_FAILED, or missing in a list of all"),
            AccessCheck(
                Operation.CREATE, _CLUSTER, "kafka-cluster, to create topics", "topics are asked"
            ),
            AccessCheck(Operation.CREATE, _TOPIC, "each topic that would be created"),
            AccessCheck(Operation.DESCRIBE, _CLUSTER, "kafka-cluster", "no authorized operations"),
        ),
        serve=topics.metadata,
    ),
    "OffsetCommit": _row(
        Entries(
            Operation.READ,
            _TOPIC,
            named_topic,
            refusals.offset_commit,
        ),
        wholes=(_group(Operation.READ),),
        refuse=_each_entry,
    ),
    "OffsetFetch": Row(
        checks=(
            AccessCheck(Operation.DESCRIBE, _GROUP, "each group"),
            _topics(Operation.DESCRIBE, "TOPIC_AUTHORIZATION_FAILED, or missing in a list of all"),
        ),
        serve=offsets.offset_fetch,
    ),
    "FindCoordinator": Row(
        checks=(
            AccessCheck(Operation.DESCRIBE, _GROUP, "each key that is a group"),
            AccessCheck(
                Operation.DESCRIBE, _TRANSACTIONAL_ID, "each key that is a transactional id"
            ),
            AccessCheck(Operation.CLUSTER_ACTION, _CLUSTER, "kafka-cluster, for share partitions"),
        ),
        serve=topics.find_coordinator,
    ),
    "JoinGroup": Row((_group(Operation.READ),), serve=members.join_group, refuse=_join_refusal),
    "Heartbeat": Row((_group(Operation.READ),), refuse=_bare),
    "LeaveGroup": Row((_group(Operation.READ),), refuse=_bare),
    "SyncGroup": Row(
        checks=(AccessCheck(Operation.READ, _GROUP, "group_id"),), serve=members.sync_group
    ),
    "DescribeGroups": _described_groups(lists.GROUPS.serve, hides_topics=False),
    "ListGroups": Row(
        checks=(
            AccessCheck(Operation.DESCRIBE, _CLUSTER, "kafka-cluster", "groups are asked"),
            AccessCheck(Operation.DESCRIBE, _GROUP, "each group", _LEFT_OUT),
        ),
        serve=lists.list_groups,
    ),
    "CreateTopics": Row(
        checks=(
            AccessCheck(Operation.CREATE, _CLUSTER, "kafka-cluster", "topics are asked"),
            _topics(Operation.CREATE),
            _topics(Operation.DESCRIBE_CONFIGS, "its configs are not told"),
        ),
        serve=topics.create_topics,
    ),
    "DeleteTopics": Row(
        checks=(
            AccessCheck(Operation.DELETE, _CLUSTER, "kafka-cluster", "topics are asked"),
            _topics(Operation.DESCRIBE),
            _topics(Operation.DELETE),
        ),
        serve=topics.delete_topics,
    ),
    "DeleteRecords": _row(Entries(Operation.DELETE, _TOPIC, _name, refusals.delete_records)),
    "InitProducerId": Row(
        checks=(
            AccessCheck(Operation.WRITE, _TRANSACTIONAL_ID, "transactional_id, if there is one"),
            AccessCheck(
                Operation.IDEMPOTENT_WRITE, _CLUSTER, "kafka-cluster, else", "topics are asked"
            ),
            AccessCheck(Operation.WRITE, _TOPIC, "any topic", "CLUSTER_AUTHORIZATION_FAILED"),
        ),
        serve=members.init_producer_id,
    ),
    "OffsetForLeaderEpoch": _row(
        Entries(
            Operation.DESCRIBE,
            _TOPIC,
            lambda broker, entry: str(entry.topic),
            refusals.offset_for_leader_epoch,
            unless=(Operation.CLUSTER_ACTION,),
        )
    ),
    "AddPartitionsToTxn": Row(
        checks=(
            AccessCheck(Operation.CLUSTER_ACTION, _CLUSTER, "kafka-cluster, from version 4"),
            AccessCheck(Operation.WRITE, _TRANSACTIONAL_ID, "transactional_id, before version 4"),
            AccessCheck(Operation.WRITE, _TOPIC, "each topic, before version 4"),
        ),
        serve=members.add_partitions_to_txn,
    ),
    "AddOffsetsToTxn": Row(
        (
            Whole(Operation.WRITE, _TRANSACTIONAL_ID, "transactional_id"),
            _group(Operation.READ),
        ),
        refuse=_bare,
    ),
    "EndTxn": Row((Whole(Operation.WRITE, _TRANSACTIONAL_ID, "transactional_id"),), refuse=_bare),
    "WriteTxnMarkers": Row(
        checks=(
            AccessCheck(Operation.ALTER, _CLUSTER, "kafka-cluster", "CLUSTER_ACTION is asked"),
            AccessCheck(Operation.CLUSTER_ACTION, _CLUSTER, "kafka-cluster"),
        ),
        serve=members.write_txn_markers,
    ),
    "TxnOffsetCommit": _row(
        Entries(
            Operation.READ,
            _TOPIC,
            named_topic,
            refusals.offset_commit,
        ),
        wholes=(
            Whole(Operation.WRITE, _TRANSACTIONAL_ID, "transactional_id"),
            _group(Operation.READ),
        ),
    ),
    "DescribeAcls": Row(_request_needs("DescribeAcls", Operation.DESCRIBE), refuse=_bare),
    "CreateAcls": Row(_request_needs("CreateAcls", Operation.ALTER)),
    "DeleteAcls": Row(_request_needs("DeleteAcls", Operation.ALTER)),
    "DescribeConfigs": _configs(Operation.DESCRIBE_CONFIGS, configs.describe_configs),
    "AlterConfigs": _configs(Operation.ALTER_CONFIGS, configs.alter_configs),
    "DescribeLogDirs": Row(_cluster(Operation.DESCRIBE), refuse=_bare),
    "AlterReplicaLogDirs": Row(_cluster(Operation.ALTER)),
    "CreatePartitions": _row(
        Entries(
            Operation.ALTER,
            _TOPIC,
            _name,
            refusals.create_partitions,
            passes_duplicates=True,
        )
    ),
    **tokens.ROWS,
    "DeleteGroups": _row(
        Entries(
            Operation.DELETE,
            _GROUP,
            lambda broker, entry: str(entry),
            refusals.delete_group,
            "groups_names",
        ),
        "each group",
    ),
    "ElectLeaders": Row(_request_needs("ElectLeaders", Operation.ALTER), refuse=_each_entry),
    "AlterPartitionReassignments": Row(
        _request_needs("AlterPartitionReassignments", Operation.ALTER), refuse=_each_reassignment
    ),
    "ListPartitionReassignments": Row(
        _request_needs("ListPartitionReassignments", Operation.DESCRIBE)
    ),
    "IncrementalAlterConfigs": _configs(Operation.ALTER_CONFIGS, configs.incremental_alter_configs),
    "OffsetDelete": _row(
        Entries(Operation.READ, _TOPIC, _name, refusals.offset_delete),
        wholes=(_group(Operation.DELETE),),
        refuse=_bare,
    ),
    "DescribeCluster": Row(
        checks=(
            AccessCheck(Operation.DESCRIBE, _CLUSTER, "kafka-cluster", "no authorized operations"),
        ),
        serve=lists.describe_cluster,
    ),
    "DescribeQuorum": Row(_cluster(Operation.DESCRIBE, _CLUSTER_REFUSED), refuse=_bare),
    "UpdateFeatures": Row(_request_needs("UpdateFeatures", Operation.ALTER), refuse=_bare),
    "UnregisterBroker": Row(_request_needs("UnregisterBroker", Operation.ALTER), refuse=_bare),
    "UnregisterController": Row(
        _request_needs("UnregisterController", Operation.ALTER), refuse=_bare
    ),
    "AddRaftVoter": Row(_cluster(Operation.ALTER, _CLUSTER_REFUSED), refuse=_bare),
    "RemoveRaftVoter": Row(_cluster(Operation.ALTER, _CLUSTER_REFUSED), refuse=_bare),
    "DescribeProducers": _row(
        Entries(
            Operation.READ,
            _TOPIC,
            topics.valid_name,
            refusals.describe_producers,
        )
    ),
    "DescribeTransactions": Row(
        checks=(
            AccessCheck(Operation.DESCRIBE, _TRANSACTIONAL_ID, "each transactional id"),
            _topics(Operation.DESCRIBE, _LEFT_OUT),
        ),
        serve=lists.describe_transactions,
    ),
    "ListTransactions": Row(
        checks=(
            AccessCheck(Operation.DESCRIBE, _TRANSACTIONAL_ID, "each transactional id", _LEFT_OUT),
        ),
        serve=lists.list_transactions,
    ),
    "ConsumerGroupHeartbeat": Row(
        (_group(Operation.READ),),
        (
            AccessCheck(Operation.DESCRIBE, _TOPIC, "each topic of the subscription"),
            AccessCheck(
                Operation.DESCRIBE, _TOPIC, "each topic that its expression matches", _LEFT_OUT
            ),
        ),
        members.consumer_group_heartbeat,
        _bare,
    ),
    "ConsumerGroupDescribe": _described_groups(lists.CONSUMER_GROUPS.serve),
    "ListConfigResources": Row(_cluster(Operation.DESCRIBE_CONFIGS), refuse=_bare),
    "DescribeTopicPartitions": Row(
        checks=(
            _topics(Operation.DESCRIBE, "TOPIC_AUTHORIZATION_FAILED, or missing in a list of all"),
        ),
        serve=each_topic(Operation.DESCRIBE),
    ),
    "ShareGroupHeartbeat": Row(
        (_group(Operation.READ),),
        (AccessCheck(Operation.DESCRIBE, _TOPIC, "each topic of the subscription"),),
        members.share_group_heartbeat,
        _bare,
    ),
    "ShareGroupDescribe": _described_groups(lists.SHARE_GROUPS.serve),
    "ShareFetch": Row(
        (_group(Operation.READ),), (_topics(Operation.READ),), each_topic(Operation.READ), _bare
    ),
    "ShareAcknowledge": Row(
        (_group(Operation.READ),), (_topics(Operation.READ),), each_topic(Operation.READ), _bare
    ),
    "InitializeShareGroupState": _SHARE_STATE,
    "ReadShareGroupState": _SHARE_STATE,
    "WriteShareGroupState": _SHARE_STATE,
    "DeleteShareGroupState": _SHARE_STATE,
    "ReadShareGroupStateSummary": _SHARE_STATE,
    "StreamsGroupHeartbeat": Row(
        (_group(Operation.READ),),
        (
            AccessCheck(Operation.DESCRIBE, _TOPIC, "each topic of the topology"),
            AccessCheck(
                Operation.CREATE, _CLUSTER, "kafka-cluster, to create topics", "topics are asked"
            ),
            AccessCheck(
                Operation.CREATE, _TOPIC, "each internal topic", "not created, and told so"
            ),
        ),
        members.streams_group_heartbeat,
        _bare,
    ),
    "StreamsGroupDescribe": _described_groups(lists.STREAMS_GROUPS.serve),
    "StreamsGroupTopologyDescriptionUpdate": Row((_group(Operation.READ),), refuse=_bare),
    "DescribeShareGroupOffsets": Row(
        checks=(
            AccessCheck(Operation.DESCRIBE, _GROUP, "each group"),
            _topics(Operation.DESCRIBE, "TOPIC_AUTHORIZATION_FAILED, or missing in a list of all"),
        ),
        serve=offsets.describe_share_group_offsets,
    ),
    "AlterShareGroupOffsets": Row(
        (_group(Operation.READ, AUTHORIZATION_FAILED[_GROUP].message),),
        (_topics(Operation.READ),),
        offsets.alter_share_group_offsets,
        _bare,
    ),
    "DeleteShareGroupOffsets": _row(
        Entries(
            Operation.READ,
            _TOPIC,
            _topic_name,
            refusals.delete_share_group_offsets,
        ),
        wholes=(_group(Operation.DELETE, AUTHORIZATION_FAILED[_GROUP].message),),
        refuse=_bare,
    ),
    # --- APIs of SASL and quotas ----------------------------------------------------------------
    "DescribeClientQuotas": Row(_cluster(Operation.DESCRIBE_CONFIGS), refuse=_without_entries),
    "AlterClientQuotas": Row(_cluster(Operation.ALTER_CONFIGS, _CLUSTER_REFUSED)),
    "DescribeUserScramCredentials": Row(_cluster(Operation.DESCRIBE), refuse=_each_unnamed),
    "AlterUserScramCredentials": Row(
        _request_needs("AlterUserScramCredentials", Operation.ALTER), refuse=_each_user
    ),
}
"""API name -> row."""


def _response(api: str) -> Callable[..., Message]:
    """Return the response type of an API, imported on first use."""
    return SPEC_BY_NAME[api].response_type
