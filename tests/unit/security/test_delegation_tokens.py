"""Delegation tokens: lifetimes, permissions, and persistence."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

import pytest

from coordinator_server.config.config import Config
from coordinator_server.security.credentials.scram_mechanisms import (
    SHA_256,
    SHA_512,
    ScramMechanism,
)
from coordinator_server.security.delegation_tokens import (
    MOST_BYTES,
    MOST_TOKEN_BYTES,
    DelegationToken,
    DelegationTokens,
    TokenRequestError,
)
from coordinator_server.security.principal import Principal, user
from coordinator_server.security.sasl.scram import credential_of
from protocol.errors import ErrorCode
from storage.config_def import LONG_MAX
from storage.errors import StorageError
from storage.memory_disk import MemoryDisk
from storage.security_state import SecurityState
from tests.harness.clock import START_MS, ManualClock

ALICE, BOB, CAROL = user("alice"), user("bob"), user("carol")
KEY = "a secret key"
MAX_MS, EXPIRY_MS = 604_800_000, 86_400_000


class Place:
    """A directory with tokens, across any number of restarts."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self.disk = MemoryDisk()
        self.disk.mkdir("/d")
        self.clock = ManualClock()
        self.settings = {"delegation.token.secret.key": KEY, **(settings or {})}
        self.restart()

    def restart(self) -> None:
        """Read the kept tokens again."""
        self.state = SecurityState(self.disk, "/d")
        config = Config(overrides=self.settings)
        self.machine_clock = ManualClock()
        self.tokens = DelegationTokens(config, self.state, self.clock, self.machine_clock)

    def create(self, token_id: str = "id", lifetime_ms: int = -1) -> DelegationToken:
        """Return a new token of alice, requested by bob and renewable by carol."""
        return self.tokens.create(token_id, ALICE, BOB, [CAROL], lifetime_ms)

    def hmac(self, token_id: str = "id") -> bytes:
        """Return the HMAC of the token."""
        return self.tokens.hmac(token_id)


