"""The image's entry point: its handling of variables, mounted files and directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator_server.config.config import Config, ConfigError
from coordinator_server.container import image_variables
from coordinator_server.container.entrypoint import (
    DATA_DIRECTORY,
    DATA_MOUNTS,
    Prepared,
    command,
    prepare,
)
from coordinator_server.security.sasl.plain import PLAIN_MODULE


def nothing_is_mounted(_: str) -> bool:
    """Return False: no volume is mounted."""
    return False


def test_without_anything_the_volume_is_used() -> None:
    """A bare `docker run` listens on all interfaces, on port 9092, and uses the image's volume."""
    environment = {"PATH": "/bin"}
    config, file, _ = prepare(environment, files=(), is_mount=nothing_is_mounted)
    assert file is None
    assert [str(one) for one in config.listeners()] == ["PLAINTEXT://:9092"]
    assert config.data_directory == DATA_DIRECTORY
    assert environment["KAFKA_LOG_DIRS"] == DATA_DIRECTORY
    assert config.ignored == []


@pytest.mark.parametrize(("mounted", "directory"), DATA_MOUNTS.items())
def test_data_lies_where_a_volume_is_mounted(mounted: str, directory: str) -> None:
    """A volume at the default directory of a Kafka image is used without KAFKA_LOG_DIRS."""
    environment: dict[str, str] = {}
    config, *_ = prepare(environment, files=(), is_mount=lambda path: path == mounted)
    assert config.data_directory == directory


@pytest.mark.parametrize("mounted", sorted(set(DATA_MOUNTS) - {DATA_DIRECTORY}))
def test_the_volume_of_the_image_comes_last(mounted: str) -> None:
    """A volume that the user mounted takes precedence over the image's own.

    Docker mounts the image's volume in every case.
    """
    is_mount = {mounted, DATA_DIRECTORY}.__contains__
    config, *_ = prepare({}, files=(), is_mount=is_mount)
    assert config.data_directory == DATA_MOUNTS[mounted]


@pytest.mark.parametrize("name", ["KAFKA_LOG_DIRS", "KAFKA_LOG_DIR"])
def test_a_data_directory_that_is_set_stays(name: str) -> None:
    """A configured data directory takes precedence over mounted volumes."""
    environment = {name: "/elsewhere"}
    config, *_ = prepare(environment, files=(), is_mount=lambda _: True)
    assert config.data_directory == "/elsewhere"
    assert environment == {name: "/elsewhere"}


def test_a_mounted_file_counts_and_variables_override_it(tmp_path: Path) -> None:
    """The first server.properties found is read, with its log.dirs; variables override it."""
    file = tmp_path / "server.properties"
    file.write_text("log.dirs=/from/file\nnum.partitions=3\ngroup.max.size=5\n")
    environment = {"KAFKA_NUM_PARTITIONS": "7"}
    files = (str(tmp_path / "missing"), str(file))
    config, found, _ = prepare(environment, files=files, is_mount=lambda _: True)
    assert found == str(file)
    assert config.data_directory == "/from/file"
    assert config.integer("num.partitions") == 7
    assert config.integer("group.max.size") == 5
    assert "KAFKA_LOG_DIRS" not in environment


def test_a_mounted_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """An unreadable mounted file stops the start with an error that names the file."""
    file = tmp_path / "server.properties"
    file.write_text("a=\\u12")
    with pytest.raises(ConfigError, match=f"^{file}: malformed"):
        prepare({}, files=(str(file),), is_mount=nothing_is_mounted)


def test_listeners_come_from_those_that_are_advertised() -> None:
    """Without KAFKA_LISTENERS the broker listens on all interfaces on the advertised ports."""
    environment = {
        "KAFKA_ADVERTISED_LISTENERS": "INSIDE://broker:19092, OUTSIDE://localhost:9092",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    }
    config, *_ = prepare(environment, files=(), is_mount=nothing_is_mounted)
    assert [str(one) for one in config.listeners()] == ["INSIDE://:19092", "OUTSIDE://:9092"]
    given = {"KAFKA_ADVERTISED_LISTENERS": "auto"}
    config, *_ = prepare(given, files=(), is_mount=nothing_is_mounted)
    assert [str(one) for one in config.listeners()] == ["PLAINTEXT://:9092"]
    with pytest.raises(ConfigError, match=r"^advertised\.listeners: 'nonsense' is not"):
        prepare({"KAFKA_ADVERTISED_LISTENERS": "nonsense"}, files=())


