"""kafka-python's admin client: topics, configs, groups and their offsets."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import kafka
import pytest
from kafka.admin import ConfigResource, MemberToRemove
from kafka.errors import (
    GroupSubscribedToTopicError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    KafkaError,
    NoError,
    TopicAlreadyExistsError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)

from tests.clients.support import create_topic, feed
from tests.known_topics import know_topics
from tests.support import wait_for


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Any]:
    """An admin client."""
    with closing(kafka.KafkaAdminClient(bootstrap_servers=bootstrap)) as client:
        yield client


@pytest.fixture
def member(bootstrap: str, name: str) -> Iterator[Any]:
    """A member of the group `name` that owns the two partitions of the topic `name`."""
    create_topic(bootstrap, name, 2)
    with kafka.KafkaConsumer(
        name,
        bootstrap_servers=bootstrap,
        group_id=name,
        client_id="the-client",
        enable_auto_commit=False,
        heartbeat_interval_ms=250,
    ) as consumer:
        know_topics(consumer)
        wait_for(lambda: consumer.poll(500) or consumer.assignment(), "an assignment")
        yield consumer


def test_topics_are_created_described_and_deleted(admin: Any, name: str) -> None:
    """Topics are created, described with an unchanging id, and deleted."""
    created = admin.create_topics(
        {name: {"num_partitions": 3, "replication_factor": 1}}, wait_for_metadata=True
    )
    [topic] = created["topics"]
    assert (topic["name"], topic["num_partitions"], topic["replication_factor"]) == (name, 3, 1)
    assert name in admin.list_topics()
    [described] = admin.describe_topics([name])
    assert described["topic_id"] == topic["topic_id"]
    assert not described["is_internal"]
    leader = described["partitions"][0]["leader_id"]
    for number, partition in enumerate(sorted(described["partitions"], key=index)):
        assert partition["partition_index"] == number
        assert partition["leader_id"] == leader
        assert partition["replica_nodes"] == partition["isr_nodes"] == [leader]
        assert partition["offline_replicas"] == []
    admin.delete_topics([name])
    wait_for(lambda: name not in admin.list_topics(), "the topic is gone")
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([name])


def index(partition: dict[str, Any]) -> int:
    """Return the index of a described partition."""
    return int(partition["partition_index"])


def test_a_topic_made_again_is_empty_and_has_a_new_id(
    admin: Any, bootstrap: str, name: str
) -> None:
    """A topic that is deleted and created again has a new id and none of the old records."""
    create_topic(bootstrap, name)
    [before] = admin.describe_topics([name])
    feed(bootstrap, name, 1, 10)
    admin.delete_topics([name])
    wait_for(lambda: name not in admin.list_topics(), "the topic is gone")
    create_topic(bootstrap, name)
    [after] = admin.describe_topics([name])
    assert after["topic_id"] != before["topic_id"]
    place = kafka.TopicPartition(name, 0)
    with kafka.KafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        assert consumer.end_offsets([place]) == {place: 0}


def test_creation_that_cannot_be(admin: Any, name: str) -> None:
    """create_topics has separate errors for existing and invalid names, replicas and partitions."""
    one: dict[str, int] = {"num_partitions": 1, "replication_factor": 1}
    admin.create_topics({name: one}, validate_only=True)
    assert name not in admin.list_topics()
    admin.create_topics({name: one}, wait_for_metadata=True)
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics({name: one})
    with pytest.raises(InvalidTopicError):
        admin.create_topics({"no/slash": one})
    with pytest.raises(InvalidReplicationFactorError):
        admin.create_topics({f"{name}-2": {**one, "replication_factor": 5}})
    with pytest.raises(InvalidPartitionsError):
        admin.create_topics({f"{name}-2": {**one, "num_partitions": 0}})


def test_defaults_of_creation(admin: Any, name: str) -> None:
    """A topic created by name alone has the broker's default partitions and replicas."""
    [topic] = admin.create_topics([name])["topics"]
    assert (topic["num_partitions"], topic["replication_factor"]) == (1, 1)


def test_partitions_grow_and_never_shrink(admin: Any, bootstrap: str, name: str) -> None:
    """create_partitions adds partitions that are usable at once, and refuses lower counts."""
    create_topic(bootstrap, name, 2)
    admin.create_partitions({name: 4}, validate_only=True)
    assert len(admin.describe_topics([name])[0]["partitions"]) == 2
    admin.create_partitions({name: 4})
    wait_for(lambda: len(admin.describe_topics([name])[0]["partitions"]) == 4, "four partitions")
    assert len(feed(bootstrap, name, 4, 8)) == 8
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({name: 3})
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.create_partitions({f"{name}-unknown": 3})


