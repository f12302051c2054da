"""The order of refused, failed and served entries in a response is Kafka's."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from coordinator_server.security.acl import Operation
from protocol.apis.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from protocol.apis.describe_client_quotas import DescribeClientQuotasRequest
from protocol.apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.apis.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from protocol.apis.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    ScramUserName,
)
from protocol.apis.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from protocol.apis.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
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
from protocol.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.harness.secured import Secured, group, topic

UNKNOWN_ID = b"0123456789abcdef"


@pytest.fixture
async def broker() -> AsyncIterator[Secured]:
    """Start a broker with topics "a" and "b"."""
    secured = await Secured().start()
    secured.topics("a", "b")
    yield secured
    await secured.stop()


def _id(broker: Secured, name: str) -> bytes:
    known = broker.broker.topics.topic(name)
    assert known is not None
    return known.topic_id


async def test_fetch_answers_unknown_ids_first(broker: Secured) -> None:
    """Unknown topic ids precede refused topics in the Fetch response.

    A follower without the right is refused all topics; a follower with it gets no leader endpoints.
    """
    broker.allow(topic("b", Operation.READ))
    ids = (_id(broker, "a"), UNKNOWN_ID, _id(broker, "b"))
    topics = [FetchTopic(topic_id=one, partitions=[FetchPartition(partition=0)]) for one in ids]
    answer = await broker.ask(FetchRequest(topics=topics))
    codes = [one.partitions[0].error_code for one in answer.responses]
    assert codes == [0, 100, 29]
    follower = ReplicaState(replica_id=7, replica_epoch=1)
    answer = await broker.ask(FetchRequest(topics=topics, replica_state=follower))
    assert [one.partitions[0].error_code for one in answer.responses] == [29, 29, 29]
    answer = await broker.ask(FetchRequest(topics=topics, replica_state=follower), who="root")
    assert not answer.node_endpoints


async def test_commits_of_what_does_not_exist_are_among_the_refused(broker: Secured) -> None:
    """Refused and unknown topics precede committed topics; both are in request order."""
    broker.allow(group("g", Operation.READ), topic("b", Operation.READ), topic("c", Operation.READ))
    partition = OffsetCommitRequestPartition(partition_index=0, committed_metadata="")
    topics = [
        OffsetCommitRequestTopic(name=one, partitions=[partition]) for one in ("b", "c", "a", "d")
    ]
    answer = await broker.ask(OffsetCommitRequest(group_id="g", topics=topics), 9)
    told = [(one.name, one.partitions[0].error_code) for one in answer.topics]
    assert told == [("c", 3), ("a", 29), ("d", 29), ("b", 0)]


async def test_committed_offsets_of_unknown_ids_are_among_the_refused(broker: Secured) -> None:
    """Refused topics and unknown ids follow the served topics, in the order of the request."""
    broker.allow(group("g", Operation.DESCRIBE), topic("b", Operation.DESCRIBE))
    ids = (_id(broker, "a"), UNKNOWN_ID, _id(broker, "b"))
    topics = [OffsetFetchRequestTopics(topic_id=one, partition_indexes=[0]) for one in ids]
    groups = [OffsetFetchRequestGroup(group_id="g", topics=topics)]
    (answer,) = (await broker.ask(OffsetFetchRequest(groups=groups))).groups
    assert [one.partitions[0].error_code for one in answer.topics] == [0, 29, 100]


async def test_refused_topics_of_a_page_are_sorted(broker: Secured) -> None:
    """Refused topics of DescribeTopicPartitions are sorted, each once."""
    topics = [TopicRequest(name=one) for one in ("b", "a", "b")]
    answer = await broker.ask(DescribeTopicPartitionsRequest(topics=topics))
    assert [one.name for one in answer.topics] == ["a", "b"]


async def test_an_unknown_type_of_configs_fails_all(broker: Secured) -> None:
    """An unknown resource type fails every resource of DescribeConfigs, before the ACL checks."""
    resources = [DescribeConfigsResource(resource_type=one, resource_name="a") for one in (2, 99)]
    answer = await broker.ask(DescribeConfigsRequest(resources=resources))
    assert [(one.resource_type, one.error_code) for one in answer.results] == [(2, 42), (99, 42)]


async def test_changes_are_answered_as_asked(broker: Secured) -> None:
    """IncrementalAlterConfigs answers in the order of the request.

    Refused brokers and loggers have no error message; unknown types get INVALID_REQUEST.
    """
    resources = [
        AlterConfigsResource(resource_type=kind, resource_name=name)
        for kind, name in ((4, "7"), (2, "a"), (99, "z"), (8, "1"))
    ]
    answer = await broker.ask(IncrementalAlterConfigsRequest(resources=resources))
    told = [one.error_code for one in answer.responses]
    assert told == [31, 29, 42, 31]
    assert answer.responses[0].error_message is answer.responses[3].error_message is None
    assert answer.responses[1].error_message


async def test_the_ids_of_refused_share_offsets_are_told(broker: Secured) -> None:
    """Refused topics of AlterShareGroupOffsets have their topic id if they exist."""
    broker.allow(group("s", Operation.READ))
    for epoch in (0, -1):  # the group exists and is empty after the member leaves
        beat = ShareGroupHeartbeatRequest(
            group_id="s", member_id="m", member_epoch=epoch, subscribed_topic_names=["b"]
        )
        assert not (await broker.ask(beat, who="root")).error_code
    partition = AlterShareGroupOffsetsRequestPartition(partition_index=0)
    topics = [
        AlterShareGroupOffsetsRequestTopic(topic_name=one, partitions=[partition])
        for one in ("a", "c")
    ]
    answer = await broker.ask(AlterShareGroupOffsetsRequest(group_id="s", topics=topics))
    assert not answer.error_code
    told = {one.topic_name: one.topic_id for one in answer.responses}
    assert told == {"a": _id(broker, "a"), "c": bytes(16)}


async def test_refused_quotas_and_users(broker: Secured) -> None:
    """Refused DescribeClientQuotas has null entries.

    Refused DescribeUserScramCredentials repeats the error for each user, without the user's name.
    """
    quotas = await broker.ask(DescribeClientQuotasRequest())
    assert (quotas.error_code, quotas.error_message, quotas.entries) == (31, None, None)
    users = [ScramUserName(name=one) for one in ("u", "v")]
    answer = await broker.ask(DescribeUserScramCredentialsRequest(users=users))
    told = [(one.user, one.error_code, one.error_message) for one in answer.results]
    assert told == [("", 31, None), ("", 31, None)]
