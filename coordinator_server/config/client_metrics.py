"""Subscriptions to client metrics (KIP-714): resources of type CLIENT_METRICS and their configs.

A subscription selects metrics by prefix, the push interval, and the clients that push metrics.
Subscriptions are stored in the data directory. Source: ClientMetricsConfigs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from protocol.hashing import java_bucket, java_table_size
from storage.config_def import Kind, Setting, Value, render
from storage.errors import TopicConfigError
from storage.log_config import parse_client_config

if TYPE_CHECKING:
    from coordinator_server.steps import Steps
    from storage.topic_catalogue import TopicCatalogue

DEFAULT_INTERVAL_MS = 300_000
ALL_METRICS = "*"

METRICS, INTERVAL, MATCH = "metrics", "interval.ms", "match"
CLIENT_METRICS_SETTINGS = {
    row.name: row
    for row in (
        Setting(
            METRICS,
            Kind.LIST,
            (),
            "Prefixes of the names of metrics that clients push; * stands for all metrics.",
            may_be_empty=True,
        ),
        Setting(INTERVAL, Kind.INT, DEFAULT_INTERVAL_MS, "Time between two pushes of a client."),
        Setting(
            MATCH,
            Kind.LIST,
            (),
            "Which clients push: NAME=PATTERN for each attribute that has to match.",
            may_be_empty=True,
        ),
    )
}
ATTRIBUTES = frozenset(
    (
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    )
)
"""The client attributes that patterns can match."""

_NOT_BRACES = r"(?s)\\[pPxkN]\{[^}]*\}|\\.|\[\^?\]?[^\]]*\]"
"""Escapes and character classes in an expression."""
_BAD_BRACE = r"\{(?!\d+(,\d*)?\})"
"""A brace that is not a repetition: literal text in RE2, an error in Java."""

_LEAST_INTERVAL_MS, _MOST_INTERVAL_MS = 100, 3_600_000


class RefusedConfigsError(Exception):
    """Invalid configs of a subscription that Kafka reports as INVALID_REQUEST."""


class Subscription(NamedTuple):
    """One subscription.

    `metrics` are in the order of Kafka's HashSet; `patterns` are compiled expressions of RE2, by
    attribute.
    """

    metrics: tuple[str, ...]
    interval_ms: int
    patterns: Mapping[str, Any]

    def matches(self, attributes: Mapping[str, str | None]) -> bool:
        """Return whether each pattern matches the whole attribute of a client."""
        return all(
            (value := attributes[name]) is not None and pattern.fullmatch(value) is not None
            for name, pattern in self.patterns.items()
        )


class ClientMetricsConfigs:
    """The subscriptions of the cluster, stored in `catalogue`. `version` rises with each change."""

    def __init__(self, catalogue: TopicCatalogue) -> None:
        self._catalogue = catalogue
        self._parsed: dict[str, Subscription] = {}
        self._ordered: list[Subscription] | None = None
        self.version = 0

    def own(self, name: str) -> Mapping[str, str]:
        """Return the configs of a subscription as they were set; empty for an unknown name."""
        return self._catalogue.client_metrics.get(name, {})

    def names(self) -> list[str]:
        """Return the names of the subscriptions."""
        return list(self._catalogue.client_metrics)

    def set(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        """Replace the configs of subscriptions; the configs must be valid. Raises StorageError."""
        self._catalogue.put_client_metrics(configs)
        for name in configs:
            self._parsed.pop(name, None)
        self._ordered = None
        self.version += 1

    def clear(self) -> None:
        """Delete all subscriptions. Raises StorageError."""
        if self._catalogue.client_metrics:
            self.set({name: {} for name in self._catalogue.client_metrics})

    def prepare(self) -> Steps:
        """Parse all subscriptions in steps, because thousands would block the event loop."""
        for name in () if self._ordered is not None else self.names():
            if name not in self._parsed:
                self._subscription(name)
                yield

    def subscriptions(self) -> list[Subscription]:
        """Return the subscriptions in the iteration order of Kafka's ConcurrentHashMap."""
        if self._ordered is None:
            names = self.names()
            # Java's ConcurrentHashMap grows one entry earlier than its HashMap.
            size = java_table_size(len(names) + 1)
            names.sort(key=lambda config: java_bucket(config, size))
            self._ordered = [self._subscription(name) for name in names]
        return self._ordered

    def _subscription(self, name: str) -> Subscription:
        if name not in self._parsed:
            self._parsed[name] = _parsed(self.own(name))
        return self._parsed[name]


