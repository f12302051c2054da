"""`coordinator-server users` creates, lists and deletes users with SCRAM credentials."""

from __future__ import annotations

import secrets
import signal
import subprocess
import sys
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from tests import forked
from tests.support import Serve, free_port

SECONDS = 20
PASSWORD = secrets.token_urlsafe(12)
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    "scram.users": f"SCRAM-SHA-256=[name=admin,password={PASSWORD}]",
}


def serve(directory: Path) -> Serve:
    """Return a broker with one user, admin."""
    named = [part for pair in SETTINGS.items() for part in ("--set", "=".join(pair))]
    return Serve("--data-dir", str(directory), *named, listener=None)


def users(
    where: str, *arguments: str, password: str = "", user: str | None = "admin"
) -> subprocess.CompletedProcess[str]:
    """Run the tool as admin with piped input."""
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": user,
        "sasl.password": PASSWORD,
    }
    named = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    command = (sys.executable, "-m", "coordinator_server", "users", "--bootstrap-server", where)
    return forked.run(
        [*command, *(named if user else ()), *arguments], input=f"{password}\n", timeout=60
    )


def can_log_in(where: str, user: str, mechanism: str, password: str) -> bool:
    """Return whether a librdkafka client can list topics."""
    admin = AdminClient(
        {
            "bootstrap.servers": where,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "log_level": 0,
        }
    )
    try:
        return admin.list_topics(timeout=2) is not None
    except confluent_kafka.KafkaException:
        return False


def test_a_user_comes_changes_and_goes(tmp_path: Path) -> None:
    """A user gets both mechanisms by default, survives kill -9, and can be changed and deleted."""
    first, second = secrets.token_urlsafe(12), secrets.token_urlsafe(12)
    with serve(tmp_path / "data") as broker:
        where = broker.bootstrap_servers
        assert "PLAINTEXT" not in where
        done = users(where, "set", "alice", password=first)
        said = "alice logs in by SCRAM-SHA-256 and SCRAM-SHA-512\n"
        assert (done.returncode, done.stdout, done.stderr) == (0, said, "")
        assert can_log_in(where, "alice", "SCRAM-SHA-256", first)
        assert can_log_in(where, "alice", "SCRAM-SHA-512", first)

        (tmp_path / "password").write_text(f"{second}\r\nmore\n")
        mechanism = ("--mechanism", "SCRAM-SHA-512")
        file = ("--password-file", str(tmp_path / "password"))
        done = users(where, "set", "alice", *mechanism, *file, "--iterations", "8192")
        assert (done.returncode, done.stdout) == (0, "alice logs in by SCRAM-SHA-512\n")
        broker.signal(signal.SIGKILL)
        broker.wait()
    with serve(tmp_path / "data") as broker:
        where = broker.bootstrap_servers
        assert can_log_in(where, "alice", "SCRAM-SHA-256", first)
        assert can_log_in(where, "alice", "SCRAM-SHA-512", second)
        assert not can_log_in(where, "alice", "SCRAM-SHA-512", first)
        listed = users(where, "list").stdout
        alice = "alice\tSCRAM-SHA-256 (4096), SCRAM-SHA-512 (8192)\n"
        assert listed == f"admin\tSCRAM-SHA-256 (4096)\n{alice}"

        done = users(where, "delete", "alice", "--mechanism", "SCRAM-SHA-256")
        assert (done.returncode, done.stdout) == (0, "alice has no SCRAM-SHA-256 any more\n")
        assert not can_log_in(where, "alice", "SCRAM-SHA-256", first)
        assert users(where, "set", "alice", "--mechanism", "SCRAM-SHA-256", password=first).stdout
        done = users(where, "delete", "alice")
        assert done.stdout == "alice has no SCRAM-SHA-256 and no SCRAM-SHA-512 any more\n"
        done = users(where, "delete", "alice")
        assert (done.returncode, done.stdout) == (1, "")
        assert "'alice' has no SCRAM-SHA-256 and no SCRAM-SHA-512" in done.stderr
        for password in (first, second):
            assert password not in broker.log


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "required"),
        (("set", ""), "the user name is empty"),
        (("set", "bob"), "the password is empty: type it, pipe it in, or use --password-file"),
        (("set", "bob", "--iterations", "100"), "'100' is no number from 4096 to 16384"),
        (("set", "bob", "--mechanism", "PLAIN"), "invalid choice: 'PLAIN'"),
        (("set", "bob", "--password-file", "/none"), "No such file or directory: '/none'"),
        (("--set", "sasl.mechanism=X", "list"), "X"),
    ],
)
def test_wrong_arguments(arguments: tuple[str, ...], said: str) -> None:
    """Wrong arguments end with exit code 2 and one line, before any request."""
    done = users("127.0.0.1:1", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broker_that_is_not_there_or_refuses(tmp_path: Path) -> None:
    """An unreachable broker, or a refused request, ends with one line and exit code 1."""
    quick = ("--set", "default.api.timeout.ms=500", "--set", "request.timeout.ms=500")
    done = users(f"127.0.0.1:{free_port()}", *quick, "list", user=None)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    with serve(tmp_path / "data") as broker:
        done = users(broker.bootstrap_servers, "list", user="unknown")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Authentication failed" in done.stderr
