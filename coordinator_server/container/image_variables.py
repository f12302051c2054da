"""Variables of Kafka's images that are not settings: key stores, password files and users.

- apache/kafka, confluentinc/cp-kafka: KAFKA_SSL_KEYSTORE_FILENAME, KAFKA_SSL_KEY_CREDENTIALS, ...
- bitnami/kafka: KAFKA_CLIENT_USERS, KAFKA_INTER_BROKER_USER, KAFKA_TLS_TYPE, ..., or NAME_FILE

The variables are converted to variables of settings, like the scripts of these images do. This
module is imported only if a listener uses SSL or SASL.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from coordinator_server.config.config import ConfigError
from coordinator_server.security.credentials.jaas import LoginModule, render_login_module
from coordinator_server.security.sasl.jaas_file import LOGIN_CONFIG, VARIABLE
from coordinator_server.security.sasl.plain import PLAIN_MODULE, USER_PREFIX

if TYPE_CHECKING:
    from collections.abc import MutableMapping, Sequence

    from coordinator_server.config.config import Config

SECRETS_DIRECTORY = "/etc/kafka/secrets"
"""The directory of the KAFKA_SSL_* files in the images of Apache and Confluent."""

BITNAMI_DIRECTORIES = ("/opt/bitnami/kafka/config", "/bitnami/kafka/config")
"""The directories of kafka_jaas.conf and certs in Bitnami's image."""

_SECRET_FILES = {
    "KAFKA_SSL_KEYSTORE_FILENAME": "ssl.keystore.location",
    "KAFKA_SSL_KEYSTORE_CREDENTIALS": "ssl.keystore.password",
    "KAFKA_SSL_KEY_CREDENTIALS": "ssl.key.password",
    "KAFKA_SSL_TRUSTSTORE_FILENAME": "ssl.truststore.location",
    "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "ssl.truststore.password",
}
"""Variable that names a file -> the setting for the file's path or content."""

_STORES = {
    "JKS": {
        "kafka.keystore.jks": "ssl.keystore.location",
        "kafka.truststore.jks": "ssl.truststore.location",
    },
    "PEM": {
        "kafka.keystore.pem": "ssl.keystore.certificate.chain",
        "kafka.keystore.key": "ssl.keystore.key",
        "kafka.truststore.pem": "ssl.truststore.certificates",
    },
}
"""KAFKA_TLS_TYPE of Bitnami's image -> file -> the setting for the file's path or content."""

_MECHANISMS = "sasl.enabled.mechanisms"
_LOCATION = ".location"
_DEFAULT_USERS = {"KAFKA_INTER_BROKER_USER": "user", "KAFKA_CONTROLLER_USER": "controller_user"}
"""The user names in Bitnami's image if only passwords are set."""

