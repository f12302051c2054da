"""The configs of topics, brokers and groups, as in responses to DescribeConfigs and CreateTopics.

The value of a topic config comes from the topic, from a broker setting with another name
(`log.retention.ms` for `retention.ms`) or from Kafka's default. `describe` returns value, source
and synonyms of each config (Kafka's ConfigHelper).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from itertools import dropwhile
from typing import TYPE_CHECKING, Any, NamedTuple

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

if TYPE_CHECKING:
    from coordinator_server.steps import Steps
    from coordinator_server.topics.manager import TopicManager
    from coordinator_server.topics.topic import Partition
    from storage.log_manager import LogManager


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
    """A source of a config's value; the first synonym in a list determines the value."""

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
    """Return the settings of a log whose topic has no configs."""
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
    """Condense a long list of configs to the entries that matter for validation, in steps.

    The result has each known name once with its last value, the first unknown name, and all nulls.
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
    """Return the error message for null values and tiered storage; None if the configs are valid.

    Raises TopicConfigError for an invalid value, and for two configs that contradict each other.
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
    """Yield all configs of a topic; `overrides` has the topic's own configs.

    Own values are normalized: " TRUE " becomes true, "compact,compact" becomes compact. If only
    log.retention.hours is set, the value of retention.ms has no matching synonym, as in Kafka.
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
    """Yield all settings of a broker, and dynamic configs that are not settings.

    `advertised` replaces the value of `advertised.listeners` if that setting contains "auto".
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
    """Yield the cluster-wide dynamic configs, with synonyms of that source only."""
    for name, text in config.dynamic[1].items():
        synonyms = _synonyms(config, name)
        shared = [synonym for synonym in synonyms if synonym.source == SOURCE_DYNAMIC_DEFAULT]
        yield _of_broker(name, _parsed(name, text), shared)


def describe_logger() -> Iterator[DescribedConfig]:
    """Yield the log level of this process."""
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
    """Return a broker config. Custom configs have no type and are treated as sensitive."""
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
    """Yield the configs of a group: its `own` configs, and the broker's settings for the others.

    Internal configs are included only if the group or the broker has set them, as in Kafka.
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
    """Yield the configs of a client metrics subscription, sorted by name."""
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
    """Return a config whose source is the source of its first synonym."""
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
    """Return the sources of a broker setting's value, highest precedence first (ConfigHelper).

    The order is: dynamic configs of this broker, cluster-wide dynamic configs, static settings,
    defaults. Synonyms before the first entry for the setting itself are dropped.
    """
    names = synonyms_of(name)
    own, shared = config.dynamic
    synonyms = [
        Synonym(setting, texts[setting], source)
        for texts, source in ((own, SOURCE_DYNAMIC_BROKER), (shared, SOURCE_DYNAMIC_DEFAULT))
        for setting in names
        if setting in texts
    ]
    known = [SETTINGS[setting] for setting in names if setting in SETTINGS]
    synonyms += [
        Synonym(setting.name, render(config.static_value(setting.name)), SOURCE_STATIC_BROKER)
        for setting in known
        if config.source(setting.name) != "default"
    ]
    synonyms += [
        Synonym(setting.name, render(setting.default), SOURCE_DEFAULT)
        for setting in known
        if setting.default is not None
    ]
    if _is_sensitive(name):
        synonyms = [setting._replace(value=None) for setting in synonyms]
    return list(dropwhile(lambda setting: setting.name != name, synonyms))


class LogDefaults:
    """Gives each log the settings of the broker that leads its partition.

    The brokers of a process share `logs`. A dynamic config of one broker applies to the partitions
    that this broker leads; `configs` has the settings by broker id.
    """

    def __init__(self, logs: LogManager, configs: Mapping[int, Config]) -> None:
        self._logs = logs
        self._configs = configs
        self._topics: TopicManager | None = None
        self._defaults: dict[int, LogConfig] = {}
        if self._take():
            for _ in logs.reconfigure():  # apply the config to recovered logs
                pass

    def lead_by(self, topics: TopicManager) -> None:
        """With several brokers, choose the defaults of each log by its leader in `topics`."""
        self._topics = topics
        if len(self._configs) > 1:
            self._logs.defaults_of = self._of
            topics.leadership.on_moved.append(self._moved)

    def follow(self) -> Steps:
        """Apply the current settings to open logs, in steps."""
        if self._take():
            yield from self._logs.reconfigure()

    def _take(self) -> bool:
        """Compute the defaults of each broker; return whether any has changed."""
        before = self._defaults or {next(iter(self._configs)): self._logs.defaults}
        self._defaults = {node: log_defaults(config) for node, config in self._configs.items()}
        self._logs.defaults = next(iter(self._defaults.values()))
        return self._defaults != before

    def _of(self, name: str, index: int) -> LogConfig:
        partition = None if self._topics is None else self._topics.partition(name, index)
        leader_id = -1 if partition is None else partition.leader_id
        return self._defaults.get(leader_id, self._logs.defaults)

    def _moved(self, partition: Partition, before: int) -> None:
        if self._defaults.get(before) != self._defaults.get(partition.leader_id):
            self._logs.reconfigure_log(partition.topic_name, partition.index)
