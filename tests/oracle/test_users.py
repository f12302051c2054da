"""`coordinator-server users` with a running Kafka, compared with Kafka's kafka-configs."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from coordinator_server.tools.users import main
from tests.oracle.kafka_process import Kafka
from tests.scripts.player import OfficialTools


@pytest.mark.nightly
def test_users_of_a_kafka(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Users get both mechanisms, and can be changed, listed and deleted."""
    kafka = Kafka(tmp_path, {})
    kafka.start()
    server = ("--bootstrap-server", kafka.bootstrap_servers)

    def users(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO("a password\n"))
        return main([*server, *arguments]), capsys.readouterr().out

    try:
        assert users("set", "alice") == (0, "alice logs in by SCRAM-SHA-256 and SCRAM-SHA-512\n")
        changed = ("--mechanism", "SCRAM-SHA-512", "--iterations", "8192")
        assert users("set", "alice", *changed)[0] == 0
        assert users("list") == (0, "alice\tSCRAM-SHA-256 (4096), SCRAM-SHA-512 (8192)\n")
        describe = ("--describe", "--entity-type", "users", "--entity-name", "alice")
        with OfficialTools() as official:
            said = official("kafka-configs", [*server, *describe], "").out
        # Kafka lists the mechanisms in an order that differs between starts.
        said, _, infos = said.strip().rpartition(" are ")
        assert said.endswith("user-principal 'alice'")
        assert sorted(infos.split(", ")) == [
            "SCRAM-SHA-256=iterations=4096",
            "SCRAM-SHA-512=iterations=8192",
        ]
        removed = "alice has no SCRAM-SHA-256 and no SCRAM-SHA-512 any more\n"
        assert users("delete", "alice") == (0, removed)
        assert users("list") == (0, "")
        assert users("delete", "alice")[0] == 1
    finally:
        kafka.end()