_MECHANISM_OF = {
    "KAFKA_INTER_BROKER": "KAFKA_SASL_MECHANISM_INTER_BROKER_PROTOCOL",
    "KAFKA_CONTROLLER": "KAFKA_SASL_MECHANISM_CONTROLLER_PROTOCOL",
}
_BITNAMI_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""The default of sasl.enabled.mechanisms in Bitnami's image."""
_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class ImageVariables:
    """Translates the variables of one container.

    `origins` maps derived settings to the variables that the user wrote. Raises ConfigError with
    the variable and the file.
    """

    def __init__(
        self, environment: MutableMapping[str, str], config: Config, *, is_bitnami: bool
    ) -> None:
        self.origins: dict[str, str] = {}
        self._environment = environment
        self._config = config
        names = [listener.name for listener in config.listeners()]
        self._tls = [name for name in names if config.security_protocol(name).uses_tls]
        self._sasl = [name for name in names if config.security_protocol(name).uses_sasl]
        if self._tls:
            self._name_secret_files()
        if self._tls and is_bitnami:
            self._name_bitnami_stores()
        if not self._sasl or not is_bitnami:
            return
        if config.source(_MECHANISMS) == "default":
            self._set(_MECHANISMS, ",".join(_BITNAMI_MECHANISMS), "a default of bitnami/kafka")
        if not self._has_jaas_file():
            self._add_users()

    def _set(self, setting: str, value: str, origin: str) -> None:
        """Set a setting unless the user has set it."""
        if self._environment.setdefault(_variable(setting), value) == value:
            self.origins[setting] = origin

    # --- variables of the Apache and Confluent images ---------------------------------------------

    def _name_secret_files(self) -> None:
        if self._environment.keys() & _SECRET_FILES.keys():
            for variable, setting in _SECRET_FILES.items():
                if _variable(setting) not in self._environment:
                    self.origins[setting] = f"{variable}, which is not set"
        for variable, setting in _SECRET_FILES.items():
            name = self._environment.get(variable, "").strip()
            path = os.path.join(SECRETS_DIRECTORY, name)
            is_needed = "truststore" not in setting or self._asks_for_certificates()
            if not name or not (is_needed or os.path.isfile(path)):
                continue
            value = path if setting.endswith(_LOCATION) else _read(path, variable)
            if not os.path.isfile(path):
                raise ConfigError(f"{variable}: {path}: there is no such file")
            # As in Kafka's images, this variable takes precedence over the variable of the setting
            # itself.
            self._environment.pop(_variable(setting), None)
            self._set(setting, value, variable)
            del self._environment[variable]

    def _asks_for_certificates(self) -> bool:
        listeners = map(self._config.of_listener, self._tls)
        return any(listener.text("ssl.client.auth") != "none" for listener in listeners)

    # --- variables of the Bitnami image -----------------------------------------------------------

    def _name_bitnami_stores(self) -> None:
        stores = ("ssl.keystore.location", "ssl.keystore.key")
        of_listeners = map(self._config.of_listener, self._tls)
        if any(listener.value(name) for listener in of_listeners for name in stores):
            return
        kind = self._take("KAFKA_TLS_TYPE", "JKS").upper()
        if kind not in _STORES:
            raise ConfigError(f"KAFKA_TLS_TYPE: {kind}: only {' and '.join(_STORES)} are read")
        origin = f"KAFKA_TLS_TYPE={kind}"
        client_auth = self._take("KAFKA_TLS_CLIENT_AUTH", "required")
        self._set("ssl.client.auth", client_auth, "KAFKA_TLS_CLIENT_AUTH")
        for name in self._tls:
            if own := self._take(f"KAFKA_TLS_{name}_CLIENT_AUTH"):
                self._set(f"listener.name.{name.lower()}.ssl.client.auth", own, "KAFKA_TLS_*")
        trusted = self._take("KAFKA_TLS_TRUSTSTORE_FILE")
        for file, setting in _STORES[kind].items():
            if setting.startswith("ssl.truststore") and trusted:
                path, origin = trusted, "KAFKA_TLS_TRUSTSTORE_FILE"
            else:
                path = _bitnami_file(os.path.join("certs", file))
            if not os.path.isfile(path):
                if setting.startswith("ssl.truststore") and client_auth == "none":
                    continue
                raise ConfigError(f"{origin}: {path}: there is no such file")
            self._set(setting, path if setting.endswith(_LOCATION) else _read(path, origin), origin)
        for setting in ("ssl.keystore.type", "ssl.truststore.type"):
            self._set(setting, kind, origin)
        if password := self._take("KAFKA_CERTIFICATE_PASSWORD"):
            self._set("ssl.key.password", password, "KAFKA_CERTIFICATE_PASSWORD")
            for setting in ("ssl.keystore.password", "ssl.truststore.password"):
                if kind == "JKS":
                    self._set(setting, password, "KAFKA_CERTIFICATE_PASSWORD")

    def _has_jaas_file(self) -> bool:
        """Return whether a kafka_jaas.conf is mounted, which then defines the users."""
        path = _bitnami_file("kafka_jaas.conf")
        if not os.path.isfile(path):
            return False
        options = self._environment.get(VARIABLE, "")
        if LOGIN_CONFIG not in options:
            self._environment[VARIABLE] = f"{options} -D{LOGIN_CONFIG}={path}".lstrip()
        return True

    def _add_users(self) -> None:
        """Add the users of KAFKA_CLIENT_USERS and the inter-broker users to the listeners."""
        clients = self._client_users()
        inter_broker = self._user("KAFKA_INTER_BROKER")
        controller = self._user("KAFKA_CONTROLLER")
        between_brokers = self._config.optional_text("inter.broker.listener.name") or "INTERNAL"
        scram = dict.fromkeys(_SCRAM, clients)
        for prefix, user in (
            ("KAFKA_INTER_BROKER", inter_broker),
            ("KAFKA_CONTROLLER", controller),
        ):
            mechanism = self._environment.get(_MECHANISM_OF[prefix], "")
            if mechanism in scram:
                scram[mechanism] = [*scram[mechanism], *user]
        enabled: set[str] = set()
        for name in self._sasl:
            mechanisms = self._mechanisms(name)
            enabled.update(mechanisms)
            users = [*clients, *(inter_broker if name == between_brokers.upper() else [])]
            if "PLAIN" in mechanisms and users:
                module = LoginModule(
                    PLAIN_MODULE, {USER_PREFIX + user: word for user, word in users}
                )
                setting = f"listener.name.{name.lower()}.plain.sasl.jaas.config"
                self._set(setting, render_login_module(module), "KAFKA_CLIENT_USERS")
        texts = [
            f"{mechanism}=[name={user},password={word}]"
            for mechanism, users in scram.items()
            if mechanism in enabled
            for user, word in dict(users).items()
        ]
        if texts:
            self._set("scram.users", ";".join(texts), "KAFKA_CLIENT_USERS")

    def _mechanisms(self, listener: str) -> Sequence[str]:
        own = _MECHANISMS in self._config.own_settings(listener)
        if not own and self._config.source(_MECHANISMS) == "default":
            return _BITNAMI_MECHANISMS
        return self._config.of_listener(listener).items(_MECHANISMS)

    def _client_users(self) -> list[tuple[str, str]]:
        names, words = (
            [word for word in re.split(r"[,;\s]+", text) if word]
            for text in (self._take("KAFKA_CLIENT_USERS"), self._take("KAFKA_CLIENT_PASSWORDS"))
        )
        if len(names) != len(words):
            raise ConfigError(
                f"KAFKA_CLIENT_PASSWORDS: {len(words)} passwords for {len(names)} users in "
                "KAFKA_CLIENT_USERS"
            )
        return list(zip(names, words, strict=True))

    def _user(self, prefix: str) -> Sequence[tuple[str, str]]:
        """Return user and password from PREFIX_USER and PREFIX_PASSWORD.

        Returns an empty sequence without a password.
        """
        variable = f"{prefix}_USER"
        user = self._take(variable, _DEFAULT_USERS[variable])
        password = self._take(f"{prefix}_PASSWORD")
        return [(user, password)] if password else []

    def _take(self, variable: str, default: str = "") -> str:
        """Remove VARIABLE and VARIABLE_FILE; return the content of the file or VARIABLE's value."""
        path = self._environment.pop(f"{variable}_FILE", "")
        value = self._environment.pop(variable, "").strip()
        return (_read(path, f"{variable}_FILE") if path else value) or default


def _variable(setting: str) -> str:
    """Return the name of a setting's variable, by the rule of Kafka's image."""
    name = setting.replace("_", "__").replace("-", "___").replace(".", "_")
    return f"KAFKA_{name.upper()}"


def _bitnami_file(name: str) -> str:
    """Return the path of a file in the first directory that contains the file.

    If no directory contains the file, the path in the first directory is returned.
    """
    paths = [os.path.join(directory, name) for directory in BITNAMI_DIRECTORIES]
    return next(filter(os.path.isfile, paths), paths[0])


def _read(path: str, origin: str) -> str:
    """Return the content of a file without trailing line breaks, like $(cat FILE).

    Raises ConfigError.
    """
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read().rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{origin}: {path}: {reason}") from error
