"""kafka-broker-api-versions.sh: print the APIs of each broker (Kafka's BrokerApiVersionsCommand).

"usable" is the version that a client of Kafka's reference release would use. The tool does not
retry, because it often serves as a health check.
"""

from __future__ import annotations

from contextlib import closing

from coordinator_server.client import Client, ClientError, ClientSettings, parse_addresses
from coordinator_server.kafka_tools.frame import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    ToolError,
    ToolSpec,
    connect,
)
from coordinator_server.kafka_tools.java import log
from coordinator_server.kafka_tools.options import Options

OPTIONS = (
    BOOTSTRAP_SERVER._replace(argument="server(s) to use for bootstrapping"),
    COMMAND_CONFIG,
)
SETTINGS = ClientSettings(client_id="admin-1", request_timeout_ms=5_000)

APIS = (
    (0, "Produce", 3, 13),
    (1, "Fetch", 4, 18),
    (2, "ListOffsets", 1, 11),
    (3, "Metadata", 0, 13),
    (8, "OffsetCommit", 2, 10),
    (9, "OffsetFetch", 1, 10),
    (10, "FindCoordinator", 0, 6),
    (11, "JoinGroup", 0, 9),
    (12, "Heartbeat", 0, 4),
    (13, "LeaveGroup", 0, 5),
    (14, "SyncGroup", 0, 5),
    (15, "DescribeGroups", 0, 6),
    (16, "ListGroups", 0, 5),
    (17, "SaslHandshake", 0, 1),
    (18, "ApiVersions", 0, 5),
    (19, "CreateTopics", 2, 7),
    (20, "DeleteTopics", 1, 6),
    (21, "DeleteRecords", 0, 2),
    (22, "InitProducerId", 0, 6),
    (23, "OffsetForLeaderEpoch", 2, 4),
    (24, "AddPartitionsToTxn", 0, 5),
    (25, "AddOffsetsToTxn", 0, 4),
    (26, "EndTxn", 0, 5),
    (27, "WriteTxnMarkers", 1, 2),
    (28, "TxnOffsetCommit", 0, 6),
    (29, "DescribeAcls", 1, 3),
    (30, "CreateAcls", 1, 3),
    (31, "DeleteAcls", 1, 3),
    (32, "DescribeConfigs", 1, 4),
    (33, "AlterConfigs", 0, 2),
    (34, "AlterReplicaLogDirs", 1, 2),
    (35, "DescribeLogDirs", 1, 5),
    (36, "SaslAuthenticate", 0, 2),
    (37, "CreatePartitions", 0, 3),
    (38, "CreateDelegationToken", 1, 3),
    (39, "RenewDelegationToken", 1, 2),
    (40, "ExpireDelegationToken", 1, 2),
    (41, "DescribeDelegationToken", 1, 3),
    (42, "DeleteGroups", 0, 3),
    (43, "ElectLeaders", 0, 2),
    (44, "IncrementalAlterConfigs", 0, 1),
    (45, "AlterPartitionReassignments", 0, 1),
    (46, "ListPartitionReassignments", 0, 0),
    (47, "OffsetDelete", 0, 0),
    (48, "DescribeClientQuotas", 0, 1),
    (49, "AlterClientQuotas", 0, 1),
    (50, "DescribeUserScramCredentials", 0, 0),
    (51, "AlterUserScramCredentials", 0, 0),
    (55, "DescribeQuorum", 0, 2),
    (57, "UpdateFeatures", 0, 2),
    (60, "DescribeCluster", 0, 2),
    (61, "DescribeProducers", 0, 0),
    (64, "UnregisterBroker", 0, 0),
    (65, "DescribeTransactions", 0, 0),
    (66, "ListTransactions", 0, 2),
    (68, "ConsumerGroupHeartbeat", 0, 1),
    (69, "ConsumerGroupDescribe", 0, 1),
    (71, "GetTelemetrySubscriptions", 0, 0),
    (72, "PushTelemetry", 0, 0),
    (74, "ListConfigResources", 0, 1),
    (75, "DescribeTopicPartitions", 0, 0),
    (76, "ShareGroupHeartbeat", 1, 1),
    (77, "ShareGroupDescribe", 1, 1),
    (78, "ShareFetch", 1, 2),
    (79, "ShareAcknowledge", 1, 2),
    (80, "AddRaftVoter", 0, 1),
    (81, "RemoveRaftVoter", 0, 0),
    (83, "InitializeShareGroupState", 0, 0),
    (84, "ReadShareGroupState", 0, 0),
    (85, "WriteShareGroupState", 0, 1),
    (86, "DeleteShareGroupState", 0, 0),
    (87, "ReadShareGroupStateSummary", 0, 1),
    (88, "StreamsGroupHeartbeat", 0, 1),
    (89, "StreamsGroupDescribe", 0, 1),
    (90, "DescribeShareGroupOffsets", 0, 1),
    (91, "AlterShareGroupOffsets", 0, 0),
    (92, "DeleteShareGroupOffsets", 0, 0),
    (93, "StreamsGroupTopologyDescriptionUpdate", 0, 0),
    (94, "UnregisterController", 0, 0),
)
"""Key, name and version range of every API that a client of the reference release knows.

Kafka's ApiKeys.clientApis(); `protocol.registry` has only what this broker serves.
"""
OTHER_APIS = (
    (4, "LeaderAndIsr", 0, -1),
    (5, "StopReplica", 0, -1),
    (6, "UpdateMetadata", 0, -1),
    (7, "ControlledShutdown", 0, -1),
    (52, "Vote", 0, 2),
    (53, "BeginQuorumEpoch", 0, 1),
    (54, "EndQuorumEpoch", 0, 1),
    (56, "AlterPartition", 2, 3),
    (58, "Envelope", 0, 0),
    (59, "FetchSnapshot", 0, 1),
    (62, "BrokerRegistration", 0, 4),
    (63, "BrokerHeartbeat", 0, 2),
    (67, "AllocateProducerIds", 0, 0),
    (70, "ControllerRegistration", 0, 0),
    (73, "AssignReplicasToDirs", 0, 0),
    (82, "UpdateRaftVoter", 0, 0),
)
"""APIs between brokers and controllers that a broker may report; version -1 is a removed API."""


