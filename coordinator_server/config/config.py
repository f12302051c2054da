"""The settings of a running broker: the sources of values, and typed access to values.

Precedence: default < properties file < environment < `--set`. Settings without effect here are
collected in `ignored` and logged in one warning, so that a server.properties or an environment for
Kafka's image works unchanged. Names that Kafka does not know are probably typos: they are collected
in `unknown` with the most similar setting, or rejected if `strict`. Read a setting once, not per
request.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from copy import copy
from typing import NamedTuple

from coordinator_server.config.authorizer_settings import authorizer_problem
from coordinator_server.config.environment import IMAGE_VARIABLES, settings_in_environment
from coordinator_server.config.other_names import OF_KAFKA, PREFIXES
from coordinator_server.config.security_protocol import SecurityProtocol
from coordinator_server.config.settings import LISTENER_SETTINGS, SETTINGS, WITHOUT_EFFECT
from coordinator_server.config.typos import LISTENER_PREFIX, describe_unknown, most_similar
from storage.config_def import InvalidValueError, Kind, Problem, Setting, Value, parse
from storage.topic_settings import TOPIC_SETTINGS

# The text of the error message for each kind of problem.
_WORDS = {
    Problem.NOT_A_BOOLEAN: "{name}: {text!r} is neither true nor false",
    Problem.NOT_A_NUMBER: "{name}: {text!r} is not a number of type {kind}",
    Problem.BELOW_KIND: "{name}: {text} is less than {kind_least}",
    Problem.ABOVE_KIND: "{name}: {text} is more than {kind_most}",
    Problem.BELOW: "{name}: {text} is less than {least}",
    Problem.ABOVE: "{name}: {text} is more than {most}",
    Problem.OUTSIDE: "{name}: {text} is neither {least} to {most} nor {besides}",
    Problem.NOT_A_CHOICE: "{name}: {text!r} is none of {choices}",
    Problem.BLANK_ITEM: "{name}: {text!r} has a blank item",
    Problem.NO_ITEM: "{name}: a value is needed",
}


class ConfigError(Exception):
    """An invalid setting; the message names setting and value. The process exits with code 2."""


class Listener(NamedTuple):
    """An address to listen on or to advertise; an empty host means every interface."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{self.address}"

    @property
    def address(self) -> str:
        """The address as HOST:PORT."""
        return format_address(self.host, self.port)

    def after(self, count: int) -> "Listener":
        """Return this listener with its port raised by `count`; port 0 (any free port) stays 0."""
        return self._replace(port=self.port + count) if self.port else self


