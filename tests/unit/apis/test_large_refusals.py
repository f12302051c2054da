"""Refusing a large request does not block the event loop for long."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from coordinator_server.apis.config_changes import change
from coordinator_server.security.acl import Operation
from protocol.apis import alter_configs, incremental_alter_configs
from protocol.apis.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.apis.create_acls import AclCreation, CreateAclsRequest
from protocol.apis.delete_groups import DeleteGroupsRequest
from protocol.apis.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersTopicRequest,
)
from protocol.apis.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    ScramUserName,
)
from protocol.apis.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.apis.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from protocol.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.batch_header import FLAGS_POSITION, MAGIC_POSITION, TRANSACTIONAL
from protocol.errors import ErrorCode
from protocol.schema import Message
from tests.harness.secured import Secured, cluster
from tests.machine import slowness

COUNT = 60_000
LONGEST_S = 0.03
"""The longest event loop iteration allowed on a quiet machine, in seconds."""

BROKER, LOGGER = 4, 8
SET = 0
REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.fixture
async def broker() -> AsyncIterator[Secured]:
    """Start a broker with an authorizer and no ACLs."""
    secured = await Secured().start()
    yield secured
    await secured.stop()


async def asked_shortly(broker: Secured, request: Message, version: int | None = None) -> Any:
    """Return the response; fail if each of three attempts has a long event loop iteration."""
    longest_s = []
    for _ in range(3):
        answer = await broker.ask(request, version)
        longest_s.append(broker.longest_turn_s / slowness())
        if longest_s[-1] < LONGEST_S:
            return answer
    pytest.fail(f"turns of {longest_s} s")


def replacing(kind: int, count: int) -> Message:
    """Return AlterConfigs with `count` configs of the broker or its loggers."""
    configs = [alter_configs.AlterableConfig(name=f"n{one}", value="v") for one in range(count)]
    resource = alter_configs.AlterConfigsResource(
        resource_type=kind, resource_name="1", configs=configs
    )
    return alter_configs.AlterConfigsRequest(resources=[resource])


def changing(kind: int, count: int) -> Message:
    """Return IncrementalAlterConfigs with `count` configs of the broker or its loggers."""
    configs = [
        incremental_alter_configs.AlterableConfig(name=f"n{one}", config_operation=SET, value="v")
        for one in range(count)
    ]
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=kind, resource_name="1", configs=configs
    )
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])


@pytest.mark.parametrize("make", [replacing, changing])
@pytest.mark.parametrize("is_allowed", [False, True])
async def test_very_many_configs_of_the_broker(
    broker: Secured, make: Any, is_allowed: bool
) -> None:
    """More than 10 000 changed configs in a request are refused, as in Kafka, for any names."""
    if is_allowed:
        broker.allow(cluster(Operation.ALTER_CONFIGS))
    (answer,) = (await asked_shortly(broker, make(BROKER, COUNT))).responses
    if not is_allowed:
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return
    assert answer.error_code == ErrorCode.POLICY_VIOLATION
    assert answer.error_message == "Unable to perform excessively large batch operation."


async def test_very_many_loggers(broker: Secured) -> None:
    """Each logger is checked in a separate step."""
    count = 100
    request: Any = changing(LOGGER, count)
    steps = change(broker.broker, LOGGER, "1", request.resources[0].configs)
    # One pass checks for duplicate names, one checks operations; then the first config fails.
    looks_at_all = 2
    assert sum(1 for _ in steps) >= looks_at_all * count


async def test_very_many_users(broker: Secured) -> None:
    """Each user in a large request is refused; a user with two alterations is refused once."""
    described = DescribeUserScramCredentialsRequest(users=[ScramUserName()] * 4 * COUNT)
    answer = await asked_shortly(broker, described)
    assert len(answer.results) == 4 * COUNT
    assert {one.error_code for one in answer.results} == {REFUSED}
    names = [f"u{one}" for one in range(COUNT // 2)]
    altered = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name=one) for one in names],
        upsertions=[ScramCredentialUpsertion(name=one) for one in (names[0], "last")],
    )
    answer = await asked_shortly(broker, altered)
    assert [one.user for one in answer.results] == [*names, "last"]


async def test_very_many_topics_of_a_transaction(broker: Secured) -> None:
    """If the transactional id is refused, every topic of a large Produce request is refused."""
    records = bytearray(61)
    records[MAGIC_POSITION], records[FLAGS_POSITION] = 2, TRANSACTIONAL
    data = [PartitionProduceData(records=bytes(records))]
    topics = [TopicProduceData(name=f"t{one}", partition_data=data) for one in range(COUNT // 2)]
    request = ProduceRequest(transactional_id="t", acks=1, timeout_ms=1, topic_data=topics)
    answer = await asked_shortly(broker, request, 12)
    codes = {one.partition_responses[0].error_code for one in answer.responses}
    assert codes == {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    assert len(answer.responses) == len(topics)


@pytest.mark.parametrize("inner", [False, True], ids=["topics", "partitions"])
async def test_very_many_commits(broker: Secured, inner: bool) -> None:
    """All commits to a refused group fail, with many topics or with many partitions."""
    outer_count, inner_count = (1, COUNT) if inner else (COUNT, 1)
    partitions = [OffsetCommitRequestPartition(partition_index=one) for one in range(inner_count)]
    topics = [
        OffsetCommitRequestTopic(name=f"t{one}", partitions=partitions)
        for one in range(outer_count)
    ]
    answer = await asked_shortly(broker, OffsetCommitRequest(group_id="g", topics=topics), 9)
    told = [one for topic in answer.topics for one in topic.partitions]
    assert len(told) == COUNT
    assert {one.error_code for one in told} == {ErrorCode.GROUP_AUTHORIZATION_FAILED}


MANY = range(5 * COUNT)


def producing() -> Message:
    """Return Produce to very many partitions of a topic."""
    data = [PartitionProduceData(index=one) for one in MANY]
    topic = TopicProduceData(name="t", partition_data=data)
    return ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic])


def listing() -> Message:
    """Return ListOffsets of very many partitions of a topic."""
    partitions = [ListOffsetsPartition(partition_index=one, timestamp=-1) for one in MANY]
    topic = ListOffsetsTopic(name="t", partitions=partitions)
    return ListOffsetsRequest(replica_id=-1, topics=[topic])


def describing() -> Message:
    """Return DescribeProducers of very many partitions of a topic."""
    topic = DescribeProducersTopicRequest(name="t", partition_indexes=list(MANY))
    return DescribeProducersRequest(topics=[topic])


def fetching_offsets() -> Message:
    """Return OffsetFetch of very many partitions of a topic."""
    topic = OffsetFetchRequestTopic(name="t", partition_indexes=list(MANY))
    return OffsetFetchRequest(group_id="g", topics=[topic])


@pytest.mark.parametrize(
    ("make", "version"),
    [(producing, 12), (listing, None), (describing, None), (fetching_offsets, 1)],
)
async def test_very_many_partitions_of_one_topic(
    broker: Secured, make: Any, version: int | None
) -> None:
    """Each partition is refused without a long event loop iteration."""
    answer = await asked_shortly(broker, make(), version)
    (topic,) = answer.responses if make is producing else answer.topics
    told = topic.partition_responses if make is producing else topic.partitions
    assert len(told) == len(MANY)
    (code,) = {one.error_code for one in told}
    expected = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert code == (ErrorCode.GROUP_AUTHORIZATION_FAILED if make is fetching_offsets else expected)


async def test_very_many_groups(broker: Secured) -> None:
    """A step frees only some of the refused entries of the request and the response."""
    names = [f"g{one}" for one in range(8 * COUNT)]
    answer = await asked_shortly(broker, DeleteGroupsRequest(groups_names=names))
    assert {one.error_code for one in answer.results} == {ErrorCode.GROUP_AUTHORIZATION_FAILED}
    assert len(answer.results) == len(names)


async def test_very_many_acls(broker: Secured) -> None:
    """Each ACL of a large CreateAcls request is refused."""
    creation = AclCreation(
        resource_type=2,
        resource_name="n",
        resource_pattern_type=3,
        principal="User:a",
        host="*",
        operation=3,
        permission_type=3,
    )
    answer = await asked_shortly(broker, CreateAclsRequest(creations=[creation] * COUNT))
    assert {one.error_code for one in answer.results} == {REFUSED}
    assert len(answer.results) == COUNT
