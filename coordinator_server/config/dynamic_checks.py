"""Validation of dynamic broker configs, with Kafka's messages and in Kafka's order.

First names and single values are checked (DynamicBrokerConfig.validateConfigs), then all settings
together, static ones included (KafkaConfig.validateValues), and finally the change itself (the
validateReconfiguration of each reconfigurable class).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Protocol

from coordinator_server.config.dynamic_settings import (
    CLUSTER_LEVEL_LISTENER,
    DYNAMIC,
    LOG_SETTINGS,
    ONLY_PER_BROKER,
    RECONFIGURED_LISTENER,
    SECURITY,
    THREADS,
    java_integer,
    setting_of,
    split_listener,
)
from coordinator_server.config.inert_settings import JMX_REPORTER
from coordinator_server.config.listener_checks import (
    LISTENERS,
    existing_listeners_problem,
    listeners_problem,
)
from coordinator_server.config.other_names import OF_KAFKA
from coordinator_server.config.settings import SETTINGS
from protocol.hashing import java_bucket, java_table_size
from storage.config_def import Kind, Setting, Value
from storage.errors import TopicConfigError
from storage.log_config import parse_client_config

if TYPE_CHECKING:
    from coordinator_server.config.config import Config

MOST_LISTED_CHARACTERS = 8_000
"""Limit of the names listed in an error message. Kafka lists all names, but clients cannot read a
string of more than 32 767 bytes."""

_WRAPPED = (
    "Invalid value org.apache.kafka.common.config.ConfigException: {} "
    "for configuration Invalid dynamic configuration"
)
_OVERRIDES = "max.connections.per.ip.overrides"
_NETWORK_THREADS = "num.network.threads"
_CORDONED = "cordoned.log.dirs"
_CLEANER_THREADS = "log.cleaner.threads"
_MEGABYTE = 1024 * 1024
_ANY_ITEMS = ("config.providers", _CORDONED)


class NewSettings(Protocol):
    """The settings of a broker after a change."""

    fixed_listeners: set[str]

    def value(self, name: str) -> Value:
        """Return the value of a broker setting."""

    def listener_value(self, listener: str, name: str) -> Value:
        """Return the value of a listener setting."""


class ListedNames:
    """A list of names for a message, cut off with ... after MOST_LISTED_CHARACTERS."""

    __slots__ = ("_left", "names")

    def __init__(self) -> None:
        self.names: list[str] = []
        self._left = MOST_LISTED_CHARACTERS

    def add(self, name: str) -> None:
        """Add a name, or "..." if the list is full; later names are dropped."""
        if self._left > 0:
            self._left -= len(name) + 2
            self.names.append(name if self._left > 0 else "...")

    def __str__(self) -> str:
        return ", ".join(self.names)


class _ListedSet(ListedNames):
    """A list of names in the iteration order of a Java HashSet."""

    __slots__ = ()

    def __str__(self) -> str:
        size = java_table_size(len(self.names))
        names = sorted(self.names, key=lambda name: (name == "...", java_bucket(name, size)))
        return ", ".join(names)


# --- single configs -----------------------------------------------------------------------------


def names_error(
    configs: Mapping[str, str], *, is_for_all: bool
) -> Generator[None, None, str | None]:
    """Return the error in the names or in a single value, or None; in steps."""
    fixed, security, of_brokers = _ListedSet(), _ListedSet(), _ListedSet()
    problem = None
    for name, text in configs.items():
        yield
        listener, stem = split_listener(name)
        is_known = name in OF_KAFKA or (listener is None and setting_of(name) is not None)
        if is_known and name not in DYNAMIC:
            fixed.add(name)
        if name in SECURITY:
            security.add(name)
        if name in ONLY_PER_BROKER or (listener is not None and stem not in CLUSTER_LEVEL_LISTENER):
            of_brokers.add(name)
        if problem is None and stem in DYNAMIC and (setting := setting_of(stem)) is not None:
            problem = _value_error(setting, text)
    if fixed.names:
        return f"Cannot update these configs dynamically: [{fixed}]"
    if security.names:
        return (
            "These security configs can be dynamically updated only per-listener using the "
            f"listener prefix: [{security}]"
        )
    if problem is None and is_for_all and of_brokers.names:
        return (
            "Cannot update these configs at default cluster level, broker id must be specified: "
            f"[{of_brokers}]"
        )
    return problem


def _value_error(setting: Setting, text: str) -> str | None:
    if setting.kind is Kind.CLASS:
        if text.strip() in (setting.default, *setting.choices):
            return None
        name = text.strip()
        return (
            f"Invalid value {name} for configuration {setting.name}: Class {name} could not be "
            "found."
        )
    if setting.kind is Kind.LIST and setting.name not in _ANY_ITEMS:
        items = [item.strip() for item in text.split(",")]
        if items == [""] and setting.name == LISTENERS:
            reason = "must not be empty. Valid values include: any non-empty value"
            return f"Configuration '{setting.name}' {reason}"
        if len(set(items)) < len(items):
            return f"Configuration '{setting.name}' values must not be duplicated."
        if "" in items and items != [""]:
            return f"Configuration '{setting.name}' values must not be empty."
    try:
        parse_client_config(setting, text)
    except TopicConfigError as error:
        return error.message
    return None


# --- combinations of configs --------------------------------------------------------------------


def values_error(config: Config, new: NewSettings) -> str | None:
    """Return the error in the combination of new settings, or in the change itself, or None."""
    for check in _REQUIREMENTS:
        problem = check(new, config)
        if problem is not None:
            return problem
    for change in _CHANGES:
        problem = change(new, config)
        if problem is not None:
            return _WRAPPED.format(problem)
    return None


def _integer(new: NewSettings, name: str) -> int:
    value = new.value(name)
    assert isinstance(value, int), name
    return value


def _roll_problem(new: NewSettings, config: Config) -> str | None:
    if new.value("log.retention.ms") == 0:
        return (
            "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal "
            "to 1"
        )
    for name, least in (("log.roll.ms", 1), ("log.roll.jitter.ms", 0)):
        value = new.value(name)
        if isinstance(value, int) and value < least:
            return f"requirement failed: {name} must be greater than or equal to {least}"
    return None


def _cleaner_problem(new: NewSettings, config: Config) -> str | None:
    threads = _integer(new, _CLEANER_THREADS)
    if threads == 0:
        return "/ by zero"
    if _integer(new, "log.cleaner.dedupe.buffer.size") // threads <= _MEGABYTE:
        return (
            "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner "
            "thread."
        )
    return None


def _connections_problem(new: NewSettings, config: Config) -> str | None:
    overrides = str(new.value(_OVERRIDES) or "").strip()
    if _integer(new, "max.connections.per.ip") == 0 and not overrides:
        return (
            "requirement failed: max.connections.per.ip can be set to zero only if "
            f"{_OVERRIDES} property is set."
        )
    for item in filter(None, (part.strip() for part in overrides.split(","))):
        _, separator, count = item.rpartition(":")
        if not separator:
            return (
                f"Error parsing configuration property '{_OVERRIDES}': begin 0, end -1, length "
                f"{len(item)}"
            )
        if java_integer(count.strip()) is None:
            return f'For input string: "{count.strip()}"'
    return None


def _intervals_problem(new: NewSettings, config: Config) -> str | None:
    for kind in ("consumer", "share", "streams"):
        name = f"group.{kind}.assignment.interval.ms"
        most, least = (f"group.{kind}.{bound}.assignment.interval.ms" for bound in ("max", "min"))
        if _integer(new, name) > _integer(new, most):
            return f"{name} must be less than or equal to {most}"
        if _integer(new, name) < _integer(new, least):
            return f"{name} must be greater than or equal to {least}"
    return None


def _directories_problem(new: NewSettings, config: Config) -> str | None:
    cordoned = new.value(_CORDONED)
    assert isinstance(cordoned, tuple)
    if "*" in cordoned:
        if len(cordoned) == 1:
            return None
        return f"requirement failed: When {_CORDONED} is set to *, it must not contain other values"
    known = config.items("log.dirs") or config.items("log.dir")
    missing = [directory for directory in cordoned if directory not in known]
    if not missing:
        return None
    return (
        f"requirement failed: All entries in {_CORDONED} must be present in log.dirs or log.dir. "
        f"Missing entries : {', '.join(missing)}"
    )


# --- changes ------------------------------------------------------------------------------------


def _threads_problem(new: NewSettings, config: Config) -> str | None:
    for name in THREADS:
        problem = _factor_problem(name, _integer(new, name), config.integer(name))
        if problem is not None:
            return problem
    for listener in config.listeners():
        threads = new.listener_value(listener.name, _NETWORK_THREADS)
        current = config.own_settings(listener.name).get(_NETWORK_THREADS)
        if current is None:
            current = config.value(_NETWORK_THREADS)
        assert isinstance(threads, int)
        assert isinstance(current, int)
        problem = _factor_problem(_NETWORK_THREADS, threads, current)
        if problem is not None:
            return problem
    return None


def _factor_problem(name: str, threads: int, current: int) -> str | None:
    """Return the error if a thread pool would more than double or halve in size, or None."""
    failed = f"Dynamic thread count update validation failed for {name}={threads}"
    if threads > current * 2:
        return f"{failed}, value should not be greater than double the current value {current}"
    if threads < current // 2:
        return f"{failed}, value should be at least half the current value {current}"
    return None


def _cleaner_threads_problem(new: NewSettings, config: Config) -> str | None:
    threads, current = _integer(new, _CLEANER_THREADS), config.integer(_CLEANER_THREADS)
    if threads < current // 2:
        return (
            f"Log cleaner threads cannot be reduced to less than half the current value {current}"
        )
    if threads > current * 2:
        return (
            "Log cleaner threads cannot be increased to more than double the current value "
            f"{current}"
        )
    return None


def _local_retention_problem(new: NewSettings, config: Config) -> str | None:
    if not any(new.value(name) != config.value(name) for name in LOG_SETTINGS):
        return None
    for unit in ("ms", "bytes"):
        name = f"log.retention.{unit}"
        most = _retention_ms(new) if unit == "ms" else _integer(new, name)
        local_name = f"log.local.retention.{unit}"
        local = _integer(new, local_name)
        invalid = f"Invalid value {local} for configuration {local_name}: Value must not be "
        if most >= 0 and local == -1:
            return f"{invalid}-1 as {name} value is set as {most}."
        if 0 <= most < local:
            return f"{invalid}more than {name} property value: {most}"
        lag_name, kept = f"log.remote.copy.lag.{unit}", most if local == -2 else local
        lag = _integer(new, lag_name)
        if 0 <= kept < lag:
            return (
                f"Invalid value {lag} for configuration {lag_name}: Value must not exceed "
                f"{local_name} (effective value: {kept})"
            )
    return None


def _retention_ms(new: NewSettings) -> int:
    for name, factor in (
        ("log.retention.ms", 1),
        ("log.retention.minutes", 60_000),
        ("log.retention.hours", 3_600_000),
    ):
        value = new.value(name)
        if isinstance(value, int):
            return value * factor
    return -1


def _reporters_problem(new: NewSettings, config: Config) -> str | None:
    reporters = new.value("metric.reporters")
    assert isinstance(reporters, tuple)
    if all(reporter in ("", JMX_REPORTER) for reporter in reporters):
        return None
    return (
        "Validation of dynamic config update of Set(metric.reporters) failed with class class "
        "kafka.server.DynamicMetricsReporters"
    )


def _listeners_change_problem(new: NewSettings, config: Config) -> str | None:
    """Return why existing listeners cannot be changed, or None (DynamicListenerConfig)."""
    if not any(
        name in SETTINGS and new.value(name) != config.value(name) for name in RECONFIGURED_LISTENER
    ):
        return None
    return existing_listeners_problem(new, config)


def store_problem(reason: str) -> str:
    """Return Kafka's message for an invalid key store or trust store (SslFactory)."""
    return _WRAPPED.format(
        "Validation of dynamic config update of SSLFactory failed: "
        f"org.apache.kafka.common.errors.InvalidConfigurationException: {reason}"
    )


_Check = Callable[[NewSettings, "Config"], str | None]
_REQUIREMENTS: tuple[_Check, ...] = (
    _roll_problem,
    _cleaner_problem,
    listeners_problem,
    _connections_problem,
    _intervals_problem,
    _directories_problem,
)
_CHANGES: tuple[_Check, ...] = (
    _threads_problem,
    _cleaner_threads_problem,
    _local_retention_problem,
    _reporters_problem,
    _listeners_change_problem,
)
