"""The SASL mechanisms and settings of one listener.

Source: SaslChannelBuilder.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from coordinator_server.config.config import ConfigError, Listener
from coordinator_server.config.security_settings import MECHANISMS
from coordinator_server.security.credentials.jaas import JaasError, parse_login_module
from coordinator_server.security.sasl.plain import PLAIN_MODULE, USER_PREFIX, Plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordinator_server.config.config import Config
    from coordinator_server.security.credentials.jaas import LoginModule
    from coordinator_server.security.sasl.mechanism import NewMechanism
    from coordinator_server.security.security import Security

AUTHENTICATION_TIMEOUT_SECONDS = 60
"""Maximum time for authentication, regardless of connections.max.idle.ms."""


class SaslListener:
    """The SASL configuration of one listener. Raises ConfigError.

    `mechanisms` creates the server side of each mechanism; `max_reauth_ms` is the maximum session
    lifetime by mechanism, 0 if unlimited.
    """

    def __init__(self, config: Config, listener_name: str, security: Security) -> None:
        self.name = listener_name
        max_receive_size = config.integer("sasl.server.max.receive.size")
        self.max_receive_size = None if max_receive_size < 0 else max_receive_size
        self.failure_delay_ms = config.integer("connection.failed.authentication.delay.ms")
        self.mechanisms: dict[str, NewMechanism] = {}
        self.max_reauth_ms: dict[str, int] = {}
        self._config = config
        self._security = security
        names = config.items("sasl.enabled.mechanisms")
        if not names:
            raise ConfigError(f"{self._setting('sasl.enabled.mechanisms')}: a mechanism is needed")
        for name in names:
            if name not in MECHANISMS:
                own = config.own_settings(listener_name)
                is_default = (
                    config.source("sasl.enabled.mechanisms") == "default"
                    and "sasl.enabled.mechanisms" not in own
                )
                default = ", Kafka's default," if is_default else ""
                raise ConfigError(
                    f"{self._setting('sasl.enabled.mechanisms')}: {name}{default} is not served, "
                    f"only {', '.join(MECHANISMS)}"
                )
            of_mechanism = config.of_mechanism(name)
            self.mechanisms[name] = self._new(name, of_mechanism)
            self.max_reauth_ms[name] = of_mechanism.integer("connections.max.reauth.ms")

    def _setting(self, name: str) -> str:
        return f"listener.name.{self.name.lower()}.{name}"

    def _new(self, mechanism: str, config: Config) -> NewMechanism:
        if mechanism == "PLAIN":
            plain: NewMechanism = partial(Plain, self._passwords(config))
            return plain
        if mechanism == "OAUTHBEARER":
            from coordinator_server.security.sasl.oauthbearer import new_oauthbearer

            module = self._module(mechanism, config)
            own = [listener for listener in config.listeners() if listener.name == self.name]
            listener = own[0] if own else Listener(self.name, "", 0)
            return new_oauthbearer(config, module, self._security, listener)
        from coordinator_server.security.credentials.scram_mechanisms import SCRAM_BY_NAME
        from coordinator_server.security.sasl.scram import Scram

        security = self._security
        return partial(Scram, SCRAM_BY_NAME[mechanism], security.users, security.tokens)

    def _passwords(self, config: Config) -> Mapping[str, str]:
        """Return passwords by user, from the user_NAME options of PLAIN's login module."""
        module = self._module("PLAIN", config)
        passwords = plain_passwords(module)
        if not passwords:
            missing = f"it has no option {USER_PREFIX}NAME"
            if module is None:
                missing = "it is not set"
            elif module.name != PLAIN_MODULE:
                missing = "it has another login module"
            raise ConfigError(
                f"{self._setting('plain.sasl.jaas.config')}: users are needed for PLAIN, and "
                f'{missing}: {PLAIN_MODULE} required {USER_PREFIX}NAME="PASSWORD";'
            )
        return passwords

    def _module(self, mechanism: str, config: Config) -> LoginModule | None:
        text = config.optional_text("sasl.jaas.config")
        if text is None:
            return None
        try:
            return parse_login_module(text)
        except JaasError as error:
            name = self._setting(f"{mechanism.lower()}.sasl.jaas.config")
            raise ConfigError(f"{name}: {error}") from None


def plain_passwords(module: LoginModule | None) -> dict[str, str]:
    """Return passwords by user, from a login module of PLAIN; empty for another module."""
    if module is None or module.name != PLAIN_MODULE:
        return {}
    return {
        name.removeprefix(USER_PREFIX): value
        for name, value in module.options.items()
        if name.startswith(USER_PREFIX)
    }