def _refused(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(TokenRequestError) as caught:
        call()
    return caught.value.error


def test_the_hmac_is_kafkas() -> None:
    """A token's HMAC is HMAC-SHA-512 of its id, so that Kafka with the same key accepts it."""
    expected = hmac.new(KEY.encode(), b"id", hashlib.sha512).digest()
    assert Place().hmac() == expected


@pytest.mark.parametrize(
    ("asked_ms", "expires_in_ms", "max_in_ms"),
    [
        (-1, EXPIRY_MS, MAX_MS),
        (0, EXPIRY_MS, MAX_MS),
        (1000, 1000, 1000),
        (EXPIRY_MS + 1, EXPIRY_MS, EXPIRY_MS + 1),
        (MAX_MS + 1, EXPIRY_MS, MAX_MS),
    ],
)
def test_how_long_a_token_lives(asked_ms: int, expires_in_ms: int, max_in_ms: int) -> None:
    """A token lives at most as long as requested, and as the settings allow."""
    token = Place().create(lifetime_ms=asked_ms)
    assert token.issued_at_ms == START_MS
    assert token.expires_at_ms == START_MS + expires_in_ms
    assert token.max_at_ms == START_MS + max_in_ms


def test_times_have_an_end() -> None:
    """The largest lifetime settings cause no overflow of a token's times."""
    longest = str(LONG_MAX)
    settings = ("delegation.token.max.lifetime.ms", "delegation.token.expiry.time.ms")
    token = Place(dict.fromkeys(settings, longest)).create()
    assert (token.expires_at_ms, token.max_at_ms) == (LONG_MAX, LONG_MAX)


@pytest.mark.parametrize(
    ("period_ms", "expires_in_ms"),
    [(-1, EXPIRY_MS), (0, EXPIRY_MS), (5000, 5000), (EXPIRY_MS * 2, EXPIRY_MS)],
)
def test_a_renewed_token(period_ms: int, expires_in_ms: int) -> None:
    """A renewed token lives for the period from now, up to the limit of the setting."""
    place = Place()
    place.create()
    place.clock.time_ms += 1000
    ends_at_ms = place.tokens.renew(place.hmac(), ALICE, period_ms)
    assert ends_at_ms == START_MS + 1000 + expires_in_ms
    assert [token.expires_at_ms for token in place.tokens] == [ends_at_ms]


def test_no_token_is_renewed_beyond_its_end() -> None:
    """Neither a renewal nor ExpireDelegationToken extends a token beyond its maximum lifetime."""
    place = Place()
    place.create(lifetime_ms=EXPIRY_MS)
    place.clock.time_ms += 1000
    assert place.tokens.renew(place.hmac(), ALICE, -1) == START_MS + EXPIRY_MS
    assert place.tokens.expire(place.hmac(), ALICE, LONG_MAX) == START_MS + EXPIRY_MS


def test_a_token_that_ends_later() -> None:
    """A period of 0 ends the token now; it is expired from the next millisecond on."""
    place = Place()
    place.create()
    assert place.tokens.expire(place.hmac(), CAROL, 500) == START_MS + 500
    assert place.tokens.expire(place.hmac(), CAROL, 0) == START_MS
    assert place.tokens.renew(place.hmac(), CAROL, 10) == START_MS + 10


def test_a_token_that_ends_now() -> None:
    """A negative period removes the token, expired or not."""
    place = Place()
    for wait_ms in (0, EXPIRY_MS + 1):
        place.create()
        place.clock.time_ms += wait_ms
        assert place.tokens.expire(place.hmac(), ALICE, -1) == place.clock.time_ms
        assert list(place.tokens) == []
        assert place.tokens.login(SHA_256, "id") is None
        assert place.tokens.id_of(place.hmac()) is None


def test_who_may_renew_and_end_a_token() -> None:
    """Owner and renewers may renew and expire a token, its requester may not."""
    place = Place()
    place.create()
    for principal in (BOB, user("dave"), Principal("Group", "alice")):
        for call in (place.tokens.renew, place.tokens.expire):
            error = _refused(partial(call, place.hmac(), principal, 1))
            assert error is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


def test_a_token_that_is_not_there() -> None:
    """An unknown HMAC gets DELEGATION_TOKEN_NOT_FOUND."""
    place = Place()
    place.create()
    for other in (b"", b"x", place.hmac("other"), place.hmac()[:63]):
        for call in (place.tokens.renew, place.tokens.expire):
            error = _refused(partial(call, other, ALICE, 1))
            assert error is ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_an_expired_token() -> None:
    """An expired token gets EXPIRED; expiring it without permission gets OWNER_MISMATCH."""
    place = Place()
    place.create()
    place.clock.time_ms += EXPIRY_MS
    place.tokens.renew(place.hmac(), ALICE, 1)
    place.clock.time_ms += 2
    expired = ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert _refused(lambda: place.tokens.renew(place.hmac(), ALICE, 1)) is expired
    assert _refused(lambda: place.tokens.renew(place.hmac(), BOB, 1)) is expired
    assert _refused(lambda: place.tokens.expire(place.hmac(), ALICE, 1)) is expired
    mismatch = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert _refused(lambda: place.tokens.expire(place.hmac(), BOB, 1)) is mismatch
    assert len(list(place.tokens)) == 1


def test_expired_tokens_are_removed() -> None:
    """Only expired tokens are removed, also from the file."""
    place = Place()
    place.create("short", 1000)
    place.create("long")
    place.clock.time_ms += 1000
    assert place.tokens.remove_expired() == []
    place.clock.time_ms += 1
    assert [token.token_id for token in place.tokens.remove_expired()] == ["short"]
    place.restart()
    assert [token.token_id for token in place.tokens] == ["long"]


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_a_login(mechanism: ScramMechanism) -> None:
    """At a login with a token the base64 HMAC is the password; the owner is logged in."""
    place = Place()
    token = place.create()
    login = place.tokens.login(mechanism, "id")
    assert login is not None
    assert (login.owner, login.expires_at_ms) == ("alice", token.expires_at_ms)
    salt, iterations = login.credential.salt, login.credential.iterations
    password = base64.b64encode(place.hmac())
    salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password, salt, iterations)
    assert login.credential == credential_of(mechanism, salt, salted, mechanism.min_iterations)
    assert place.tokens.login(mechanism, "id") == login
    assert place.tokens.login(mechanism, "other") is None


def test_a_session_ends_by_the_machines_clock() -> None:
    """A session has the token's remaining lifetime, measured by the machine's clock."""
    place = Place()
    place.create()
    place.clock.time_ms += 5000
    login = place.tokens.login(SHA_256, "id")
    assert login is not None
    assert login.expires_at_ms == place.machine_clock.time_ms + EXPIRY_MS - 5000


