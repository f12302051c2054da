"""Settings: their sources, invalid values, and the defaults of topics."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from coordinator_server.config.config import (
    Config,
    ConfigError,
    Listener,
    parse_address,
    settings_in_arguments,
)
from coordinator_server.config.coordinator_configs import group_settings
from coordinator_server.config.environment import settings_in_environment
from coordinator_server.config.group_settings import (
    CONSUMER_ASSIGNOR_CLASSES,
    GROUP_SETTINGS,
    SHARE_ASSIGNOR_CLASS,
)
from coordinator_server.config.other_names import OF_KAFKA
from coordinator_server.config.settings import (
    SETTINGS,
    TOPIC_CONFIGS,
    WITHOUT_EFFECT,
)
from coordinator_server.config.settings_page import describe
from coordinator_server.config.typos import describe_unknown
from coordinator_server.core.groups.settings import GroupKind
from protocol import REFERENCE_VERSION
from storage.config_def import Kind, Setting, parse, render
from storage.topic_settings import TOPIC_SETTINGS

ROOT = Path(__file__).parents[3]
KAFKAS = json.loads((ROOT / "tests" / "data" / "reference" / "settings.json").read_text())
"""Kafka's own tables, read from its ConfigDefs: type, default, limits, internal or not."""

OURS = {
    "create.topics",
    "create.topics.separator",
    "published.host",
    "published.port",
    "broker.count",
    "group.events.enable",
    "group.events.history.size",
    "group.events.listed",
    "ssl.handshake.timeout.ms",
    "scram.users",
    "dev.security.dir",
    # Settings of Kafka's authorizer, which are not in Kafka's table.
    "super.users",
    "allow.everyone.if.no.acl.found",
}

DIFFERENT = {
    "controller.quorum.voters": "there is no controller, so it may be empty",
    "advertised.listeners": "auto is ours; Kafka takes the listeners",
    "node.id": "required in Kafka",
    "sasl.server.callback.handler.class": "no class is loaded here, its name alone counts",
    "broker.id": "negative ids would be another name for none",
    "connections.max.idle.ms": "limits that Kafka checks later or not at all",
    "group.min.session.timeout.ms": "likewise",
    "group.max.session.timeout.ms": "likewise",
    "group.initial.rebalance.delay.ms": "likewise",
    "offset.metadata.max.bytes": "likewise",
    "offsets.topic.compression.codec": "only 0 is served",
    "share.coordinator.state.topic.compression.codec": "likewise",
    "offsets.topic.segment.bytes": "the least that a topic may have; Kafka refuses it later",
    "ssl.enabled.protocols": "Kafka checks the values when it makes the context",
    "ssl.protocol": "likewise",
    "principal.builder.class": "a class in Kafka, of which one is served here",
    "default.replication.factor": "an int16 on the wire",
    "group.consumer.migration.policy": "knows no case in Kafka",
    "authorizer.class.name": "any class in Kafka",
    "group.consumer.assignors": "any class in Kafka, which finds out later",
    "group.share.assignors": "likewise",
    "group.streams.assignors": "likewise",
}
"""Settings whose row differs from Kafka's on purpose, with the reason."""


def test_the_later_source_wins() -> None:
    """Settings override each other in the order default, file, environment, --set.

    The source of each value is remembered.
    """
    name = "group.max.size"
    assert (Config().integer(name), Config().source(name)) == (2147483647, "default")
    file, environment, overrides = {name: "1"}, {"KAFKA_GROUP_MAX_SIZE": "2"}, {name: "3"}
    assert Config(file=file).integer(name) == 1
    config = Config(file=file, environment=environment)
    assert (config.integer(name), config.source(name)) == (2, "environment")
    assert Config(file=file, environment=environment, overrides=overrides).integer(name) == 3


