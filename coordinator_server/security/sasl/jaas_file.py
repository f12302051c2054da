"""Reads SASL users from the JAAS file of -Djava.security.auth.login.config in KAFKA_OPTS.

Source: Kafka's JaasContext. A listener's own `sasl.jaas.config` takes precedence over the file; in
the file, a listener's section NAME.KafkaServer takes precedence over KafkaServer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.config.config import ConfigError
from coordinator_server.security.credentials.jaas import (
    JaasError,
    LoginModule,
    parse_jaas_file,
    render_login_module,
)
from coordinator_server.security.sasl.plain import PLAIN_MODULE, USER_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from coordinator_server.config.config import Config

VARIABLE = "KAFKA_OPTS"
LOGIN_CONFIG = "java.security.auth.login.config"
_SECTION = "KafkaServer"
_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_MECHANISMS = ("PLAIN", "OAUTHBEARER")
_OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


class JvmOptions(NamedTuple):
    """The options in KAFKA_OPTS: system properties by name, and the names of all other options."""

    properties: dict[str, str]
    others: list[str]

    @property
    def jaas_file(self) -> str | None:
        """Return the path of the JAAS file.

        A leading `==` in Java means that no other file is used.
        """
        path = self.properties.get(LOGIN_CONFIG)
        return None if path is None else path.removeprefix("=").removeprefix("file:")


def parse_jvm_options(text: str) -> JvmOptions:
    """Split the options at blanks, like kafka-run-class.sh; the last value of a property counts.

    Values of other options are dropped, because they may be passwords. Words without a leading `-`
    are dropped too, because they may be the rest of a value with blanks.
    """
    options = JvmOptions({}, [])
    for option in text.split():
        name, separator, value = option.partition("=")
        if name.startswith("-D"):
            options.properties[name.removeprefix("-D")] = value
        if name.startswith("-") and name != f"-D{LOGIN_CONFIG}":
            options.others.append(name.partition(":")[0] if separator else name)
    return options


def settings_of_jaas_file(config: Config, options: JvmOptions) -> dict[str, str]:
    """Return sasl.jaas.config for listeners and mechanisms without their own.

    The file is not read if no listener needs it. Raises ConfigError, which names KAFKA_OPTS.
    """
    path = options.jaas_file
    wanted = list(_without_own_text(config))
    if path is None or not wanted:
        return {}
    try:
        with open(path, encoding="utf-8") as stream:
            sections = parse_jaas_file(stream.read(), options.properties)
    except OSError as error:
        raise ConfigError(f"{VARIABLE}: {path}: {error.strerror}") from error
    except (UnicodeDecodeError, JaasError) as error:
        raise ConfigError(f"{VARIABLE}: {path}: {error}") from None
    settings: dict[str, str] = {}
    for listener, mechanism in wanted:
        own = f"{listener.lower()}.{_SECTION}"
        section = own if sections.get(own) else _SECTION
        module = _module(mechanism, sections.get(section, []))
        if module is not None:
            name = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
            settings[name] = render_login_module(module)
        elif mechanism == "PLAIN" and config.optional_text("sasl.jaas.config") is None:
            missing = f"there is no section {own} or {_SECTION}"
            if section in sections:
                missing = f"section {section} has no {PLAIN_MODULE} with an option user_NAME"
                if others := [
                    module.name for module in sections[section] if _CLASS.fullmatch(module.name)
                ]:
                    missing += f", only {', '.join(others)}"
            raise ConfigError(
                f"{VARIABLE}: {path}: {missing}, and listener {listener} needs users for PLAIN"
            )
    return settings


def _without_own_text(config: Config) -> Iterator[tuple[str, str]]:
    """Yield listener and mechanism that lack a required sasl.jaas.config; SCRAM needs none."""
    for listener in config.listeners():
        if config.security_protocol(listener.name).uses_sasl:
            own = config.own_settings(listener.name)
            for mechanism in config.of_listener(listener.name).items("sasl.enabled.mechanisms"):
                names = ("sasl.jaas.config", f"{mechanism.lower()}.sasl.jaas.config")
                if mechanism in _MECHANISMS and all(own.get(name) is None for name in names):
                    yield listener.name, mechanism


def _module(mechanism: str, modules: list[LoginModule]) -> LoginModule | None:
    """Return the login module for a mechanism, with all PLAIN users of the section, or None."""
    if mechanism == "OAUTHBEARER":
        return next((module for module in modules if module.name == _OAUTH_MODULE), None)
    users: Mapping[str, str] = {
        name: password
        for module in reversed(modules)  # if two modules define a user, the first takes precedence
        if module.name == PLAIN_MODULE
        for name, password in module.options.items()
        if name.startswith(USER_PREFIX)
    }
    return LoginModule(PLAIN_MODULE, dict(users)) if users else None
