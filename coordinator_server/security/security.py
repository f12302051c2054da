"""The security state that all brokers of the process share."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from coordinator_server.events.log import LOG
from coordinator_server.security.quotas.client_quotas import ClientQuotas
from storage.errors import StorageError
from storage.security_state import CHANGES_FILE, kept

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Sequence

    from coordinator_server.clock.broker_clock import BrokerClock, Timer
    from coordinator_server.config.config import Config
    from coordinator_server.security.acl import Acl
    from coordinator_server.security.authorizer import Authorizer
    from coordinator_server.security.delegation_tokens import DelegationTokens
    from coordinator_server.security.quotas.manager import QuotaManager
    from coordinator_server.security.quotas.rates import Windows
    from coordinator_server.security.sasl.jwks import Jwks
    from coordinator_server.security.sasl.users import ScramUsers
    from storage.security_state import Kept, SecurityState


_QUOTA_WINDOWS = ("quota.window.num", "quota.window.size.seconds")
_CHANGE_WINDOWS = ("controller.quota.window.num", "controller.quota.window.size.seconds")

_ACLS, _USERS = "acls", "scram_users"
"""Sections of the security state."""


class Security:
    """Users, ACLs, delegation tokens and quotas of a cluster, stored in `state`.

    `authorizer` is None if no authorizer is configured; then all operations are allowed. Tokens
    expire by `clock`, sessions by `machine_clock`. Raises ConfigError, StorageError.
    """

    def __init__(
        self, config: Config, state: SecurityState, clock: BrokerClock, machine_clock: BrokerClock
    ) -> None:
        self.config = config
        self.state = state
        self._clock = clock
        self._machine_clock = machine_clock
        self._tokens: DelegationTokens | None = None
        self._expiry_timer: Timer | None = None
        self._users: ScramUsers | None = None
        self.unsecured_listeners: dict[str, None] = {}
        """Names of the listeners that accept unsigned tokens without an explicit setting."""
        self._jwks: dict[tuple[object, ...], Jwks] = {}
        if state.dropped_bytes:
            LOG.emit("security_state.truncated", file=CHANGES_FILE, bytes=state.dropped_bytes)
        self.quotas = ClientQuotas(state)
        self.authorizer: Authorizer | None = None
        if config.text("authorizer.class.name"):
            from coordinator_server.security.authorizer import load_authorizer

            self.authorizer = load_authorizer(config, state.section(_ACLS))
        if config.optional_text("scram.users") is not None or state.has(_USERS):
            # Load the users now. With very many users, loading at the first login would delay that
            # login.
            self.users.users()

    @property
    def users(self) -> ScramUsers:
        """The users with SCRAM credentials, loaded on first use."""
        if self._users is None:
            from coordinator_server.security.sasl.users import ScramUsers

            # With --dev-security, the passwords in the generated files replace the stored
            # passwords.
            self._users = ScramUsers(
                self.state,
                self.config.optional_text("scram.users"),
                replaces=self.config.optional_text("dev.security.dir") is not None,
            )
        return self._users

    @property
    def tokens(self) -> DelegationTokens:
        """The delegation tokens, loaded on first use. Raises StorageError."""
        if self._tokens is None:
            from coordinator_server.security.delegation_tokens import DelegationTokens

            self._tokens = DelegationTokens(
                self.config, self.state, self._clock, self._machine_clock
            )
        return self._tokens

    def start(self) -> None:
        """Load the tokens, if a secret key is set, and expire tokens periodically.

        Source: QuorumController.registerExpireDelegationTokens. Raises StorageError.
        """
        if self.config.optional_text("delegation.token.secret.key"):
            _ = self.tokens  # reading the property loads the tokens
            self._await_expiry(self._expiry_interval_s)

    def stop(self) -> None:
        """Stop expiring tokens and fetching keys."""
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
        for jwks in self._jwks.values():
            jwks.stop()

    @property
    def _expiry_interval_s(self) -> float:
        return self.config.integer("delegation.token.expiry.check.interval.ms") / 1000

    def _await_expiry(self, delay_s: float) -> None:
        self._expiry_timer = self._clock.call_maintenance(delay_s, self._expire_tokens)

    def _expire_tokens(self) -> None:
        expired: Sequence[object] = ()
        try:
            expired = self.tokens.remove_expired()
        except StorageError as error:
            LOG.emit("tokens.failed", reason=str(error))
        if expired:
            LOG.emit("tokens.expired", tokens=len(expired))
        self._await_expiry(0 if expired else self._expiry_interval_s)

    def jwks(
        self, url: str, refresh_ms: int, backoff_ms: int, backoff_max_ms: int, setting: str
    ) -> Jwks:
        """Return the keys at a URL, shared by the listeners.

        Raises ConfigError, naming `setting`.
        """
        from coordinator_server.security.sasl.jwks import Jwks

        wanted = (url, refresh_ms, backoff_ms, backoff_max_ms)
        if wanted not in self._jwks:
            self._jwks[wanted] = Jwks(*wanted, setting)
        return self._jwks[wanted]

    def change_acls(
        self, *, added: Collection[Acl] = (), removed: Collection[Acl] = ()
    ) -> Generator[None, None, int]:
        """Add and remove ACLs, in steps; return the number of ACLs changed.

        The change is stored in the last step and does not undo concurrent changes. Raises
        StorageError without changing anything. An authorizer must be configured.
        """
        authorizer = self.authorizer
        assert authorizer is not None
        texts: dict[Acl, Kept] = {}
        for acl in (*added, *removed):
            texts[acl] = kept(_ACLS, acl.to_entry())
            yield
        new = [acl for acl in added if acl not in authorizer]
        gone = [acl for acl in removed if acl in authorizer]
        if new or gone:
            put, drop = ([texts[acl] for acl in some] for some in (new, gone))
            self.state.change_kept(_ACLS, put=put, drop=drop)
            authorizer.change(added=new, removed=gone)
        return len(new) + len(gone)

    def forget(self) -> None:
        """Remove everything that clients created. Raises StorageError."""
        if not self.state:
            return  # no stored tokens, so nothing to load
        if self.authorizer is not None and len(self.authorizer):
            self.state.clear(_ACLS)
            self.authorizer.clear()
        self.users.clear()
        self.tokens.clear()
        self.quotas.clear()

    @cached_property
    def partition_changes(self) -> QuotaManager:
        """The usage of the partition creation and deletion quotas.

        Shared by all brokers, because Kafka's controller counts the usage.
        """
        from coordinator_server.security.quotas.manager import QuotaManager
        from coordinator_server.security.quotas.rates import TokenBucket

        return QuotaManager(self._windows(*_CHANGE_WINDOWS), new_sensor=TokenBucket)

    @property
    def quota_windows(self) -> Windows:
        """The time windows of request and connection quotas."""
        return self._windows(*_QUOTA_WINDOWS)

    def _windows(self, samples: str, size_seconds: str) -> Windows:
        from coordinator_server.security.quotas.rates import Windows

        config = self.config
        return Windows(config.integer(samples), config.integer(size_seconds) * 1000)


def log_unwritten(error: StorageError) -> None:
    """Log a failed change of users, ACLs, tokens or quotas; the client also gets the error."""
    LOG.emit("security_state.failed", reason=str(error))
