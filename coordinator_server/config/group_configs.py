"""Per-group config overrides (KIP-848, KIP-932, KIP-1071), set by clients.

The overrides are stored in the data directory, even for groups that do not exist. Broker settings
limit their values; a stored value outside the current limits is replaced by the nearest limit.
Source: GroupConfig, GroupConfigManager.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from coordinator_server.config.group_settings import (
    DLQ_TOPIC,
    GROUP_SETTINGS,
    RACK_TAGS,
    STREAMS_ASSIGNOR,
    STREAMS_ASSIGNOR_CLASS,
)
from storage.config_def import INT_MAX, Kind, Setting, Value, render
from storage.errors import TopicConfigError
from storage.log_config import parse_client_config

if TYPE_CHECKING:
    from coordinator_server.config.config import Config
    from storage.topic_catalogue import TopicCatalogue

_KINDS = ("consumer", "share", "streams")
_AUTO_OFFSET_RESET = "share.auto.offset.reset"
_BY_DURATION = "by_duration:"


_BOUNDS: dict[str, tuple[str | None, str | None]] = {
    "consumer.heartbeat.interval.ms": (
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
    ),
    "consumer.session.timeout.ms": (
        "group.consumer.min.session.timeout.ms",
        "group.consumer.max.session.timeout.ms",
    ),
    "consumer.assignment.interval.ms": (
        "group.consumer.min.assignment.interval.ms",
        "group.consumer.max.assignment.interval.ms",
    ),
    "share.heartbeat.interval.ms": (
        "group.share.min.heartbeat.interval.ms",
        "group.share.max.heartbeat.interval.ms",
    ),
    "share.session.timeout.ms": (
        "group.share.min.session.timeout.ms",
        "group.share.max.session.timeout.ms",
    ),
    "share.record.lock.duration.ms": (
        "group.share.min.record.lock.duration.ms",
        "group.share.max.record.lock.duration.ms",
    ),
    "share.delivery.count.limit": (
        "group.share.min.delivery.count.limit",
        "group.share.max.delivery.count.limit",
    ),
    "share.partition.max.record.locks": (
        "group.share.min.partition.max.record.locks",
        "group.share.max.partition.max.record.locks",
    ),
    "share.assignment.interval.ms": (
        "group.share.min.assignment.interval.ms",
        "group.share.max.assignment.interval.ms",
    ),
    "streams.heartbeat.interval.ms": (
        "group.streams.min.heartbeat.interval.ms",
        "group.streams.max.heartbeat.interval.ms",
    ),
    "streams.session.timeout.ms": (
        "group.streams.min.session.timeout.ms",
        "group.streams.max.session.timeout.ms",
    ),
    "streams.num.standby.replicas": (
        None,
        "group.streams.max.standby.replicas",
    ),
    "streams.assignment.interval.ms": (
        "group.streams.min.assignment.interval.ms",
        "group.streams.max.assignment.interval.ms",
    ),
    "streams.task.offset.interval.ms": ("group.streams.min.task.offset.interval.ms", None),
    "streams.num.warmup.replicas": (None, "group.streams.max.warmup.replicas"),
}
"""Group config -> the broker settings with its smallest and largest value, in Kafka's order."""


