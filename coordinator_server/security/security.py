"""What the brokers of the process share of security."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING

from coordinator_server.events.log import LOG
from coordinator_server.security.quotas.client_quotas import ClientQuotas
from storage.errors import StorageError
from storage.security_state import CHANGES_FILE, kept

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Sequence

    from coordinator_server.clock.broker_clock import BrokerClock, Timer
    from coordinator_server.config.config import Config
    from coordinator_server.security.access import Access, PeerConnection
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
"""Sections of the state."""


class Security:
    """Users, ACLs, delegation tokens and quotas of a cluster, kept by `state`.

    `authorizer` is None if the settings name none: then everybody may do everything. Tokens end by
    `clock`, sessions by `machine_clock`. Raises ConfigError, StorageError.
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
        """Names of the listeners that take unsigned tokens although no setting asks for that."""
        self._jwks: dict[tuple[object, ...], Jwks] = {}
        if state.is_cut:
            LOG.emit("security_state.truncated", file=CHANGES_FILE)
        self.quotas = ClientQuotas(state)
        self.authorizer: Authorizer | None = None
        self._new_access: Callable[[PeerConnection, str], Access] | None = None
        if config.text("authorizer.class.name"):
            from coordinator_server.security.access import Access
            from coordinator_server.security.acl_state import load_authorizer

            self.authorizer = load_authorizer(config, state.section(_ACLS))
            self._new_access = partial(Access, self.authorizer)
        if config.optional_text("scram.users") is not None or state.has(_USERS):
            self.users.users()  # adds them; very many are not read by the first login

    @property
    def users(self) -> ScramUsers:
        """The users with SCRAM credentials; read when they are first asked for."""
        if self._users is None:
            from coordinator_server.security.sasl.users import ScramUsers

            # The passwords of --dev-security are those in its files, whatever the data has.
            self._users = ScramUsers(
                self.state,
                self.config.optional_text("scram.users"),
                replaces=self.config.optional_text("dev.security.dir") is not None,
            )
        return self._users

    @property
    def tokens(self) -> DelegationTokens:
        """The delegation tokens; read when they are first asked for. Raises StorageError."""
        if self._tokens is None:
            from coordinator_server.security.delegation_tokens import DelegationTokens

            self._tokens = DelegationTokens(
                self.config, self.state, self._clock, self._machine_clock
            )
        return self._tokens

    def start(self) -> None:
        """Read the tokens, if there may be any, and forget every so often those that have expired.

        Source: QuorumController.registerExpireDelegationTokens. Raises StorageError.
        """
        if self.config.optional_text("delegation.token.secret.key"):
            _ = self.tokens  # reads them
            self._await_expiry(self._expiry_interval_s)

    def stop(self) -> None:
        """Do nothing more by itself."""
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()

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
        """The keys at a URL, which the listeners share. Raises ConfigError, naming `setting`."""
        from coordinator_server.security.sasl.jwks import Jwks

        wanted = (url, refresh_ms, backoff_ms, backoff_max_ms)
        if wanted not in self._jwks:
            self._jwks[wanted] = Jwks(*wanted, setting)
        return self._jwks[wanted]

    def change_acls(
        self, *, added: Collection[Acl] = (), removed: Collection[Acl] = ()
    ) -> Generator[None, None, int]:
        """Add ACLs, and remove others, in steps; kept when the last one is done. How many it were.

        What others have added and removed by then stays so. Raises StorageError, and changes
        nothing then. There has to be an authorizer.
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

    def access(self, client: PeerConnection, api: str) -> Access | None:
        """What a client may do, for the handler of an API; None if that is everything."""
        return None if self._new_access is None else self._new_access(client, api)

    def forget(self) -> None:
        """Let everything go that clients made. Raises StorageError."""
        if not self.state:
            return  # without loading what would have nothing to forget
        if self.authorizer is not None and len(self.authorizer):
            self.state.clear(_ACLS)
            self.authorizer.clear()
        self.users.clear()
        self.tokens.clear()
        self.quotas.clear()

    @cached_property
    def partition_changes(self) -> QuotaManager:
        """The use of quotas of partitions that are created and deleted.

        It is one for all brokers, as it is the controller that counts.
        """
        from coordinator_server.security.quotas.manager import QuotaManager
        from coordinator_server.security.quotas.rates import TokenBucket

        return QuotaManager(self._windows(*_CHANGE_WINDOWS), new_sensor=TokenBucket)

    @property
    def quota_windows(self) -> Windows:
        """How far the quotas of requests and connections look back."""
        return self._windows(*_QUOTA_WINDOWS)

    def _windows(self, samples: str, size_seconds: str) -> Windows:
        from coordinator_server.security.quotas.rates import Windows

        config = self.config
        return Windows(config.integer(samples), config.integer(size_seconds) * 1000)
