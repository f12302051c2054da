"""The image's entry point: what it makes of variables, mounted files and directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator_server.config.config import Config, ConfigError
from coordinator_server.container.entrypoint import (
    DATA_DIRECTORY,
    DATA_MOUNTS,
    Prepared,
    command,
    prepare,
)


def nothing_is_mounted(_: str) -> bool:
    """A machine without volumes."""
    return False


def test_without_anything_the_volume_is_used() -> None:
    """The defaults of a bare `docker run`: all interfaces, port 9092, the image's volume."""
    environment = {"PATH": "/bin"}
    config, file, _ = prepare(environment, files=(), is_mount=nothing_is_mounted)
    assert file is None
    assert [str(one) for one in config.listeners()] == ["PLAINTEXT://:9092"]
    assert config.data_directory == DATA_DIRECTORY
    assert environment["KAFKA_LOG_DIRS"] == DATA_DIRECTORY
    assert config.ignored == []


@pytest.mark.parametrize(("mounted", "directory"), DATA_MOUNTS.items())
def test_data_lies_where_a_volume_is_mounted(mounted: str, directory: str) -> None:
    """A volume at a default of an image of Kafka is used without KAFKA_LOG_DIRS."""
    environment: dict[str, str] = {}
    config, *_ = prepare(environment, files=(), is_mount=lambda path: path == mounted)
    assert config.data_directory == directory


@pytest.mark.parametrize("mounted", sorted(set(DATA_MOUNTS) - {DATA_DIRECTORY}))
def test_the_volume_of_the_image_comes_last(mounted: str) -> None:
    """Docker mounts it even if nobody asks for it: a volume that somebody asked for counts."""
    is_mount = {mounted, DATA_DIRECTORY}.__contains__
    config, *_ = prepare({}, files=(), is_mount=is_mount)
    assert config.data_directory == DATA_MOUNTS[mounted]


@pytest.mark.parametrize("name", ["KAFKA_LOG_DIRS", "KAFKA_LOG_DIR"])
def test_a_data_directory_that_is_set_stays(name: str) -> None:
    """What the user says comes before what is mounted."""
    environment = {name: "/elsewhere"}
    config, *_ = prepare(environment, files=(), is_mount=lambda _: True)
    assert config.data_directory == "/elsewhere"
    assert environment == {name: "/elsewhere"}


def test_a_mounted_file_counts_and_variables_override_it(tmp_path: Path) -> None:
    """The first server.properties that is there is read, its log.dirs too."""
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
    """A broken file ends the start with its name."""
    file = tmp_path / "server.properties"
    file.write_text("a=\\u12")
    with pytest.raises(ConfigError, match=f"^{file}: malformed"):
        prepare({}, files=(str(file),), is_mount=nothing_is_mounted)


def test_listeners_come_from_those_that_are_advertised() -> None:
    """Without KAFKA_LISTENERS the advertised names and ports are listened on, everywhere."""
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
    """Flags are those of `serve`; another command is left as it is."""
    prepared = Prepared(Config(overrides={"node.id": "3"}), "f")
    assert command(given, prepared, None) == expected


def test_no_file_no_flag() -> None:
    """--config is given only where a file is mounted, --cluster-id where the id is."""
    prepared = Prepared(Config(overrides={"node.id": "3"}), None)
    assert command([], prepared, None) == ["serve", "--ready-message", READY]
    assert command([], prepared, "c")[:3] == ["serve", "--cluster-id", "c"]


def test_the_variables_of_bitnamis_image() -> None:
    """KAFKA_CFG_NAME is KAFKA_NAME, which counts if both are there."""
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
    """Listeners of a controller alone leave nothing to listen on."""
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