class GroupConfigs:
    """The per-group overrides, stored in `catalogue`; `config` has the broker's settings."""

    def __init__(self, catalogue: TopicCatalogue, config: Config) -> None:
        self._catalogue = catalogue
        self._config = config

    def own(self, group_id: str) -> Mapping[str, str]:
        """Return the configs of a group as they were set."""
        return self._catalogue.group_configs.get(group_id, {})

    def of(self, group_id: str) -> Mapping[str, str]:
        """Return a group's configs within the broker's limits. Source: GroupConfig.evaluate."""
        own = self._catalogue.group_configs.get(group_id)
        if own is None:
            return {}
        return {name: self._clamped(name, value) for name, value in own.items()}

    def _clamped(self, name: str, value: str) -> str:
        bounds = _BOUNDS.get(name)
        if bounds is None:
            return value
        least, most = bounds
        number = int(value)
        if most is not None:
            number = min(number, self._config.integer(most))
        if least is not None:
            number = max(number, self._config.integer(least))
        return str(number)

    def check(self, configs: Mapping[str, str]) -> None:
        """Raise TopicConfigError for invalid configs of a group. Source: GroupConfig.validate."""
        for name in configs:
            if name not in GROUP_SETTINGS:
                raise TopicConfigError(f"Unknown group config name: {name}")
        if RACK_TAGS in configs:
            _check_tags(configs[RACK_TAGS])
        values: dict[str, Value] = {}
        for name, setting in GROUP_SETTINGS.items():
            if name in configs:
                values[name] = parse_client_config(_of_group(name, setting), configs[name])
                if name == _AUTO_OFFSET_RESET:
                    _check_offset_reset(configs[name])
        for name, (least, most) in _BOUNDS.items():
            if name in values:
                self._check_bounds(name, values[name], least, most)
        self._check_assignor(values.get(STREAMS_ASSIGNOR))
        for kind in _KINDS:
            session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
            if session in values or heartbeat in values:
                session_ms = values.get(session, self._config.integer(f"group.{session}"))
                heartbeat_ms = values.get(heartbeat, self._config.integer(f"group.{heartbeat}"))
                assert isinstance(session_ms, int)
                assert isinstance(heartbeat_ms, int)
                if session_ms <= heartbeat_ms:
                    raise TopicConfigError(f"{session} must be greater than {heartbeat}")
        if str(values.get(DLQ_TOPIC, "")).startswith("__"):
            raise TopicConfigError(f"{DLQ_TOPIC}: DLQ topic name must not start with '__'")

    def _check_bounds(self, name: str, value: Value, least: str | None, most: str | None) -> None:
        assert isinstance(value, int)
        low = value if least is None else self._config.integer(least)
        high = value if most is None else self._config.integer(most)
        if low <= value <= high:
            return
        if least is None:
            raise TopicConfigError(f"{name} must be less than or equal to {high}")
        if most is None:
            raise TopicConfigError(f"{name} must be greater than or equal to {low}")
        raise TopicConfigError(f"{name} must be in the range {low} to {high} inclusive.")

    def _check_assignor(self, name: Value) -> None:
        """Raise TopicConfigError unless a streams group can use this assignor; None means unset."""
        known = [
            "sticky" if assignor == STREAMS_ASSIGNOR_CLASS else assignor
            for assignor in self._config.items("group.streams.assignors")
        ]
        if name is not None and name not in known:
            raise TopicConfigError(
                f"{STREAMS_ASSIGNOR} '{name}' is not a registered task assignor. Registered "
                f"assignors are: [{', '.join(known)}]."
            )

    def set(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        """Replace the configs of groups; the new configs must be valid. Raises StorageError."""
        self._catalogue.put_group_configs(configs)

    def group_ids(self) -> list[str]:
        """Return the groups that have overrides."""
        return list(self._catalogue.group_configs)

    def clear(self) -> None:
        """Delete all overrides. Raises StorageError."""
        configured = self._catalogue.group_configs
        if configured:
            self.set({group_id: {} for group_id in configured})


def conflict(config: Config) -> str | None:
    """Return the error in the combination of the broker's group settings; None if valid.

    Source: the constructors of GroupCoordinatorConfig, ShareGroupConfig and KafkaConfig.
    """
    protocols = config.items("group.coordinator.rebalance.protocols")
    if "classic" not in protocols:
        return f"group.coordinator.rebalance.protocols: {','.join(protocols)} lacks classic"
    assignors = config.items("group.share.assignors")
    if len(assignors) > 1:
        return f"group.share.assignors: {','.join(assignors)} is more than one assignor"
    sessions = config.integer("group.share.max.share.sessions")
    if sessions < config.integer("group.share.max.size"):
        return (
            f"group.share.max.share.sessions: {sessions} is less than group.share.max.size, "
            f"{config.integer('group.share.max.size')}"
        )
    for name, (least, most) in _BOUNDS.items():
        setting = GROUP_SETTINGS[name].name
        for low, high in ((least, setting), (setting, most)):
            if low is not None and high is not None and config.integer(low) > config.integer(high):
                return f"{high}: {config.integer(high)} is less than {low}, {config.integer(low)}"
    for kind in _KINDS:
        session = f"group.{kind}.session.timeout.ms"
        heartbeat = f"group.{kind}.heartbeat.interval.ms"
        if config.integer(session) <= config.integer(heartbeat):
            return (
                f"{session}: {config.integer(session)} is not greater than {heartbeat}, "
                f"{config.integer(heartbeat)}"
            )
    return None


def shown(name: str, value: str) -> str | None:
    """Return the valid value of a group config as DescribeConfigs shows it."""
    return render(parse_client_config(_of_group(name, GROUP_SETTINGS[name]), value))


def _of_group(name: str, setting: Setting) -> Setting:
    """Return a broker setting's definition for a group config; an INT has no upper limit."""
    return setting._replace(name=name, most=INT_MAX if setting.kind is Kind.INT else setting.most)


def _check_tags(text: str) -> None:
    """Raise TopicConfigError for a duplicate or empty tag."""
    tags = [tag.strip() for tag in text.split(",")]
    if "" in tags and len(tags) > 1:
        raise TopicConfigError(f"Configuration '{RACK_TAGS}' values must not be empty.")
    if len(set(tags)) < len(tags):
        raise TopicConfigError(f"{RACK_TAGS} must not contain duplicate tag keys.")


def _check_offset_reset(text: str) -> None:
    """Raise TopicConfigError for an invalid value of share.auto.offset.reset.

    Source: ShareGroupAutoOffsetResetStrategy.Validator.
    """
    if text in ("earliest", "latest"):
        return
    duration_ms = None
    if text.startswith(_BY_DURATION):
        from protocol.durations import read_duration_ms

        duration_ms = read_duration_ms(text.removeprefix(_BY_DURATION))
    if duration_ms is not None and duration_ms >= 0:
        return
    raise TopicConfigError(
        f"Invalid value {text} for configuration {_AUTO_OFFSET_RESET}: Invalid value `{text}` for "
        f"configuration {_AUTO_OFFSET_RESET}. The value must be either 'earliest', 'latest' or of "
        "the format 'by_duration:<PnDTnHnMn.nS>'."
    )