class Config:
    """Values of all settings. The typed getters take Kafka's name of a setting.

    `ephemeral` requests a data directory that is removed at the end; `cluster_id` is used for a new
    data directory. `ignored` has the given settings without effect here, in order of appearance.
    `unknown` maps each name that Kafka does not know to the most similar setting, or None. An
    unknown environment variable is only included if its name resembles a setting, because others,
    such as KAFKA_BOOTSTRAP_SERVERS, may be for other programs.

    Raises ConfigError for an invalid value and, if `strict`, for an unknown name.
    """

    __slots__ = (
        "_of_listeners",
        "_sources",
        "_static",
        "_values",
        "cluster_id",
        "dynamic",
        "ephemeral",
        "ignored",
        "unknown",
    )

    def __init__(
        self,
        *,
        file: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        overrides: Mapping[str, str] | None = None,
        ephemeral: bool = False,
        strict: bool = False,
        cluster_id: str | None = None,
    ) -> None:
        self._values: dict[str, Value] = {name: s.default for name, s in SETTINGS.items()}
        self._sources: dict[str, str] = {}
        # Overrides for single listeners (listener.name.NAME.SETTING), by lower-case listener name.
        self._of_listeners: dict[str, dict[str, Value]] = {}
        self.ignored: list[str] = []
        self.unknown: dict[str, str | None] = {}
        self.ephemeral = ephemeral
        self.cluster_id = cluster_id
        self._apply("file", file or {})
        self._apply("environment", settings_in_environment(environment or {}))
        self.ignored += [name for name in IMAGE_VARIABLES if name in (environment or {})]
        self._apply("set", overrides or {})
        if strict and self.unknown:
            raise ConfigError(describe_unknown(self.unknown))
        self._give_both_names_one_id()
        self._check_together()
        self._static = self._values, self._of_listeners
        # The dynamic configs as text: first those of this broker, then the cluster-wide configs.
        self.dynamic: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})

    def integer(self, name: str) -> int:
        """Return a setting of type int, short or long that is not null."""
        value = self._values[name]
        assert type(value) is int, name
        return value

    def number(self, name: str) -> float:
        """Return a setting of type double."""
        value = self._values[name]
        assert type(value) is float, name
        return value

    def boolean(self, name: str) -> bool:
        """Return a setting of type boolean."""
        value = self._values[name]
        assert type(value) is bool, name
        return value

    def text(self, name: str) -> str:
        """Return a setting of type string or password that is not null."""
        value = self._values[name]
        assert type(value) is str, name
        return value

    def optional_text(self, name: str) -> str | None:
        """Return a setting of type string or password that may be null."""
        value = self._values[name]
        assert value is None or type(value) is str, name
        return value

    def items(self, name: str) -> tuple[str, ...]:
        """Return a setting of type list, () for null."""
        value = self._values[name]
        assert value is None or type(value) is tuple, name
        return value or ()

    def value(self, name: str) -> Value:
        """Return a setting of any type."""
        return self._values[name]

    def static_value(self, name: str) -> Value:
        """Return the value of a setting without dynamic configs."""
        return self._static[0][name]

    def set_dynamic(
        self,
        texts: tuple[Mapping[str, str], Mapping[str, str]],
        values: Mapping[str, Value],
        of_listeners: Mapping[str, Mapping[str, Value]],
    ) -> None:
        """Apply dynamic configs: `texts` of this broker and cluster-wide, and the parsed values."""
        self.dynamic = texts
        given, own = self._static
        self._values = {**given, **values}
        self._of_listeners = {
            name: {**own.get(name, {}), **of_listeners.get(name, {})}
            for name in own.keys() | of_listeners.keys()
        }

    def source(self, name: str) -> str:
        """Return the source of a value: "default", "file", "environment" or "set"."""
        return self._sources.get(name, "default")

    def topic_default(self, topic_config: str) -> Value:
        """Return the default of a topic config, such as "retention.ms".

        If a broker setting exists in several units, the finest unit that is set takes precedence:
        ms, then minutes, then hours. -1 stays -1 in every unit (Kafka's
        KafkaConfig.logRetentionTimeMillis).
        """
        row = TOPIC_SETTINGS[topic_config]
        for source in row.sources:
            value = self._values[source.name]
            if value is None:
                continue
            if source.factor != 1:
                assert type(value) is int
                return value * source.factor if value >= 0 else -1
            return value
        return row.setting.default

    @property
    def node_id(self) -> int:
        """The id of this broker: node.id, else broker.id, else 1."""
        return self.integer("node.id")

    @property
    def data_directory(self) -> str:
        """The path of the data directory; unused when `ephemeral`."""
        return (self.items("log.dirs") or self.items("log.dir"))[0]

    def listeners(self) -> tuple[Listener, ...]:
        """Return the addresses to listen on, without the listeners of a KRaft controller."""
        return tuple(self._broker_listeners("listeners"))

    def listeners_of_start(self) -> tuple[Listener, ...]:
        """Return the addresses to listen on without dynamic configs."""
        return tuple(self._without_controllers("listeners", self._static[0]["listeners"]))

    def advertised_listeners(self) -> dict[str, Listener]:
        """Return the advertised addresses by listener name; a missing name means auto."""
        advertised = self._broker_listeners("advertised.listeners")
        return {listener.name: listener for listener in advertised}

    def _broker_listeners(self, setting: str) -> list[Listener]:
        """Return the listeners in a setting, without the listeners of a KRaft controller."""
        return self._without_controllers(setting, self.items(setting))

    def _without_controllers(self, setting: str, value: Value) -> list[Listener]:
        assert isinstance(value, tuple)
        controller = {name.upper() for name in self.items("controller.listener.names")}
        texts = [text for text in value if text != "auto"]
        listeners = [_parse_listener(setting, text) for text in texts]
        return [listener for listener in listeners if listener.name not in controller]

    def security_protocol(self, listener_name: str) -> SecurityProtocol:
        """Return the security protocol of a listener. Raises ConfigError."""
        protocols = dict(
            [part.strip() for part in item.partition(":")[::2]]
            for item in self.text("listener.security.protocol.map").upper().split(",")
        )
        name = protocols.get(listener_name, listener_name)
        try:
            protocol = SecurityProtocol[name]
        except KeyError:
            known = ", ".join(member.name for member in SecurityProtocol)
            raise ConfigError(
                f"listeners: {listener_name}: there is no security protocol {name}, only {known}; "
                "name the listener's in listener.security.protocol.map"
            ) from None
        is_secured = self.optional_text("dev.security.dir") is not None
        if is_secured and protocol is SecurityProtocol.PLAINTEXT:
            return SecurityProtocol.SASL_SSL
        return protocol

    def of_listener(self, listener_name: str) -> "Config":
        """Return the settings of a listener, with its overrides (listener.name.NAME.SETTING)."""
        return self._with(self.own_settings(listener_name))

    def own_settings(self, listener_name: str) -> Mapping[str, Value]:
        """Return the per-listener overrides, keyed by lower-case setting name."""
        return self._of_listeners.get(listener_name.lower(), {})

    def of_mechanism(self, mechanism: str) -> "Config":
        """Return a listener's settings for a SASL mechanism, with overrides (MECHANISM.SETTING)."""
        prefix = f"{mechanism.lower()}."
        own = {
            name.removeprefix(prefix): value
            for name, value in self._values.items()
            if name.startswith(prefix)
        }
        return self._with(own)

    def _with(self, values: Mapping[str, Value]) -> "Config":
        if not values:
            return self
        other = copy(self)
        other._values = {**self._values, **values}
        return other

    def of_broker(self, index: int) -> "Config":
        """Return the settings of broker `index` of this process: ids and ports rise by `index`."""
        if index == 0:
            return self
        other = copy(self)
        node_id = self.node_id + index
        other._values = {**self._values, "node.id": node_id, "broker.id": node_id}
        if port := self.integer("published.port"):
            other._values["published.port"] = port + index
        for name in ("listeners", "advertised.listeners"):
            other._values[name] = tuple(
                text if text == "auto" else str(_parse_listener(name, text).after(index))
                for text in self.items(name)
            )
        other._static = other._values, other._of_listeners
        return other

    def _apply(self, source: str, settings: Mapping[str, str]) -> None:
        for name, text in settings.items():
            setting = SETTINGS.get(name)
            if setting is None:
                self._apply_elsewhere(source, name, text)
                continue
            if name in WITHOUT_EFFECT and name not in self.ignored:
                self.ignored.append(name)
            self._values[name] = _parse(setting, text)
            self._sources[name] = source

    def _apply_elsewhere(self, source: str, name: str, text: str) -> None:
        """Apply a listener override, or record a name that is not in the table."""
        if name.startswith(LISTENER_PREFIX) and self._apply_to_listener(name, text):
            return
        similar = most_similar(name)
        is_free = name in OF_KAFKA or name.startswith(PREFIXES)
        if similar is not None or not (is_free or source == "environment"):
            self.unknown[name] = similar
            return
        if name not in self.ignored:
            self.ignored.append(name)

    def _apply_to_listener(self, name: str, text: str) -> bool:
        """Apply listener.name.NAME.SETTING; return whether listeners can have this setting.

        SETTING may have the prefix of a mechanism, such as plain.sasl.jaas.config.
        """
        listener, _, suffix = name.removeprefix(LISTENER_PREFIX).partition(".")
        stem = suffix
        setting = LISTENER_SETTINGS.get(stem)
        if setting is None:
            stem = suffix.partition(".")[2]
            setting = LISTENER_SETTINGS.get(stem)
            if setting is None or stem.startswith("ssl."):
                return False
        value = _parse(setting._replace(name=name), text)
        self._of_listeners.setdefault(listener.lower(), {})[suffix.lower()] = value
        return True

    def _give_both_names_one_id(self) -> None:
        """Set node.id and its older name broker.id to one value (Kafka's populateSynonyms)."""
        if "node.id" not in self._sources and self.integer("broker.id") >= 0:
            self._values["node.id"] = self.integer("broker.id")
            self._sources["node.id"] = self._sources["broker.id"]
        self._values["broker.id"] = self.integer("node.id")
        if "node.id" in self._sources:
            self._sources.setdefault("broker.id", self._sources["node.id"])

    def _check_together(self) -> None:
        """Check settings against each other. Raises ConfigError."""
        if any(name.startswith("group.") for name in self._sources):
            # Imported here, because the health check reads settings and must start fast.
            from coordinator_server.config.group_configs import conflict

            if problem := conflict(self):
                raise ConfigError(problem)
        if not self.listeners():
            of_controller = ", ".join(self.items("controller.listener.names"))
            raise ConfigError(
                "listeners: no address to listen on"
                if not of_controller
                else f"listeners: all of them are listeners of a controller ({of_controller}), and "
                "there is no controller here: a broker needs none, so this process can be left out"
            )
        for setting in ("listeners", "advertised.listeners"):
            names = Counter(listener.name for listener in self._broker_listeners(setting))
            for name, count in names.items():
                if count > 1:
                    raise ConfigError(f"{setting}: {count} listeners have the name {name}")
        for listener in self.listeners():
            self.security_protocol(listener.name)
        self._check_listener_names()
        authorizer = self.text("authorizer.class.name")
        if problem := authorizer_problem(authorizer, self.text("super.users")):
            raise ConfigError(problem)
        self._check_addresses()
        self._check_ports("listeners", self.listeners())
        self._check_ports("advertised.listeners", self.advertised_listeners().values())
        if port := self.integer("published.port"):
            self._check_ports("published.port", [Listener("PUBLISHED", "", port)])

    def _check_listener_names(self) -> None:
        """Add settings for unknown listeners to `ignored`. Raises ConfigError."""
        names = [listener.name for listener in self.listeners()]
        between_brokers = self.optional_text("inter.broker.listener.name")
        if between_brokers is not None:
            if "security.inter.broker.protocol" in self._sources:
                raise ConfigError(
                    "inter.broker.listener.name: only one of it and security.inter.broker.protocol "
                    "may be set"
                )
            # Kafka rejects an unknown listener name. Here the setting is ignored, because
            # `--listener` may have replaced the listeners of the properties file.
            if between_brokers.upper() not in names:
                self.ignored.append("inter.broker.listener.name")
        for name in self._of_listeners:
            if name.upper() not in names:
                known = ", ".join(names).lower()
                self.ignored.append(f"{LISTENER_PREFIX}{name}.* (the listeners are {known})")

    def _check_addresses(self) -> None:
        """Raise ConfigError unless clients can connect to all advertised addresses."""
        names = [listener.name for listener in self.listeners()]
        for listener in self.advertised_listeners().values():
            problem = None
            if listener.name not in names:
                problem = f"there is no such listener, listeners has {', '.join(names)}"
            elif not listener.host or listener.host in ("0.0.0.0", "::"):
                problem = "clients cannot connect to every interface, name a host"
            elif not listener.port:
                problem = "clients cannot connect to port 0, name a port"
            if problem is not None:
                raise ConfigError(f"advertised.listeners: {listener}: {problem}")
        if self.optional_text("published.host") in ("0.0.0.0", "::"):
            raise ConfigError(
                f"published.host: {self.text('published.host')}: clients cannot connect to every "
                "interface, name a host"
            )
        if self.integer("published.port") and len(names) > 1:
            raise ConfigError(
                f"published.port: {self.integer('published.port')} cannot be the port of each of "
                f"{', '.join(names)}, name their addresses in advertised.listeners"
            )

    def _check_ports(self, setting: str, listeners: Iterable[Listener]) -> None:
        """Raise ConfigError if the ports of several brokers overlap or exceed 65535."""
        count = self.integer("broker.count")
        taken: dict[int, Listener] = {}
        for listener in listeners if count > 1 else ():
            for port in range(listener.port, listener.port + count) if listener.port else ():
                reason = "there is no such port"
                if port in taken:
                    reason = f"it overlaps {taken[port]}"
                if port in taken or port > 65535:
                    raise ConfigError(
                        f"{setting}: {listener}: with broker.count={count} it needs the ports up "
                        f"to {listener.port + count - 1}, {reason}"
                    )
                taken[port] = listener


