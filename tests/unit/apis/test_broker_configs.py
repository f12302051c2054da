"""Dynamic broker configs, for one broker or for all: persistence and immediate effect."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from coordinator_server.cluster_reset import reset
from coordinator_server.config.coordinator_configs import transaction_settings
from coordinator_server.config.dynamic_checks import MOST_LISTED_CHARACTERS
from coordinator_server.events.log import LOG
from coordinator_server.net.address_limits import AddressLimits
from coordinator_server.net.connection_slots import ConnectionSlots
from coordinator_server.steps import run_all
from protocol.apis.describe_cluster import DescribeClusterRequest
from protocol.apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.apis.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.apis.metadata import MetadataRequest
from protocol.errors import ErrorCode
from storage.memory_disk import MemoryDisk
from tests.harness.broker import MemoryBroker
from tests.harness.client import Client
from tests.harness.nodes import Nodes
from tests.harness.records import batch

BROKER, LOGGER = 4, 8
SET, DELETE = 0, 1
ALL = ""

Outcome = tuple[int, str | None]


def alter(nodes: Nodes, node_id: int, name: str, /, **configs: str | None) -> Outcome:
    """Send IncrementalAlterConfigs for a broker; return the error code and message.

    None deletes a config. Names are written with underscores.
    """
    return change(nodes, node_id, name, BROKER, configs)


def change(
    nodes: Nodes, node_id: int, name: str, kind: int, configs: Mapping[str, str | None]
) -> Outcome:
    """Send IncrementalAlterConfigs for one resource; return the error code and message."""
    changes = [
        AlterableConfig(
            name=key.replace("_", "."),
            config_operation=DELETE if value is None else SET,
            value=value,
        )
        for key, value in configs.items()
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[resource])
    answer: Any = nodes.ask(request, node_id=node_id)
    (result,) = answer.responses
    return result.error_code, result.error_message


def shown(nodes: Nodes, node_id: int, setting: str) -> tuple[str | None, int]:
    """Return value and source of a broker setting."""
    resource = DescribeConfigsResource(
        resource_type=BROKER, resource_name=str(node_id), configuration_keys=[setting]
    )
    request = DescribeConfigsRequest(resources=[resource])
    answer: Any = nodes.ask(request, node_id=node_id)
    (config,) = answer.results[0].configs
    return config.value, config.config_source


async def test_they_are_kept_and_hold_again_after_a_restart() -> None:
    """Acknowledged configs survive a crash of the process and a power cut."""
    disk = MemoryDisk()
    nodes = Nodes(disk, 1)
    nodes.cluster.topics.create("t", 1, {})
    assert alter(nodes, 1, ALL, log_retention_ms="5000", own="x") == (0, None)
    assert alter(nodes, 1, "1", log_retention_ms="6000", num_io_threads="9") == (0, None)
    assert alter(nodes, 1, "1", num_io_threads=None) == (0, None)
    disk.power_cut()
    again = Nodes(disk, 1)
    assert shown(again, 1, "log.retention.ms") == ("6000", 2)
    assert shown(again, 1, "num.io.threads") == ("8", 5)
    assert again.cluster.topics.log("t", 0).config.retention_ms == 6000
    assert alter(again, 1, "1", log_retention_ms=None) == (0, None)
    assert shown(again, 1, "log.retention.ms") == ("5000", 3)
    assert again.cluster.topics.log("t", 0).config.retention_ms == 5000
    await reset(again.cluster)
    assert shown(again, 1, "log.retention.ms") == (None, 5)
    await again.cluster.stop()


async def test_min_insync_replicas_is_that_of_the_first_start() -> None:
    """The first start sets min.insync.replicas; after that only clients and a reset change it."""
    disk = MemoryDisk()
    for given, expected in (("2", "2"), ("3", "2"), (None, "2"), ("5", "2")):
        settings = {} if given is None else {"min_insync_replicas": given}
        nodes = Nodes(disk, 1, **settings)
        assert shown(nodes, 1, "min.insync.replicas") == (expected, 3)
        assert nodes.cluster.config.integer("min.insync.replicas") == int(expected)
        disk.power_cut()
    again = Nodes(disk, 1, min_insync_replicas="5")
    assert alter(again, 1, ALL, min_insync_replicas="4") == (0, None)
    assert shown(again, 1, "min.insync.replicas") == ("4", 3)
    await reset(again.cluster)
    assert shown(again, 1, "min.insync.replicas") == ("5", 3)
    await again.cluster.stop()


async def test_a_value_has_at_most_32767_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value has at most 32767 UTF-16 units, as in Kafka; other errors are reported first."""
    nodes = Nodes(None, 1)
    too_long = "exceeds the maximum value size of 32767 bytes"
    assert alter(nodes, 1, "1", own="x" * 32_767) == (0, None)
    monkeypatch.setattr(nodes, "ask", partial(MemoryBroker.ask_unencoded, nodes))
    for text in ("x" * 32_768, "\U0001f600" * 16_384):
        code, message = alter(nodes, 1, "1", own=text)
        assert (code, too_long in str(message)) == (ErrorCode.INVALID_CONFIG, True)
    code, _ = alter(nodes, 1, "1", own="x" * 32_768, log_retention_ms="x")
    assert code == ErrorCode.INVALID_REQUEST
    names = [f"X{number}" for number in range(50_000)]
    listeners = ",".join(f"{name}://127.0.0.1:0" for name in names)
    protocols = ",".join(f"{name}:PLAINTEXT" for name in names)
    added = {"listeners": listeners, "listener_security_protocol_map": protocols}
    code, message = alter(nodes, 1, "1", **added)
    assert (code, too_long in str(message)) == (ErrorCode.INVALID_CONFIG, True)
    await nodes.cluster.stop()