READY = "[KafkaServer id=3] started: Kafka Server started, Transitioning from RECOVERY to RUNNING"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], ["serve", "--config", "f", "--ready-message", READY]),
        (["serve"], ["serve", "--config", "f", "--ready-message", READY]),
        (["--set", "a=b"], ["serve", "--config", "f", "--ready-message", READY, "--set", "a=b"]),
        (["serve", "-x"], ["serve", "--config", "f", "--ready-message", READY, "-x"]),
        (["settings"], ["settings"]),
        (["dump-log", "x"], ["dump-log", "x"]),
        (["--version"], ["--version"]),
    ],
)
def test_the_container_serves_unless_told_otherwise(given: list[str], expected: list[str]) -> None:
    """Flags are passed to `serve`; another command is left as it is."""
    prepared = Prepared(Config(overrides={"node.id": "3"}), "f")
    assert command(given, prepared, None) == expected


def test_no_file_no_flag() -> None:
    """--config is passed only if a file is mounted, --cluster-id only if the id is set."""
    prepared = Prepared(Config(overrides={"node.id": "3"}), None)
    assert command([], prepared, None) == ["serve", "--ready-message", READY]
    assert command([], prepared, "c")[:3] == ["serve", "--cluster-id", "c"]


def test_the_variables_of_bitnamis_image() -> None:
    """KAFKA_CFG_NAME means KAFKA_NAME, which takes precedence if both are set."""
    environment = {
        "KAFKA_CFG_NODE_ID": "4",
        "KAFKA_CFG_NUM_PARTITIONS": "3",
        "KAFKA_NUM_PARTITIONS": "5",
        "KAFKA_CFG_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "KAFKA_CFG_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CFG_NUM_PARTITION": "1",
        "ALLOW_PLAINTEXT_LISTENER": "yes",
    }
    config, *_ = prepare(environment, files=(), is_mount=lambda path: path == "/bitnami/kafka")
    assert (config.node_id, config.integer("num.partitions")) == (4, 5)
    assert [str(one) for one in config.listeners()] == ["PLAINTEXT://:9092"]
    assert config.data_directory == "/bitnami/kafka/data"
    assert config.unknown == {"num.partition": "num.partitions"}
    assert not [name for name in environment if name.startswith("KAFKA_CFG_")]


def test_a_container_of_a_controller_says_why_it_does_not_serve() -> None:
    """A configuration with only controller listeners is refused with the reason."""
    environment = {
        "KAFKA_PROCESS_ROLES": "controller",
        "KAFKA_LISTENERS": "CONTROLLER://:9093",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    }
    expected = (
        r"^listeners: all of them are listeners of a controller \(CONTROLLER\), and there is no"
    )
    with pytest.raises(ConfigError, match=expected):
        prepare(environment, files=(), is_mount=nothing_is_mounted)


@pytest.mark.parametrize(
    ("variable", "setting"),
    [
        ("KAFKA_CFG_SASL_ENABLED_MECHANISMS", "KAFKA_SASL_ENABLED_MECHANISMS"),
        (
            "KAFKA_CFG_LISTENER_NAME_SASL_SSL_PLAIN_SASL_JAAS_CONFIG",
            "KAFKA_LISTENER_NAME_SASL__SSL_PLAIN_SASL_JAAS_CONFIG",
        ),
        (
            "KAFKA_CFG_LISTENER_NAME_SASL__PLAINTEXT_SSL_CLIENT_AUTH",
            "KAFKA_LISTENER_NAME_SASL__PLAINTEXT_SSL_CLIENT_AUTH",
        ),
    ],
)
def test_protocols_in_bitnamis_names(variable: str, setting: str) -> None:
    """Protocols that Bitnami's image writes with one underscore (SASL_*) are accepted."""
    value = "required" if variable.endswith("AUTH") else "PLAIN"
    environment = {variable: value}
    prepare(environment, files=(), is_mount=nothing_is_mounted)
    assert environment[setting] == value
    assert variable not in environment


def test_a_host_name_is_advertised() -> None:
    """KAFKA_ADVERTISED_HOST_NAME is used if no listeners are set."""
    given = {"KAFKA_ADVERTISED_HOST_NAME": "example", "KAFKA_ADVERTISED_PORT": "19092"}
    config, *_ = prepare(dict(given), files=(), is_mount=nothing_is_mounted)
    assert [str(one) for one in config.listeners()] == ["PLAINTEXT://:9092"]
    assert str(config.advertised_listeners()["PLAINTEXT"]) == "PLAINTEXT://example:19092"
    assert not config.unknown
    given["KAFKA_LISTENERS"] = "PLAINTEXT://:9095"
    config, *_ = prepare(given, files=(), is_mount=nothing_is_mounted)
    assert [str(one) for one in config.listeners()] == ["PLAINTEXT://:9095"]
    assert config.advertised_listeners() == {}


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of secrets and of Bitnami's files."""
    monkeypatch.setattr(image_variables, "SECRETS_DIRECTORY", str(tmp_path))
    monkeypatch.setattr(
        image_variables, "BITNAMI_DIRECTORIES", (str(tmp_path / "no"), str(tmp_path))
    )
    (tmp_path / "certs").mkdir()
    return tmp_path