def check(name: str, configs: Mapping[str, str]) -> None:
    """Raise RefusedConfigsError or TopicConfigError for invalid configs of a subscription."""
    if not name:
        raise RefusedConfigsError("Subscription name can't be empty")
    size = java_table_size(len(configs))
    unknown = [config for config in configs if config not in CLIENT_METRICS_SETTINGS]
    if unknown:
        first = min(unknown, key=lambda name: java_bucket(name, size))
        raise RefusedConfigsError(f"Unknown client metrics configuration: {first}")
    values = _values(configs)
    interval_ms = values.get(INTERVAL)
    if isinstance(interval_ms, int) and not _LEAST_INTERVAL_MS <= interval_ms <= _MOST_INTERVAL_MS:
        text = f"Invalid value {interval_ms} for {INTERVAL}, interval must be between"
        raise RefusedConfigsError(f"{text} {_LEAST_INTERVAL_MS} and {_MOST_INTERVAL_MS} (1 hour)")
    _patterns(values.get(MATCH, ()))


def shown(name: str, value: str) -> str | None:
    """Return the valid value of a config as DescribeConfigs shows it."""
    return render(parse_client_config(CLIENT_METRICS_SETTINGS[name], value))


def _values(configs: Mapping[str, str]) -> dict[str, Value]:
    """Return the typed values of configs with known names. Raises TopicConfigError."""
    values: dict[str, Value] = {}
    for name, setting in CLIENT_METRICS_SETTINGS.items():
        if name in configs:
            value = values[name] = parse_client_config(setting, configs[name])
            if isinstance(value, tuple) and "" in value:
                raise TopicConfigError(f"Configuration '{name}' values must not be empty.")
    return values


def _parsed(configs: Mapping[str, str]) -> Subscription:
    values = _values(configs)
    metrics, interval_ms = values.get(METRICS, ()), values.get(INTERVAL, DEFAULT_INTERVAL_MS)
    assert isinstance(metrics, tuple)
    assert isinstance(interval_ms, int)
    # A Java HashSet created from a list has a larger table than a set that has grown.
    size = max(java_table_size(0), 1 << int(len(metrics) / 0.75).bit_length())
    ordered = sorted(metrics, key=lambda metric: java_bucket(metric, size))
    return Subscription(tuple(ordered), interval_ms, _patterns(values.get(MATCH, ())))


def _patterns(items: Value) -> dict[str, Any]:
    """Return the compiled patterns by attribute; of duplicates the last one is used.

    Raises TopicConfigError.
    """
    patterns = {}
    assert isinstance(items, tuple)
    for item in items:
        name, _, expression = item.rstrip("=").partition("=")
        name, expression = name.strip(), expression.strip()
        pattern = None
        if name in ATTRIBUTES and "=" not in expression and "=" in item.rstrip("="):
            pattern = _compiled(expression)
        if pattern is None:
            raise TopicConfigError(f"Illegal client matching pattern: {item}")
        patterns[name] = pattern
    return patterns


def _compiled(expression: str) -> Any:
    """Return the compiled expression for `fullmatch`; None if RE2 or Java rejects the text."""
    import re2

    if re.search(_BAD_BRACE, re.sub(_NOT_BRACES, "", expression)):
        return None
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(expression, options)
    except (re2.error, UnicodeEncodeError):
        return None
