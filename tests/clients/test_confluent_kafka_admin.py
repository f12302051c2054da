"""confluent-kafka's admin client: topics, configs, groups and their offsets."""

from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.clients.support import create_topic
from tests.support import wait_for


@pytest.fixture
def admin(bootstrap: str) -> Any:
    """An admin client."""
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def member(bootstrap: str, name: str) -> Iterator[Any]:
    """A member of the group `name` that owns the two partitions of the topic `name`."""
    create_topic(bootstrap, name, 2)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "client.id": "the-client",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([name])
    try:
        wait_for(lambda: consumer.poll(0.1) or consumer.assignment(), "an assignment")
        yield consumer
    finally:
        consumer.close()


def one(futures: dict[Any, Any]) -> Any:
    """Return the result of the only future of an admin call."""
    [future] = futures.values()
    return future.result(20)


def code(futures: dict[Any, Any]) -> int:
    """Return the error code of the only future of an admin call."""
    with pytest.raises(KafkaException) as failed:
        one(futures)
    return int(failed.value.args[0].code())


def test_topics_are_created_described_and_deleted(admin: Any, name: str) -> None:
    """Topics are created, described and deleted; errors have Kafka's codes."""
    new = NewTopic(name, 3, 1, config={"retention.ms": "1000000"})
    one(admin.create_topics([new], validate_only=True))
    assert name not in admin.list_topics(timeout=30).topics
    one(admin.create_topics([new]))
    assert code(admin.create_topics([new])) == KafkaError.TOPIC_ALREADY_EXISTS
    listed = admin.list_topics(name, timeout=30).topics[name]
    assert sorted(listed.partitions) == [0, 1, 2]
    description = one(admin.describe_topics(TopicCollection([name])))
    assert (description.name, len(description.partitions)) == (name, 3)
    one(admin.create_partitions([NewPartitions(name, 5)]))
    assert len(admin.list_topics(name, timeout=30).topics[name].partitions) == 5
    shrinking = admin.create_partitions([NewPartitions(name, 2)])
    assert code(shrinking) == KafkaError.INVALID_PARTITIONS
    one(admin.delete_topics([name]))
    assert name not in admin.list_topics(timeout=30).topics
    assert code(admin.delete_topics([name])) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_configs_are_described(admin: Any, bootstrap: str, name: str) -> None:
    """describe_configs marks a topic's own configs and defaults, and reads broker configs."""
    one(admin.create_topics([NewTopic(name, 1, 1, config={"retention.ms": "1000000"})]))
    configs = one(admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]))
    assert (configs["retention.ms"].value, configs["retention.ms"].is_default) == ("1000000", False)
    assert configs["max.message.bytes"].is_default
    [broker] = admin.list_topics(timeout=30).brokers
    settings = one(admin.describe_configs([ConfigResource(ResourceType.BROKER, str(broker))]))
    assert settings["group.initial.rebalance.delay.ms"].value == "0"
    assert settings["advertised.listeners"].value == f"PLAINTEXT://{bootstrap}"
    unknown = admin.describe_configs([ConfigResource(ResourceType.TOPIC, f"{name}-unknown")])
    assert code(unknown) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_the_cluster_is_described(admin: Any, bootstrap: str) -> None:
    """describe_cluster returns one broker at the address that the client uses."""
    cluster = admin.describe_cluster().result(20)
    [node] = cluster.nodes
    assert f"{node.host}:{node.port}" == bootstrap
    assert cluster.controller.id == node.id
    assert len(cluster.cluster_id) == 22


