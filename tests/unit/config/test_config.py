"""Settings: where values come from, what is refused, what topics inherit."""

from pathlib import Path

import pytest

from coordinator_server.config.config import (
    Config,
    ConfigError,
    Listener,
    parse_address,
    settings_in_arguments,
    settings_in_environment,
)
from coordinator_server.config.settings import (
    SETTINGS,
    TOPIC_SETTINGS,
    WITHOUT_EFFECT,
    Kind,
    describe,
    render,
)
from storage.log_config import SETTINGS as TOPIC_CONFIGS

ROOT = Path(__file__).parents[3]


def test_the_later_source_wins() -> None:
    """Order: default < file < environment < --set, and the source is remembered."""
    name = "group.max.size"
    assert (Config().integer(name), Config().source(name)) == (2147483647, "default")
    file, environment, overrides = {name: "1"}, {"KAFKA_GROUP_MAX_SIZE": "2"}, {name: "3"}
    assert Config(file=file).integer(name) == 1
    config = Config(file=file, environment=environment)
    assert (config.integer(name), config.source(name)) == (2, "environment")
    assert Config(file=file, environment=environment, overrides=overrides).integer(name) == 3


def test_environment_names_follow_kafkas_image() -> None:
    """`_` is a dot, `__` an underscore, `___` a dash; variables of the JVM are no settings."""
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
        ("log.cleaner.min.cleanable.ratio", "nan", "nan is less than 0"),
        ("broker.count", "65", "broker.count: 65 is more than 64"),
        ("listeners", "nonsense", "'nonsense' is not NAME://HOST:PORT"),
        ("listeners", "PLAINTEXT://h:99999", "is not NAME://HOST:PORT"),
        ("listeners", "SSL://:9093", "security protocol SSL is not served"),
        ("listeners", "", "no address to listen on"),
        ("advertised.listeners", "PLAINTEXT://0.0.0.0:9092", "name a host"),
        ("advertised.listeners", "PLAINTEXT://:9092", "name a host"),
        ("advertised.listeners", "PLAINTEXT://host:0", "name a port"),
        ("advertised.listeners", "HOST://host:9092", "no such listener, listeners has PLAINTEXT"),
        ("published.host", "0.0.0.0", "name a host"),
        ("published.port", "65536", "65536 is more than 65535"),
    ],
)
def test_a_bad_value_is_named(name: str, value: str, expected: str) -> None:
    """The error names the setting, the value and what is wrong with it."""
    with pytest.raises(ConfigError, match="^" + name.replace(".", r"\.")) as caught:
        Config(overrides={name: value})
    assert expected in str(caught.value)


def test_what_does_not_apply_is_collected() -> None:
    """Unknown names and those of a KRaft controller are kept for one warning, each once."""
    config = Config(file={"process.roles": "broker", "no.such": "1"}, overrides={"no.such": "2"})
    assert config.ignored == ["process.roles", "no.such"]
    assert Config(overrides={"broker.rack": "r"}).ignored == ["broker.rack"]
    environment = {"KAFKA_HEAP_OPTS": "-Xmx1g", "CLUSTER_ID": "x", "KAFKA_PROCESS_ROLES": "broker"}
    ignored = Config(environment=environment).ignored
    assert sorted(ignored) == ["CLUSTER_ID", "KAFKA_HEAP_OPTS", "process.roles"]


def test_set_wants_a_name_and_a_value() -> None:
    """`--set` takes NAME=VALUE; the value may hold further equals signs or nothing."""
    assert settings_in_arguments(["a=b=c", "d="]) == {"a": "b=c", "d": ""}
    with pytest.raises(ConfigError, match="NAME=VALUE expected"):
        settings_in_arguments(["group.max.size"])


def test_a_topic_inherits_the_finest_unit() -> None:
    """retention.ms comes from log.retention.ms, else minutes, else hours; -1 stays -1."""
    assert Config().topic_default("retention.ms") == 168 * 3600 * 1000
    minutes = {"log.retention.minutes": "5", "log.retention.hours": "1"}
    assert Config(overrides=minutes).topic_default("retention.ms") == 300000
    assert Config(overrides={**minutes, "log.retention.ms": "7"}).topic_default("retention.ms") == 7
    assert Config(overrides={"log.retention.hours": "-1"}).topic_default("retention.ms") == -1


