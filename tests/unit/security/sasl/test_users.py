"""Users with SCRAM credentials: changes, persistence, and users from a setting."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_server.config.config import Config, ConfigError
from coordinator_server.security.credentials.scram_mechanisms import SHA_256, SHA_512
from coordinator_server.security.sasl import users as users_module
from coordinator_server.security.sasl.users import ScramUsers, parse_users
from coordinator_server.security.security import Security
from protocol.apis.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.errors import ErrorCode
from storage.errors import StorageError
from storage.memory_disk import MemoryDisk
from storage.security_state import SecurityState
from tests.harness.clock import ManualClock


def _state(disk: MemoryDisk | None = None) -> SecurityState:
    return SecurityState(disk or _disk(), "/d")


def _disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.mkdir("/d")
    return disk


def _put(name: str, mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"s", salted_password=b"p" * 32
    )


def _drop(name: str, mechanism: int = 1) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def _alter(users: ScramUsers, *changes: Any) -> dict[str, tuple[int, str | None]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[one for one in changes if isinstance(one, ScramCredentialDeletion)],
        upsertions=[one for one in changes if isinstance(one, ScramCredentialUpsertion)],
    )
    steps = users.alter(request)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return {one.user: (one.error, one.message) for one in end.value}


def test_what_is_put_is_kept_and_removed() -> None:
    """A user has one credential per mechanism, which survives a restart until it is removed."""
    disk = _disk()
    users = ScramUsers(_state(disk))
    assert _alter(users, _put("a"), _put("b", 2, 8192)) == {"a": (0, None), "b": (0, None)}
    assert _alter(users, _put("a", 2)) == {"a": (0, None)}
    again = ScramUsers(_state(disk))
    assert again.users() == ["a", "b"]
    assert sorted(again.of_user("a")) == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert again.credential(SHA_512, "b") == users.credential(SHA_512, "b")
    assert _alter(again, _drop("a"), _drop("b", 2)) == {"a": (0, None), "b": (0, None)}
    assert ScramUsers(_state(disk)).users() == ["a"]
    again.clear()
    assert ScramUsers(_state(disk)).users() == []


def test_no_password_is_kept() -> None:
    """The file has the keys that verify a proof, but not the salted password."""
    disk = _disk()
    _alter(ScramUsers(_state(disk)), _put("a"))
    assert disk.listdir("/d") == ["security.changes"]
    contents = disk.read_file("/d/security.changes")
    assert b"cHBwcHBw" not in contents  # the base64 text of the repeated letter p
    assert b"stored_key" in contents


def test_changes_that_are_refused() -> None:
    """Invalid changes get Kafka's codes and messages; valid changes of the request are applied."""
    users = ScramUsers(_state())
    twice = (
        ErrorCode.DUPLICATE_RESOURCE,
        "A user credential cannot be altered twice in the same request",
    )
    assert _alter(users, _put("a"), _put("a"), _put("b")) == {"a": twice, "b": (0, None)}
    assert _alter(users, _drop("b"), _put("b")) == {"b": twice}
    assert _alter(users, _drop("b"), _drop("b")) == {"b": twice}
    assert users.users() == ["b"]
    unacceptable = ErrorCode.UNACCEPTABLE_CREDENTIAL
    assert _alter(users, _put("", 9)) == {"": (unacceptable, "Username must not be empty")}
    unknown = (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    assert _alter(users, _put("c", 3), _drop("b", 0)) == {"b": unknown, "c": unknown}
    assert _alter(users, _put("c", 1, 4095)) == {"c": (unacceptable, "Too few iterations")}
    assert _alter(users, _put("c", 1, 16385)) == {"c": (unacceptable, "Too many iterations")}
    missing = "Attempt to delete a user credential that does not exist"
    assert _alter(users, _drop("c"), _drop("b", 2)) == {
        "c": (ErrorCode.RESOURCE_NOT_FOUND, missing),
        "b": (ErrorCode.RESOURCE_NOT_FOUND, missing),
    }


def test_too_many_changes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request with too many changes fails for all users, as with Kafka's controller."""
    monkeypatch.setattr(users_module, "MOST_CHANGES", 1)
    users = ScramUsers(_state())
    told = _alter(users, _put("a"), _put("b"), _put(""))
    assert {code for code, _ in told.values()} == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert users.users() == []


def test_users_of_a_setting() -> None:
    """Users in the setting are added once, and again after a reset."""
    text = "SCRAM-SHA-256=[name=a,password=x];SCRAM-SHA-512=[name=b,iterations=8192,password=y]"
    disk = _disk()
    users = ScramUsers(_state(disk), text)
    first = users.credential(SHA_256, "a")
    assert first is not None
    assert [one.iterations for one in users.of_user("b").values()] == [8192]
    assert ScramUsers(_state(disk), text).credential(SHA_256, "a") == first
    users.clear()
    assert users.users() == ["a", "b"]


def test_users_of_a_setting_that_counts_for_more() -> None:
    """Users in the setting get the setting's passwords at each start; other users stay."""
    disk = _disk()
    users = ScramUsers(_state(disk), "SCRAM-SHA-256=[name=a,password=x]")
    _alter(users, _put("b"))
    changed = ScramUsers(_state(disk), "SCRAM-SHA-256=[name=a,password=y]", replaces=True)
    assert changed.credential(SHA_256, "a") != users.credential(SHA_256, "a")
    assert changed.of_user("b") == users.of_user("b")
    assert ScramUsers(_state(disk)).of_user("a") == changed.of_user("a")


@pytest.mark.parametrize(
    "text",
    [
        "secret",
        "PLAIN=[name=a,password=secret]",
        "SCRAM-SHA-256=[name=,password=secret]",
        "SCRAM-SHA-256=[password=secret,name=a]",
        "SCRAM-SHA-256=[name=a,iterations=5,password=secret]",
        "SCRAM-SHA-256=[name=a,iterations=99999,password=secret]",
        'SCRAM-SHA-256=[name=a,iterations="8192,password=secret]',
        "SCRAM-SHA-256=[name=a,password=x];secret",
        "SCRAM-SHA-256=[name=a,password=x];SCRAM-SHA-256=[password=secret,name=a]",
        "SCRAM-SHA-256=[name=a,password=secret\udcff]",
    ],
)
def test_a_setting_that_is_wrong(text: str) -> None:
    """An invalid setting is refused without a password in the message."""
    with pytest.raises(ConfigError) as caught:
        parse_users(text)
    assert "secret" not in str(caught.value)


def test_a_password_may_have_any_sign() -> None:
    """A password may have any character, up to the bracket before the next user or the end."""
    one, other = parse_users(
        "SCRAM-SHA-256=[name=a,password=x,y=[z];w];] ; SCRAM-SHA-512=[name=b,password=;]"
    )
    assert (one.password, other.password) == ("x,y=[z];w];", ";")
    assert "x,y" not in repr(one)


def test_values_may_be_quoted() -> None:
    """Double quotes around a value are removed, as in Kafka's storage tool; other quotes stay."""
    quoted, plain = parse_users(
        'SCRAM-SHA-256=[name="a b",iterations="8192",password="x=y"];'
        """SCRAM-SHA-256=[name='c',password="x"y]"""
    )
    assert (quoted.name, quoted.iterations, quoted.password) == ("a b", 8192, "x=y")
    assert (plain.name, plain.password) == ("'c'", '"x"y')


def test_requests_of_many_users_may_overlap() -> None:
    """If two requests overlap, each in several steps, neither request is lost."""
    disk = _disk()
    users = ScramUsers(_state(disk))
    _alter(users, _put("gone"))
    names = [f"u{n}" for n in range(1200)]
    first = users.alter(
        AlterUserScramCredentialsRequest(
            deletions=[_drop("gone")], upsertions=[_put(name) for name in names]
        )
    )
    for _ in range(5):
        next(first)
    assert _alter(users, _drop("gone"), _put("other")) == {"gone": (0, None), "other": (0, None)}
    assert len(list(first)) >= 2
    for one in (users, ScramUsers(_state(disk))):
        assert sorted(one.users()) == sorted([*names, "other"])


@pytest.mark.parametrize(
    "change",
    [
        {"user": 5}, {"mechanism": "PLAIN"}, {"mechanism": []}, {"salt": "é"}, {"stored_key": None},
        {"iterations": "4096"}, {"server_key": "a"},
    ],
)  # fmt: skip
def test_a_damaged_user_is_told(change: dict[str, Any]) -> None:
    """A damaged user stops the start of the broker, so that no user is lost silently."""
    state = _state()
    _alter(ScramUsers(state), _put("a"))
    (entry,) = state.section("scram_users")
    for damaged in ({**entry, **change}, {key: one for key, one in entry.items() if key != "salt"}):
        state.clear("scram_users")
        state.change("scram_users", put=[damaged])
        with pytest.raises(StorageError, match=r"a user in the data directory is damaged"):
            ScramUsers(state)
        with pytest.raises(StorageError, match=r"a user in the data directory is damaged"):
            Security(Config(), state, ManualClock(), ManualClock())