def test_environment_names_follow_kafkas_image() -> None:
    """In names of environment variables `_` is a dot, `__` an underscore and `___` a dash.

    Variables of the JVM are not settings.
    """
    environment = {
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_A__B___C_D": "x",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "PATH": "/bin",
    }
    assert settings_in_environment(environment) == {
        "group.initial.rebalance.delay.ms": "0",
        "a_b-c.d": "x",
    }


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("group.max.size", "x", "group.max.size: 'x' is not a number of type int"),
        ("group.max.size", "1.5", "group.max.size: '1.5' is not a number of type int"),
        ("group.max.size", "0", "group.max.size: 0 is less than 1"),
        ("group.max.size", "2147483648", "2147483648 is more than 2147483647"),
        ("auto.create.topics.enable", "yes", "'yes' is neither true nor false"),
        ("log.cleanup.policy", "delete,shred", "'shred' is none of compact, delete"),
        ("log.cleanup.policy", "delete,", "'delete,' has a blank item"),
        ("log.cleaner.min.cleanable.ratio", "nan", "'nan' is not a number of type double"),
        ("log.cleaner.min.cleanable.ratio", "2", "2.0 is more than 1"),
        ("compression.gzip.level", "0", "0 is neither 1 to 9 nor -1"),
        ("group.max.size", "-2147483649", "-2147483649 is less than -2147483648"),
        ("broker.count", "65", "broker.count: 65 is more than 64"),
        ("group.consumer.assignors", "range,sticky", "'sticky' is none of uniform, range, org."),
        ("group.consumer.session.timeout.ms", "9", "9 is less than group.consumer.min.session.ti"),
        ("group.share.max.session.timeout.ms", "9", "9 is less than group.share.session.timeout"),
        ("group.share.max.share.sessions", "199", "199 is less than group.share.max.size, 200"),
        ("group.share.assignors", "uniform", "'uniform' is none of simple, "),
        ("group.share.assignors", "", "group.share.assignors: a value is needed"),
        ("group.share.assignors", f"simple,{SHARE_ASSIGNOR_CLASS}", " is more than one assignor"),
        ("group.coordinator.rebalance.protocols", "consumer", ": consumer lacks classic"),
        ("group.coordinator.rebalance.protocols", "Classic", "'Classic' is none of classic, con"),
        ("listeners", "nonsense", "'nonsense' is not NAME://HOST:PORT"),
        ("listeners", "PLAINTEXT://h:99999", "is not NAME://HOST:PORT"),
        ("listeners", "", "a value is needed"),
        ("listeners", "PLAINTEXT://:9092,", "'PLAINTEXT://:9092,' has a blank item"),
        ("listeners", "PLAINTEXT://:1,plaintext://:2", "2 listeners have the name PLAINTEXT"),
        ("advertised.listeners", "A://h:1,A://h:2", "2 listeners have the name A"),
        ("advertised.listeners", "", "a value is needed"),
        ("log.dirs", "/a,", "'/a,' has a blank item"),
        ("controller.listener.names", "", "a value is needed"),
        ("advertised.listeners", "PLAINTEXT://0.0.0.0:9092", "name a host"),
        ("advertised.listeners", "PLAINTEXT://:9092", "name a host"),
        ("advertised.listeners", "PLAINTEXT://host:0", "name a port"),
        ("advertised.listeners", "HOST://host:9092", "no such listener, listeners has PLAINTEXT"),
        ("published.host", "0.0.0.0", "name a host"),
        ("published.port", "65536", "65536 is more than 65535"),
    ],
)
def test_a_bad_value_is_named(name: str, value: str, expected: str) -> None:
    """The error for an invalid setting names the setting, its value and the problem."""
    with pytest.raises(ConfigError, match="^" + name.replace(".", r"\.")) as caught:
        Config(overrides={name: value})
    assert expected in str(caught.value)


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_a_session_is_longer_than_a_heartbeat_interval(kind: str) -> None:
    """A session timeout that does not exceed the heartbeat interval is refused, as in Kafka."""
    times = {
        f"group.{kind}.min.session.timeout.ms": "5000",
        f"group.{kind}.session.timeout.ms": "5000",
    }
    expected = f"group.{kind}.session.timeout.ms: 5000 is not greater than group.{kind}.heartbeat"
    with pytest.raises(ConfigError, match=f"^{re.escape(expected)}"):
        Config(overrides=times)


def test_assignors_may_be_named_by_kafkas_classes() -> None:
    """Assignors may be named by Kafka's classes, as in a server.properties of Kafka 4.0."""
    classes = ",".join(reversed(CONSUMER_ASSIGNOR_CLASSES))
    config = Config(overrides={"group.consumer.assignors": classes})
    assert group_settings(config).consumer_assignors == ("range", "uniform")


def test_there_is_one_share_assignor() -> None:
    """The only share assignor is found by its name and by Kafka's class."""
    for item in ("simple", SHARE_ASSIGNOR_CLASS):
        assert Config(overrides={"group.share.assignors": item}).ignored == []


def test_protocols_that_are_off() -> None:
    """Every protocol except classic may be disabled; share groups are always enabled."""
    config = Config(overrides={"group.coordinator.rebalance.protocols": "consumer,classic"})
    assert group_settings(config).protocols == {GroupKind.CLASSIC, GroupKind.CONSUMER}
    assert config.ignored == []


