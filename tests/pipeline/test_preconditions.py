"""Paths and addresses that cannot work are reported in one line, before Spark starts."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from pipeline import command, preconditions, session
from pipeline.command import main
from pipeline.preconditions import check_bootstrap, check_master, check_out, locked
from pipeline.sources.source import InputError, refused_by_machine


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test if a session is opened."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(session, "open_session", refuse)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Return a port on which connections are refused: bound, but not listening."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def error_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the one-line error of a `run` that exits with 1."""
    assert main(["run", *arguments]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_out_is_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--out` must not be a file or lie below one; new folders and other schemes are accepted."""
    log_dir = tmp_path / "data"
    (log_dir / "__consumer_offsets-0").mkdir(parents=True)
    file = tmp_path / "file"
    file.touch()
    said = error_of(capsys, "--log-dir", str(log_dir), "--out", str(file))
    assert said.endswith(f"--out {file}: {file} is a file, not a directory")
    said = error_of(capsys, "--log-dir", str(log_dir), "--out", str(file / "below"))
    assert said.endswith(f"{file} is a file, not a directory")
    check_out(str(tmp_path / "new" / "folder"))
    check_out("s3a://lake/offsets")


def test_out_can_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty `--out`, the root and a directory without write access are refused."""
    log_dir = tmp_path / "data"
    (log_dir / "__consumer_offsets-0").mkdir(parents=True)
    for out in ("", "/"):
        said = error_of(capsys, "--log-dir", str(log_dir), "--out", out)
        assert said.endswith(f"--out {out!r} is not a directory for output")

    def refuse(dir: Path) -> None:  # noqa: A002 - as in tempfile
        raise PermissionError(errno.EACCES, "Permission denied", str(dir))

    monkeypatch.setattr(preconditions, "TemporaryFile", refuse)
    folder = tmp_path / "new" / "folder"
    said = error_of(capsys, "--log-dir", str(log_dir), "--out", str(folder))
    assert said.endswith(f"--out {folder}: {tmp_path}: Permission denied")
    assert not folder.parent.exists()


def test_one_run_writes_to_out_at_a_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second run on the same `--out` is refused until the first one has ended."""
    log_dir, out = tmp_path / "data", tmp_path / "out"
    (log_dir / "__consumer_offsets-0").mkdir(parents=True)
    with locked(str(out)):
        said = error_of(capsys, "--log-dir", str(log_dir), "--out", str(out))
        assert said.endswith(f"--out {out}: another run is writing there")
    with locked(str(out)), locked("s3a://lake/offsets"):
        pass


def test_files_that_options_name_are_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--parquet` needs bronze of an earlier run, and `--client-config` a readable file."""
    out = str(tmp_path / "out")
    said = error_of(capsys, "--parquet", str(tmp_path), "--out", out)
    assert said.endswith(f"--parquet {tmp_path}: there is no bronze of an earlier run")
    (tmp_path / "bronze").mkdir()
    said = error_of(capsys, "--parquet", str(tmp_path), "--time", "none", "--out", out)
    assert said.endswith("--time goes with --bootstrap-server or --log-dir, not --parquet")
    said = error_of(capsys, "--bootstrap-server", "b:1", "--client-config", out, "--out", out)
    assert said.endswith(f"--client-config {out}: No such file or directory")


def test_log_dir_has_an_offsets_topic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A `--log-dir` that is missing or has no offsets topic is reported."""
    out = str(tmp_path / "out")
    missing = tmp_path / "missing"
    said = error_of(capsys, "--log-dir", str(missing), "--out", out)
    assert said.endswith(f"--log-dir {missing}: there is no such directory")
    (missing / "orders-0").mkdir(parents=True)
    said = error_of(capsys, "--log-dir", str(missing), "--out", out)
    assert said.endswith("no partition of __consumer_offsets lies there")


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[4,2]", "local[*, 3]"])
def test_a_local_master_is_accepted(master: str) -> None:
    """Spark's forms of a local master need no connection."""
    check_master(master)


def test_a_wrong_master_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], closed_port: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A master that Spark does not know, or that does not answer, is reported at once."""
    log_dir = tmp_path / "data"
    (log_dir / "__consumer_offsets-0").mkdir(parents=True)
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    dead = f"127.0.0.1:{closed_port}"
    cases = {
        "local[0]": "it is no master of Spark, such as local[2], spark://HOST:PORT,",
        "localhost": "it is no master of Spark",
        f"spark://{dead}": f"no master answers ({dead}: ",
        "spark://there": "'there' is not HOST:PORT",
        f"k8s://http://{dead}/api": f"no API server answers ({dead}: ",
        "yarn": "neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set",
    }
    for master, reason in cases.items():
        said = error_of(capsys, "--log-dir", str(log_dir), "--out", str(tmp_path / "out"),
                        "--master", master)  # fmt: skip
        assert f"--master {master}: {reason}" in said
    with socket.create_server(("127.0.0.1", 0)) as alive:
        check_master(f"spark://{dead},127.0.0.1:{alive.getsockname()[1]}")


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        PySparkException("OSError: [Errno 28] No space left on device"),
    ],
)
def test_a_full_disk_is_told_in_one_line(
    error: Exception, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A disk that is full on the driver or on a worker is one line; a bug keeps its traceback."""
    log_dir, out = tmp_path / "data", tmp_path / "out"
    (log_dir / "__consumer_offsets-0").mkdir(parents=True)

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(command, "_execute", fail)
    said = error_of(capsys, "--log-dir", str(log_dir), "--out", str(out))
    assert said.endswith(
        f"No space left on device: the run wrote to --out {out} and to Spark's local disk"
    )
    error = PySparkException("KeyError: a bug")
    with pytest.raises(PySparkException, match="a bug"):
        main(["run", "--log-dir", str(log_dir), "--out", str(out)])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Aborted:\nPermissionError: [Errno 13] Permission denied: '/data/t-0/0.log'\n  at x",
            "PermissionError: [Errno 13] Permission denied: '/data/t-0/0.log'",
        ),
        (
            "java.io.FileNotFoundException: /out/x (Permission denied)",
            "java.io.FileNotFoundException: /out/x (Permission denied)",
        ),
        (
            "java.lang.OutOfMemoryError: Java heap space\n\tat y",
            "java.lang.OutOfMemoryError: Java heap space",
        ),
        (
            "Caused by: [Errno 30] Read-only file system: '/o'",
            "Read-only file system: the run wrote to --out o and to Spark's local disk",
        ),
        ("KeyError: a bug", None),
    ],
)
def test_a_refusal_of_the_machine_names_the_path(text: str, said: str | None) -> None:
    """Only a full or read-only disk is about `--out`; an unreadable input is named by its path."""
    assert refused_by_machine(text, "o") == said


def test_bootstrap_accepts_a_connection(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], closed_port: int
) -> None:
    """Each unreachable address is reported with its reason; one reachable address is enough."""
    dead = f"127.0.0.1:{closed_port}"
    said = error_of(capsys, "--bootstrap-server", dead, "--out", str(tmp_path / "out"))
    assert f"--bootstrap-server {dead}: no broker answers ({dead}: " in said
    assert "refused" in said
    with socket.create_server(("127.0.0.1", 0)) as alive:
        check_bootstrap(f"{dead}, 127.0.0.1:{alive.getsockname()[1]}")
    for wrong in ("localhost", "localhost:kafka", ":9092"):
        with pytest.raises(InputError, match=f"'{wrong}' is not HOST:PORT"):
            check_bootstrap(wrong)
