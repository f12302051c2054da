"""Cases of APIs for the cluster, its users, quotas, configs and ACLs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from coordinator_server.security.acl import Acl, Operation, PatternType, Permission, ResourceType
from protocol.json_form import uuid_to_text
from tests.conformance.access.case import Case, Cell, Fields, Request
from tests.conformance.access.connection import to_text
from tests.conformance.access.world import SIMPLE, TOPICS, World

_TOPIC, _BROKER, _LOGGER, _METRICS, _GROUP = 2, 4, 8, 16, 32
_DIRECTORY = "AAAAAAAAAAAAAAAAAAAAAQ"
_MIXED_TOPICS = (*TOPICS, "absent-1", "absent-2")


def _cluster(**more: Any) -> Request:
    def request(cell: Cell, world: World) -> Fields:
        return {"includeClusterAuthorizedOperations": True, **more}

    return request


def _nothing(cell: Cell, world: World) -> Fields:
    return {}


def _versions(cell: Cell, world: World) -> Fields:
    return {"clientSoftwareName": "test", "clientSoftwareVersion": "1"}


def _handshake(cell: Cell, world: World) -> Fields:
    return {"mechanism": "PLAIN"}


def _authenticate(cell: Cell, world: World) -> Fields:
    return {"authBytes": to_text(b"\0admin\0secret")}


# --- ACLs ---------------------------------------------------------------------------------------


def _stranger(cell: Cell) -> str:
    return f"User:stranger-{cell.own_name}"


def _describe_acls(cell: Cell, world: World) -> Fields:
    return _filter(f"{_stranger(cell)}-absent")


def _describe_known_acls(cell: Cell, world: World) -> Fields:
    return _filter("User:stranger")


def _filter(principal: str) -> Fields:
    return {
        "resourceTypeFilter": 1,
        "resourceNameFilter": None,
        "patternTypeFilter": 1,
        "principalFilter": principal,
        "hostFilter": None,
        "operation": 1,
        "permissionType": 1,
    }


def _create_acls(cell: Cell, world: World) -> Fields:
    def creation(resource_type: int, name: str) -> Fields:
        return {
            "resourceType": resource_type,
            "resourceName": name,
            "resourcePatternType": 3,
            "principal": _stranger(cell),
            "host": "*",
            "operation": 3,
            "permissionType": 3,
        }

    return {"creations": [creation(2, "t"), creation(4, "no-cluster"), creation(2, "")]}


def _delete_acls(cell: Cell, world: World) -> Fields:
    return {"filters": [_filter(_stranger(cell)), _filter("User:stranger-absent")]}


def _own_acls(world: World, cells: Sequence[Cell]) -> None:
    world.create_acls([_acl_of(_stranger(cell)) for cell in cells])


def _known_acl(world: World, cells: Sequence[Cell]) -> None:
    world.create_acls([_acl_of("User:stranger")])


def _acl_of(principal: str) -> Acl:
    return Acl(
        ResourceType.GROUP,
        "acl",
        PatternType.LITERAL,
        principal,
        "*",
        Operation.READ,
        Permission.ALLOW,
    )


# --- configs ------------------------------------------------------------------------------------


def _describe_configs(cell: Cell, world: World) -> Fields:
    def of(kind: int, name: str, *keys: str) -> Fields:
        return {"resourceType": kind, "resourceName": name, "configurationKeys": list(keys)}

    return {
        "resources": [
            *(of(_TOPIC, one, "max.message.bytes") for one in cell.topics),
            *(of(_GROUP, one, "consumer.heartbeat.interval.ms") for one in cell.groups),
            of(_BROKER, "1", "log.retention.hours"),
            of(_BROKER, "", "log.retention.hours"),
            of(_BROKER, "7", "log.retention.hours"),
            of(_TOPIC, "not/a/topic", "retention.ms"),
        ],
        "includeSynonyms": False,
    }


def _describe_unknown_configs(cell: Cell, world: World) -> Fields:
    fields = _describe_configs(cell, world)
    unknown = {"resourceType": 99, "resourceName": "what", "configurationKeys": None}
    fields["resources"].insert(1, unknown)
    return fields


def _altered(cell: Cell, *, incremental: bool) -> list[Fields]:
    def of(kind: int, name: str, key: str, value: str) -> Fields:
        config: Fields = {"name": key, "value": value}
        if incremental:
            config["configOperation"] = 0
        return {"resourceType": kind, "resourceName": name, "configs": [config]}

    return [
        *(of(_TOPIC, one, "retention.ms", "700000") for one in cell.topics),
        *(of(_GROUP, one, "consumer.session.timeout.ms", "50000") for one in cell.groups),
        of(_BROKER, "7", "log.cleaner.threads", "1"),
        of(_TOPIC, "not/a/topic", "retention.ms", "1000"),
        of(99, "what", "retention.ms", "1000"),
    ]


def _alter_configs(cell: Cell, world: World) -> Fields:
    return {
        "resources": _altered(cell, incremental=False),
        "validateOnly": cell.version == cell.case.spec.max_version,
    }


def _incremental_alter_configs(cell: Cell, world: World) -> Fields:
    return {
        "resources": _altered(cell, incremental=True),
        "validateOnly": cell.version == cell.case.spec.max_version,
    }


def _alter_broker(cell: Cell, world: World) -> Fields:
    config: Fields = {"name": "log.cleaner.threads", "value": "2"}
    logger: Fields = {"name": "no.such.Logger", "value": "DEBUG"}
    if cell.case.api.startswith("Incremental"):
        config["configOperation"] = logger["configOperation"] = 0
    return {
        "resources": [
            {"resourceType": _BROKER, "resourceName": "1", "configs": [config]},
            {"resourceType": _LOGGER, "resourceName": "1", "configs": [logger]},
        ],
        "validateOnly": True,
    }


def _alter_metrics(cell: Cell, world: World) -> Fields:
    config: Fields = {"name": "interval.ms", "value": "1000"}
    if cell.case.api.startswith("Incremental"):
        config["configOperation"] = 0
    resource = {"resourceType": _METRICS, "resourceName": "clients", "configs": [config]}
    return {"resources": [resource], "validateOnly": True}


def _describe_metrics(cell: Cell, world: World) -> Fields:
    resource = {"resourceType": _METRICS, "resourceName": "clients", "configurationKeys": None}
    return {"resources": [resource]}


def _alter_twice(cell: Cell, world: World) -> Fields:
    some = _altered(cell, incremental=True)
    return {"resources": [some[0], *some[:4]], "validateOnly": True}


def _config_resources(*types: int) -> Request:
    def request(cell: Cell, world: World) -> Fields:
        return {"resourceTypes": list(types)}

    return request


# --- leaders and replicas -----------------------------------------------------------------------


def _reassigned(cell: Cell, world: World) -> Fields:
    partitions = [{"partitionIndex": one, "replicas": [1]} for one in (0, 1, 5)]
    return {
        "timeoutMs": 5000,
        "allowReplicationFactorChange": False,
        "topics": [{"name": one, "partitions": partitions} for one in (TOPICS[0], "absent-1")],
    }


def _reassignments(cell: Cell, world: World) -> Fields:
    return {"timeoutMs": 5000, "topics": [{"name": TOPICS[0], "partitionIndexes": [0, 1]}]}


def _elections(cell: Cell, world: World) -> Fields:
    topics = [{"topic": one, "partitions": [0, 5]} for one in (TOPICS[0], "absent-1")]
    return {"electionType": 0, "topicPartitions": topics, "timeoutMs": 5000}


def _all_elections(cell: Cell, world: World) -> Fields:
    return {"electionType": 1, "topicPartitions": None, "timeoutMs": 5000}


# --- brokers, controllers, features and log directories -----------------------------------------


def _log_dirs(cell: Cell, world: World) -> Fields:
    topics = [{"name": one, "partitions": [0, 5]} for one in (TOPICS[0], "absent-1")]
    return {"dirs": [{"path": "/no/log/directory", "topics": topics}]}


def _quorum(cell: Cell, world: World) -> Fields:
    return {"topics": [{"topicName": TOPICS[0], "partitions": [{"partitionIndex": 0}]}]}


def _features(cell: Cell, world: World) -> Fields:
    update = {"feature": "group.version", "maxVersionLevel": 9}
    return {"timeoutMs": 5000, "featureUpdates": [update]}


def _unregistered(cell: Cell, world: World) -> Fields:
    return {"brokerId": 7, "controllerId": 7}


def _voter(cell: Cell, world: World) -> Fields:
    return {"clusterId": None, "voterId": 7, "voterDirectoryId": _DIRECTORY, "timeoutMs": 5000}


def _subscriptions(cell: Cell, world: World) -> Fields:
    name = cell.own_name.encode()
    return {"clientInstanceId": uuid_to_text(hashlib.md5(name, usedforsecurity=False).digest())}


def _push(cell: Cell, world: World) -> Fields:
    return {"clientInstanceId": _DIRECTORY, "subscriptionId": 1, "metrics": ""}


# --- quotas and users ---------------------------------------------------------------------------


def _describe_quotas(cell: Cell, world: World) -> Fields:
    component = {"entityType": "user", "matchType": 0, "match": "nobody-at-all"}
    return {"components": [component], "strict": True}


def _alter_quotas(cell: Cell, world: World) -> Fields:
    def entry(user: str, key: str) -> Fields:
        return {
            "entity": [{"entityType": "user", "entityName": user}],
            "ops": [{"key": key, "value": 1e9, "remove": False}],
        }

    entries = [entry("quota-1", "consumer_byte_rate"), entry("quota-2", "no_such_quota")]
    return {"entries": entries, "validateOnly": False}


def _describe_users(cell: Cell, world: World) -> Fields:
    return {"users": [{"name": "no-such-user"}, {"name": "other"}]}


def _alter_users(cell: Cell, world: World) -> Fields:
    upsertion = {
        "name": "scram-user",
        "mechanism": 1,
        "iterations": 4096,
        "salt": to_text(b"salt"),
        "saltedPassword": to_text(bytes(32)),
    }
    return {
        "deletions": [{"name": "no-such-user", "mechanism": 1}],
        "upsertions": [upsertion, upsertion | {"name": "other", "iterations": 1}],
    }


_CONFIG_NAMES = (*SIMPLE, "absent-1")

CASES = [
    Case("DescribeCluster", _cluster()),
    Case("DescribeCluster.alone", _nothing),
    Case("DescribeCluster.controllers", _cluster(endpointType=2), versions=(1, 2)),
    Case("ApiVersions", _versions),
    Case("SaslHandshake", _handshake),
    Case("SaslAuthenticate", _authenticate),
    Case("AlterPartitionReassignments", _reassigned),
    Case("ListPartitionReassignments", _reassignments),
    Case("ElectLeaders", _elections),
    Case("ElectLeaders.all", _all_elections, shown=(("replicaElectionResults", "topic"),)),
    Case("AlterReplicaLogDirs", _log_dirs),
    Case("DescribeQuorum", _quorum),
    Case("UpdateFeatures", _features),
    Case("UnregisterBroker", _unregistered),
    Case("UnregisterController", _unregistered),
    Case("AddRaftVoter", _voter),
    Case("RemoveRaftVoter", _voter),
    Case("GetTelemetrySubscriptions", _subscriptions),
    Case("PushTelemetry", _push),
    Case("DescribeAcls", _describe_acls),
    Case("DescribeAcls.known", _describe_known_acls, prepare=(_known_acl,)),
    Case("CreateAcls", _create_acls),
    Case("DeleteAcls", _delete_acls, prepare=(_own_acls,)),
    Case("DescribeConfigs", _describe_configs, topics=_MIXED_TOPICS, groups=_CONFIG_NAMES),
    Case("DescribeConfigs.unknown", _describe_unknown_configs, topics=TOPICS, versions=(1, 4)),
    Case("AlterConfigs", _alter_configs, topics=_MIXED_TOPICS, groups=_CONFIG_NAMES),
    Case(
        "IncrementalAlterConfigs",
        _incremental_alter_configs,
        topics=_MIXED_TOPICS,
        groups=_CONFIG_NAMES,
    ),
    Case("AlterConfigs.broker", _alter_broker),
    Case("IncrementalAlterConfigs.broker", _alter_broker),
    Case("DescribeConfigs.metrics", _describe_metrics),
    Case("AlterConfigs.metrics", _alter_metrics),
    Case("IncrementalAlterConfigs.metrics", _alter_metrics),
    Case("IncrementalAlterConfigs.twice", _alter_twice, topics=_MIXED_TOPICS),
    Case("ListConfigResources.metrics", _config_resources(_METRICS)),
    Case("ListConfigResources.brokers", _config_resources(_BROKER), versions=(1,)),
    Case("DescribeClientQuotas", _describe_quotas),
    Case("AlterClientQuotas", _alter_quotas),
    Case("DescribeUserScramCredentials", _describe_users),
    Case("AlterUserScramCredentials", _alter_users),
]