def test_what_does_not_apply_is_collected() -> None:
    """Kafka's settings without effect here are collected for one warning, each setting once."""
    given = {"process.roles": "broker", "ssl.protocol": "TLSv1.3", "listener.name.a.b": "c"}
    config = Config(file=given, overrides={"process.roles": "controller"})
    assert config.ignored == list(given)
    assert config.unknown == {}
    assert Config(overrides={"log.cleaner.enable": "true"}).ignored == ["log.cleaner.enable"]
    environment = {"KAFKA_HEAP_OPTS": "-Xmx1g", "KAFKA_PROCESS_ROLES": "broker"}
    ignored = Config(environment=environment).ignored
    assert sorted(ignored) == ["KAFKA_HEAP_OPTS", "process.roles"]


def test_an_unknown_name_is_told_with_the_nearest() -> None:
    """A name that Kafka does not have is reported with the most similar setting."""
    config = Config(file={"num.partitionz": "3", "zzz": "1"}, overrides={"Group.Max.Size": "2"})
    assert config.unknown == {
        "num.partitionz": "num.partitions",
        "zzz": None,
        "Group.Max.Size": "group.max.size",
    }
    assert config.ignored == []
    assert describe_unknown(config.unknown) == (
        "num.partitionz: there is no such setting, did you mean num.partitions?; "
        "zzz: there is no such setting; "
        "Group.Max.Size: there is no such setting, did you mean group.max.size?"
    )


def test_the_environment_may_have_variables_of_others() -> None:
    """An environment variable is reported as a typo only if it resembles a setting."""
    config = Config(environment={"KAFKA_NUM_PARTITION": "3", "KAFKA_BOOTSTRAP_SERVERS": "a:1"})
    assert config.unknown == {"num.partition": "num.partitions"}
    assert config.ignored == ["bootstrap.servers"]


@pytest.mark.parametrize("source", ["file", "environment", "overrides"])
def test_strict_refuses_an_unknown_name(source: str) -> None:
    """--strict refuses unknown names from any source, but accepts all of Kafka's names."""
    name = "KAFKA_NUM_PARTITIONZ" if source == "environment" else "num.partitionz"
    settings: dict[str, Any] = {source: {name: "3"}}
    with pytest.raises(ConfigError, match=r"num\.partitionz: .* did you mean num\.partitions\?"):
        Config(strict=True, **settings)
    assert Config(strict=True, file=dict.fromkeys(OF_KAFKA, "")).unknown == {}


def test_the_other_names_are_kafkas() -> None:
    """The settings listed as without effect are exactly the Kafka settings that our table lacks."""
    assert KAFKAS["broker"].keys() - SETTINGS.keys() == OF_KAFKA


def test_set_wants_a_name_and_a_value() -> None:
    """`--set` takes NAME=VALUE; the value may be empty or contain equals signs."""
    assert settings_in_arguments(["a=b=c", "d="]) == {"a": "b=c", "d": ""}
    with pytest.raises(ConfigError, match="NAME=VALUE expected"):
        settings_in_arguments(["group.max.size"])


def test_a_topic_inherits_the_finest_unit() -> None:
    """retention.ms comes from log.retention.ms, else .minutes, else .hours; -1 stays -1."""
    assert Config().topic_default("retention.ms") == 168 * 3600 * 1000
    minutes = {"log.retention.minutes": "5", "log.retention.hours": "1"}
    assert Config(overrides=minutes).topic_default("retention.ms") == 300000
    assert Config(overrides={**minutes, "log.retention.ms": "7"}).topic_default("retention.ms") == 7
    assert Config(overrides={"log.retention.hours": "-1"}).topic_default("retention.ms") == -1


def test_topic_defaults_cover_every_topic_config() -> None:
    """Without settings each topic config has the default in the table."""
    for name, row in TOPIC_SETTINGS.items():
        assert Config().topic_default(name) == row.setting.default, name