def test_a_write_that_fails_changes_nothing() -> None:
    """A failed write returns KAFKA_STORAGE_ERROR and leaves the settings unchanged."""
    disk = MemoryDisk()
    nodes = Nodes(disk, 1)
    assert alter(nodes, 1, "1", message_max_bytes="2000") == (0, None)
    disk.fail_at(1)
    code, _ = alter(nodes, 1, "1", message_max_bytes="3000")
    assert code == ErrorCode.KAFKA_STORAGE_ERROR
    assert shown(nodes, 1, "message.max.bytes") == ("2000", 2)


async def test_a_config_of_one_broker_is_of_that_broker_alone() -> None:
    """A log uses the defaults of the broker that leads it, also after the leader moves."""
    nodes = Nodes()
    topic = nodes.cluster.topics.create("t", 3, {})
    own = nodes.cluster.topics.create("own", 3, {"retention.ms": "77"})
    assert alter(nodes, 2, "2", log_retention_ms="5000") == (0, None)
    for node_id, value in ((1, None), (2, "5000"), (3, None)):
        source = 5 if value is None else 2
        assert shown(nodes, node_id, "log.retention.ms") == (value, source)
    default_ms = nodes.cluster.config.topic_default("retention.ms")
    for partition in topic.partitions:
        expected = 5000 if partition.leader_id == 2 else default_ms
        assert partition.log.config.retention_ms == expected
    assert {partition.log.config.retention_ms for partition in own.partitions} == {77}
    moved = next(one for one in topic.partitions if one.leader_id != 2)
    nodes.cluster.move(topic, moved, 2)
    assert moved.log.config.retention_ms == 5000
    nodes.cluster.move(topic, moved, 3)
    assert moved.log.config.retention_ms == default_ms
    assert alter(nodes, 1, ALL, log_retention_ms="6000") == (0, None)
    assert moved.log.config.retention_ms == 6000
    refused = alter(nodes, 1, "2", log_retention_ms="1")
    assert refused == (42, "Unexpected broker id, expected 1, but received 2")
    await nodes.cluster.stop()


async def test_defaults_that_contradict_a_topics_configs_do_not_close_its_log() -> None:
    """A broker default that contradicts a topic's config does not prevent opening its log."""
    disk = MemoryDisk()
    nodes = Nodes(disk, 1)
    nodes.cluster.topics.create("t", 1, {"max.compaction.lag.ms": "5"})
    lag = {"log_cleaner_min_compaction_lag_ms": "9"}
    assert alter(nodes, 1, ALL, **lag) == (0, None)
    assert nodes.cluster.topics.log("t", 0).config.min_compaction_lag_ms == 9
    await nodes.cluster.stop()
    again = Nodes(disk, 1)
    assert again.cluster.topics.log("t", 0).config.max_compaction_lag_ms == 5
    await again.cluster.stop()


async def test_what_holds_at_once() -> None:
    """Groups, transactions, the cleaner and producer ids apply new configs without a restart."""
    nodes = Nodes(None, 1)
    nodes.cluster.topics.create("t", 1, {})
    broker = nodes.cluster.brokers[1]
    partition = nodes.cluster.topics.partition("t", 0)
    assert partition is not None
    partition.append(batch(b"v"), nodes.clock.now_ms())
    changes = {
        "group_consumer_assignment_interval_ms": "11",
        "group_share_assignment_interval_ms": "12",
        "group_streams_assignment_interval_ms": "13",
        "transaction_partition_verification_enable": "false",
        "producer_id_expiration_ms": "14",
        "message_max_bytes": "15",
    }
    assert alter(nodes, 1, ALL, **changes) == (0, None)
    settings = broker.groups._environment.settings
    assert settings.consumer_assignment_interval_ms == 11
    assert settings.share_assignment_interval_ms == 12
    assert settings.streams_assignment_interval_ms == 13
    assert transaction_settings(broker.config) == broker.transactions.settings
    assert not transaction_settings(broker.config).verifies_partitions
    log = nodes.cluster.topics.log("t", 0)
    assert (log.config.producer_id_expiration_ms, log.config.max_message_bytes) == (14, 15)
    scheduler = nodes.cluster.topics.maintenance
    assert alter(nodes, 1, "1", log_cleaner_backoff_ms="20") == (0, None)
    assert scheduler._interval_ms == 20
    assert scheduler._round_due_ms <= nodes.clock.now_ms() + 20
    await nodes.cluster.stop()


