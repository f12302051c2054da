"""Logins to the control server as users of the broker (`--http-login`).

A request logs in by `Authorization: Basic`, or by the token of a session that `POST /login` begins.
Passwords are those of the broker's SCRAM users, and of PLAIN on any listener. A changed or deleted
password ends the sessions that it began.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from base64 import b64decode
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.control.errors import ControlError
from coordinator_server.security.principal import Principal, user

if TYPE_CHECKING:
    from coordinator_server.cluster import Cluster
    from coordinator_server.security.sasl.scram import ScramCredential

SESSION_MS = 8 * 3600 * 1000
"""How long a session lasts."""

FAILURE_SECONDS = 0.5
"""Delay before the response to a wrong password, which slows down guessing."""

_MOST_SESSIONS = 1_000
_MOST_CHARACTERS = 1_024


class _Session(NamedTuple):
    """A login, and the SCRAM credential that it was checked against; None for PLAIN."""

    user: str
    credential: ScramCredential | None
    expires_at_ms: int


class Logins:
    """The sessions of one control server, by the hash of what the client sends."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._sessions: dict[bytes, _Session] = {}

    async def user_of(self, given: str) -> Principal | None:
        """Return the user of the header Authorization, or None if the header is not valid."""
        session = self._known(given)
        if session is None and given[:6].lower() == "basic ":
            name, _, password = _decoded(given[6:]).partition(":")
            session = await self._checked(name, password)
            if session is not None:
                self._keep(given, session)
        return None if session is None else user(session.user)

    async def begin(self, name: str, password: str) -> dict[str, Any]:
        """Begin a session, the shape `security.Session`. Raises ControlError."""
        session = await self._checked(name, password)
        if session is None:
            raise ControlError(401, "unknown user or wrong password")
        token = secrets.token_urlsafe(24)
        self._keep(f"Bearer {token}", session)
        return {"user": name, "token": token, "expires_at_ms": session.expires_at_ms}

    def _known(self, given: str) -> _Session | None:
        """Return the valid session of a header, or None."""
        key = _key(given)
        session = self._sessions.get(key)
        if session is None:
            return None
        has_expired = session.expires_at_ms <= self._cluster.machine_clock.now_ms()
        if has_expired or not self._is_current(session):
            del self._sessions[key]
            return None
        return session

    def _is_current(self, session: _Session) -> bool:
        """Return whether the user still has the password of the session."""
        if session.credential is None:
            return True
        return session.credential in self._cluster.security.users.of_user(session.user).values()

    def _keep(self, given: str, session: _Session) -> None:
        while len(self._sessions) >= _MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[_key(given)] = session

    async def _checked(self, name: str, password: str) -> _Session | None:
        """Return a new session if the password is right; otherwise None, after a delay."""
        if 0 < len(name) + len(password) <= _MOST_CHARACTERS:
            expires_at_ms = self._cluster.machine_clock.now_ms() + SESSION_MS
            if self._has_plain_password(name, password):
                return _Session(name, None, expires_at_ms)
            for mechanism, credential in self._cluster.security.users.of_user(name).items():
                if await asyncio.to_thread(_has_password, mechanism, credential, password):
                    return _Session(name, credential, expires_at_ms)
        await asyncio.sleep(FAILURE_SECONDS)
        return None

    def _has_plain_password(self, name: str, password: str) -> bool:
        """Return whether a listener with PLAIN accepts the user."""
        from coordinator_server.security.sasl.listener import SaslListener
        from coordinator_server.security.sasl.mechanism import (
            SaslRefusalError,
            UnreadableTokenError,
        )

        config, security = self._cluster.config, self._cluster.security
        for listener in self._cluster.servers.addresses(config.node_id):
            own = config.of_listener(listener.name)
            if not config.security_protocol(listener.name).uses_sasl:
                continue
            if "PLAIN" not in own.items("sasl.enabled.mechanisms"):
                continue
            plain = SaslListener(own, listener.name, security).mechanisms["PLAIN"]()
            try:
                plain.evaluate(f"\0{name}\0{password}".encode("utf-8", "surrogatepass"))
            except (SaslRefusalError, UnreadableTokenError):
                continue
            return plain.is_complete
        return False


def _has_password(mechanism_name: str, credential: ScramCredential, password: str) -> bool:
    """Return whether a SCRAM credential belongs to a password; takes milliseconds."""
    from coordinator_server.security.credentials.scram_mechanisms import SCRAM_BY_NAME
    from coordinator_server.security.sasl.scram import credential_of

    mechanism = SCRAM_BY_NAME[mechanism_name]
    try:
        salted = mechanism.salted_password(password, credential.salt, credential.iterations)
    except UnicodeEncodeError:
        return False
    given = credential_of(mechanism, credential.salt, salted, credential.iterations)
    return hmac.compare_digest(given.stored_key, credential.stored_key)


def _key(given: str) -> bytes:
    """Return the key of a session, so that memory has no tokens and passwords."""
    return sha256(given.encode("utf-8", "surrogatepass")).digest()


def _decoded(text: str) -> str:
    try:
        return b64decode(text, validate=True).decode()
    except ValueError:
        return ""