def test_topic_defaults_cover_every_topic_config() -> None:
    """Each topic config has a default of its own type."""
    defaults = Config().topic_defaults()
    assert set(defaults) == set(TOPIC_SETTINGS)
    assert defaults["cleanup.policy"] == ("delete",)
    assert defaults["flush.ms"] == 2**63 - 1


def test_listeners_of_a_controller_are_left_out() -> None:
    """A combined server.properties works: its CONTROLLER listener is not ours to serve."""
    config = Config(
        file={
            "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        }
    )
    assert config.listeners() == (Listener("PLAINTEXT", "localhost", 9092),)


def test_listeners_may_have_any_name() -> None:
    """A listener name is mapped to its security protocol, and found again when advertised."""
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
    """Controllers advertise themselves since KIP-853; that is not for clients."""
    config = Config(
        file={
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "advertised.listeners": "PLAINTEXT://broker:9092,CONTROLLER://broker:9093",
            "controller.listener.names": "CONTROLLER",
        }
    )
    assert list(config.advertised_listeners()) == ["PLAINTEXT"]


def test_listener_names_know_no_case() -> None:
    """Names are compared in upper case, as Kafka's ListenerName does."""
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
    """With several listeners published.port says nothing; with several brokers it counts on."""
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
    """node.id counts, else broker.id, else 1."""
    assert Config(overrides=given).node_id == expected
    assert Config(overrides={**given, "node.id": "7"}).node_id == 7


def test_the_data_directory_is_the_first_of_the_list() -> None:
    """log.dirs comes before log.dir, and only its first entry is used."""
    assert Config().data_directory == "/tmp/kafka-logs"
    assert Config(overrides={"log.dirs": "/a , /b"}).data_directory == "/a"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("host:1", ("host", 1)), (":0", ("", 0)), ("[::1]:9092", ("::1", 9092))],
)
def test_addresses(text: str, expected: tuple[str, int]) -> None:
    """HOST:PORT with an empty host or an IPv6 address in brackets."""
    assert parse_address(text) == expected


@pytest.mark.parametrize("name", list(SETTINGS))
def test_every_default_is_legal(name: str) -> None:
    """The default of a setting parses back to itself and lies in its range."""
    default = SETTINGS[name].default
    if default is not None:
        assert Config(overrides={name: render(default) or ""}).value(name) == default


def test_every_setting_is_explained() -> None:
    """Each row of the table says in a sentence what it is for."""
    for setting in SETTINGS.values():
        assert setting.meaning.endswith("."), setting.name
        assert isinstance(setting.kind, Kind)


def test_every_setting_is_read_or_said_to_have_no_effect() -> None:
    """A setting whose name stands nowhere in the code is in WITHOUT_EFFECT, and the other way."""
    sources = [
        path.read_text()
        for path in (ROOT / "coordinator_server").rglob("*.py")
        if path.name != "settings.py"
    ]
    inherited = {name for topic in TOPIC_SETTINGS.values() for name, _ in topic.sources}
    for name in SETTINGS.keys() - inherited:
        if SETTINGS[name].least is not None and SETTINGS[name].least == SETTINGS[name].most:
            continue  # one legal value: there is nothing to read
        read = any(f'"{name}"' in source for source in sources)
        assert read != (name in WITHOUT_EFFECT), name


def test_topics_have_the_same_settings_in_storage() -> None:
    """The storage room's table of topic configs agrees with the broker's: defaults and limits."""
    for name, ours in TOPIC_SETTINGS.items():
        theirs = TOPIC_CONFIGS[name]
        assert theirs.broker_name == ours.sources[0][0]
        assert theirs.default == render(Config().topic_default(name)), name
        assert set(theirs.choices) == set(ours.setting.choices), name
        if ours.setting.least is not None and name != "retention.bytes":
            assert (theirs.minimum, theirs.maximum) == (ours.setting.least, ours.setting.most)


def test_the_documentation_is_the_table() -> None:
    """docs/settings.md is what `coordinator-server settings` prints (`make settings`)."""
    assert (ROOT / "docs" / "settings.md").read_text() == describe()
