"""What is wrong with the places of a run is one line at once: Spark is not started for it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pipeline.command import main
from pipeline.sources.checks import check_bootstrap, check_out
from pipeline.sources.errors import InputError
from tests.support import free_port


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session would fail the test."""

    def open_session(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("pipeline.session.open_session", open_session)


def failed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The line that a run ends with."""
    assert main(["run", *arguments]) == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "pipeline:" in line]
    return line.removeprefix("coordinator-server pipeline: ")


def test_a_log_directory_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Or that holds no partition of the offsets topic."""
    out = ("--out", str(tmp_path / "out"))
    missing = str(tmp_path / "missing")
    assert failed(capsys, "--log-dir", missing, *out) == (
        f"--log-dir {missing}: there is no such directory"
    )
    (tmp_path / "orders-0").mkdir()
    assert "no partition of __consumer_offsets lies there" in failed(
        capsys, "--log-dir", str(tmp_path), *out
    )


def test_an_output_that_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file itself, or one on the way to the directory."""
    file = tmp_path / "file"
    file.touch()
    for out in (file, file / "below" / "it"):
        arguments = ("--log-dir", str(tmp_path), "--out", str(out))
        expected = f"--out {out}: {file} is a file, not a directory"
        assert failed(capsys, *arguments) == expected
    check_out(str(tmp_path / "new" / "directory"))
    check_out("hdfs://somewhere/out")


def test_a_broker_that_does_not_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every address is named with its reason; one that answers is enough."""
    address = f"127.0.0.1:{free_port()}"
    line = failed(capsys, "--bootstrap", address, "--out", str(tmp_path))
    assert line == f"--bootstrap {address}: no broker answers ({address}: Connection refused)"
    with socket.create_server(("127.0.0.1", 0)) as listening:
        check_bootstrap(f"{address},127.0.0.1:{listening.getsockname()[1]}")


@pytest.mark.parametrize("text", ["nonsense", "host:", "host:port", "host:65536"])
def test_an_address_that_is_none(text: str) -> None:
    """It is not looked up."""
    with pytest.raises(InputError, match="is not HOST:PORT"):
        check_bootstrap(text)
