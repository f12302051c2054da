"""DescribeConfigs and the defaults of topics. The responses were recorded from Kafka."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coordinator_server.config.config import Config
from coordinator_server.config.dynamic_settings import DYNAMIC
from coordinator_server.topics.topic_configs import log_defaults
from protocol import REFERENCE_VERSION
from protocol.apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.errors import ErrorCode
from storage.log_config import LogConfig
from tests.harness.broker import MemoryBroker

TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32
INVALID = ErrorCode.INVALID_REQUEST
DATA = Path(__file__).parents[2] / "data" / "reference"
RECORDED: dict[str, Any] = json.loads((DATA / "described_configs.json").read_text())


def broker(**overrides: Any) -> MemoryBroker:
    """Return a broker with a topic that has its own configs."""
    made = MemoryBroker(**overrides)
    made.topics.create("t", 1, {"retention.ms": "12345", "cleanup.policy": "compact,delete"})
    return made


def describe(
    made: MemoryBroker,
    kind: int,
    name: str,
    keys: list[str] | None = None,
    *,
    version: int = 4,
    **fields: Any,
) -> Any:
    """Return the result for one resource."""
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    request = DescribeConfigsRequest(resources=[resource], **fields)
    (result,) = made.ask(request, version).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


@pytest.mark.parametrize("version", range(1, 5))
def test_the_configs_of_a_topic(version: int) -> None:
    """All 37 topic configs have a value and a source, and since version 3 a type."""
    result = describe(broker(), TOPIC, "t", version=version)
    told = {
        one.name: (one.value, one.config_source, one.config_type, one.read_only, one.is_sensitive)
        for one in result.configs
    }
    assert result.error_code == 0
    assert len(told) == 37

    def kind(number: int) -> int:
        return number if version >= 3 else 0

    assert told["retention.ms"] == ("12345", 1, kind(5), False, False)
    assert told["cleanup.policy"] == ("compact,delete", 1, kind(7), False, False)
    assert told["segment.bytes"] == ("1073741824", 5, kind(3), False, False)
    assert told["segment.ms"] == ("604800000", 5, kind(5), False, False)
    assert told["min.cleanable.dirty.ratio"] == ("0.5", 5, kind(6), False, False)
    assert told["preallocate"] == ("false", 5, kind(1), False, False)
    assert told["message.timestamp.type"] == ("CreateTime", 5, kind(2), False, False)
    assert told["flush.ms"][0] == told["flush.messages"][0] == "9223372036854775807"
    assert told["unclean.leader.election.enable"][0] == "false"


def test_only_the_keys_asked_for() -> None:
    """DescribeConfigs leaves out unknown keys; an empty list of keys returns all configs."""
    made = broker()
    names = {one.name for one in describe(made, TOPIC, "t", ["retention.ms", "nope"]).configs}
    assert names == {"retention.ms"}
    assert len(describe(made, TOPIC, "t", []).configs) == 37


def synonyms(result: Any) -> list[tuple[str, str | None, int]]:
    """Return name, value and source of the synonyms of the only config."""
    (config,) = result.configs
    return [(one.name, one.value, one.source) for one in config.synonyms]


def test_synonyms() -> None:
    """Synonyms are returned only on request, the effective one first."""
    made = broker(log_segment_bytes="2000000", log_retention_hours="24")
    ask = {"include_synonyms": True}
    assert synonyms(describe(made, TOPIC, "t", ["segment.bytes"])) == []
    assert synonyms(describe(made, TOPIC, "t", ["segment.bytes"], **ask)) == [
        ("log.segment.bytes", "2000000", 4),
        ("log.segment.bytes", "1073741824", 5),
    ]
    assert synonyms(describe(made, TOPIC, "t", ["cleanup.policy"], **ask)) == [
        ("cleanup.policy", "compact,delete", 1),
        ("log.cleanup.policy", "delete", 5),
    ]
    assert synonyms(describe(made, TOPIC, "t", ["retention.ms"], **ask)) == [
        ("retention.ms", "12345", 1),
    ]


def test_a_brokers_setting_is_the_topics_default() -> None:
    """A topic without its own config uses the broker's value, in whichever unit that value is set.

    As in Kafka, only the setting with the finest unit is shown as the source.
    """
    made = MemoryBroker(log_retention_hours="24")
    made.topics.create("plain", 1, {})
    (config,) = describe(made, TOPIC, "plain", ["retention.ms"]).configs
    assert (config.value, config.config_source, config.synonyms) == ("86400000", 5, [])
    assert made.topics.log("plain", 0).config.retention_ms == 86400000


def test_values_are_described_as_they_are_read() -> None:
    """Values are described as parsed: without white space, plus signs and repeated items."""
    made = MemoryBroker()
    given = {"retention.ms": " +5 ", "preallocate": "TRUE", "cleanup.policy": "compact, compact"}
    made.topics.create("own", 1, given)
    values = {one.name: one.value for one in describe(made, TOPIC, "own", list(given)).configs}
    assert values == {"retention.ms": "5", "preallocate": "true", "cleanup.policy": "compact"}


def test_an_internal_config_is_described_once_it_is_set() -> None:
    """internal.segment.bytes is listed only for topics that set it, as in Kafka."""
    made = MemoryBroker()
    made.topics.create("small", 1, {"internal.segment.bytes": "100"})
    (config,) = describe(made, TOPIC, "small", ["internal.segment.bytes"]).configs
    assert (config.value, config.config_source) == ("100", 1)


def test_an_internal_config_of_groups_is_described_where_the_broker_has_it() -> None:
    """consumer.assignor.offload.enable is listed for groups if the broker sets it."""
    name = "consumer.assignor.offload.enable"
    assert not describe(MemoryBroker(), GROUP, "g", [name]).configs
    made = MemoryBroker(group_consumer_assignor_offload_enable="false")
    (config,) = describe(made, GROUP, "g", [name]).configs
    assert (config.value, config.config_source) == ("false", 4)


def recorded(section: str) -> dict[str, Any]:
    """Return configs of a running Kafka: name -> value, source, type, synonyms."""
    described: dict[str, Any] = RECORDED[section]
    return described


def shown(result: Any) -> dict[str, Any]:
    """Return value, source, type and synonyms of each described config, by config name."""
    return {
        one.name: [
            one.value,
            one.config_source,
            one.config_type,
            [[each.name, each.value, each.source] for each in one.synonyms],
        ]
        for one in result.configs
    }


def test_what_a_running_kafka_describes() -> None:
    """Topics, groups and the broker have the same descriptions as in Kafka with the same settings.

    The only difference is a list with a repeated item.
    """
    assert RECORDED["version"] == REFERENCE_VERSION
    made = MemoryBroker(**{name.replace(".", "_"): v for name, v in RECORDED["settings"].items()})
    made.topics.create("own", 1, {"retention.ms": "12345", "cleanup.policy": "compact,delete"})
    for kind, name, section in ((TOPIC, "own", "topic"), (GROUP, "g", "group")):
        ours = shown(describe(made, kind, name, include_synonyms=True))
        theirs = recorded(section)
        assert ours.keys() == theirs.keys()
        differing = {one for one in ours if ours[one] != theirs[one]}
        expected = {"cleanup.policy"} if section == "topic" else set()
        assert differing == expected
    ours, theirs = shown(describe(made, BROKER, "1", include_synonyms=True)), recorded("broker")
    differing = {one for one in theirs if ours[one] != theirs[one]}
    assert differing == {"log.cleanup.policy"}


def test_documentation_only_if_asked_for() -> None:
    """Without include_documentation the documentation is null; with it every config has a text."""
    made = broker()
    assert all(one.documentation is None for one in describe(made, TOPIC, "t").configs)
    documented = describe(made, TOPIC, "t", include_documentation=True).configs
    assert all(one.documentation for one in documented)


@pytest.mark.parametrize(
    ("kind", "name", "error", "text"),
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: 'a b' contains"),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string"),
        (BROKER, "7", INVALID, "Unexpected broker id, expected 1 or empty string, but received 7"),
        (BROKER, "x", INVALID, "Broker id must be an integer, but it is: x"),
        (LOGGER, "3", INVALID, "Unexpected broker id, expected 1 but received 3"),
        (GROUP, "", INVALID, "Group name must not be empty"),
        (99, "z", INVALID, "This most likely occurs because of a request being malformed by the"),
    ],
)
def test_resources_that_are_not_there(kind: int, name: str, error: ErrorCode, text: str) -> None:
    """DescribeConfigs of an unknown resource gets the error and text that Kafka uses."""
    result = describe(broker(), kind, name)
    assert (result.error_code, result.configs) == (error, [])
    assert result.error_message.startswith(text)


def test_the_settings_of_the_broker() -> None:
    """All settings are listed under the broker's id; settings given at the start are static."""
    made = broker(num_partitions="4")
    result = describe(made, BROKER, "1", include_synonyms=True)
    told = {one.name: one for one in result.configs}
    assert {one.name for one in result.configs if not one.read_only} < DYNAMIC
    one = told["num.partitions"]
    assert (one.value, one.config_source, one.config_type) == ("4", 4, 3)
    assert [(each.value, each.source) for each in one.synonyms] == [("4", 4), ("1", 5)]
    one = told["log.retention.ms"]
    assert (one.value, one.config_source, one.synonyms) == (None, 5, [])
    assert told["log.retention.hours"].value == "168"


