"""The directory of --dev-security: its owner, and file permissions."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from coordinator_server.config.config import Config, ConfigError
from coordinator_server.security import dev_security


def prepare(directory: Path) -> None:
    """Prepare the directory, as a start does."""
    overrides = {"dev.security.dir": str(directory), "listeners": "SASL_SSL://127.0.0.1:9092"}
    dev_security.prepare(Config(overrides=overrides))


def test_a_directory_that_others_may_write_to(tmp_path: Path) -> None:
    """A directory that other users may write to is refused; a readable directory is used.

    Other users could place files that would be served.
    """
    for mode in (0o720, 0o702, 0o1777):
        tmp_path.chmod(mode)
        with pytest.raises(ConfigError, match=f"{tmp_path}: others may write it: chmod go-w "):
            prepare(tmp_path)
        assert list(tmp_path.iterdir()) == []
    tmp_path.chmod(0o755)
    prepare(tmp_path)
    prepare(tmp_path)


def test_what_is_made_is_used_again(tmp_path: Path) -> None:
    """Files that one start has created are used by the next, also with a permissive umask."""
    before = os.umask(0)
    try:
        prepare(tmp_path / "new")
    finally:
        os.umask(before)
    prepare(tmp_path / "new")


@pytest.mark.parametrize("name", ["users.json", "ca.key", "server.pem", "alice.pem"])
@pytest.mark.parametrize(("mode", "can"), [(0o640, "read"), (0o604, "read"), (0o622, "write")])
def test_a_secret_that_others_may_read(tmp_path: Path, name: str, mode: int, can: str) -> None:
    """A secret file that other users may read or write is refused."""
    prepare(tmp_path)
    path = tmp_path / name
    path.chmod(mode)
    with pytest.raises(ConfigError, match=f"{path}: others may {can} it: chmod go-rwx "):
        prepare(tmp_path)


def test_an_authority_that_others_may_write(tmp_path: Path) -> None:
    """An authority certificate that other users may write is refused; reading is allowed."""
    prepare(tmp_path)
    (tmp_path / "ca.pem").chmod(0o664)
    with pytest.raises(ConfigError, match="others may write it: chmod go-w "):
        prepare(tmp_path)


def test_a_directory_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only root may use a directory of another user."""
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    expected = f"{tmp_path}: it belongs to the user {owner}, the broker runs as {owner + 1}"
    with pytest.raises(ConfigError, match=expected):
        prepare(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    prepare(tmp_path)


def test_a_file_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of another user is refused, even in the user's own directory."""
    prepare(tmp_path)
    stat = Path.stat

    def foreign(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        values = list(stat(path, follow_symlinks=follow_symlinks))[:10]
        values[4] = 4711 if path.name == "users.json" else 1000
        return os.stat_result(values)

    monkeypatch.setattr(Path, "stat", foreign)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ConfigError, match=r"users\.json: it belongs to the user 4711, the broker"):
        prepare(tmp_path)


@pytest.mark.parametrize(
    ("host", "is_refused"),
    [("localhost", False), ("127.0.0.1", False), ("localhost.localdomain", True), ("", True)],
)
def test_passwords_in_the_clear_are_for_this_machine(host: str, is_refused: bool) -> None:
    """PLAIN without TLS is refused except on loopback addresses and localhost."""
    config = Config(
        overrides={
            "listeners": f"SASL_PLAINTEXT://{host}:9092",
            "sasl.enabled.mechanisms": "PLAIN",
        }
    )
    expected = (
        pytest.raises(ConfigError, match="would pass unencrypted") if is_refused else nullcontext()
    )
    with expected:
        dev_security.check(config)
