"""kafka-acls: cases that cannot be recorded, because the order of Kafka's output is random."""

from __future__ import annotations

import io
import os

import pytest

from coordinator_server.kafka_tools.script_names import BY_NAME, run_script
from tests.support import AUTHORIZED, Broker

GRANT = ("--allow-principal", "User:alice", "--topic", "orders", "--operation")


def acls(where: str, *arguments: str) -> int:
    """Run the tool; return its exit code."""
    return run_script(BY_NAME["kafka-acls"], ("--bootstrap-server", where, *arguments))


@pytest.mark.parametrize("operation", ["ClusterAction", "bogus"])
def test_an_operation_that_a_resource_does_not_have(
    operation: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An operation that the resource lacks is refused locally, with the valid operations."""
    assert acls("127.0.0.1:1", "--add", *GRANT, operation) == 1
    said = capsys.readouterr().err.splitlines()[0]
    assert said.startswith("ResourceType TOPIC only supports operations [ALL, READ, WRITE, CREATE,")


@pytest.mark.parametrize(("answer", "is_kept"), [("y", False), ("Y", False), ("n", True)])
def test_removal_asks(
    answer: str,
    is_kept: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """At a terminal, removal asks for confirmation; any reply except y keeps the ACLs."""
    reader, writer = os.openpty()
    with (
        Broker(AUTHORIZED) as broker,
        open(writer) as terminal,
        open(reader, "wb", buffering=0) as keyboard,
    ):
        where = broker.bootstrap_servers
        assert acls(where, "--add", *GRANT, "read") == 0
        keyboard.write(f"{answer}\n".encode())
        monkeypatch.setattr("sys.stdin", terminal)
        capsys.readouterr()
        assert acls(where, "--remove", *GRANT, "read") == 0
        assert "Are you sure you want to remove ACLs: \n \t(principal=User:alice, host=*," in (
            capsys.readouterr().out
        )
        acls(where, "--list")
        assert ("User:alice" in capsys.readouterr().out) is is_kept


def test_removal_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a terminal a removal without --force is refused and removes nothing."""
    with Broker(AUTHORIZED) as broker:
        where = broker.bootstrap_servers
        assert acls(where, "--add", *GRANT, "read") == 0
        monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
        assert acls(where, "--remove", "--topic", "orders") == 1
        assert "--force removes without a question" in capsys.readouterr().out
        acls(where, "--list")
        assert "User:alice" in capsys.readouterr().out