def test_a_group_is_listed_and_described(admin: Any, name: str, member: Any) -> None:
    """The group has state, assignor, and each member's client, host and assignment."""
    listing = admin.list_consumer_groups(states={ConsumerGroupState.STABLE}).result(20)
    assert not listing.errors
    [listed] = [group for group in listing.valid if group.group_id == name]
    assert (listed.state, listed.is_simple_consumer_group) == (ConsumerGroupState.STABLE, False)
    empty = admin.list_consumer_groups(states={ConsumerGroupState.EMPTY}).result(20)
    assert name not in {group.group_id for group in empty.valid}
    group = one(admin.describe_consumer_groups([name]))
    assert (group.state, group.partition_assignor) == (ConsumerGroupState.STABLE, "range")
    [described] = group.members
    assert described.member_id == member.memberid()
    assert described.client_id == "the-client"
    assert described.host.startswith("/")
    owned = [(place.topic, place.partition) for place in described.assignment.topic_partitions]
    assert owned == [(name, 0), (name, 1)]
    assert name in {group.id for group in admin.list_groups(timeout=30)}


def test_groups_are_deleted_only_when_empty(admin: Any, name: str, member: Any) -> None:
    """delete_consumer_groups refuses a group with members and deletes an empty group."""
    assert code(admin.delete_consumer_groups([name])) == KafkaError.NON_EMPTY_GROUP
    member.close()
    one(admin.delete_consumer_groups([name]))
    assert code(admin.delete_consumer_groups([name])) == KafkaError.GROUP_ID_NOT_FOUND


def test_group_offsets_are_altered_and_listed(admin: Any, bootstrap: str, name: str) -> None:
    """Offsets of an empty group are set, and read for given partitions or for all."""
    create_topic(bootstrap, name, 2)
    wanted = [TopicPartition(name, 0, 3), TopicPartition(name, 1, 4)]
    one(admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(name, wanted)]))
    found = one(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)]))
    offsets = {place.partition: place.offset for place in found.topic_partitions}
    assert offsets == {0: 3, 1: 4}
    asked = ConsumerGroupTopicPartitions(name, [TopicPartition(name, 1)])
    found = one(admin.list_consumer_group_offsets([asked]))
    assert [(place.partition, place.offset) for place in found.topic_partitions] == [(1, 4)]


def test_offsets_of_a_live_group_are_protected(admin: Any, name: str, member: Any) -> None:
    """While a group has members, other clients' commits are refused with UNKNOWN_MEMBER_ID."""
    wanted = ConsumerGroupTopicPartitions(name, [TopicPartition(name, 0, 3)])
    answer = one(admin.alter_consumer_group_offsets([wanted]))
    assert [place.error.code() for place in answer.topic_partitions] == [
        KafkaError.UNKNOWN_MEMBER_ID
    ]


def test_partition_offsets_are_listed(admin: Any, bootstrap: str, name: str) -> None:
    """list_offsets finds first and end offset, largest timestamp, and offset by time."""
    create_topic(bootstrap, name)
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for timestamp_ms in (1_000, 9_000, 5_000):
        producer.produce(name, b"x", timestamp=timestamp_ms)
        assert producer.flush(10) == 0
    place = TopicPartition(name, 0)
    expected = [
        (OffsetSpec.earliest(), 0),
        (OffsetSpec.latest(), 3),
        (OffsetSpec.max_timestamp(), 1),
        (OffsetSpec.for_timestamp(2_000), 1),
    ]
    for spec, offset in expected:
        assert one(admin.list_offsets({place: spec})).offset == offset


def test_a_member_is_told_that_its_topic_was_deleted(admin: Any, bootstrap: str, name: str) -> None:
    """After delete_topics the consumer gets an error and owns no partition of the topic.

    The consumer finds out from Metadata. By default it asks only every five minutes, and reports
    the error half a minute later, because librdkafka assumes that a new topic may not have
    propagated yet.
    """
    create_topic(bootstrap, name, 2)
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    producer.produce(name, b"x")
    assert producer.flush(10) == 0
    member = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 500,
            "topic.metadata.propagation.max.ms": 500,
        }
    )
    member.subscribe([name])
    try:
        record = wait_for(lambda: member.poll(0.1), "the record")
        assert (record.error(), record.value()) == (None, b"x")
        one(admin.delete_topics([name]))
        gone = wait_for(lambda: member.poll(0.5), "an error")
        assert gone.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        wait_for(lambda: member.poll(0.1) or not member.assignment(), "an empty assignment")
    finally:
        member.close()