SSL = {"KAFKA_LISTENERS": "SSL://:9093", "KAFKA_SSL_KEYSTORE_FILENAME": "keys"}
SASL = {
    "KAFKA_CFG_LISTENERS": "INTERNAL://:9092,CLIENT://:9093",
    "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "INTERNAL:SASL_PLAINTEXT,CLIENT:SASL_PLAINTEXT",
}


def test_files_of_secrets(directory: Path) -> None:
    """FILENAME names the store and CREDENTIALS its password; mutual TLS needs the trust store."""
    (directory / "keys").touch()
    (directory / "words").write_text("secret\n\n")
    given = SSL | {
        "KAFKA_SSL_KEYSTORE_LOCATION": "/elsewhere",
        "KAFKA_SSL_KEYSTORE_CREDENTIALS": "words",
        "KAFKA_SSL_TRUSTSTORE_FILENAME": "missing",
    }
    config, _, origins = prepare(dict(given), files=(), is_mount=nothing_is_mounted)
    assert config.text("ssl.keystore.location") == str(directory / "keys")
    assert config.text("ssl.keystore.password") == "secret"
    assert config.optional_text("ssl.truststore.location") is None
    assert origins["ssl.keystore.location"] == "KAFKA_SSL_KEYSTORE_FILENAME"
    given["KAFKA_SSL_CLIENT_AUTH"] = "required"
    path = directory / "missing"
    with pytest.raises(ConfigError, match=f"^KAFKA_SSL_TRUSTSTORE_FILENAME: {path}: there is no"):
        prepare(dict(given), files=(), is_mount=nothing_is_mounted)
    config, *_ = prepare(given, files=(), is_mount=nothing_is_mounted, reads_secrets=False)
    assert [str(one) for one in config.listeners()] == ["SSL://:9093"]


def test_without_tls_the_files_are_named_as_ignored() -> None:
    """Key store variables without a TLS listener are reported as ignored."""
    given = {**SSL, "KAFKA_LISTENERS": "PLAINTEXT://:9092"}
    config, *_ = prepare(given, files=(), is_mount=nothing_is_mounted)
    assert config.ignored == ["KAFKA_SSL_KEYSTORE_FILENAME"]
    assert not config.unknown


def test_users_of_bitnamis_image(directory: Path) -> None:
    """Each listener gets the client users; the inter-broker listener gets one more user.

    Values can be read from files.
    """
    (directory / "words").write_text("x y\n")
    given = SASL | {
        "KAFKA_CLIENT_USERS": "a;b,",
        "KAFKA_CLIENT_PASSWORDS_FILE": str(directory / "words"),
        "KAFKA_INTER_BROKER_PASSWORD": 'i"',
        "KAFKA_CONTROLLER_USER": "c",
        "KAFKA_CONTROLLER_PASSWORD": "z",
        "KAFKA_CFG_SASL_MECHANISM_INTER_BROKER_PROTOCOL": "SCRAM-SHA-256",
        "KAFKA_CFG_SASL_MECHANISM_CONTROLLER_PROTOCOL": "SCRAM-SHA-512",
    }
    config, *_ = prepare(given, files=(), is_mount=nothing_is_mounted)
    module = f"{PLAIN_MODULE} required"
    own = {
        name: config.own_settings(name)["plain.sasl.jaas.config"] for name in ("client", "internal")
    }
    assert own["client"] == f'{module} "user_a"="x" "user_b"="y";'
    assert own["internal"] == f'{module} "user_a"="x" "user_b"="y" "user_user"="i\\"";'
    assert config.text("scram.users").split(";") == [
        "SCRAM-SHA-256=[name=a,password=x]",
        "SCRAM-SHA-256=[name=b,password=y]",
        'SCRAM-SHA-256=[name=user,password=i"]',
        "SCRAM-SHA-512=[name=a,password=x]",
        "SCRAM-SHA-512=[name=b,password=y]",
        "SCRAM-SHA-512=[name=c,password=z]",
    ]
    assert config.items("sasl.enabled.mechanisms") == ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    assert not [name for name in given if "PASSWORD" in name]