def test_listeners_of_a_controller_are_left_out() -> None:
    """The CONTROLLER listener of a combined server.properties is ignored."""
    config = Config(
        file={
            "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        }
    )
    assert config.listeners() == (Listener("PLAINTEXT", "localhost", 9092),)


def test_listeners_may_have_any_name() -> None:
    """A listener with any name is mapped to its security protocol, also when advertised."""
    config = Config(
        overrides={
            "listeners": "INSIDE://:9092,OUTSIDE://[::1]:9093",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
            "advertised.listeners": "OUTSIDE://broker.example:9093",
        }
    )
    assert [listener.host for listener in config.listeners()] == ["", "::1"]
    assert config.advertised_listeners() == {"OUTSIDE": Listener("OUTSIDE", "broker.example", 9093)}


def test_listeners_of_a_controller_may_be_advertised() -> None:
    """Advertised controller listeners (KIP-853) are accepted and hidden from clients."""
    config = Config(
        file={
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "advertised.listeners": "PLAINTEXT://broker:9092,CONTROLLER://broker:9093",
            "controller.listener.names": "CONTROLLER",
        }
    )
    assert list(config.advertised_listeners()) == ["PLAINTEXT"]


def test_listener_names_know_no_case() -> None:
    """Listener names are compared in upper case, as in Kafka's ListenerName."""
    config = Config(
        overrides={
            "listeners": "inside://:9092,controller://:9093",
            "listener.security.protocol.map": "Inside:plaintext",
            "advertised.listeners": "INSIDE://broker:9092",
            "controller.listener.names": "Controller",
        }
    )
    assert config.listeners() == (Listener("INSIDE", "", 9092),)
    assert list(config.advertised_listeners()) == ["INSIDE"]


def test_one_published_port_is_for_one_listener() -> None:
    """published.port needs a single listener; with several brokers their ports are consecutive."""
    several = {
        "listeners": "A://:9092,B://:9093",
        "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
    }
    with pytest.raises(
        ConfigError, match=r"^published\.port: 1 cannot be the port of each of A, B"
    ):
        Config(overrides={**several, "published.port": "1"})
    config = Config(overrides={"broker.count": "3", "published.port": "19092"})
    assert config.of_broker(2).integer("published.port") == 19094
    assert config.of_broker(0).integer("published.port") == 19092
    with pytest.raises(ConfigError, match=r"^published\.port: .* there is no such port"):
        Config(overrides={"broker.count": "3", "published.port": "65534"})


@pytest.mark.parametrize(("given", "expected"), [({}, 1), ({"broker.id": "4"}, 4)])
def test_the_node_id_has_an_older_name(given: dict[str, str], expected: int) -> None:
    """node.id takes precedence over broker.id; the default is 1, and both get the same value."""
    config = Config(overrides=given)
    assert config.node_id == config.integer("node.id") == config.integer("broker.id") == expected
    assert config.source("node.id") == config.source("broker.id") == ("set" if given else "default")
    config = Config(overrides={**given, "node.id": "7"})
    assert config.node_id == config.integer("broker.id") == 7
    assert config.of_broker(2).integer("broker.id") == 9


def test_settings_of_listeners_that_there_are_not() -> None:
    """Settings of nonexistent listeners are reported as ignored.

    inter.broker.listener.name and security.inter.broker.protocol exclude each other.
    """
    overrides = {
        "listener.name.plaintext.ssl.client.auth": "required",
        "listener.name.elsewhere.ssl.client.auth": "required",
        "inter.broker.listener.name": "ELSEWHERE",
    }
    config = Config(overrides=overrides)
    assert config.ignored == [
        "inter.broker.listener.name",
        "listener.name.elsewhere.* (the listeners are plaintext)",
    ]
    assert config.own_settings("PLAINTEXT") == {"ssl.client.auth": "required"}
    assert config.of_listener("PLAINTEXT").text("ssl.client.auth") == "required"
    assert config.text("ssl.client.auth") == "none"
    with pytest.raises(ConfigError, match="only one of it and security"):
        Config(overrides={**overrides, "security.inter.broker.protocol": "SSL"})


def test_the_data_directory_is_the_first_of_the_list() -> None:
    """log.dirs takes precedence over log.dir, and only its first directory is used."""
    assert Config().data_directory == "/tmp/kafka-logs"
    assert Config(overrides={"log.dirs": "/a , /b"}).data_directory == "/a"
    assert Config(overrides={"log.dir": "/c,/d"}).data_directory == "/c"


def test_items_that_are_given_twice_count_once() -> None:
    """A listener that is given twice is opened once, as in Kafka 4 (KIP-1161)."""
    config = Config(overrides={"listeners": "PLAINTEXT://:9092,PLAINTEXT://:9092"})
    assert config.listeners() == (Listener("PLAINTEXT", "", 9092),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("host:1", ("host", 1)), (":0", ("", 0)), ("[::1]:9092", ("::1", 9092))],
)
def test_addresses(text: str, expected: tuple[str, int]) -> None:
    """An address is HOST:PORT; the host may be empty or an IPv6 address in brackets."""
    assert parse_address(text) == expected


