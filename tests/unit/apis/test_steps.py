"""Requests that run in steps: other requests in between, and Kafka's limits on their size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coordinator_server.apis import (
    delete_topics,
)
from coordinator_server.steps import run_all
from protocol.apis.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.apis.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.apis.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.apis.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.apis.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from protocol.errors import ErrorCode
from protocol.schema import Message
from storage.errors import UnknownPartitionError
from tests.harness.broker import MemoryBroker
from tests.harness.records import batch

TOO_MANY = "Unable to perform excessively large batch operation."


def interrupted(
    broker: MemoryBroker,
    request: Message,
    version: int,
    meanwhile: Callable[[], object],
) -> Any:
    """Return the response to a request, with `meanwhile` called after its first step."""
    sent, steps = broker.begin(request, version)
    next(steps)
    meanwhile()
    run_all(steps)
    return sent.response


def creation(*names: str) -> CreateTopicsRequest:
    """Return a request for topics with one partition each."""
    topics = [CreatableTopic(name=one, num_partitions=1, replication_factor=1) for one in names]
    return CreateTopicsRequest(topics=topics)


def deletion(*names: str) -> DeleteTopicsRequest:
    """Return a request to delete topics."""
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names])


def setting(topic: str, name: str, value: str) -> AlterConfigsResource:
    """Return a change of one config of a topic."""
    config = AlterableConfig(name=name, config_operation=0, value=value)
    return AlterConfigsResource(resource_type=2, resource_name=topic, configs=[config])


def test_a_topic_that_another_request_has_created() -> None:
    """If another request creates a topic between two steps, only the other topics are created."""
    broker = MemoryBroker()
    response = interrupted(broker, creation("a", "b"), 7, lambda: broker.topics.create("b", 3, {}))
    codes = [one.error_code for one in response.topics]
    assert codes == [0, ErrorCode.TOPIC_ALREADY_EXISTS]
    assert broker.topics.partition_count("b") == 3


def test_a_topic_that_another_request_has_deleted() -> None:
    """If another request deletes a topic between two steps, that topic is unknown.

    The other topics are deleted.
    """
    broker = MemoryBroker()
    for name in ("a", "b"):
        broker.topics.create(name, 1, {})
    topic = broker.topics.topic("a")
    assert topic is not None

    def delete_a() -> None:
        run_all(broker.topics.delete([topic]))

    response = interrupted(broker, deletion("a", "b"), 6, delete_a)
    codes = [one.error_code for one in response.responses]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    assert list(broker.topics.all_topics()) == []


def test_partitions_that_another_request_has_added() -> None:
    """Partitions that another request adds between two steps are not added again."""
    broker = MemoryBroker()
    topic = broker.topics.create("a", 1, {})

    def widen() -> None:
        run_all(broker.topics.add_partitions({topic: broker.topics.placed(topic, 3)}))

    widened = CreatePartitionsTopic(name="a", count=5, assignments=None)
    request = CreatePartitionsRequest(topics=[widened])
    response = interrupted(broker, request, 3, widen)
    assert [one.error_code for one in response.results] == [0]
    assert [one.index for one in topic.partitions] == [0, 1, 2, 3, 4]


def test_configs_that_another_request_has_changed() -> None:
    """Two concurrent changes of a topic's configs are both applied."""
    broker = MemoryBroker()
    topic = broker.topics.create("a", 1, {})
    broker.topics.create("b", 1, {})
    resources = [setting("a", "retention.ms", "7"), setting("b", "retention.ms", "7")]
    request = IncrementalAlterConfigsRequest(resources=resources)
    sent, steps = broker.begin(request, 1)
    for _ in range(2 + 4):  # 2 steps count the resources, 4 steps plan the first change
        next(steps)
    run_all(broker.topics.set_configs({topic: {"segment.ms": "9"}}))
    run_all(steps)
    assert topic.configs == {"segment.ms": "9", "retention.ms": "7"}
    assert [one.error_code for one in sent.response.responses] == [0, 0]


def test_a_deleted_topic_never_reads_or_writes_a_new_one() -> None:
    """A request that holds a partition of a deleted topic gets an error from that partition."""
    broker = MemoryBroker()
    topic = broker.topics.create("a", 1, {})
    run_all(broker.topics.delete([topic]))
    broker.topics.create("a", 1, {})
    with pytest.raises(UnknownPartitionError):
        _ = topic.partitions[0].log


