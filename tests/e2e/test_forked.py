"""Forked commands behave like real processes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator_server import __version__
from tests import forked

COMMAND = (sys.executable, "-m", "coordinator_server")


def test_output_and_exit_code_are_those_of_a_real_process() -> None:
    """A forked command prints the same and ends with the same code as a real process."""
    for arguments in (("--version",), ("explain",), ("protocol", "--help"), ("nonsense",)):
        command = [*COMMAND, *arguments]
        real = subprocess.run(command, capture_output=True, text=True, cwd=forked.ROOT)
        ours = forked.run(command)
        assert (ours.returncode, ours.stdout, ours.stderr) == (
            real.returncode,
            real.stdout,
            real.stderr,
        )


def test_directory_and_environment_are_those_of_the_command(tmp_path: Path) -> None:
    """A forked command has its own working directory and variables."""
    (tmp_path / "server.properties").write_text("num.partitions=many\n")
    serve = [*COMMAND, "serve", "--listener", "127.0.0.1:0", "--ephemeral"]
    done = forked.run([*serve, "--config", "server.properties"], cwd=tmp_path)
    assert (done.returncode, "num.partitions: 'many'" in done.stderr) == (2, True)
    done = forked.run(serve, env={"KAFKA_NUM_PARTITIONS": "few"})
    assert (done.returncode, "num.partitions: 'few'" in done.stderr) == (2, True)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGKILL, -9)])
def test_a_signal_ends_only_its_process(number: signal.Signals, code: int) -> None:
    """A signal reaches one forked process; another one goes on."""
    serve = [*COMMAND, "serve", "--listener", "127.0.0.1:0", "--ephemeral"]
    streams = {"stdin": forked.DEVNULL, "stdout": forked.PIPE, "stderr": forked.DEVNULL}
    with forked.start(serve, **streams) as first, forked.start(serve, **streams) as second:
        for process in (first, second):
            assert type(process).__name__ == "Forked"
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"listening ")
        first.send_signal(number)
        assert first.wait(30) == code
        assert second.poll() is None
        second.kill()


@pytest.mark.parametrize(
    "command",
    [
        ("sh", "-c", "echo 1"),
        (sys.executable, "-c", "print(1)"),
        (sys.executable, "-I", "-m", "coordinator_server"),
    ],
)
def test_other_commands_start_a_real_process(command: tuple[str, ...]) -> None:
    """Only `python -m MODULE` is forked."""
    with forked.start(command, stdout=forked.DEVNULL, stderr=forked.DEVNULL) as process:
        assert isinstance(process, subprocess.Popen)


@pytest.mark.real_start
def test_the_marker_starts_a_real_process() -> None:
    """A test with the marker `real_start` gets a process with its own interpreter."""
    with forked.start([*COMMAND, "--version"], stdout=forked.PIPE, text=True) as process:
        assert isinstance(process, subprocess.Popen)
        assert process.communicate()[0] == f"coordinator-server {__version__}\n"