def run(options: Options) -> int:
    """Print the APIs of each broker of the cluster."""
    options.required("bootstrap-server")
    with closing(
        connect(options, name="LegacyAdminClient", failure=None, settings=SETTINGS)
    ) as client:
        print_versions(client, _brokers(client, options.value("bootstrap-server") or ""))
    return 0


def print_versions(client: Client, racks: dict[int, str | None]) -> None:
    """Print the APIs of the brokers whose racks are given by node id."""
    for node_id, rack in sorted(racks.items()):
        host, port = client.nodes[node_id]
        node = f"{host}:{port} (id: {node_id} rack: {rack or 'null'} isFenced: false)"
        try:
            versions = client.connection(node_id).api_versions
        except ClientError as error:
            print(f"{node} -> ERROR: {error}")
        else:
            print(f"{node} -> {_text(versions)}")


def _brokers(client: Client, bootstrap_servers: str) -> dict[int, str | None]:
    """Return the rack of each broker by node id. Raises ToolError if no broker responds."""
    try:
        return {broker.node_id: broker.rack for broker in client.metadata([]).brokers}
    except ClientError as error:
        nodes = [
            f"{host}:{port} (id: {-1 - index} rack: null isFenced: false)"
            for index, (host, port) in enumerate(parse_addresses(bootstrap_servers))
        ]
        for node in nodes:
            log(
                "WARN",
                f"[LegacyAdminClient clientId=admin-1] Bootstrap broker {node} disconnected",
                "org.apache.kafka.clients.NetworkClient",
            )
        message = f"Request METADATA failed on brokers [{', '.join(nodes)}]"
        raise ToolError("java.lang.RuntimeException", message) from error


def _text(served: dict[int, tuple[int, int]]) -> str:
    """Return a broker's APIs in the format of Kafka's NodeApiVersions."""
    lines = []
    for key, name, oldest, latest in (*APIS, *(api for api in OTHER_APIS if api[0] in served)):
        if key not in served:
            lines.append((key, f"{name}({key}): UNSUPPORTED"))
            continue
        low, high = served[key]
        if latest < low:
            usable = "unusable: node too new"
        elif high < oldest:
            usable = "unusable: node too old"
        else:
            usable = f"usable: {min(latest, high)}"
        lines.append((key, f"{name}({key}): {_range(low, high)} [{usable}]"))
    known = {api[0] for api in (*APIS, *OTHER_APIS)}
    for key, (low, high) in served.items():
        if key not in known:
            lines.append((key, f"UNKNOWN({key}): {_range(low, high)}"))
    return "(\n\t" + ",\n\t".join(line for _, line in sorted(lines)) + "\n)"


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


TOOL = ToolSpec(
    "kafka-broker-api-versions",
    OPTIONS,
    run,
    "This tool helps to retrieve broker version information.",
)
