"""The configs of topics, the broker and groups, as DescribeConfigs and CreateTopics answer them.

Three places give a topic's config its value: the topic itself, the broker's setting of another name
(`retention.ms` <- `log.retention.ms`), Kafka's default. `describe` has value, source and synonyms
of each (Kafka's ConfigHelper).
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from itertools import dropwhile
from typing import Any, NamedTuple

from coordinator_server.config import client_metrics
from coordinator_server.config.client_metrics import CLIENT_METRICS_SETTINGS
from coordinator_server.config.config import Config
from coordinator_server.config.dynamic_settings import DYNAMIC, setting_of, synonyms_of
from coordinator_server.config.group_configs import shown
from coordinator_server.config.group_settings import GROUP_SETTINGS
from coordinator_server.config.settings import SETTINGS
from coordinator_server.events.log import LOG, ROOT_LOGGER
from storage.config_def import InvalidValueError, Kind, Setting, Value, parse, render
from storage.log_config import LogConfig, field_of, parse_topic_setting
from storage.topic_settings import TOPIC_SETTINGS, TOPIC_SETTINGS_WITHOUT_EFFECT

SOURCE_TOPIC = 1
SOURCE_DYNAMIC_BROKER = 2
SOURCE_DYNAMIC_DEFAULT = 3
SOURCE_STATIC_BROKER = 4
SOURCE_DEFAULT = 5
SOURCE_LOGGER = 6
SOURCE_CLIENT_METRICS = 7
SOURCE_GROUP = 8
"""Kafka's ConfigEntry.ConfigSource numbers."""

ADVERTISED_LISTENERS, AUTO = "advertised.listeners", "auto"

_INERT = "It is kept for tools that set it and has no effect on a single broker."


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
    is_sensitive: bool = False


def log_defaults(config: Config) -> LogConfig:
    """The settings of a log whose topic has no configs of its own."""
    values: dict[str, Any] = {
        field: config.topic_default(name)
        for name in TOPIC_SETTINGS
        if (field := field_of(name)) is not None
    }
    values["retention_ms"] = max(values["retention_ms"], -1)
    values["producer_id_expiration_ms"] = config.integer("producer.id.expiration.ms")
    return LogConfig(**values)


def condensed(
    given: Iterable[tuple[str, str | None]],
) -> Generator[None, None, list[tuple[str, str | None]]]:
    """What counts of a list of configs that may be long, in steps.

    Each name once with its last value, nulls, and no unknown name but the first.
    """
    counting: dict[str, str | None] = {}
    nulls: list[tuple[str, None]] = []
    has_unknown = False
    for name, value in given:
        is_known = name in TOPIC_SETTINGS
        if value is None:
            nulls.append((name, None))
        elif is_known or not has_unknown:
            counting[name] = value
            has_unknown = has_unknown or not is_known
        yield
    return [*counting.items(), *nulls]


