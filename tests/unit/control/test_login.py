"""Logins to the control server: sessions, wrong passwords and their limits."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator_server.control import login
from coordinator_server.control.errors import ControlError
from coordinator_server.control.login import Logins
from coordinator_server.events.log import LOG
from coordinator_server.security.sasl.scram import ScramCredential

HOST = "/10.0.0.1"


class PlainLogins(Logins):
    """Logins whose users have PLAIN passwords in `passwords`."""

    def __init__(self) -> None:
        self.passwords = {"bob": "right", "eve": "right"}
        self.scram: dict[str, dict[str, ScramCredential]] = {}
        self.now_ms = 0
        super().__init__(
            cast(
                Any,
                SimpleNamespace(
                    machine_clock=SimpleNamespace(now_ms=lambda: self.now_ms),
                    security=SimpleNamespace(
                        users=SimpleNamespace(of_user=lambda name: self.scram.get(name, {}))
                    ),
                ),
            )
        )

    def _plain_passwords(self, name: str) -> Iterator[bytes]:
        if name in self.passwords:
            yield self.passwords[name].encode()

    async def token(self, name: str = "bob") -> str:
        """Begin a session; return its header."""
        session = await self.begin(name, "right", HOST)
        return f"Bearer {session['token']}"

    async def is_known(self, given: str) -> bool:
        """Return whether a header is valid."""
        return await self.user_of(given, HOST) is not None


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Shorten the delay; return the events that are logged."""
    monkeypatch.setattr(login, "FAILURE_SECONDS", 0.1)
    events: list[dict[str, Any]] = []

    def emit(_: object, event: str, **fields: Any) -> None:
        events.append({"event": event, **fields})

    monkeypatch.setattr(type(LOG), "emit", emit)
    return events


def basic(name: str, password: str) -> str:
    """Return the header of a login with a password."""
    return f"Basic {b64encode(f'{name}:{password}'.encode()).decode()}"


async def test_a_changed_plain_password_ends_the_sessions() -> None:
    """A session ends with a change of the password, a removal of the user, or after eight hours."""
    logins = PlainLogins()
    given = await logins.token()
    assert await logins.is_known(given)
    logins.passwords["bob"] = "new"
    assert not await logins.is_known(given)
    logins.passwords["bob"] = "right"
    assert not await logins.is_known(given)
    given = await logins.token()
    del logins.passwords["bob"]
    assert not await logins.is_known(given)
    given = await logins.token("eve")
    logins.now_ms = login.SESSION_MS
    assert not await logins.is_known(given)
    assert not logins._sessions
    assert not logins._keys


async def test_sessions_are_limited_by_user() -> None:
    """A login beyond a user's limit of sessions ends the oldest session of this user only."""
    logins = PlainLogins()
    of_bob, first = await logins.token(), await logins.token("eve")
    for _ in range(login._MOST_SESSIONS - 1):
        last = await logins.token("eve")
    assert await logins.is_known(first)
    await logins.token("eve")
    assert not await logins.is_known(first)
    assert await logins.is_known(of_bob)
    assert await logins.is_known(last)
    assert len(logins._sessions) == login._MOST_SESSIONS + 1


async def test_guesses_of_an_address_wait_for_each_other(events: list[dict[str, Any]]) -> None:
    """Each address may try one password at a time, without delaying other addresses.

    Each failed attempt is logged.
    """
    logins = PlainLogins()
    began_s = asyncio.get_running_loop().time()
    guesses = [asyncio.ensure_future(logins.user_of(basic("bob", str(n)), HOST)) for n in range(3)]
    await asyncio.sleep(0)
    assert await logins.user_of(basic("bob", "right"), "/10.0.0.2") is not None
    assert asyncio.get_running_loop().time() - began_s < 0.09
    assert await asyncio.gather(*guesses) == [None] * 3
    assert asyncio.get_running_loop().time() - began_s >= 0.29
    assert (
        events
        == [
            {
                "event": "authentication.failed",
                "remote": "10.0.0.1",
                "listener": "--http",
                "user": "bob",
                "reason": "unknown user or wrong password",
            }
        ]
        * 3
    )
    assert not logins._checks


async def test_too_many_guesses_get_429(events: list[dict[str, Any]]) -> None:
    """Above a number of waiting logins an address gets 429, but its sessions stay valid."""
    logins = PlainLogins()
    given = await logins.token()
    guesses = [
        asyncio.ensure_future(logins.begin("bob", "wrong", HOST)) for _ in range(login._MOST_CHECKS)
    ]
    await asyncio.sleep(0)
    with pytest.raises(ControlError) as raised:
        await logins.begin("bob", "right", HOST)
    assert (raised.value.status, raised.value.headers) == (429, {"Retry-After": "1"})
    assert await logins.is_known(given)
    for guess in guesses:
        guess.cancel()
    await asyncio.gather(*guesses, return_exceptions=True)
    assert await logins.is_known(await logins.token())


@pytest.mark.usefixtures("events")
async def test_a_failed_login_takes_the_same_time_for_every_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The delay includes the time to hash the password, which is spent only for known users."""
    logins = PlainLogins()
    logins.scram["carol"] = {"SCRAM-SHA-256": ScramCredential(b"s", b"k", b"k", 4096)}
    delays_s: list[float] = []

    async def sleep(delay_s: float) -> None:
        delays_s.append(delay_s)

    loop = asyncio.get_running_loop()
    hashing_s = [0.0]
    now = loop.time

    def is_right(*_: object) -> bool:
        hashing_s[0] += 0.05
        return False

    monkeypatch.setattr(loop, "time", lambda: now() + hashing_s[0])

    monkeypatch.setattr(login, "_has_password", is_right)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    for name in ("carol", "nobody"):
        assert not await logins.is_known(basic(name, "wrong"))
    assert delays_s[0] <= 0.05
    assert delays_s[1] > delays_s[0]
