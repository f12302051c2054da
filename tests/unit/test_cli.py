"""The command line without a broker: settings, errors, exit codes."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from coordinator_server import __version__
from coordinator_server.cli import load_config, main, parser
from coordinator_server.config.config import Config, ConfigError
from coordinator_server.config.settings_page import describe


def config_of(*arguments: str) -> Config:
    """Return the settings that `serve` would use."""
    return load_config(parser().parse_args(["serve", *arguments]))


def test_flags_stand_for_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """--listener and --data-dir override the environment, as --set does."""
    monkeypatch.setenv("KAFKA_LISTENERS", "PLAINTEXT://:1")
    config = config_of("--listener", "127.0.0.1:0", "--data-dir", "d", "--set", "num.partitions=6")
    assert [str(one) for one in config.listeners()] == ["PLAINTEXT://127.0.0.1:0"]
    assert config.data_directory == "d"
    assert config.integer("num.partitions") == 6
    assert not config.ephemeral


def test_a_properties_file_is_read(tmp_path: Path) -> None:
    """--config reads Kafka's server.properties; --set overrides it."""
    file = tmp_path / "server.properties"
    file.write_text("group.max.size=4\nnum.partitions=2\nprocess.roles=broker\n")
    config = config_of("--config", str(file), "--set", "num.partitions=3")
    assert config.integer("group.max.size") == 4
    assert config.integer("num.partitions") == 3
    assert config.ignored == ["process.roles"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--set", "group.max.size=none"], "group.max.size: 'none' is not a number"),
        (["--set", "group.max.size"], "NAME=VALUE expected"),
        (["--listener", "9092"], "--listener: '9092' is not HOST:PORT"),
        (["--listener", "A://h:99999"], "'h:99999' is not HOST:PORT, the highest port is 65535"),
        (["--listener", "://h:1"], "--listener: '://h:1' is not [NAME://]HOST:PORT"),
        (["--config", "no/such/file"], "--config no/such/file: No such file or directory"),
        (["--strict", "--set", "num.partitionz=3"], "did you mean num.partitions?"),
        (["--http-login"], "--http-login needs --http HOST:PORT"),
        (["--otel-ratio", "0.5"], "--otel-ratio=0.5: --otel is missing"),
        (["--http-read-only"], "--http-read-only needs --http HOST:PORT"),
        (["--http-token-file", "token"], "--http-token-file needs --http HOST:PORT"),
    ],
)
def test_a_bad_value_is_one_line_and_exit_code_2(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An invalid value gives one line on stderr and exit code 2; nothing is started."""
    assert main(["serve", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("coordinator-server: ")
    assert captured.err.count("\n") == 1
    assert expected in captured.err


def test_listeners_may_be_repeated() -> None:
    """Each --listener adds listeners; one --listener may name several listeners."""
    protocols = "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT,PLAINTEXT:PLAINTEXT"
    arguments = ["--listener", "h:1", "--listener", "A://h:2,B://h:3", "--set", protocols]
    listeners = config_of(*arguments).listeners()
    assert [str(one) for one in listeners] == ["PLAINTEXT://h:1", "A://h:2", "B://h:3"]


def test_a_broken_properties_file_is_named(tmp_path: Path) -> None:
    """A file that Java could not read either is refused with the name of the file."""
    file = tmp_path / "server.properties"
    file.write_text("a=\\u12")
    with pytest.raises(ConfigError, match=r"server\.properties: malformed"):
        config_of("--config", str(file))


@pytest.mark.parametrize("arguments", [[], ["no-such"], ["serve", "--no-such"]])
def test_wrong_arguments_exit_with_2(arguments: list[str]) -> None:
    """Invalid arguments give exit code 2, like invalid values."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("topic", "topic: there is no such command, did you mean topics?"),
        ("sevre", "sevre: there is no such command, did you mean serve?"),
        ("kafka-topics.sh", "kafka-topics.sh: there is no such command, did you mean topics?"),
        ("zzzzzz", "zzzzzz: there is no such command, see coordinator-server --help"),
    ],
)
def test_a_mistyped_command_names_the_nearest(
    typed: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error of an unknown command names the most similar command.

    Names of Kafka's scripts are also compared.
    """
    with pytest.raises(SystemExit) as end:
        main([typed, "--list"])
    assert end.value.code == 2
    assert capsys.readouterr().err.endswith(f"coordinator-server: error: {expected}\n")


def test_a_mistyped_api_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    """`protocol show` names the most similar API, or all APIs."""
    assert main(["protocol", "show", "JoinGrup", "9"]) == 2
    assert capsys.readouterr().err == "no API 'JoinGrup' is served; did you mean JoinGroup?\n"
    assert main(["protocol", "show", "zzzz"]) == 2
    assert "there are Produce, Fetch, " in capsys.readouterr().err


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """--version prints the package's version."""
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert __version__ in capsys.readouterr().out


def test_settings_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    """`settings` prints the page of docs/settings.md."""
    assert main(["settings"]) == 0
    assert capsys.readouterr().out == describe()


def test_protocol_wants_a_tool(capsys: pytest.CaptureFixture[str]) -> None:
    """`protocol` without show or dump prints its usage and exits with code 2."""
    with pytest.raises(SystemExit) as caught:
        main(["protocol"])
    assert caught.value.code == 2
    assert "usage: coordinator-server protocol" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["protocol", "protocol show", "protocol dump", "pipeline"])
def test_help_names_the_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` of a subcommand prints its full name and exits with 0."""
    with pytest.raises(SystemExit) as caught:
        main([*command.split(), "--help"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: coordinator-server {command} ")


def test_what_is_not_installed_is_not_offered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands that need missing packages are not offered, as in the image.

    The image has neither the pipeline nor kafka-python.
    """
    assert {"pipeline", "import", "promote"} <= offered()
    installed = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: None if name in ("pipeline", "kafka") else installed(name),
    )
    assert not {"pipeline", "import", "promote"} & offered()
    assert {"serve", "explain", "verify-log"} <= offered()
    with pytest.raises(SystemExit):
        main(["pipeline", "run"])
    assert "invalid choice: 'pipeline'" in capsys.readouterr().err


def offered() -> set[str]:
    """Return the commands in `--help`."""
    return set(re.findall(r"^ {4}([a-z-]+)", parser().format_help(), re.MULTILINE))