async def test_coarser_units_do_not_count_any_more() -> None:
    """Once log.retention.ms is set, log.retention.hours is shown with its default, as in Kafka."""
    nodes = Nodes(None, 1, log_retention_hours="24")
    assert alter(nodes, 1, "1", log_retention_ms="-5") == (0, None)
    assert shown(nodes, 1, "log.retention.ms") == ("-5", 2)
    assert shown(nodes, 1, "log.retention.hours") == ("168", 4)
    nodes.cluster.topics.create("t", 1, {})
    assert nodes.cluster.topics.log("t", 0).config.retention_ms == -1
    await nodes.cluster.stop()


async def test_very_many_names_are_cut_off_in_the_text() -> None:
    """An error message names a bounded number of configs, and is built in steps.

    No client reads a text of more than 32 767 bytes.
    """
    nodes = Nodes(None, 1)
    configs = {f"listener.name.n{one}.ssl.keystore.type": "JKS" for one in range(2000)}
    steps = nodes.cluster.dynamic_configs.error(1, ALL, configs)
    count = 0
    try:
        while True:
            next(steps)
            count += 1
    except StopIteration as stopped:
        text = stopped.value
    assert count == len(configs)
    assert text.startswith("Cannot update these configs at default cluster level, ")
    assert text.endswith(", ...]")
    assert len(text) < MOST_LISTED_CHARACTERS + 200
    too_many = {f"n{one}": "v" for one in range(10_001)}
    code, _ = alter(nodes, 1, "1", **too_many)
    assert code == ErrorCode.POLICY_VIOLATION
    await nodes.cluster.stop()


@pytest.fixture
def log_level() -> Iterator[None]:
    """Restore the level of the log after the test."""
    before = LOG.kafka_level
    yield
    LOG.set_level(before)


@pytest.mark.usefixtures("log_level")
async def test_the_level_of_the_log_can_change() -> None:
    """The root logger controls the level of the process's log; refused changes have no effect."""
    nodes = Nodes(None, 1)
    assert change(nodes, 1, "1", LOGGER, {"root": "DEBUG"}) == (0, None)
    assert (LOG.kafka_level, LOG.debug) == ("DEBUG", True)
    assert change(nodes, 1, "1", LOGGER, {"root": "FATAL"}) == (0, None)
    assert (LOG.kafka_level, LOG.debug) == ("FATAL", False)
    code, message = change(nodes, 1, "1", LOGGER, {"root": "debug"})
    assert (code, LOG.kafka_level) == (ErrorCode.INVALID_CONFIG, "FATAL")
    assert message is not None
    assert message.endswith("Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN")
    await reset(nodes.cluster)
    assert (LOG.kafka_level, LOG.debug) == ("INFO", False)
    await nodes.cluster.stop()


async def test_a_value_that_is_not_valid_by_now_has_no_effect() -> None:
    """An invalid value stored by another release has no effect and does not prevent a start."""
    disk = MemoryDisk()
    nodes = Nodes(disk, 1)
    run_all(nodes.cluster.dynamic_configs.set({"1": {"message.max.bytes": "many"}}))
    await nodes.cluster.stop()
    again = Nodes(disk, 1)
    assert shown(again, 1, "message.max.bytes") == ("1048588", 2)
    await again.cluster.stop()
    await asyncio.sleep(0)


PROTOCOLS = "PLAINTEXT:PLAINTEXT,X:PLAINTEXT"


