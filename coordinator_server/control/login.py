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
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.control.errors import ControlError
from coordinator_server.events.log import LOG
from coordinator_server.security.principal import Principal, user

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from coordinator_server.cluster import Cluster
    from coordinator_server.security.sasl.scram import ScramCredential

SESSION_MS = 8 * 3600 * 1000
"""How long a session lasts."""

FAILURE_SECONDS = 0.5
"""Duration of a failed login, which slows down guessing: one client address makes one at a time."""

_MOST_SESSIONS, _MOST_CHECKS = 100, 20
"""Limits of a user's sessions, and of a client address's logins that wait."""

_MOST_CHARACTERS = 1_024
_MOST_NAME_CHARACTERS = 100


class _Session(NamedTuple):
    """A login, and what it was checked against: a SCRAM credential or a PLAIN password's hash."""

    user: str
    checked: ScramCredential | bytes
    expires_at_ms: int


class Logins:
    """The sessions of one control server, by the hash of what the client sends."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._sessions: dict[bytes, _Session] = {}
        self._keys: dict[str, dict[bytes, None]] = {}
        """The keys of each user's sessions, the oldest first."""
        self._checks: dict[str, _Checks] = {}
        self._secret = secrets.token_bytes(32)

    def use(self, cluster: Cluster) -> None:
        """Check users of another cluster from now on."""
        self._cluster = cluster

    async def user_of(self, given: str, client_host: str) -> Principal | None:
        """Return the user of the header Authorization, or None if the header is not valid.

        Raises ControlError (429) if too many logins of the client address are waiting.
        """
        session = self._known(given)
        if session is None and given[:6].lower() == "basic ":
            name, _, password = _decoded(given[6:]).partition(":")
            async with self._turn(client_host):
                session = self._known(given)  # another request may have begun the session
                if session is None:
                    session = await self._checked(name, password, client_host)
                    if session is not None:
                        self._keep(given, session)
        return None if session is None else user(session.user)

    async def begin(self, name: str, password: str, client_host: str) -> dict[str, Any]:
        """Begin a session, the shape `security.Session`. Raises ControlError."""
        async with self._turn(client_host):
            session = await self._checked(name, password, client_host)
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
            self._forget(key)
            return None
        return session

    def _is_current(self, session: _Session) -> bool:
        """Return whether the user still has the password of the session."""
        if isinstance(session.checked, bytes):
            passwords = self._plain_passwords(session.user)
            return any(self._hash(password) == session.checked for password in passwords)
        return session.checked in self._cluster.security.users.of_user(session.user).values()

    def _hash(self, password: bytes) -> bytes:
        """Return the hash of a password, so that memory has no passwords of sessions."""
        return hmac.digest(self._secret, password, "sha256")

    def _keep(self, given: str, session: _Session) -> None:
        key, keys = _key(given), self._keys.setdefault(session.user, {})
        if key not in keys and len(keys) >= _MOST_SESSIONS:
            self._forget(next(iter(keys)))
        keys[key] = None
        self._sessions[key] = session

    def _forget(self, key: bytes) -> None:
        session = self._sessions.pop(key)
        keys = self._keys[session.user]
        del keys[key]
        if not keys:
            del self._keys[session.user]

    async def _checked(self, name: str, password: str, client_host: str) -> _Session | None:
        """Return a new session if the password is right.

        Otherwise log the failure and return None, always after the same time: a client cannot tell
        from the time whether a user exists.
        """
        clock = asyncio.get_running_loop().time
        end_s = clock() + FAILURE_SECONDS
        if 0 < len(name) + len(password) <= _MOST_CHARACTERS:
            expires_at_ms = self._cluster.machine_clock.now_ms() + SESSION_MS
            given = _bytes(password)
            for expected in self._plain_passwords(name):
                if hmac.compare_digest(given, expected):
                    return _Session(name, self._hash(given), expires_at_ms)
            for mechanism, credential in self._cluster.security.users.of_user(name).items():
                if await asyncio.to_thread(_has_password, mechanism, credential, password):
                    return _Session(name, credential, expires_at_ms)
        is_shown = name.isprintable() and 0 < len(name) <= _MOST_NAME_CHARACTERS
        LOG.emit(
            "authentication.failed",
            remote=client_host[1:],
            listener="--http",
            user=name if is_shown else None,
            reason="unknown user or wrong password",
        )
        await asyncio.sleep(end_s - clock())
        return None

    def _plain_passwords(self, name: str) -> Iterator[bytes]:
        """Yield the password of a user on each listener with PLAIN."""
        from coordinator_server.security.credentials.jaas import JaasError, parse_login_module
        from coordinator_server.security.sasl.listener import plain_passwords

        config = self._cluster.config
        for listener in self._cluster.servers.addresses(config.node_id):
            own = config.of_listener(listener.name)
            if not config.security_protocol(listener.name).uses_sasl:
                continue
            text = own.of_mechanism("PLAIN").optional_text("sasl.jaas.config")
            if text is None or "PLAIN" not in own.items("sasl.enabled.mechanisms"):
                continue
            with suppress(JaasError):
                password = plain_passwords(parse_login_module(text)).get(name)
                if password is not None:
                    yield _bytes(password)

    @asynccontextmanager
    async def _turn(self, client_host: str) -> AsyncGenerator[None, None]:
        """Wait until all earlier password checks for a client address are done.

        Raises ControlError (429) if too many are waiting.
        """
        checks = self._checks.setdefault(client_host, _Checks())
        if checks.count >= _MOST_CHECKS:
            text = f"{_MOST_CHECKS} logins from {client_host[1:]} wait already: try again later"
            raise ControlError(429, text, {"Retry-After": "1"})
        checks.count += 1
        try:
            async with checks.lock:
                yield
        finally:
            checks.count -= 1
            if not checks.count:
                del self._checks[client_host]


class _Checks:
    """The password checks of one client address, which run one after the other."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.count = 0


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


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
