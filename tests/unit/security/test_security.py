"""What the brokers of a process share of security."""

from __future__ import annotations

from coordinator_server.config.config import Config
from coordinator_server.security.security import Security
from storage.memory_disk import MemoryDisk
from storage.security_state import SecurityState


def test_a_reset_loads_nothing_that_has_nothing_to_forget() -> None:
    """A broker without users, ACLs and quotas does not read them in to forget them."""
    disk = MemoryDisk()
    disk.mkdir("/d")
    security = Security(Config(), SecurityState(disk, "/d"))
    security.forget()
    assert security._users is None
    assert disk.listdir("/d") == []


def test_a_reset_forgets_what_was_kept() -> None:
    """Including users that nobody has asked for; they are read at the start, not by a login."""
    disk = MemoryDisk()
    disk.mkdir("/d")
    state = SecurityState(disk, "/d")
    state.put(
        "scram_users",
        [
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
    security = Security(Config(), SecurityState(disk, "/d"))
    assert security._users is not None
    security.forget()
    assert not SecurityState(disk, "/d")