def test_a_restart() -> None:
    """Tokens survive a restart; neither the secret key nor an HMAC is stored.

    With another secret key the tokens have other HMACs.
    """
    place = Place()
    place.create("one")
    place.create("two")
    place.tokens.renew(place.hmac("one"), ALICE, 1000)
    before = list(place.tokens)
    place.restart()
    assert list(place.tokens) == before
    assert place.tokens.id_of(place.hmac("two")) == "two"
    kept = b"".join(map(place.disk.read_file, (f"/d/{one}" for one in place.disk.listdir("/d"))))
    assert KEY.encode() not in kept
    assert base64.b64encode(place.hmac("one")) not in kept
    old = place.hmac("one")
    place.settings["delegation.token.secret.key"] = "another"
    place.restart()
    assert place.tokens.id_of(old) is None
    assert place.tokens.id_of(place.hmac("one")) == "one"


@pytest.mark.parametrize("key", [None, ""])
def test_without_a_key(key: str | None) -> None:
    """Without a secret key every request is refused; stored tokens stay for another start."""
    place = Place()
    place.create()
    del place.settings["delegation.token.secret.key"]
    if key is not None:
        place.settings["delegation.token.secret.key"] = key
    place.restart()
    assert not place.tokens.are_enabled
    assert place.tokens.login(SHA_256, "id") is None
    disabled = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert _refused(place.create) is disabled
    assert _refused(lambda: place.tokens.renew(b"", ALICE, 1)) is disabled
    assert _refused(lambda: place.tokens.expire(b"", ALICE, 1)) is disabled
    place.settings["delegation.token.secret.key"] = KEY
    place.restart()
    assert [token.token_id for token in place.tokens] == ["id"]


def test_the_type_of_an_owner_ends_at_the_first_colon() -> None:
    """The type of an owner ends at the first colon, as in Kafka, which stores text."""
    place = Place()
    token = place.tokens.create("id", Principal("A:B", "c"), BOB, (), -1)
    assert token.owner == Principal("A", "B:c")
    place.restart()
    assert [one.owner for one in place.tokens] == [token.owner]


def test_there_is_an_end_to_what_tokens_take() -> None:
    """A token with very many renewers is refused, and so is a token beyond the total limit."""
    place = Place()
    many = [user("x" * 100)] * (MOST_TOKEN_BYTES // 100)
    policy = ErrorCode.POLICY_VIOLATION
    assert _refused(lambda: place.tokens.create("id", ALICE, BOB, many, -1)) is policy
    few = many[: len(many) // 2]
    least = MOST_BYTES // MOST_TOKEN_BYTES
    for count in range(least):
        place.tokens.create(f"id{count:05}", ALICE, BOB, few, -1)
    with suppress(TokenRequestError):
        for count in range(least, 3 * least):
            place.tokens.create(f"id{count:05}", ALICE, BOB, few, -1)
    assert _refused(lambda: place.tokens.create("one more", ALICE, BOB, few, -1)) is policy
    place.tokens.expire(place.hmac("id00000"), ALICE, -1)
    place.tokens.create("id", ALICE, BOB, few, -1)


def test_a_change_that_cannot_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that cannot be written is an error and has no effect."""
    place = Place()
    place.create()
    before = list(place.tokens)
    for name in ("change", "clear"):
        monkeypatch.setattr(place.state, name, _fails)
    for call in (
        lambda: place.create("other"),
        lambda: place.tokens.renew(place.hmac(), ALICE, 1),
        lambda: place.tokens.expire(place.hmac(), ALICE, 1),
        lambda: place.tokens.expire(place.hmac(), ALICE, -1),
        place.tokens.clear,
    ):
        with pytest.raises(StorageError):
            call()
    assert list(place.tokens) == before
    assert place.tokens.login(SHA_256, "id") is not None


def _fails(*_: object, **__: object) -> None:
    raise StorageError("the disk is full")


@pytest.mark.parametrize(
    "damage", [{"owner": None}, {"renewers": 1}, {"token_id": None, "owner": 5}, {"expires": 1}]
)
def test_a_damaged_token(damage: dict[str, object]) -> None:
    """A damaged token stops the start of the broker with the reason."""
    place = Place()
    entry = place.create().to_entry() | damage
    if "expires" in damage:
        del entry["expires_at_ms"]
    place.state.clear("delegation_tokens")
    place.state.change("delegation_tokens", put=[entry])
    with pytest.raises(StorageError, match=r"a token in .* is damaged"):
        place.restart()
