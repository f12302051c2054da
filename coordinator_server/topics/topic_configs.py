"""The configs of topics: what the broker's settings make of them, and how they are told to clients.

Three places give a topic's config its value: the topic itself, the broker's setting of another name
(`retention.ms` <- `log.retention.ms`), Kafka's default. `describe` tells value, source and
synonyms as DescribeConfigs and CreateTopics need them (Kafka's ConfigHelper).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from coordinator_server.config.config import Config
from coordinator_server.config.settings import SETTINGS as BROKER_SETTINGS
from coordinator_server.config.settings import TOPIC_SETTINGS, Kind, render
from storage.log_config import SETTINGS as LOG_SETTINGS
from storage.log_config import LogConfig, parse_setting

SOURCE_TOPIC = 1
SOURCE_STATIC_BROKER = 4
SOURCE_DEFAULT = 5
"""Kafka's ConfigEntry.ConfigSource numbers."""

_HIDDEN = frozenset(("internal.segment.bytes",))  # Kafka's internal configs are not described

_INERT = "Accepted and kept for tools that set it; it has no effect on a single broker."


class Synonym(NamedTuple):
    """One place that gives a config a value; the first of a list is the one that counts."""

    name: str
    value: str | None
    source: int


class DescribedConfig(NamedTuple):
    """One config as clients see it; `kind` is DescribeConfigs' config_type."""

    name: str
    value: str | None
    source: int
    read_only: bool
    kind: int
    synonyms: tuple[Synonym, ...]
    documentation: str


def log_defaults(config: Config) -> LogConfig:
    """What a topic without configs of its own has, by the broker's settings."""
    values: dict[str, Any] = {
        name.replace(".", "_"): value
        for name, value in config.topic_defaults().items()
        if value is not None and name.replace(".", "_") in LogConfig._fields
    }
    values["producer_id_expiration_ms"] = config.integer("producer.id.expiration.ms")
    return LogConfig(**values)


def configs_error(given: Iterable[tuple[str, str | None]]) -> str | None:
    """Why a topic may not be created with these configs, one sentence; None when it may.

    A null value is refused. Raises TopicConfigError, which has the sentence for a single config.
    """
    nulls = [name for name, value in given if value is None]
    if nulls:
        return f"Null value not supported for topic configs: {','.join(nulls)}"
    configs = {name: value for name, value in given if value is not None}
    for name, value in configs.items():
        parse_setting(name, value)
    if configs.get("remote.storage.enable", "false").strip().lower() == "true":
        return (
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    return None


def describe(config: Config, overrides: Mapping[str, str]) -> Iterator[DescribedConfig]:
    """All configs of a topic that has `overrides` of its own."""
    for name, setting in LOG_SETTINGS.items():
        if name in _HIDDEN:
            continue
        topic_setting = TOPIC_SETTINGS.get(name)
        synonyms: list[Synonym] = []
        if name in overrides:
            synonyms.append(Synonym(name, overrides[name], SOURCE_TOPIC))
        if topic_setting is None:
            value: str | None = setting.default
            documentation = _INERT
        else:
            value = render(config.topic_default(name))
            documentation = topic_setting.setting.meaning
            for broker_name, _ in topic_setting.sources:
                synonyms += _set_on_broker(config, broker_name)
            synonyms += _default_of(topic_setting.sources[0][0])
            if value is None:
                value = setting.default
        if name in overrides:
            value = overrides[name]
        yield DescribedConfig(
            name=name,
            value=value,
            source=synonyms[0].source if synonyms else SOURCE_DEFAULT,
            read_only=False,
            kind=Kind[setting.kind],
            synonyms=tuple(synonyms),
            documentation=documentation,
        )


def describe_broker(config: Config) -> Iterator[DescribedConfig]:
    """All settings of the broker. They are read-only: a running broker changes none of them."""
    for name, setting in BROKER_SETTINGS.items():
        synonyms = (*_set_on_broker(config, name), *_default_of(name))
        yield DescribedConfig(
            name=name,
            value=render(config.value(name)),
            source=synonyms[0].source if synonyms else SOURCE_DEFAULT,
            read_only=True,
            kind=setting.kind,
            synonyms=synonyms,
            documentation=setting.meaning,
        )


def describe_group(config: Config) -> Iterator[DescribedConfig]:
    """The configs of a consumer group (KIP-848); they come from the broker's settings."""
    for name in ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"):
        setting = BROKER_SETTINGS[f"group.{name}"]
        value = render(config.value(setting.name))
        yield DescribedConfig(
            name=name,
            value=value,
            source=SOURCE_DEFAULT,
            read_only=False,
            kind=setting.kind,
            synonyms=(Synonym(name, value, SOURCE_DEFAULT),),
            documentation=setting.meaning,
        )


def _set_on_broker(config: Config, name: str) -> tuple[Synonym, ...]:
    if config.source(name) == "default":
        return ()
    return (Synonym(name, render(config.value(name)), SOURCE_STATIC_BROKER),)


def _default_of(name: str) -> tuple[Synonym, ...]:
    default = BROKER_SETTINGS[name].default
    return () if default is None else (Synonym(name, render(default), SOURCE_DEFAULT),)
