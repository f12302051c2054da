"""The security configuration of one listener."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from coordinator_server.config.config import ConfigError
from coordinator_server.config.dynamic_settings import SECURITY
from coordinator_server.security.principal import ANONYMOUS, Principal, user

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from coordinator_server.clock.broker_clock import BrokerClock
    from coordinator_server.config.config import Config
    from coordinator_server.security.sasl.authenticator import (
        AwaitTurn,
        SaslAuthenticator,
        SaslConnection,
        Serve,
    )
    from coordinator_server.security.security import Security


class ListenerSecurity:
    """TLS and SASL of one listener, by its settings (`listener.name.NAME.*`).

    Raises ConfigError for invalid stores and rules.
    """

    def __init__(self, config: Config, listener_name: str) -> None:
        self.listener_name = listener_name
        self.config = config.of_listener(listener_name)
        self.protocol = config.security_protocol(listener_name)
        self._tls13_suites: frozenset[str] = frozenset()
        self._stores_in_use = self._stores(config)
        if not self.protocol.uses_tls:
            return
        # Imported here, because the import takes 60 ms and few brokers use TLS.
        from coordinator_server.security.tls.cipher_suites import TLS13_SUITES
        from coordinator_server.security.tls.principal_mapping import PrincipalMapper
        from coordinator_server.security.tls.reloading_context import ReloadingContext

        self.handshake_timeout_ms = self.config.integer("ssl.handshake.timeout.ms")
        self._tls13_suites = TLS13_SUITES.intersection(self.config.items("ssl.cipher.suites"))
        try:
            self._contexts = ReloadingContext(self.config, listener_name, self._client_auth(config))
            rules = self.config.text("ssl.principal.mapping.rules")
            try:
                self._mapper = PrincipalMapper(rules)
            except ValueError as error:
                raise ConfigError(f"ssl.principal.mapping.rules: {error}") from None
        except ConfigError as error:
            raise ConfigError(f"listener {listener_name}: {error}") from None

    def check(self, config: Config) -> None:
        """Check that the stores in these broker settings can be used. Raises ConfigError."""
        if self.protocol.uses_tls and self._stores(config) != self._stores_in_use:
            self._contexts.check(config.of_listener(self.listener_name))

    def settings_changed(self, config: Config) -> None:
        """Apply the key store and trust store of these broker settings."""
        stores = self._stores(config)
        if self.protocol.uses_tls and stores != self._stores_in_use:
            self._stores_in_use = stores
            self._contexts.reconfigure(config.of_listener(self.listener_name))

    def _stores(self, config: Config) -> list[str | None]:
        own = config.of_listener(self.listener_name)
        return [own.optional_text(name) for name in sorted(SECURITY)]

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return the TLS context for the next connection; None without TLS."""
        return self._contexts.current() if self.protocol.uses_tls else None

    def principal(self, session: ssl.SSLObject) -> Principal:
        """Return the principal after the handshake: the mapped certificate subject.

        Raises ValueError if no rule matches, or if the connection violates the settings.
        """
        from coordinator_server.security.credentials.certificate_strength import chain_weakness
        from coordinator_server.security.tls.distinguished_name import subject_of
        from coordinator_server.security.tls.principal_mapping import NoMatchingRuleError

        cipher = session.cipher()
        is_limited = bool(self._tls13_suites) and session.version() == "TLSv1.3"
        if is_limited and cipher is not None and cipher[0] not in self._tls13_suites:
            raise ValueError(f"cipher suite {cipher[0]} is not in ssl.cipher.suites")
        weakness = chain_weakness(session)
        if weakness is not None:
            raise ValueError(f"the client's certificate is refused: {weakness}")
        certificate = session.getpeercert(binary_form=True)
        if certificate is None or self.protocol.uses_sasl:
            return ANONYMOUS
        try:
            return user(self._mapper.name(subject_of(certificate)))
        except NoMatchingRuleError as error:
            raise ValueError(str(error)) from None

    def _client_auth(self, config: Config) -> str:
        """Return ssl.client.auth; a SASL_SSL listener uses only its own setting (KIP-684)."""
        name = "ssl.client.auth"
        if self.protocol.uses_sasl and name not in config.own_settings(self.listener_name):
            return "none"
        return self.config.text(name)

    def authentication(
        self, clock: BrokerClock, security: Security, await_turn: AwaitTurn
    ) -> Callable[[SaslConnection, Serve], SaslAuthenticator] | None:
        """Return the authenticator factory; None without SASL. Raises ConfigError.

        `await_turn` queues the steps of all clients, a few per turn of the event loop.
        """
        if not self.protocol.uses_sasl:
            return None
        from coordinator_server.security.sasl.authenticator import SaslAuthenticator
        from coordinator_server.security.sasl.listener import SaslListener

        listener = SaslListener(self.config, self.listener_name, security)
        return partial(SaslAuthenticator, listener, clock, await_turn=await_turn)
