"""Delegation tokens: create, renew, expire and store (KIP-48, KIP-373).

Source: Kafka's DelegationTokenControlManager, DelegationTokenManager, TokenInformation. A token's
HMAC is computed from its id with the secret key and is not stored; the HMAC in base64 is the
password of a SCRAM login whose user name is the token id. Changing the secret key changes the
passwords of all tokens.
"""

from __future__ import annotations

import base64
import hmac
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.security.principal import Principal
from coordinator_server.security.sasl.scram import TokenLogin, new_credential
from protocol.errors import ErrorCode
from storage.config_def import LONG_MAX
from storage.errors import StorageError
from storage.security_state import to_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from coordinator_server.clock.broker_clock import Clock
    from coordinator_server.config.config import Config
    from coordinator_server.security.credentials.scram_mechanisms import ScramMechanism
    from coordinator_server.security.sasl.scram import ScramCredential
    from storage.security_state import SecurityState

SECTION = "delegation_tokens"
SECRET_KEY = "delegation.token.secret.key"

MOST_BYTES = 2 * 1024 * 1024
"""Size limit of all tokens in the file: tokens are held in memory, and the file is rewritten
regularly."""
MOST_EXPIRED = 1000
"""Maximum number of expired tokens removed at once, as in Kafka."""
MOST_TOKEN_BYTES = 64 * 1024
"""Size limit of one token in the file. Kafka's limit is a metadata log batch, 8 MiB."""


class DelegationToken(NamedTuple):
    """A token that `requester` created for `owner`; times are ms since the epoch."""

    token_id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_at_ms: int
    expires_at_ms: int
    max_at_ms: int

    @property
    def principals(self) -> tuple[Principal, ...]:
        """Owner, requester and renewers (TokenInformation.ownerOrRenewer)."""
        return (self.owner, self.requester, *self.renewers)

    def may_be_renewed_by(self, principal: Principal) -> bool:
        """Return whether a principal may renew or expire the token: owner or renewer."""
        return principal == self.owner or principal in self.renewers

    def has_expired(self, now_ms: int) -> bool:
        """Return whether the token has expired; an expired token may still be stored."""
        return self.max_at_ms < now_ms or self.expires_at_ms < now_ms

    def to_entry(self) -> dict[str, Any]:
        """Return the form that is written to security.json."""
        return {
            "token_id": self.token_id,
            "owner": str(self.owner),
            "requester": str(self.requester),
            "renewers": [str(renewer) for renewer in self.renewers],
            "issued_at_ms": self.issued_at_ms,
            "expires_at_ms": self.expires_at_ms,
            "max_at_ms": self.max_at_ms,
        }

    @classmethod
    def from_entry(cls, entry: Mapping[str, Any]) -> DelegationToken:
        """Return the token of a `to_entry` result.

        Raises KeyError, TypeError or AttributeError if the entry is invalid.
        """
        return cls(
            entry["token_id"],
            _parsed(entry["owner"]),
            _parsed(entry["requester"]),
            tuple(map(_parsed, entry["renewers"])),
            entry["issued_at_ms"],
            entry["expires_at_ms"],
            entry["max_at_ms"],
        )


