"""The supported APIs with keys, versions and header versions. ApiVersions advertises `SPECS`.

The table is static: the declarations in `protocol.apis` are imported when an API is first used, to
keep the start of the broker fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from protocol.schema import Message

API_VERSIONS_KEY = 18
SASL_HANDSHAKE_KEY = 17
SASL_AUTHENTICATE_KEY = 36


class ApiSpec:
    """A supported API: Kafka's key and name, the version range, and the flexible versions.

    `stem` is the module name in `protocol.apis`. A `*_flexible_since` of None means that no version
    is flexible.
    """

    __slots__ = (
        "_request_type",
        "_response_type",
        "key",
        "max_version",
        "min_version",
        "name",
        "request_flexible_since",
        "response_flexible_since",
        "stem",
    )

    def __init__(
        self,
        key: int,
        name: str,
        stem: str,
        min_version: int,
        max_version: int,
        request_flexible_since: int | None,
        response_flexible_since: int | None,
    ) -> None:
        self.key = key
        self.name = name
        self.stem = stem
        self.min_version = min_version
        self.max_version = max_version
        self.request_flexible_since = request_flexible_since
        self.response_flexible_since = response_flexible_since
        self._request_type: type[Message] | None = None
        self._response_type: type[Message] | None = None

    def __repr__(self) -> str:
        return f"ApiSpec({self.key}, {self.name}, {self.min_version}-{self.max_version})"

    @property
    def constant(self) -> str:
        """The name of the API in Kafka's ApiKeys, such as "SASL_HANDSHAKE"."""
        return self.stem.upper()

    def supports(self, version: int) -> bool:
        """Return whether `version` is supported."""
        return self.min_version <= version <= self.max_version

    def request_header_version(self, version: int) -> int:
        """Return 2 for flexible requests, else 1 (Kafka 4.0 removed version 0)."""
        since = self.request_flexible_since
        return 2 if since is not None and version >= since else 1

    def response_header_version(self, version: int) -> int:
        """Return 1 for flexible responses, else 0.

        ApiVersions responses always use 0, so that any client can read them.
        """
        since = self.response_flexible_since
        if since is None or version < since or self.key == API_VERSIONS_KEY:
            return 0
        return 1

    @property
    def request_type(self) -> type[Message]:
        """The request's Message class; imports its module on first use."""
        if self._request_type is None:
            self._request_type = self._load("Request")
        return self._request_type

    @property
    def response_type(self) -> type[Message]:
        """The response's Message class; imports its module on first use."""
        if self._response_type is None:
            self._response_type = self._load("Response")
        return self._response_type

    def _load(self, side: str) -> type[Message]:
        module = import_module(f"protocol.apis.{self.stem}")
        return cast("type[Message]", getattr(module, self.name + side))


