"""The security state that the brokers of a process share."""

from __future__ import annotations

from io import StringIO

import pytest

from coordinator_server.config.config import Config
from coordinator_server.events.log import LOG
from coordinator_server.security.delegation_tokens import MOST_EXPIRED
from coordinator_server.security.principal import user
from coordinator_server.security.security import Security
from storage.errors import StorageError
from storage.memory_disk import MemoryDisk
from storage.security_state import CHANGES_FILE, SecurityState
from tests.harness.clock import ManualClock


def test_a_reset_loads_nothing_that_has_nothing_to_forget() -> None:
    """A reset does not load users, ACLs and quotas that do not exist."""
    disk = MemoryDisk()
    disk.mkdir("/d")
    security = Security(Config(), SecurityState(disk, "/d"), ManualClock(), ManualClock())
    security.forget()
    assert security._users is None
    assert disk.listdir("/d") == []


def test_a_reset_forgets_what_was_kept() -> None:
    """A reset drops all stored users, whether they were used or not."""
    disk = MemoryDisk()
    disk.mkdir("/d")
    state = SecurityState(disk, "/d")
    state.change(
        "scram_users",
        put=[
            {
                "user": "alice",
                "mechanism": "SCRAM-SHA-256",
                "salt": "",
                "stored_key": "",
                "server_key": "",
                "iterations": 4096,
            }
        ],
    )
    security = Security(Config(), SecurityState(disk, "/d"), ManualClock(), ManualClock())
    assert security._users is not None
    security.forget()
    assert not SecurityState(disk, "/d")


KEYED = {
    "delegation.token.secret.key": "a key",
    "delegation.token.expiry.check.interval.ms": "10000",
}


def _with_token(disk: MemoryDisk, clock: ManualClock) -> Security:
    disk.mkdir("/d")
    security = Security(Config(overrides=KEYED), SecurityState(disk, "/d"), clock, clock)
    security.tokens.create("id", user("alice"), user("alice"), [], 15_000)
    return security


def test_expired_tokens_are_removed_by_and_by() -> None:
    """Expired tokens are removed at each interval, until a stop."""
    disk, clock = MemoryDisk(), ManualClock()
    security = _with_token(disk, clock)
    security.start()
    clock.pass_time(10_000)
    assert SecurityState(disk, "/d")
    clock.pass_time(9_999)
    assert SecurityState(disk, "/d")
    clock.pass_time(1)
    assert not SecurityState(disk, "/d")
    security.tokens.create("id", user("alice"), user("alice"), [], 1)
    security.stop()
    clock.pass_time(100_000)
    assert SecurityState(disk, "/d")


def test_very_many_expired_tokens_are_removed_in_turns() -> None:
    """Very many expired tokens are removed a thousand at a time."""
    disk, clock = MemoryDisk(), ManualClock()
    security = _with_token(disk, clock)
    for number in range(MOST_EXPIRED):
        security.tokens.create(f"id-{number}", user("alice"), user("alice"), [], 15_000)
    security.start()
    clock.advance(20_000)
    clock.fire()
    clock.soon.popleft().run()
    assert len(list(security.tokens)) == 1
    clock.turn()
    assert not list(security.tokens)


def test_a_line_that_was_cut_off_is_told() -> None:
    """A truncated line in the security state, as after a crash, is logged."""
    disk = MemoryDisk()
    disk.mkdir("/d")
    state = SecurityState(disk, "/d")
    state.clear("acls")
    file = disk.open(f"/d/{CHANGES_FILE}")
    file.append([b'{"section"'])
    file.close()
    log = StringIO()
    LOG.configure(stream=log)
    for told in (True, False):
        state = SecurityState(disk, "/d")
        Security(Config(), state, ManualClock(), ManualClock())
        assert ("security_state.truncated" in log.getvalue()) == told
        log.truncate(0)
        state.clear("acls")


def test_expired_tokens_that_cannot_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If expired tokens cannot be removed, the removal is retried and the reason is logged."""
    disk, clock = MemoryDisk(), ManualClock()
    security = _with_token(disk, clock)
    security.start()

    def fails(*_: object, **__: object) -> None:
        raise StorageError("the disk is full")

    told = []
    with monkeypatch.context() as broken:
        broken.setattr(type(LOG), "emit", staticmethod(lambda *event, **_: told.append(event)))
        broken.setattr(security.state, "change", fails)
        clock.pass_time(20_000)
    assert told == [("tokens.failed",)]
    clock.pass_time(10_000)
    assert not SecurityState(disk, "/d")


def test_without_a_key_nothing_is_looked_for() -> None:
    """Without a secret key tokens are neither loaded nor removed."""
    disk, clock = MemoryDisk(), ManualClock()
    disk.mkdir("/d")
    security = Security(Config(), SecurityState(disk, "/d"), clock, clock)
    security.start()
    assert (clock.timers, security._tokens) == ([], None)
    security.stop()


def test_a_reset_forgets_tokens() -> None:
    """A reset drops tokens, also those that were not loaded yet."""
    disk, clock = MemoryDisk(), ManualClock()
    _with_token(disk, clock)
    Security(Config(overrides=KEYED), SecurityState(disk, "/d"), clock, clock).forget()
    assert not SecurityState(disk, "/d")