def test_too_many_topics_at_once() -> None:
    """CreateTopics of 5 001 topics needs 10 002 records and is refused entirely, as in Kafka."""
    broker = MemoryBroker()
    names = [f"t{number}" for number in range(5001)]
    response = broker.ask(creation(*names, "a b"), 7)
    refused = {(one.error_code, one.error_message) for one in response.topics}
    assert refused == {(ErrorCode.POLICY_VIOLATION, TOO_MANY)}
    assert list(broker.topics.all_topics()) == []


def test_too_many_partitions_at_once() -> None:
    """A request with more than 10 000 partitions is refused entirely, before other checks."""
    broker = MemoryBroker()
    topics = [CreatableTopic(name=one, num_partitions=6000) for one in ("t1", "t2", "t1")]
    response = broker.ask(CreateTopicsRequest(topics=topics), 7)
    text = "Excessively large number of partitions per request."
    answered = [(one.name, one.error_code, one.error_message) for one in response.topics]
    code = ErrorCode.POLICY_VIOLATION
    assert answered == [("t1", code, text), ("t2", code, text), ("t1", code, text)]


def test_too_many_names_are_not_created() -> None:
    """Metadata with 5 001 unknown names creates none of these topics, as in Kafka."""
    broker = MemoryBroker()
    names = [MetadataRequestTopic(name=f"t{number}") for number in range(5001)]
    response = broker.ask(MetadataRequest(topics=names), 9)
    assert {one.error_code for one in response.topics} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert list(broker.topics.all_topics()) == []


def test_too_many_deletions_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics beyond the limit are not deleted and get an error without a text, as in Kafka."""
    monkeypatch.setattr(delete_topics, "MAX_RECORDS_PER_REQUEST", 2)
    broker = MemoryBroker()
    for name in "abc":
        broker.topics.create(name, 1, {})
    response = broker.ask(deletion("a", "b", "c"), 6)
    answered = [(one.error_code, one.error_message) for one in response.responses]
    assert answered == [(0, None), (0, None), (ErrorCode.UNKNOWN_SERVER_ERROR, None)]
    assert [topic.name for topic in broker.topics.all_topics()] == ["c"]


def test_too_many_changes_of_configs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request with too many config changes is refused entirely, as in Kafka."""
    monkeypatch.setattr("coordinator_server.apis.config_writes.MAX_RECORDS_PER_REQUEST", 1)
    broker = MemoryBroker()
    for name in "ab":
        broker.topics.create(name, 1, {})
    resources = [setting(name, "retention.ms", "7") for name in "ab"]
    request = IncrementalAlterConfigsRequest(resources=resources)
    response = broker.ask(request, 1)
    answered = {(one.error_code, one.error_message) for one in response.responses}
    assert answered == {(ErrorCode.POLICY_VIOLATION, TOO_MANY)}
    assert all(not topic.configs for topic in broker.topics.all_topics())


