"""What the brokers of the process share of security."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING

from coordinator_server.security.quotas.client_quotas import ClientQuotas

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from coordinator_server.config.config import Config
    from coordinator_server.security.access import Access, Client
    from coordinator_server.security.acl import Acl
    from coordinator_server.security.authorizer import Authorizer
    from coordinator_server.security.quotas.manager import QuotaManager
    from coordinator_server.security.quotas.rates import Windows
    from coordinator_server.security.sasl.jwks import Jwks
    from coordinator_server.security.sasl.users import ScramUsers
    from storage.security_state import SecurityState

_QUOTA_WINDOWS = ("quota.window.num", "quota.window.size.seconds")
_CHANGE_WINDOWS = ("controller.quota.window.num", "controller.quota.window.size.seconds")

_ACLS = "acls"
"""The section of the state."""


class Security:
    """Users, ACLs and quotas of a cluster, kept by `state`.

    `authorizer` is None if the settings name none: then everybody may do everything. Raises
    ConfigError, StorageError.
    """

    def __init__(self, config: Config, state: SecurityState) -> None:
        self.config = config
        self.state = state
        self._users: ScramUsers | None = None
        self._jwks: dict[tuple[object, ...], Jwks] = {}
        self.quotas = ClientQuotas(state)
        self.authorizer: Authorizer | None = None
        self._new_access: Callable[[Client], Access] | None = None
        if config.text("authorizer.class.name"):
            from coordinator_server.security.access import Access
            from coordinator_server.security.acl_state import load_authorizer

            self.authorizer = load_authorizer(config, state.section(_ACLS))
            self._new_access = partial(Access, self.authorizer)
        if config.optional_text("scram.users") is not None or state:
            self.users.users()  # adds them, and what is damaged is said now

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

    def jwks(
        self, url: str, refresh_ms: int, backoff_ms: int, backoff_max_ms: int, setting: str
    ) -> Jwks:
        """The keys at a URL, which the listeners share. Raises ConfigError, naming `setting`."""
        from coordinator_server.security.sasl.jwks import Jwks

        wanted = (url, refresh_ms, backoff_ms, backoff_max_ms)
        if wanted not in self._jwks:
            self._jwks[wanted] = Jwks(*wanted, setting)
        return self._jwks[wanted]

    def change_acls(self, *, added: Collection[Acl] = (), removed: Collection[Acl] = ()) -> None:
        """Add ACLs, and remove others that are there; kept when this returns.

        Raises StorageError, and changes nothing then. There has to be an authorizer.
        """
        authorizer = self.authorizer
        assert authorizer is not None
        acls = dict.fromkeys(authorizer.acls)
        for acl in removed:
            del acls[acl]
        acls.update(dict.fromkeys(added))
        self.state.put(_ACLS, [acl.to_entry() for acl in acls])
        authorizer.change(added=added, removed=removed)

    def access(self, client: Client) -> Access | None:
        """What a client may do, for a handler that asks itself; None if that is everything."""
        return None if self._new_access is None else self._new_access(client)

    def forget(self) -> None:
        """Let everything go that clients made. Raises StorageError."""
        if not self.state:
            return  # without loading what would have nothing to forget
        if self.authorizer is not None and len(self.authorizer):
            self.state.put(_ACLS, [])
            self.authorizer.clear()
        self.users.clear()
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