SPECS: tuple[ApiSpec, ...] = (
    ApiSpec(0, "Produce", "produce", 3, 13, 9, 9),
    ApiSpec(1, "Fetch", "fetch", 4, 18, 12, 12),
    ApiSpec(2, "ListOffsets", "list_offsets", 1, 11, 6, 6),
    ApiSpec(3, "Metadata", "metadata", 0, 13, 9, 9),
    ApiSpec(8, "OffsetCommit", "offset_commit", 2, 10, 8, 8),
    ApiSpec(9, "OffsetFetch", "offset_fetch", 1, 10, 6, 6),
    ApiSpec(10, "FindCoordinator", "find_coordinator", 0, 6, 3, 3),
    ApiSpec(11, "JoinGroup", "join_group", 0, 9, 6, 6),
    ApiSpec(12, "Heartbeat", "heartbeat", 0, 4, 4, 4),
    ApiSpec(13, "LeaveGroup", "leave_group", 0, 5, 4, 4),
    ApiSpec(14, "SyncGroup", "sync_group", 0, 5, 4, 4),
    ApiSpec(15, "DescribeGroups", "describe_groups", 0, 6, 5, 5),
    ApiSpec(16, "ListGroups", "list_groups", 0, 5, 3, 3),
    ApiSpec(17, "SaslHandshake", "sasl_handshake", 0, 1, None, None),
    ApiSpec(18, "ApiVersions", "api_versions", 0, 5, 3, 3),
    ApiSpec(19, "CreateTopics", "create_topics", 2, 7, 5, 5),
    ApiSpec(20, "DeleteTopics", "delete_topics", 1, 6, 4, 4),
    ApiSpec(21, "DeleteRecords", "delete_records", 0, 2, 2, 2),
    ApiSpec(22, "InitProducerId", "init_producer_id", 0, 5, 2, 2),
    ApiSpec(23, "OffsetForLeaderEpoch", "offset_for_leader_epoch", 2, 4, 4, 4),
    ApiSpec(24, "AddPartitionsToTxn", "add_partitions_to_txn", 0, 5, 3, 3),
    ApiSpec(25, "AddOffsetsToTxn", "add_offsets_to_txn", 0, 4, 3, 3),
    ApiSpec(26, "EndTxn", "end_txn", 0, 5, 3, 3),
    ApiSpec(27, "WriteTxnMarkers", "write_txn_markers", 1, 2, 1, 1),
    ApiSpec(28, "TxnOffsetCommit", "txn_offset_commit", 0, 6, 3, 3),
    ApiSpec(29, "DescribeAcls", "describe_acls", 1, 3, 2, 2),
    ApiSpec(30, "CreateAcls", "create_acls", 1, 3, 2, 2),
    ApiSpec(31, "DeleteAcls", "delete_acls", 1, 3, 2, 2),
    ApiSpec(32, "DescribeConfigs", "describe_configs", 1, 4, 4, 4),
    ApiSpec(33, "AlterConfigs", "alter_configs", 0, 2, 2, 2),
    ApiSpec(34, "AlterReplicaLogDirs", "alter_replica_log_dirs", 1, 2, 2, 2),
    ApiSpec(35, "DescribeLogDirs", "describe_log_dirs", 1, 5, 2, 2),
    ApiSpec(36, "SaslAuthenticate", "sasl_authenticate", 0, 2, 2, 2),
    ApiSpec(37, "CreatePartitions", "create_partitions", 0, 3, 2, 2),
    ApiSpec(38, "CreateDelegationToken", "create_delegation_token", 1, 3, 2, 2),
    ApiSpec(39, "RenewDelegationToken", "renew_delegation_token", 1, 2, 2, 2),
    ApiSpec(40, "ExpireDelegationToken", "expire_delegation_token", 1, 2, 2, 2),
    ApiSpec(41, "DescribeDelegationToken", "describe_delegation_token", 1, 3, 2, 2),
    ApiSpec(42, "DeleteGroups", "delete_groups", 0, 3, 2, 2),
    ApiSpec(43, "ElectLeaders", "elect_leaders", 0, 2, 2, 2),
    ApiSpec(44, "IncrementalAlterConfigs", "incremental_alter_configs", 0, 1, 1, 1),
    ApiSpec(45, "AlterPartitionReassignments", "alter_partition_reassignments", 0, 1, 0, 0),
    ApiSpec(46, "ListPartitionReassignments", "list_partition_reassignments", 0, 0, 0, 0),
    ApiSpec(47, "OffsetDelete", "offset_delete", 0, 0, None, None),
    ApiSpec(48, "DescribeClientQuotas", "describe_client_quotas", 0, 1, 1, 1),
    ApiSpec(49, "AlterClientQuotas", "alter_client_quotas", 0, 1, 1, 1),
    ApiSpec(50, "DescribeUserScramCredentials", "describe_user_scram_credentials", 0, 0, 0, 0),
    ApiSpec(51, "AlterUserScramCredentials", "alter_user_scram_credentials", 0, 0, 0, 0),
    ApiSpec(55, "DescribeQuorum", "describe_quorum", 0, 2, 0, 0),
    ApiSpec(57, "UpdateFeatures", "update_features", 0, 2, 0, 0),
    ApiSpec(60, "DescribeCluster", "describe_cluster", 0, 2, 0, 0),
    ApiSpec(61, "DescribeProducers", "describe_producers", 0, 0, 0, 0),
    ApiSpec(64, "UnregisterBroker", "unregister_broker", 0, 0, 0, 0),
    ApiSpec(65, "DescribeTransactions", "describe_transactions", 0, 0, 0, 0),
    ApiSpec(66, "ListTransactions", "list_transactions", 0, 2, 0, 0),
    ApiSpec(68, "ConsumerGroupHeartbeat", "consumer_group_heartbeat", 0, 1, 0, 0),
    ApiSpec(69, "ConsumerGroupDescribe", "consumer_group_describe", 0, 1, 0, 0),
    ApiSpec(71, "GetTelemetrySubscriptions", "get_telemetry_subscriptions", 0, 0, 0, 0),
    ApiSpec(72, "PushTelemetry", "push_telemetry", 0, 0, 0, 0),
    ApiSpec(74, "ListConfigResources", "list_config_resources", 0, 1, 0, 0),
    ApiSpec(75, "DescribeTopicPartitions", "describe_topic_partitions", 0, 0, 0, 0),
    ApiSpec(76, "ShareGroupHeartbeat", "share_group_heartbeat", 1, 1, 1, 1),
    ApiSpec(77, "ShareGroupDescribe", "share_group_describe", 1, 1, 1, 1),
    ApiSpec(78, "ShareFetch", "share_fetch", 1, 2, 1, 1),
    ApiSpec(79, "ShareAcknowledge", "share_acknowledge", 1, 2, 1, 1),
    ApiSpec(80, "AddRaftVoter", "add_raft_voter", 0, 1, 0, 0),
    ApiSpec(81, "RemoveRaftVoter", "remove_raft_voter", 0, 0, 0, 0),
    ApiSpec(83, "InitializeShareGroupState", "initialize_share_group_state", 0, 0, 0, 0),
    ApiSpec(84, "ReadShareGroupState", "read_share_group_state", 0, 0, 0, 0),
    ApiSpec(85, "WriteShareGroupState", "write_share_group_state", 0, 1, 0, 0),
    ApiSpec(86, "DeleteShareGroupState", "delete_share_group_state", 0, 0, 0, 0),
    ApiSpec(87, "ReadShareGroupStateSummary", "read_share_group_state_summary", 0, 1, 0, 0),
    ApiSpec(88, "StreamsGroupHeartbeat", "streams_group_heartbeat", 0, 1, 0, 0),
    ApiSpec(89, "StreamsGroupDescribe", "streams_group_describe", 0, 1, 0, 0),
    ApiSpec(90, "DescribeShareGroupOffsets", "describe_share_group_offsets", 0, 1, 0, 0),
    ApiSpec(91, "AlterShareGroupOffsets", "alter_share_group_offsets", 0, 0, 0, 0),
    ApiSpec(92, "DeleteShareGroupOffsets", "delete_share_group_offsets", 0, 0, 0, 0),
    ApiSpec(
        93,
        "StreamsGroupTopologyDescriptionUpdate",
        "streams_group_topology_description_update",
        0,
        0,
        0,
        0,
    ),
    ApiSpec(94, "UnregisterController", "unregister_controller", 0, 0, 0, 0),
)

SPEC_BY_KEY: dict[int, ApiSpec] = {spec.key: spec for spec in SPECS}
SPEC_BY_NAME: dict[str, ApiSpec] = {spec.name: spec for spec in SPECS}