def test_a_changed_value_is_one_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changing one config counts as one record, whether the config was set before or not."""
    monkeypatch.setattr("coordinator_server.apis.config_writes.MAX_RECORDS_PER_REQUEST", 1)
    broker = MemoryBroker()
    topic = broker.topics.create("a", 1, {})
    for value in ("7", "8"):
        request = IncrementalAlterConfigsRequest(resources=[setting("a", "retention.ms", value)])
        broker.ask(request, 1)
        assert topic.configs == {"retention.ms": value}


def test_one_request_writes_the_catalogue_once() -> None:
    """One request writes the catalogue once, even if it creates or deletes many topics."""
    broker = MemoryBroker()
    broker.topics.create("first", 1, {})
    names = [f"t{number}" for number in range(50)]
    for request, version in ((creation(*names), 7), (deletion(*names), 6)):
        before = len(broker.disk.operations)
        broker.ask(request, version)
        writes = [name for name, _ in broker.disk.operations[before:] if name == "sync"]
        assert len(writes) == 1


def test_no_change_is_not_written() -> None:
    """If all topics of a request are deleted between two steps, the request writes nothing."""
    broker = MemoryBroker()
    before = len(broker.disk.operations)
    run_all(broker.topics.set_configs({}))
    assert len(broker.disk.operations) == before


def test_configs_of_two_requests_at_once() -> None:
    """Of two concurrent config changes the later one applies to the topic and its open log."""
    broker = MemoryBroker()
    topics = [broker.topics.create(name, 1, {}) for name in ("a", "t")]
    log = broker.topics.log("t", 0)
    older = broker.topics.set_configs({topic: {"retention.ms": "1000"} for topic in topics})
    next(older)
    run_all(broker.topics.set_configs({topics[1]: {"retention.ms": "2000"}}))
    run_all(older)
    assert topics[1].configs == {"retention.ms": "2000"}
    assert log.config.retention_ms == 2000


def test_configs_of_a_topic_that_is_replaced_meanwhile() -> None:
    """A recreated topic of the same name keeps its own configs."""
    broker = MemoryBroker()
    topics = [broker.topics.create(name, 1, {}) for name in ("a", "t")]
    broker.topics.log("t", 0)
    older = broker.topics.set_configs({topic: {"retention.ms": "5"} for topic in topics})
    next(older)
    run_all(broker.topics.delete([topics[1]]))
    broker.topics.create("t", 1, {})
    log = broker.topics.log("t", 0)
    run_all(older)
    assert log.config.retention_ms == 7 * 24 * 3600 * 1000


@pytest.mark.parametrize("min_bytes", [1, 30])
def test_an_append_while_a_fetch_looks(min_bytes: int) -> None:
    """A fetch reads a partition again if records arrive after it was read."""
    broker = MemoryBroker()
    broker.topics.create("t", 3, {})
    asked = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        for index in range(3)
    ]
    request = FetchRequest(
        max_wait_ms=30_000,
        min_bytes=min_bytes,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic="t", partitions=asked)],
        session_epoch=-1,
    )
    _, alone = broker.begin(request, 12)
    count = len(list(alone))
    broker.broker.fetch_purgatory.close()
    call, steps = broker.begin(request, 12)
    for _ in range(count):  # run all steps, the last of which parks the fetch
        next(steps)
    partition = broker.topics.partition("t", 0)
    assert partition is not None
    partition.append(batch(b"v" * 20), broker.clock.now_ms())
    broker.turn()
    run_all(steps)
    assert not call.replies
    broker.turn()
    (response,) = call.replies
    assert response.responses[0].partitions[0].records


def test_a_negative_number_of_partitions_makes_no_room() -> None:
    """A negative partition count does not lower the total that is compared with the limit."""
    broker = MemoryBroker()
    topics = [
        CreatableTopic(name="negative", num_partitions=-(2**31), replication_factor=1),
        CreatableTopic(name="huge", num_partitions=10_001, replication_factor=1),
    ]
    request = CreateTopicsRequest(topics=topics)
    response = broker.ask(request, 7)
    assert [one.error_code for one in response.topics] == [ErrorCode.POLICY_VIOLATION] * 2


@pytest.mark.parametrize("steps_before", range(1, 12))
@pytest.mark.parametrize(
    ("kind", "name", "own", "others"),
    [
        (2, "t", ("retention.ms", "7"), ("segment.ms", "8")),
        (4, "", ("log.retention.ms", "7"), ("log.roll.ms", "8")),
        (16, "m", ("interval.ms", "700"), ("metrics", "a.")),
        (
            32,
            "g",
            ("consumer.session.timeout.ms", "50000"),
            ("share.record.lock.duration.ms", "20000"),
        ),
    ],
)
def test_a_config_that_another_request_sets_between_any_steps(
    kind: int, name: str, own: tuple[str, str], others: tuple[str, str], steps_before: int
) -> None:
    """Two concurrent config changes are both acknowledged and both stored, at any interleaving."""

    def request(config: tuple[str, str]) -> IncrementalAlterConfigsRequest:
        configs = [AlterableConfig(name=config[0], value=config[1], config_operation=0)]
        one = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        other = AlterConfigsResource(resource_type=2, resource_name="u", configs=[])
        return IncrementalAlterConfigsRequest(resources=[one, other])

    broker = MemoryBroker()
    topic, _ = (broker.topics.create(one, 1, {}) for one in "tu")
    call, steps = broker.begin(request(own), 1)
    for _ in range(steps_before):
        next(steps, None)
    broker.ask(request(others), 1)
    run_all(steps)
    kept = {
        2: topic.configs,
        4: broker.broker.dynamic_configs.own(""),
        16: broker.broker.telemetry.configs.own("m"),
        32: broker.broker.group_configs.own("g"),
    }[kind]
    assert {key: kept.get(key) for key, _ in (own, others)} == dict([own, others])
    assert all(one.error_code == 0 for one in call.replies[0].responses)