class TokenRequestError(Exception):
    """A token request failed with the code `error`."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


class DelegationTokens:
    """The tokens by id, stored in `state`.

    Tokens expire by `clock`; sessions opened with a token end by `machine_clock`. Raises
    StorageError if a stored token is corrupt.
    """

    def __init__(
        self, config: Config, state: SecurityState, clock: Clock, machine_clock: Clock
    ) -> None:
        self._key = (config.optional_text(SECRET_KEY) or "").encode()
        self._max_lifetime_ms = config.integer("delegation.token.max.lifetime.ms")
        self._expiry_time_ms = config.integer("delegation.token.expiry.time.ms")
        self._state = state
        self._clock = clock
        self._machine_clock = machine_clock
        self._tokens: dict[str, DelegationToken] = {}
        self._id_by_hmac: dict[bytes, str] = {}
        self._hmacs: dict[str, bytes] = {}
        self._sizes: dict[str, int] = {}
        self._bytes = 0
        self._credentials: dict[tuple[str, str], ScramCredential] = {}
        try:
            for entry in state.section(SECTION):
                self._add(DelegationToken.from_entry(entry))
        except (KeyError, TypeError, AttributeError) as error:
            raise StorageError(f"a token in the data directory is damaged ({error!r})") from error

    @property
    def are_enabled(self) -> bool:
        """Whether a secret key is configured."""
        return bool(self._key)

    def __iter__(self) -> Iterator[DelegationToken]:
        """Yield the tokens, oldest first; tokens created meanwhile are left out."""
        return iter(tuple(self._tokens.values()))

    def hmac(self, token_id: str) -> bytes:
        """Return the HMAC of a token, 64 bytes."""
        known = self._hmacs.get(token_id)
        return known if known is not None else hmac.digest(self._key, token_id.encode(), "sha512")

    def id_of(self, token_hmac: bytes) -> str | None:
        """Return the id of the token with an HMAC, or None."""
        return self._id_by_hmac.get(token_hmac)

    def login(self, mechanism: ScramMechanism, token_id: str) -> TokenLogin | None:
        """Return the data to verify a login with a token, or None for an unknown token.

        As in Kafka, an expired token that is still stored opens a session that has already ended.
        """
        token = self._tokens.get(token_id)
        if token is None or not self.are_enabled:
            return None
        credential = self._credentials.get((token_id, mechanism.name))
        if credential is None:
            password = base64.b64encode(self.hmac(token_id)).decode()
            credential = new_credential(mechanism, password, mechanism.min_iterations)
            self._credentials[token_id, mechanism.name] = credential
        ahead_ms = self._clock.now_ms() - self._machine_clock.now_ms()
        return TokenLogin(token.owner.name, credential, token.expires_at_ms - ahead_ms)

    # --- changes ----------------------------------------------------------------------------------

    def create(
        self,
        token_id: str,
        owner: Principal,
        requester: Principal,
        renewers: Sequence[Principal],
        max_lifetime_ms: int,
    ) -> DelegationToken:
        """Create and store a token. Raises TokenRequestError, StorageError."""
        self._check_enabled()
        now_ms = self._clock.now_ms()
        lifetime_ms = self._max_lifetime_ms
        if max_lifetime_ms > 0:
            lifetime_ms = min(lifetime_ms, max_lifetime_ms)
        max_at_ms = _later(now_ms, lifetime_ms)
        token = DelegationToken(
            token_id,
            _parsed(str(owner)),
            requester,
            tuple(renewers),
            now_ms,
            min(max_at_ms, _later(now_ms, self._expiry_time_ms)),
            max_at_ms,
        )
        size = _size(token)
        if size > MOST_TOKEN_BYTES or self._bytes + size > MOST_BYTES:
            raise TokenRequestError(ErrorCode.POLICY_VIOLATION)
        self._put(token)
        return token

    def renew(self, token_hmac: bytes, principal: Principal, period_ms: int) -> int:
        """Extend a token's lifetime; return the expiry time.

        Raises TokenRequestError, StorageError.
        """
        token = self._found(token_hmac)
        now_ms = self._clock.now_ms()
        if token.has_expired(now_ms):
            raise TokenRequestError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        _check_renewer(token, principal)
        lifetime_ms = self._expiry_time_ms
        if period_ms > 0:
            lifetime_ms = min(lifetime_ms, period_ms)
        return self._ends_at(token, _later(now_ms, lifetime_ms))

    def expire(self, token_hmac: bytes, principal: Principal, period_ms: int) -> int:
        """Set a token to expire after `period_ms`, or now if negative; return the expiry time.

        Raises TokenRequestError, StorageError.
        """
        token = self._found(token_hmac)
        _check_renewer(token, principal)
        now_ms = self._clock.now_ms()
        if period_ms < 0:
            self._remove([token.token_id])
            return now_ms
        if token.has_expired(now_ms):
            raise TokenRequestError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        return self._ends_at(token, _later(now_ms, period_ms))

    def remove_expired(self) -> list[DelegationToken]:
        """Remove and return expired tokens, up to MOST_EXPIRED.

        Source: DelegationTokenControlManager.sweepExpiredDelegationTokens. Raises StorageError.
        """
        now_ms = self._clock.now_ms()
        all_expired = (token for token in self._tokens.values() if token.has_expired(now_ms))
        expired = list(islice(all_expired, MOST_EXPIRED))
        if expired:
            self._remove([token.token_id for token in expired])
        return expired

    def clear(self) -> None:
        """Remove all tokens. Raises StorageError."""
        if self._tokens:
            self._state.clear(SECTION)
            for table in (self._tokens, self._id_by_hmac, self._hmacs, self._sizes):
                table.clear()
            self._credentials, self._bytes = {}, 0

    def _check_enabled(self) -> None:
        if not self.are_enabled:
            raise TokenRequestError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)

    def _found(self, token_hmac: bytes) -> DelegationToken:
        self._check_enabled()
        token_id = self._id_by_hmac.get(token_hmac)
        if token_id is None:
            raise TokenRequestError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return self._tokens[token_id]

    def _ends_at(self, token: DelegationToken, time_ms: int) -> int:
        changed = token._replace(expires_at_ms=min(token.max_at_ms, time_ms))
        self._put(changed)
        return changed.expires_at_ms

    def _put(self, token: DelegationToken) -> None:
        self._state.change(SECTION, put=[token.to_entry()])
        self._add(token)

    def _add(self, token: DelegationToken) -> None:
        token_id = token.token_id
        self._tokens[token_id] = token
        size = _size(token)
        self._bytes += size - self._sizes.get(token_id, 0)
        self._sizes[token_id] = size
        self._hmacs[token_id] = token_hmac = self.hmac(token_id)
        self._id_by_hmac[token_hmac] = token_id

    def _remove(self, token_ids: list[str]) -> None:
        self._state.change(SECTION, drop=[{"token_id": token_id} for token_id in token_ids])
        for token_id in token_ids:
            del self._tokens[token_id], self._id_by_hmac[self._hmacs.pop(token_id)]
            self._bytes -= self._sizes.pop(token_id)
        gone = frozenset(token_ids)
        self._credentials = {
            name: credential
            for name, credential in self._credentials.items()
            if name[0] not in gone
        }


def _size(token: DelegationToken) -> int:
    """Return the size of a token in the file, in bytes."""
    return len(to_text(token.to_entry()))


def _check_renewer(token: DelegationToken, principal: Principal) -> None:
    if not token.may_be_renewed_by(principal):
        raise TokenRequestError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _later(now_ms: int, period_ms: int) -> int:
    return min(now_ms + period_ms, LONG_MAX)


def _parsed(text: str) -> Principal:
    """Parse a principal as Kafka's metadata log does: the type ends at the first colon."""
    principal_type, _, name = text.partition(":")
    return Principal(principal_type, name)