async def test_a_broker_without_the_listener_of_a_client_is_left_out() -> None:
    """Metadata omits brokers without the client's listener; their partitions have no leader."""
    nodes = Nodes(None, 2)
    first, second = nodes.cluster.topics.create("t", 2, {}).partitions
    nodes.move(first, 1)
    nodes.move(second, 2)
    listeners = "PLAINTEXT://127.0.0.1:9092,X://127.0.0.1:9999"
    added = {"listeners": listeners, "listener_security_protocol_map": PROTOCOLS}
    assert alter(nodes, 1, "1", **added) == (0, None)
    assert [one.name for one in nodes.cluster.servers.addresses(1)] == ["PLAINTEXT", "X"]
    assert [one.name for one in nodes.cluster.servers.addresses(2)] == ["PLAINTEXT"]
    call = nodes.send(MetadataRequest(topics=None), node_id=1)
    assert [one.node_id for one in call.replies[0].brokers] == [1, 2]
    client = Client(listener_name="X", local_address=("127.0.0.1", 9999))
    call = nodes.send(MetadataRequest(topics=None), 12, client=client)
    (shown,) = [one for one in call.replies[0].topics if one.name == "t"]
    assert [(one.node_id, one.port) for one in call.replies[0].brokers] == [(1, 9999)]
    assert [(one.error_code, one.leader_id) for one in shown.partitions] == [
        (ErrorCode.NONE, 1),
        (ErrorCode.LISTENER_NOT_FOUND, -1),
    ]
    assert 2 in shown.partitions[1].offline_replicas
    call = nodes.send(MetadataRequest(topics=None), 5, client=client)
    (shown,) = [one for one in call.replies[0].topics if one.name == "t"]
    assert shown.partitions[1].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    described = nodes.ask(DescribeClusterRequest(), 2, client=client)
    assert [one.broker_id for one in described.brokers] == [1]
    await nodes.cluster.stop()


async def test_listeners_that_cannot_be_had_any_more_are_those_of_the_start() -> None:
    """Stored dynamic listeners are ignored if the protocol map at the start lacks their names."""
    disk = MemoryDisk()
    nodes = Nodes(disk, 1)
    listeners = "PLAINTEXT://127.0.0.1:9092,X://127.0.0.1:9999"
    added = {"listeners": listeners, "listener_security_protocol_map": PROTOCOLS}
    assert alter(nodes, 1, "1", **added) == (0, None)
    await nodes.cluster.stop()
    again = Nodes(disk, 1)
    assert [one.port for one in again.cluster.servers.addresses(1)] == [9092, 9999]
    await again.cluster.stop()
    other = Nodes(
        disk,
        1,
        listeners="OTHER://:1",
        advertised_listeners="OTHER://a:1",
        listener_security_protocol_map="OTHER:PLAINTEXT",
    )
    assert [one.name for one in other.cluster.servers.addresses(1)] == ["OTHER"]
    await other.cluster.stop()


async def test_a_listener_of_the_controller_stays() -> None:
    """A change that removes the last controller listener is refused."""
    names = {"controller_listener_names": "C", "listener_security_protocol_map": "A:SSL,C:SSL"}
    nodes = Nodes(None, 1, listeners="A://:1,C://:2", **names)
    code, message = alter(nodes, 1, "1", listeners="A://:1")
    assert code == ErrorCode.INVALID_REQUEST
    assert "must contain at least one value appearing in the 'listeners'" in str(message)
    await nodes.cluster.stop()


async def test_limits_of_connections_can_be_raised_and_lowered() -> None:
    """Connection limits change at once; an unresolvable host does not prevent a start."""
    nodes = Nodes(None, 1)
    config = nodes.cluster.config
    slots, addresses = ConnectionSlots(config), AddressLimits(config)
    slots.take("PLAINTEXT")
    looked: list[bool] = []
    assert addresses.opened("10.0.0.1") is None
    assert alter(nodes, 1, "1", max_connections="1", max_connections_per_ip="1") == (0, None)
    slots.settings_changed()
    addresses.settings_changed()
    assert slots.refusal("PLAINTEXT") == "max.connections of the listener is 1"
    assert addresses.opened("10.0.0.1") == "10.0.0.1 has 1 connections, max.connections.per.ip"
    slots.wait(lambda: looked.append(True))
    overrides = "10.0.0.1:5,no-such-host.invalid:5"
    changes = {"max_connections": "2", "max_connections_per_ip_overrides": overrides}
    assert alter(nodes, 1, "1", **changes) == (0, None)
    slots.settings_changed()
    addresses.settings_changed()
    assert (slots.refusal("PLAINTEXT"), looked) == (None, [True])
    assert addresses.opened("10.0.0.1") is None
    refused = alter(nodes, 1, "1", max_connections_per_ip_overrides="10.0.0.1:+-5")
    assert refused[0] == ErrorCode.INVALID_REQUEST
    assert 'For input string: "+-5"' in str(refused[1])
    named = {"max_connections_per_ip_overrides": "localhost:0,10.0.0.1:5,no-such-host.invalid:5"}
    assert alter(nodes, 1, "1", **named) == (0, None)
    addresses.settings_changed()
    async with asyncio.timeout(10):
        while addresses._overrides.keys() != {"10.0.0.1", "127.0.0.1"}:
            await asyncio.sleep(0)
    again = AddressLimits(config)
    assert again.opened("10.0.0.1") is None
    assert again.opened("10.0.0.2") is None
    assert again.opened("10.0.0.2") is not None
    await nodes.cluster.stop()