def settings_in_arguments(arguments: Iterable[str]) -> dict[str, str]:
    """Return the settings in `NAME=VALUE` arguments (`--set`).

    Raises ConfigError for an argument without a name or `=`.
    """
    settings: dict[str, str] = {}
    for argument in arguments:
        name, separator, value = argument.partition("=")
        if not separator or not name.strip():
            raise ConfigError(f"--set {argument}: NAME=VALUE expected")
        settings[name.strip()] = value
    return settings


def _parse(setting: Setting, text: str) -> Value:
    """Return the typed value of `text`; a blank string becomes the default. Raises ConfigError."""
    if setting.kind in (Kind.STRING, Kind.PASSWORD, Kind.CLASS) and not text.strip():
        return setting.default
    try:
        return parse(setting, text)
    except InvalidValueError as error:
        raise ConfigError(error.worded(_WORDS)) from None


def parse_address(text: str) -> tuple[str, int]:
    """Parse HOST:PORT; the host may be empty or an IPv6 address in brackets. Raises ValueError."""
    host, separator, port = text.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit():
        raise ValueError(f"{text!r} is not HOST:PORT")
    if int(port) > 65535:
        raise ValueError(f"{text!r} is not HOST:PORT, the highest port is 65535")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return host, int(port)


def format_address(host: str, port: int) -> str:
    """Return HOST:PORT, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _parse_listener(setting: str, text: str) -> Listener:
    name, separator, address = text.partition("://")
    if not separator or not name:
        raise ConfigError(f"{setting}: {text!r} is not NAME://HOST:PORT")
    try:
        host, port = parse_address(address)
    except ValueError:
        raise ConfigError(f"{setting}: {text!r} is not NAME://HOST:PORT") from None
    return Listener(name.strip().upper(), host, port)  # like Kafka's ListenerName.normalised