def test_users_count_without_other_variables_of_bitnamis_image() -> None:
    """KAFKA_CLIENT_USERS become users of all listeners, including listeners from a file."""
    given = {
        "KAFKA_LISTENERS": "SASL_PLAINTEXT://:9092",
        "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN,SCRAM-SHA-512",
        "KAFKA_CLIENT_USERS": "a",
        "KAFKA_CLIENT_PASSWORDS": "x",
    }
    config, *_ = prepare(given, files=(), is_mount=nothing_is_mounted)
    own = config.own_settings("sasl_plaintext")
    assert own["plain.sasl.jaas.config"] == f'{PLAIN_MODULE} required "user_a"="x";'
    assert config.optional_text("scram.users") == "SCRAM-SHA-512=[name=a,password=x]"


def test_a_mounted_jaas_file_has_the_users(directory: Path) -> None:
    """A mounted kafka_jaas.conf takes precedence over KAFKA_CLIENT_USERS, as in Bitnami's image."""
    path = directory / "kafka_jaas.conf"
    path.touch()
    given = SASL | {"KAFKA_CLIENT_USERS": "a", "KAFKA_CLIENT_PASSWORDS": "x", "KAFKA_OPTS": "-Da=b"}
    config, *_ = prepare(given, files=(), is_mount=nothing_is_mounted)
    assert config.optional_text("scram.users") is None
    assert given["KAFKA_OPTS"] == f"-Da=b -Djava.security.auth.login.config={path}"


TLS = {"KAFKA_CFG_LISTENERS": "SSL://:9092", "KAFKA_CERTIFICATE_PASSWORD": "secret"}


def test_stores_of_bitnamis_image(directory: Path) -> None:
    """KAFKA_TLS_TYPE selects the store files in the folder certs."""
    certs = directory / "certs"
    for name in ("keystore.jks", "truststore.jks", "keystore.pem", "keystore.key", "other"):
        (certs / f"kafka.{name}").write_text(f"the {name}\n")
    config, *_ = prepare(dict(TLS), files=(), is_mount=nothing_is_mounted)
    found = {name: config.value(f"ssl.{name}") for name in ("client.auth", "key.password")}
    assert found == {"client.auth": "required", "key.password": "secret"}
    for store in ("keystore", "truststore"):
        assert config.text(f"ssl.{store}.location") == str(certs / f"kafka.{store}.jks")
        assert config.text(f"ssl.{store}.password") == "secret"
    given = TLS | {
        "KAFKA_TLS_TYPE": "PEM",
        "KAFKA_TLS_CLIENT_AUTH": "requested",
        "KAFKA_TLS_TRUSTSTORE_FILE": str(certs / "kafka.other"),
        "KAFKA_TLS_SSL_CLIENT_AUTH": "none",
    }
    config, *_ = prepare(given, files=(), is_mount=nothing_is_mounted)
    assert config.text("ssl.keystore.certificate.chain") == "the keystore.pem"
    assert config.text("ssl.keystore.key") == "the keystore.key"
    assert config.text("ssl.truststore.certificates") == "the other"
    assert config.text("ssl.client.auth") == "requested"
    assert config.own_settings("ssl") == {"ssl.client.auth": "none"}
    assert config.text("ssl.keystore.type") == config.text("ssl.truststore.type") == "PEM"


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        (SSL, "KAFKA_SSL_KEYSTORE_FILENAME: {}/keys: there is no such file"),
        (
            {"KAFKA_LISTENERS": "SSL://:1", "KAFKA_SSL_KEY_CREDENTIALS": "words"},
            "KAFKA_SSL_KEY_CREDENTIALS: {}/words: No such file or directory",
        ),
        (TLS | {"KAFKA_TLS_TYPE": "BCFKS"}, "KAFKA_TLS_TYPE: BCFKS: only JKS and PEM are read"),
        (TLS, "KAFKA_TLS_TYPE=JKS: {}/no/certs/kafka.keystore.jks: there is no such file"),
        (
            SASL | {"KAFKA_CLIENT_USERS": "a,b", "KAFKA_CLIENT_PASSWORDS": "x"},
            "KAFKA_CLIENT_PASSWORDS: 1 passwords for 2 users in KAFKA_CLIENT_USERS",
        ),
        (
            SASL | {"KAFKA_CLIENT_USERS_FILE": "/missing"},
            "KAFKA_CLIENT_USERS_FILE: /missing: No such file or directory",
        ),
    ],
)
def test_variables_that_cannot_be_used(
    directory: Path, given: dict[str, str], refusal: str
) -> None:
    """The error for an unusable variable names the variable and, if there is one, the file."""
    with pytest.raises(ConfigError) as caught:
        prepare(dict(given), files=(), is_mount=nothing_is_mounted)
    assert str(caught.value) == refusal.format(directory)