@pytest.mark.real_time
def test_a_group_takes_in_new_partitions(admin: Any, bootstrap: str, name: str) -> None:
    """A member that refreshes its metadata gets the partitions that were added later."""
    create_topic(bootstrap, name)
    with kafka.KafkaConsumer(
        name, bootstrap_servers=bootstrap, group_id=name, metadata_max_age_ms=300
    ) as consumer:
        know_topics(consumer)
        wait_for(lambda: consumer.poll(500) or consumer.assignment(), "an assignment")
        admin.create_partitions({name: 3})
        # kafka-python may get stuck if a poll ends during a join (see know_topics). Each poll
        # lasts 3 s, which is longer than a join.
        wait_for(lambda: consumer.poll(3_000) or len(consumer.assignment()) == 3, "all three")


DEFAULT = "DEFAULT_CONFIG"


def test_configs_are_described(admin: Any, bootstrap: str, name: str) -> None:
    """describe_configs marks a topic's own configs and defaults, and reads broker configs."""
    create_topic(bootstrap, name, 1, {"retention.ms": "3600000", "cleanup.policy": "compact"})
    asked = [ConfigResource("TOPIC", name)]
    changed = admin.describe_configs(asked)["topic"][name]
    assert {key: config["value"] for key, config in changed.items()} == {
        "retention.ms": "3600000",
        "cleanup.policy": "compact",
    }
    everything = admin.describe_configs(asked, config_filter="all")["topic"][name]
    assert everything["retention.ms"]["config_source"] == "DYNAMIC_TOPIC_CONFIG"
    assert everything["max.message.bytes"]["value"] == "1048588"
    assert everything["max.message.bytes"]["config_source"] == DEFAULT
    broker = str(admin.describe_cluster()["brokers"][0]["broker_id"])
    asked = [ConfigResource("BROKER", broker)]
    settings = admin.describe_configs(asked, config_filter="all")["broker"][broker]
    assert settings["group.initial.rebalance.delay.ms"]["value"] == "0"
    given = {"listeners", "group.initial.rebalance.delay.ms"}
    sources = {name: settings[name]["config_source"] for name in (*given, "num.partitions")}
    assert sources == {**dict.fromkeys(given, "STATIC_BROKER_CONFIG"), "num.partitions": DEFAULT}


def test_the_cluster_is_described(admin: Any, bootstrap: str) -> None:
    """describe_cluster returns one broker at the address that the client uses."""
    cluster = admin.describe_cluster()
    [broker] = cluster["brokers"]
    assert f"{broker['host']}:{broker['port']}" == bootstrap
    assert cluster["controller_id"] == broker["broker_id"]
    assert len(cluster["cluster_id"]) == 22


def test_a_group_is_listed_and_described(admin: Any, name: str, member: Any) -> None:
    """The group has state, protocol, and each member's host, subscription and assignment."""
    stable = admin.list_groups(states_filter=["Stable"], types_filter=["classic"])
    [listed] = [group for group in stable if group["group_id"] == name]
    assert listed["protocol_type"] == "consumer"
    assert (listed["group_state"].lower(), listed["group_type"]) == ("stable", "classic")
    assert name not in {group["group_id"] for group in admin.list_groups(states_filter=["Empty"])}

    group = admin.describe_groups([name])[name]
    assert (group["group_state"], group["protocol_type"]) == ("Stable", "consumer")
    assert (group["protocol_data"], group["error"]) == ("range", None)
    [described] = group["members"]
    assert described["member_id"] == member.group_metadata().member_id
    assert described["client_id"] == "the-client"
    assert described["client_host"].startswith("/")
    assert described["member_metadata"]["topics"] == [name]
    [assigned] = described["member_assignment"]["assigned_partitions"]
    assert (assigned["topic"], assigned["partitions"]) == (name, [0, 1])


def test_an_unknown_group_is_described_as_dead(admin: Any, name: str) -> None:
    """describe_groups returns Dead and GROUP_ID_NOT_FOUND for a group that does not exist."""
    group = admin.describe_groups([name])[name]
    assert (group["group_state"], group["members"]) == ("Dead", [])
    assert "69" in group["error"]


def test_groups_are_deleted_only_when_empty(admin: Any, name: str, member: Any) -> None:
    """delete_groups refuses unknown groups and groups with members, and deletes empty groups."""
    assert admin.delete_groups([name]) == {name: "NonEmptyGroupError"}
    member.close()
    assert admin.describe_groups([name])[name]["group_state"] == "Empty"
    assert admin.delete_groups([name]) == {name: "OK"}
    assert admin.delete_groups([name]) == {name: "GroupIdNotFoundError"}
    assert name not in {group["group_id"] for group in admin.list_groups()}