@pytest.mark.parametrize(
    ("setting", "value", "source"),
    [
        (None, "PLAINTEXT://127.0.0.1:9092", 5),
        ("auto", "PLAINTEXT://127.0.0.1:9092", 4),
        ("PLAINTEXT://pc.example:29092", "PLAINTEXT://pc.example:29092", 4),
    ],
)
def test_advertised_listeners_are_addresses(setting: str | None, value: str, source: int) -> None:
    """With `auto` the client sees its actual address in advertised.listeners."""
    made = broker(**({} if setting is None else {"advertised_listeners": setting}))
    (one,) = describe(made, BROKER, "1", ["advertised.listeners"]).configs
    assert (one.value, one.config_source) == (value, source)


def test_what_is_set_for_all_brokers() -> None:
    """The empty broker name describes the cluster-wide configs, always with min.insync.replicas."""
    result = describe(broker(), BROKER, "")
    (config,) = result.configs
    assert (config.name, config.value, config.config_source) == ("min.insync.replicas", "1", 3)


def test_loggers_and_groups() -> None:
    """The root logger has the level of the process's log; a group has the broker's timeouts."""
    made = broker(group_consumer_session_timeout_ms="46000")
    (root,) = describe(made, LOGGER, "1").configs
    assert (root.name, root.value, root.config_source, root.read_only) == ("root", "INFO", 6, False)
    told = {one.name: one.value for one in describe(made, GROUP, "g").configs}
    assert told["consumer.session.timeout.ms"] == "46000"
    assert len(told) == 21


def test_the_defaults_of_logs_are_kafkas() -> None:
    """Without settings a log has Kafka's default config."""
    assert log_defaults(Config()) == LogConfig()
