"""The guards around the handlers refuse and serve the right parts of a request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from coordinator_server.core.groups.consumer.consumer_group import ConsumerGroup
from coordinator_server.security.acl import Operation
from protocol.apis.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from protocol.apis.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from protocol.apis.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.apis.create_acls import AclCreation, CreateAclsRequest
from protocol.apis.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.apis.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.apis.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from protocol.apis.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.apis.describe_acls import DescribeAclsRequest
from protocol.apis.describe_cluster import DescribeClusterRequest
from protocol.apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.apis.describe_groups import DescribeGroupsRequest
from protocol.apis.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from protocol.apis.describe_transactions import DescribeTransactionsRequest
from protocol.apis.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.apis.find_coordinator import FindCoordinatorRequest
from protocol.apis.heartbeat import HeartbeatRequest
from protocol.apis.init_producer_id import InitProducerIdRequest
from protocol.apis.list_groups import ListGroupsRequest
from protocol.apis.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.apis.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.errors import ErrorCode
from tests.harness.secured import Secured, cluster, group, topic, transactional_id

TOPIC_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
ID_REFUSED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
async def broker() -> AsyncIterator[Secured]:
    """Start a broker with an authorizer, topics a and b, and no ACLs."""
    secured = await Secured().start()
    secured.topics("a", "b")
    yield secured
    await secured.stop()


async def test_a_heartbeat_needs_read_of_the_group(broker: Secured) -> None:
    """Heartbeat needs READ on the group, except for a super user; a new ACL applies at once."""
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert (await broker.ask(request)).error_code == GROUP_REFUSED
    assert (await broker.ask(request, who="root")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    broker.allow(group("g", Operation.READ))
    assert (await broker.ask(request)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_users_are_altered_with_alter_of_the_cluster(broker: Secured) -> None:
    """Each user is refused once, even with several alterations."""
    request = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name="a"), ScramCredentialDeletion(name="b")],
        upsertions=[ScramCredentialUpsertion(name="b"), ScramCredentialUpsertion(name="c")],
    )
    answer = await broker.ask(request)
    assert [(one.user, one.error_code) for one in answer.results] == [
        (name, CLUSTER_REFUSED) for name in "abc"
    ]


async def test_metadata_hides_topics(broker: Secured) -> None:
    """Metadata refuses hidden and missing topics by name, and omits them from the full list."""
    broker.allow(topic("a", Operation.READ))
    every = await broker.ask(MetadataRequest(topics=None, include_topic_authorized_operations=True))
    assert [one.name for one in every.topics] == ["a"]
    assert every.topics[0].topic_authorized_operations == (
        1 << Operation.READ | 1 << Operation.DESCRIBE
    )
    names = [MetadataRequestTopic(name=name) for name in ("a", "b", "none")]
    some = await broker.ask(MetadataRequest(topics=names))
    assert {one.name: one.error_code for one in some.topics} == {
        "a": 0,
        "b": TOPIC_REFUSED,
        "none": TOPIC_REFUSED,
    }
    nothing = await broker.ask(MetadataRequest(topics=names[1:2]), 0)
    assert [one.name for one in nothing.topics] == ["b"]
    assert [one.name for one in (await broker.ask(MetadataRequest(topics=[]), 0)).topics] == ["a"]


async def test_metadata_creates_for_those_who_may(broker: Secured) -> None:
    """Metadata creates a topic with CREATE on the topic or on the cluster."""
    broker.allow(topic("new", Operation.DESCRIBE), topic("newer", Operation.DESCRIBE))
    request = [MetadataRequestTopic(name="new")]
    (one,) = (await broker.ask(MetadataRequest(topics=request))).topics
    assert one.error_code == TOPIC_REFUSED
    broker.allow(topic("new", Operation.CREATE))
    await broker.ask(MetadataRequest(topics=request))
    assert broker.broker.topics.topic("new") is not None
    broker.allow(cluster(Operation.CREATE))
    await broker.ask(MetadataRequest(topics=[MetadataRequestTopic(name="newer")]))
    assert broker.broker.topics.topic("newer") is not None


async def test_metadata_by_id_and_of_the_cluster(broker: Secured) -> None:
    """Metadata by id does not reveal the name of a hidden topic."""
    known = broker.broker.topics.topic("b")
    assert known is not None
    asked = [MetadataRequestTopic(topic_id=known.topic_id, name=None)]
    (one,) = (await broker.ask(MetadataRequest(topics=asked))).topics
    assert (one.error_code, one.name, one.topic_id) == (TOPIC_REFUSED, None, known.topic_id)
    request = MetadataRequest(topics=[], include_cluster_authorized_operations=True)
    assert (await broker.ask(request, 10)).cluster_authorized_operations == 0
    whole = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert (await broker.ask(whole)).cluster_authorized_operations == 0
    broker.allow(cluster(Operation.ALTER))
    expected = 1 << Operation.ALTER | 1 << Operation.DESCRIBE
    assert (await broker.ask(request, 10)).cluster_authorized_operations == expected
    assert (await broker.ask(whole)).cluster_authorized_operations == expected


async def test_fetch_reads_what_may_be_read(broker: Secured) -> None:
    """Fetch serves the allowed topics; a follower needs CLUSTER_ACTION."""
    broker.allow(topic("a", Operation.READ))

    async def fetch(replica_id: int = -1) -> dict[str, int]:
        answer = await broker.ask(
            FetchRequest(
                replica_id=replica_id,
                max_wait_ms=0,
                session_epoch=-1,
                topics=[
                    FetchTopic(topic=name, partitions=[FetchPartition(partition=0)])
                    for name in ("a", "b", "none")
                ],
            ),
            12,
        )
        return {one.topic: one.partitions[0].error_code for one in answer.responses}

    assert await fetch() == {"a": 0, "b": TOPIC_REFUSED, "none": TOPIC_REFUSED}
    assert await fetch(1) == dict.fromkeys(("a", "b", "none"), TOPIC_REFUSED)
    broker.allow(cluster(Operation.CLUSTER_ACTION))
    assert (await fetch(1))["none"] == UNKNOWN


async def test_produce(broker: Secured) -> None:
    """Produce refuses topics one by one; with acks=0 a refusal closes the connection."""
    broker.allow(topic("a", Operation.WRITE))
    data = [PartitionProduceData(index=0, records=None)]

    async def produce(acks: int, *names: str) -> Any:
        topics = [TopicProduceData(name=name, partition_data=data) for name in names]
        return await broker.ask(ProduceRequest(acks=acks, topic_data=topics), 12)

    answer = await produce(1, "a", "b")
    errors = {one.name: one.partition_responses[0].error_code for one in answer.responses}
    assert errors == {"a": ErrorCode.INVALID_RECORD, "b": TOPIC_REFUSED}
    (only,) = (await produce(1, "b")).responses
    assert only.partition_responses[0].error_code == TOPIC_REFUSED
    assert await produce(0, "b") == "acks=0 and TOPIC_AUTHORIZATION_FAILED"


async def test_commits(broker: Secured) -> None:
    """OffsetCommit checks the group, then each topic; with no topic left, no commit is made."""
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_metadata="")]

    async def commit(*names: str) -> dict[str, int]:
        topics = [OffsetCommitRequestTopic(name=name, partitions=partitions) for name in names]
        answer = await broker.ask(OffsetCommitRequest(group_id="g", topics=topics), 9)
        return {one.name: one.partitions[0].error_code for one in answer.topics}

    assert await commit("a", "b") == {"a": GROUP_REFUSED, "b": GROUP_REFUSED}
    broker.allow(group("g", Operation.READ), topic("a", Operation.READ))
    assert await commit("a", "b", "none") == {"a": 0, "b": TOPIC_REFUSED, "none": TOPIC_REFUSED}
    assert await commit("b") == {"b": TOPIC_REFUSED}


async def test_committed_offsets(broker: Secured) -> None:
    """OffsetFetch serves only visible groups and topics, also in a fetch of all topics."""
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_metadata="")]
    topics = [OffsetCommitRequestTopic(name=name, partitions=partitions) for name in ("a", "b")]
    await broker.ask(OffsetCommitRequest(group_id="g", topics=topics), 9, "root")
    broker.allow(group("g", Operation.DESCRIBE), topic("a", Operation.DESCRIBE))

    async def fetch(
        *groups: str, names: tuple[str, ...] | None
    ) -> list[tuple[str, int, dict[str, int]]]:
        asked = None
        if names is not None:
            asked = [OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in names]
        wanted = [OffsetFetchRequestGroup(group_id=one, topics=asked) for one in groups]
        answer = await broker.ask(OffsetFetchRequest(groups=wanted), 9)
        return [
            (
                one.group_id,
                one.error_code,
                {topic.name: topic.partitions[0].error_code for topic in one.topics},
            )
            for one in answer.groups
        ]

    assert await fetch("h", names=("a",)) == [("h", GROUP_REFUSED, {})]
    assert await fetch("h", "g", names=("b", "a")) == [
        ("h", GROUP_REFUSED, {}),
        ("g", 0, {"a": 0, "b": TOPIC_REFUSED}),
    ]
    assert await fetch("g", names=None) == [("g", 0, {"a": 0})]
    assert (
        await broker.ask(OffsetFetchRequest(group_id="h", topics=[]), 7)
    ).error_code == GROUP_REFUSED
    answer = await broker.ask(OffsetFetchRequest(group_id="g", topics=None), 7)
    assert [one.name for one in answer.topics] == ["a"]


async def test_coordinators(broker: Secured) -> None:
    """FindCoordinator answers in the order of the request and refuses hidden keys."""
    broker.allow(group("g", Operation.DESCRIBE))
    answer = await broker.ask(FindCoordinatorRequest(coordinator_keys=["h", "g"]))
    assert [(one.key, one.error_code) for one in answer.coordinators] == [
        ("h", GROUP_REFUSED),
        ("g", 0),
    ]
    old = await broker.ask(FindCoordinatorRequest(key="t", key_type=1), 3)
    assert (old.error_code, old.node_id) == (ID_REFUSED, -1)
    assert (await broker.ask(FindCoordinatorRequest(key="g"), 3)).error_code == 0
    share = await broker.ask(FindCoordinatorRequest(coordinator_keys=["x"], key_type=2))
    assert [one.error_code for one in share.coordinators] == [CLUSTER_REFUSED]
    odd = await broker.ask(FindCoordinatorRequest(coordinator_keys=["x"], key_type=9))
    assert [one.error_code for one in odd.coordinators] == [ErrorCode.INVALID_REQUEST]


async def test_groups_are_listed_and_described(broker: Secured) -> None:
    """Only readable groups are listed and described; DESCRIBE on the cluster lists all."""
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_metadata="")]
    topics = [OffsetCommitRequestTopic(name="a", partitions=partitions)]
    for name in ("g", "h"):
        await broker.ask(OffsetCommitRequest(group_id=name, topics=topics), 9, "root")
    broker.allow(group("g", Operation.READ))
    assert [one.group_id for one in (await broker.ask(ListGroupsRequest())).groups] == ["g"]
    request = DescribeGroupsRequest(groups=["g", "h"], include_authorized_operations=True)
    described = (await broker.ask(request)).groups
    assert [(one.group_id, one.error_code) for one in described] == [("h", GROUP_REFUSED), ("g", 0)]
    assert described[1].authorized_operations == 1 << Operation.READ | 1 << Operation.DESCRIBE
    broker.allow(cluster(Operation.DESCRIBE))
    assert len((await broker.ask(ListGroupsRequest())).groups) == 2


async def test_topics_are_created_and_deleted(broker: Secured) -> None:
    """CreateTopics hides configs, and DeleteTopics hides names, from users without the right."""
    broker.allow(topic("new", Operation.CREATE), topic("b", Operation.DESCRIBE))
    creations = [
        CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("new", "x")
    ]
    made, refused = (await broker.ask(CreateTopicsRequest(topics=creations))).topics
    assert (made.error_code, made.topic_config_error_code, made.num_partitions) == (
        0,
        TOPIC_REFUSED,
        -1,
    )
    assert (refused.error_code, refused.error_message) == (TOPIC_REFUSED, "Authorization failed.")
    known = broker.broker.topics.topic("a")
    assert known is not None
    states = [
        DeleteTopicState(name="b"),
        DeleteTopicState(name="a"),
        DeleteTopicState(name="none"),
        DeleteTopicState(name=None, topic_id=b"\1" * 16),
        DeleteTopicState(name=None, topic_id=known.topic_id),
    ]
    answer = (await broker.ask(DeleteTopicsRequest(topics=states))).responses
    assert [(one.name, one.error_code) for one in answer] == [
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
        ("b", TOPIC_REFUSED),
        ("a", TOPIC_REFUSED),
        ("none", TOPIC_REFUSED),
        (None, TOPIC_REFUSED),
    ]
    broker.allow(topic("b", Operation.DELETE))
    (gone,) = (await broker.ask(DeleteTopicsRequest(topic_names=["b"]), 5)).responses
    assert gone.error_code == 0
    broker.allow(cluster(Operation.DELETE))
    (gone,) = (await broker.ask(DeleteTopicsRequest(topics=states[1:2]))).responses
    assert gone.error_code == 0


async def test_duplicates_are_the_handlers(broker: Secured) -> None:
    """A duplicate topic gets INVALID_REQUEST, whether the user has the right or not."""
    topics = [CreatePartitionsTopic(name=name, count=2) for name in ("a", "b", "b")]
    results = (await broker.ask(CreatePartitionsRequest(topics=topics))).results
    assert {one.name: one.error_code for one in results} == {
        "a": TOPIC_REFUSED,
        "b": ErrorCode.INVALID_REQUEST,
    }


async def test_configs(broker: Secured) -> None:
    """DescribeConfigs refuses topics, groups and brokers with the error of each type."""
    broker.allow(topic("a", Operation.ALTER_CONFIGS))
    asked = [(2, "b"), (32, "g"), (4, "1"), (2, "a")]
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=name) for kind, name in asked
    ]
    results = (await broker.ask(DescribeConfigsRequest(resources=resources))).results
    assert [(one.resource_name, one.error_code) for one in results] == [
        ("a", 0),
        ("b", TOPIC_REFUSED),
        ("g", GROUP_REFUSED),
        ("1", CLUSTER_REFUSED),
    ]


async def test_changes_of_configs_that_are_malformed(broker: Secured) -> None:
    """Malformed changes fail before the ACL checks (tests/oracle/test_config_refusals.py)."""
    asked: list[tuple[int, str, list[tuple[str, str | None]]]] = [
        (2, "b", [("retention.ms", None)]),
        (2, "a", [("retention.ms", "1")]),
        (32, "g", [("x", "1"), ("x", "2")]),
        (4, "7", [("node.id", "2")]),
        (4, "1", []),
        (8, "1", [("x", "DEBUG")]),
    ]
    resources = [
        AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[AlterableConfig(name=key, value=value) for key, value in configs],
        )
        for kind, name, configs in asked
    ]
    responses = (await broker.ask(AlterConfigsRequest(resources=resources))).responses
    assert {(one.resource_type, one.resource_name): one.error_code for one in responses} == {
        (2, "b"): ErrorCode.INVALID_REQUEST,
        (2, "a"): TOPIC_REFUSED,
        (32, "g"): ErrorCode.INVALID_REQUEST,
        (4, "7"): CLUSTER_REFUSED,
        (4, "1"): CLUSTER_REFUSED,
        (8, "1"): ErrorCode.INVALID_REQUEST,
    }


async def test_producers_and_transactions(broker: Secured) -> None:
    """Idempotence needs WRITE on any topic; a refused topic fails the whole transaction."""
    idempotent = InitProducerIdRequest(transactional_id=None)
    assert (await broker.ask(idempotent)).error_code == CLUSTER_REFUSED
    broker.allow(topic("a", Operation.WRITE))
    assert (await broker.ask(idempotent)).error_code == 0
    transactional = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=0)
    assert (await broker.ask(transactional)).error_code == ID_REFUSED
    broker.allow(transactional_id("t", Operation.WRITE))
    assert (await broker.ask(transactional)).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT

    async def add(name: str) -> dict[str, int]:
        answer = await broker.ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(name=one, partitions=[0]) for one in ("a", "b")
                ],
            ),
            3,
        )
        return {
            one.name: one.results_by_partition[0].partition_error_code
            for one in answer.results_by_topic_v3_and_below
        }

    assert await add("u") == {"a": ID_REFUSED, "b": ID_REFUSED}
    assert await add("t") == {"a": ErrorCode.OPERATION_NOT_ATTEMPTED, "b": TOPIC_REFUSED}
    assert (await broker.ask(AddPartitionsToTxnRequest())).error_code == CLUSTER_REFUSED
    described = await broker.ask(DescribeTransactionsRequest(transactional_ids=["u", "t"]))
    assert [one.error_code for one in described.transaction_states] == [
        ID_REFUSED,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    ]


async def test_expressions_match_what_may_be_described(broker: Secured) -> None:
    """A regular expression matches visible topics only; a hidden topic by name is refused."""
    broker.allow(group("g", Operation.READ), topic("b", Operation.DESCRIBE))

    def heartbeat(**fields: Any) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="A" * 22,
            rebalance_timeout_ms=1000,
            topic_partitions=[],
            **fields,
        )

    named = heartbeat(subscribed_topic_names=["a"])
    assert (await broker.ask(named)).error_code == TOPIC_REFUSED
    joins = heartbeat(subscribed_topic_regex=".*")
    assert (await broker.ask(joins)).error_code == 0
    found = broker.broker.groups.tasks["g"].group
    assert isinstance(found, ConsumerGroup)
    while not found.resolved:
        await asyncio.sleep(0)
    assert found.resolved[".*"].topics == {"b"}


async def test_pages_of_topics(broker: Secured) -> None:
    """DescribeTopicPartitions lists refused topics last, and leaves them out of "all topics"."""
    broker.allow(topic("b", Operation.DESCRIBE))
    every = (await broker.ask(DescribeTopicPartitionsRequest())).topics
    assert [one.name for one in every] == ["b"]
    assert every[0].topic_authorized_operations == 1 << Operation.DESCRIBE
    names = [TopicRequest(name=name) for name in ("a", "b")]
    some = (await broker.ask(DescribeTopicPartitionsRequest(topics=names))).topics
    assert [(one.name, one.error_code) for one in some] == [("b", 0), ("a", TOPIC_REFUSED)]


async def test_many_entries_are_asked_for_in_steps(broker: Secured) -> None:
    """All topics of a large request, which is decoded in steps, are checked."""
    broker.allow(topic("a", Operation.DESCRIBE))
    partition = [ListOffsetsPartition(partition_index=0, timestamp=-1)]
    topics = [
        ListOffsetsTopic(name=f"t{number:040}", partitions=partition) for number in range(2000)
    ]
    topics.append(ListOffsetsTopic(name="a", partitions=partition))
    answer = await broker.ask(ListOffsetsRequest(topics=topics))
    assert [one.partitions[0].error_code for one in answer.topics] == [0, *[TOPIC_REFUSED] * 2000]


async def test_acls_over_the_wire(broker: Secured) -> None:
    """ACL requests need ALTER or DESCRIBE on the cluster; each ACL and filter has a result."""
    read = AclCreation(
        resource_type=2,
        resource_name="a",
        principal="User:alice",
        host="*",
        operation=3,
        permission_type=3,
    )
    every = DeleteAclsFilter(
        resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1,
        principal_filter=None, host_filter=None, operation=1, permission_type=1,
    )  # fmt: skip
    described = DescribeAclsRequest(
        resource_type_filter=2, resource_name_filter=None, pattern_type_filter=1,
        principal_filter=None, host_filter=None, operation=1, permission_type=1,
    )  # fmt: skip
    create, delete = CreateAclsRequest(creations=[read]), DeleteAclsRequest(filters=[every])
    assert [one.error_code for one in (await broker.ask(create)).results] == [CLUSTER_REFUSED]
    assert [one.error_code for one in (await broker.ask(delete)).filter_results] == [
        CLUSTER_REFUSED
    ]
    refused = await broker.ask(described)
    assert refused.error_code == CLUSTER_REFUSED
    assert refused.error_message == "Request DescribeAcls needs DESCRIBE permission."
    wrong = AclCreation(resource_type=2, principal="x", operation=3, permission_type=3)
    twice = CreateAclsRequest(creations=[read, wrong, read])
    results = (await broker.ask(twice, who="root")).results
    assert [one.error_code for one in results] == [0, ErrorCode.INVALID_REQUEST, 0]
    (resource,) = (await broker.ask(described, who="root")).resources
    assert (resource.resource_name, [one.operation for one in resource.acls]) == ("a", [3])
    odd = DeleteAclsFilter(
        resource_type_filter=99, resource_name_filter=None, pattern_type_filter=1,
        principal_filter=None, host_filter=None, operation=1, permission_type=1,
    )  # fmt: skip
    first, second = (
        await broker.ask(DeleteAclsRequest(filters=[every, odd]), who="root")
    ).filter_results
    assert [one.resource_name for one in first.matching_acls] == ["a"]
    assert second.error_code == ErrorCode.INVALID_REQUEST
    cannot = CreateAclsRequest(
        creations=[AclCreation(resource_type=1, operation=3, permission_type=3)]
    )
    assert [one.error_code for one in (await broker.ask(cannot, who="root")).results] == [-1]
    damaged = CreateAclsRequest(creations=[AclCreation(operation=3, permission_type=3)])
    assert await broker.ask(damaged, who="root") == "an ACL of an unknown type"
    damaged_filter = DeleteAclsRequest(filters=[DeleteAclsFilter()])
    assert await broker.ask(damaged_filter, who="root") == "a filter has an unknown type"
    assert await broker.ask(DescribeAclsRequest(), who="root") == "the filter has an unknown type"