def test_offsets_of_an_empty_group_are_altered(admin: Any, bootstrap: str, name: str) -> None:
    """Offsets of a group without members can be altered, reset, listed and deleted."""
    create_topic(bootstrap, name, 2)
    feed(bootstrap, name, 2, 20)
    one, two = kafka.TopicPartition(name, 0), kafka.TopicPartition(name, 1)
    wanted = {one: kafka.OffsetAndMetadata(3, "by admin", -1), two: kafka.OffsetAndMetadata(4)}
    assert admin.alter_group_offsets(name, wanted) == {one: NoError, two: NoError}
    listed = admin.list_group_offsets(name)[name]
    assert {place: (found.offset, found.metadata) for place, found in listed.items()} == {
        one: (3, "by admin"),
        two: (4, ""),
    }
    reset = admin.reset_group_offsets(name, {one: kafka.OffsetSpec.LATEST, two: 7})
    assert {place: found["offset"] for place, found in reset.items()} == {one: 10, two: 7}
    assert admin.delete_group_offsets(name, [one]) == {one: NoError}
    assert list(admin.list_group_offsets(name)[name]) == [two]
    asked = admin.list_group_offsets({name: [one, two], f"{name}-unknown": [one]})
    assert (asked[name][one].offset, asked[name][two].offset) == (-1, 7)
    assert asked[f"{name}-unknown"][one].offset == -1


def test_offsets_of_a_live_group_are_protected(admin: Any, name: str, member: Any) -> None:
    """While a group has members, foreign commits and deletes for subscribed topics are refused."""
    place = kafka.TopicPartition(name, 0)
    member.commit({place: kafka.OffsetAndMetadata(5)})
    altered = admin.alter_group_offsets(name, {place: kafka.OffsetAndMetadata(0)})
    assert altered == {place: UnknownMemberIdError}
    assert admin.delete_group_offsets(name, [place]) == {place: GroupSubscribedToTopicError}
    assert admin.list_group_offsets(name)[name][place].offset == 5


def test_an_admin_removes_members(admin: Any, bootstrap: str, name: str) -> None:
    """remove_group_members removes a static member by its instance id at once."""
    create_topic(bootstrap, name)
    with kafka.KafkaConsumer(
        name, bootstrap_servers=bootstrap, group_id=name, group_instance_id="stays-long"
    ) as consumer:
        know_topics(consumer)
        wait_for(lambda: consumer.poll(500) or consumer.assignment(), "an assignment")
    # The member is static, so closing its consumer did not remove it from the group.
    [described] = admin.describe_groups([name])[name]["members"]
    assert described["group_instance_id"] == "stays-long"
    removed = admin.remove_group_members(name, [MemberToRemove(group_instance_id="stays-long")])
    assert list(removed.values()) == [NoError]
    assert admin.describe_groups([name])[name]["group_state"] == "Empty"
    again = admin.remove_group_members(name, [MemberToRemove(group_instance_id="stays-long")])
    assert list(again.values()) == [UnknownMemberIdError]


def test_partition_offsets_are_listed(admin: Any, bootstrap: str, name: str) -> None:
    """list_partition_offsets finds first and end offset, largest timestamp, and offset by time."""
    create_topic(bootstrap, name)
    with kafka.KafkaProducer(bootstrap_servers=bootstrap) as producer:
        for timestamp_ms in (1_000, 9_000, 5_000):
            producer.send(name, b"x", timestamp_ms=timestamp_ms).get(timeout=30)
    place = kafka.TopicPartition(name, 0)
    expected = {"EARLIEST": (0, -1), "LATEST": (3, -1), "MAX_TIMESTAMP": (1, 9_000)}
    for spec, found in expected.items():
        answer = admin.list_partition_offsets({place: kafka.OffsetSpec[spec]})[place]
        assert (answer.offset, answer.timestamp) == found, spec


def test_the_quorum_and_features_are_described(admin: Any, name: str) -> None:
    """The quorum has one voter; update_features accepts only the current feature level."""
    quorum = admin.describe_metadata_quorum()
    (partition,) = quorum["topics"][0]["partitions"]
    assert [one["replica_id"] for one in partition["current_voters"]] == [partition["leader_id"]]
    features = admin.describe_features()
    level = features["group.version"]["finalized"][1]
    admin.update_features({"group.version": ("UPGRADE", level)})
    with pytest.raises(KafkaError):
        admin.update_features({"group.version": ("UPGRADE", level + 7)})


def test_replicas_stay_where_they_are(admin: Any, name: str) -> None:
    """The only broker has every replica, so no replica moves and no other leader can be elected."""
    admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1}})
    place = kafka.TopicPartition(name, 0)
    (described,) = admin.describe_topics([name])
    (node_id,) = described["partitions"][0]["replica_nodes"]
    admin.alter_partition_reassignments({place: [node_id]})
    assert not admin.list_partition_reassignments()
    admin.elect_leaders(0, {name: [0]}, raise_errors=False)
    assert admin.describe_topics([name]) == [described]