def configs_error(config: Config, given: Iterable[tuple[str, str | None]]) -> str | None:
    """Why a topic may not have these configs, one sentence; None when it may.

    A null value is refused. Raises TopicConfigError, with the sentence for a single config, and for
    two that contradict each other.
    """
    nulls = [name for name, value in given if value is None]
    if nulls:
        return f"Null value not supported for topic configs: {','.join(nulls)}"
    configs = {name: value for name, value in given if value is not None}
    log_defaults(config).overridden(configs)
    if configs.get("remote.storage.enable", "false").strip().lower() == "true":
        return (
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    return None


def describe(config: Config, overrides: Mapping[str, str]) -> Iterator[DescribedConfig]:
    """All configs of a topic that has `overrides` of its own.

    Own values are shown as they are read: " TRUE " as true, "compact,compact" as compact. With
    log.retention.hours alone, retention.ms has its value from no place that is named, as in Kafka.
    """
    for name, row in TOPIC_SETTINGS.items():
        setting = row.setting
        if setting.internal and name not in overrides:
            continue
        synonyms: list[Synonym] = []
        value = render(config.topic_default(name))
        if name in overrides:
            value = render(parse_topic_setting(name, overrides[name]))
            synonyms.append(Synonym(name, value, SOURCE_TOPIC))
        if row.sources:
            synonyms += _synonyms(config, row.sources[0].name)
        documentation = setting.meaning
        if name in TOPIC_SETTINGS_WITHOUT_EFFECT:
            documentation += f" {_INERT}"
        yield _described(name, value, setting, synonyms, documentation)


def describe_broker(config: Config, advertised: str) -> Iterator[DescribedConfig]:
    """Return all settings of the broker, and what else it was given at run time.

    `advertised` is shown for `advertised.listeners` where the setting leaves addresses open.
    """
    given = {**config.dynamic[1], **config.dynamic[0]}
    for name, setting in SETTINGS.items():
        if not setting.internal:
            value = config.value(name)
            if name == ADVERTISED_LISTENERS and AUTO in config.items(name):
                value = advertised
            yield _of_broker(name, value, _synonyms(config, name))
    for name, text in given.items():
        if name not in SETTINGS or SETTINGS[name].internal:
            yield _of_broker(name, text, _synonyms(config, name))


def describe_all_brokers(config: Config) -> Iterator[DescribedConfig]:
    """Return the dynamic configs of all brokers; other sources are not shown of them."""
    for name, text in config.dynamic[1].items():
        synonyms = _synonyms(config, name)
        shared = [one for one in synonyms if one.source == SOURCE_DYNAMIC_DEFAULT]
        yield _of_broker(name, _parsed(name, text), shared)


def describe_logger() -> Iterator[DescribedConfig]:
    """Return the level of the log of this process."""
    yield DescribedConfig(ROOT_LOGGER, LOG.kafka_level, SOURCE_LOGGER, False, 0, (), "")


def _parsed(name: str, text: str) -> Value:
    """Return the value of a dynamic config, or the text of a custom one."""
    setting = SETTINGS.get(name)
    if setting is None or setting.internal:
        return text
    try:
        return parse(setting, text)
    except InvalidValueError:
        return text


def _of_broker(name: str, value: Value, synonyms: list[Synonym]) -> DescribedConfig:
    """A config of a broker: custom ones have no type, and may be passwords."""
    setting = setting_of(name)
    return DescribedConfig(
        name=name,
        value=None if _is_sensitive(name) else render(value),
        source=synonyms[0].source if synonyms else SOURCE_DEFAULT,
        read_only=name not in DYNAMIC,
        kind=0 if setting is None else setting.kind,
        synonyms=tuple(synonyms),
        documentation="" if setting is None else setting.meaning,
        is_sensitive=_is_sensitive(name),
    )


def _is_sensitive(name: str) -> bool:
    setting = setting_of(name)
    return setting is None or setting.kind is Kind.PASSWORD


def describe_group(config: Config, own: Mapping[str, str]) -> Iterator[DescribedConfig]:
    """Describe the configs of a group: its `own`, and the settings of the broker.

    Internal configs are described only where the group or the broker has set them, as in Kafka.
    """
    for name, setting in GROUP_SETTINGS.items():
        is_given = setting.name != name and config.source(setting.name) != "default"
        if setting.internal and name not in own and not is_given:
            continue
        if setting.name == name:
            value = render(setting.default)
            synonyms = [Synonym(name, value, SOURCE_DEFAULT)]
        else:
            value = render(config.value(setting.name))
            synonyms = _synonyms(config, setting.name)
        if name in own:
            value = shown(name, own[name])
            synonyms.insert(0, Synonym(name, value, SOURCE_GROUP))
        yield _described(name, value, setting, synonyms, setting.meaning)


def describe_client_metrics(own: Mapping[str, str]) -> Iterator[DescribedConfig]:
    """Describe the configs of a subscription to client metrics, in the order of their names."""
    for name, setting in sorted(CLIENT_METRICS_SETTINGS.items()):
        value = render(setting.default)
        synonyms = []
        if name in own:
            value = client_metrics.shown(name, own[name])
            synonyms = [Synonym(name, value, SOURCE_CLIENT_METRICS)]
        yield _described(name, value, setting, synonyms, setting.meaning)


def _described(
    name: str,
    value: str | None,
    setting: Setting,
    synonyms: list[Synonym],
    documentation: str,
) -> DescribedConfig:
    """A config whose source is that of its first synonym."""
    return DescribedConfig(
        name=name,
        value=value,
        source=synonyms[0].source if synonyms else SOURCE_DEFAULT,
        read_only=False,
        kind=setting.kind,
        synonyms=tuple(synonyms),
        documentation=documentation,
    )


def _synonyms(config: Config, name: str) -> list[Synonym]:
    """Return the places that give a setting of the broker its value (ConfigHelper).

    First what was set at run time, of this broker and of all brokers, then what was given at the
    start, then the defaults. Nothing counts that comes before the setting itself.
    """
    names = synonyms_of(name)
    own, shared = config.dynamic
    found = [
        Synonym(one, texts[one], source)
        for texts, source in ((own, SOURCE_DYNAMIC_BROKER), (shared, SOURCE_DYNAMIC_DEFAULT))
        for one in names
        if one in texts
    ]
    known = [SETTINGS[one] for one in names if one in SETTINGS]
    found += [
        Synonym(one.name, render(config.static_value(one.name)), SOURCE_STATIC_BROKER)
        for one in known
        if config.source(one.name) != "default"
    ]
    found += [
        Synonym(one.name, render(one.default), SOURCE_DEFAULT)
        for one in known
        if one.default is not None
    ]
    if _is_sensitive(name):
        found = [one._replace(value=None) for one in found]
    return list(dropwhile(lambda one: one.name != name, found))