@pytest.mark.parametrize("name", list(SETTINGS))
def test_every_default_is_legal(name: str) -> None:
    """The default of each setting parses back to itself and lies within its range."""
    default = render(SETTINGS[name].default)
    if default is not None:
        assert parse(SETTINGS[name], default) == SETTINGS[name].default


def test_every_setting_is_explained() -> None:
    """Each row of the table has a sentence that explains the setting."""
    for setting in SETTINGS.values():
        assert setting.meaning.endswith("."), setting.name
        assert isinstance(setting.kind, Kind)


def test_every_setting_is_read_or_said_to_have_no_effect() -> None:
    """WITHOUT_EFFECT has exactly the settings whose names the code never uses."""
    sources = [
        path.read_text()
        for path in (ROOT / "coordinator_server").rglob("*.py")
        if not path.name.endswith(("settings.py", "dynamic_checks.py"))
        if not {"client", "tools"} & set(path.parts)
    ]
    for name in SETTINGS.keys() - TOPIC_CONFIGS.keys():
        setting = SETTINGS[name]
        if len(setting.choices) == 1 or (
            setting.least is not None and setting.least == setting.most
        ):
            continue  # the setting has only one legal value, so no code reads it
        read = any(f'"{name}"' in source for source in sources)
        assert read != (name in WITHOUT_EFFECT), name


def kafkas_row(setting: Setting) -> tuple[str, str | None, set[str] | str | None, bool]:
    """Return type, default, choices or limits, and whether it is internal, like a recorded row."""
    limits: set[str] | str | None = None
    if setting.choices:
        limits = set(setting.choices)
    elif setting.least is not None:
        whole = setting.most in (2**15 - 1, 2**31 - 1, 2**63 - 1)
        limits = f"[{setting.least},...{'' if whole else f',{setting.most}'}]"
        if setting.besides is not None:
            limits += f" or {setting.besides}"
    return setting.kind.name, render(setting.default) or None, limits, setting.internal


def recorded_row(row: list[Any]) -> tuple[str, str | None, set[str] | str | None, bool]:
    """Return a recorded row, with its choices as a set."""
    kind, default, limits, internal = row
    if limits and not re.match(r"\[-?\d", limits):
        limits = set(limits.strip("[]").split(", "))
    return kind, default or None, limits or None, internal


def test_the_tables_are_of_the_reference_version() -> None:
    """The recorded tables of Kafka are from the reference version."""
    assert KAFKAS["version"] == REFERENCE_VERSION


@pytest.mark.parametrize("name", list(SETTINGS))
def test_the_settings_are_kafkas(name: str) -> None:
    """Each Kafka setting has Kafka's type, default and limits, except those listed in the test."""
    if name in OURS:
        assert name not in KAFKAS["broker"]
        return
    assert name in KAFKAS["broker"], f"Kafka has no setting {name}: add one of ours to OURS"
    ours = kafkas_row(SETTINGS[name])
    theirs = recorded_row(KAFKAS["broker"][name])
    if (topic := TOPIC_CONFIGS.get(name)) and KAFKAS["broker"][name][2] is None:
        theirs = (*theirs[:2], kafkas_row(TOPIC_SETTINGS[topic].setting)[2], theirs[3])
    assert (ours != theirs) == (name in DIFFERENT)


def test_the_topic_configs_are_kafkas() -> None:
    """The table of topic configs has all of Kafka's rows, with the same synonyms."""
    assert list(TOPIC_SETTINGS) == sorted(KAFKAS["topic"])
    for name, row in TOPIC_SETTINGS.items():
        ours, theirs = kafkas_row(row.setting), recorded_row(KAFKAS["topic"][name])
        if not name.endswith(".throttled.replicas") and name != "retention.bytes":
            assert ours == theirs, name
        sources = [source.name for source in row.sources]
        assert sources == KAFKAS["topic_synonyms"].get(name, []), name


def test_the_group_configs_are_kafkas() -> None:
    """Groups have Kafka's configs, each with the same broker setting and default."""
    assert GROUP_SETTINGS.keys() == KAFKAS["group"].keys()
    for name, setting in GROUP_SETTINGS.items():
        row = recorded_row(KAFKAS["group"][name])
        assert kafkas_row(setting)[:2] == row[:2], name
        source = KAFKAS["group_synonyms"][name]
        assert setting.name == (name if source is None else source)


def test_the_documentation_is_the_table() -> None:
    """docs/settings.md matches the output of `coordinator-server settings` (`make settings`)."""
    assert (ROOT / "docs" / "settings.md").read_text() == describe()
