"""Dynamic broker configs: set at run time, for one broker or cluster-wide.

The configs are stored in the catalogue of the data directory, by broker id; "" stands for all
brokers. The first start stores its `min.insync.replicas` as a cluster-wide config; later starts do
not change this config, as in Kafka with eligible leader replicas (KIP-966). Each change updates the
`Config` of each broker; components that cache settings register in `on_changed`. A value that has
become invalid, because the broker was started with other settings, has no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from copy import copy
from typing import TYPE_CHECKING, Protocol

from coordinator_server.config.config import ConfigError
from coordinator_server.config.dynamic_checks import names_error, store_problem, values_error
from coordinator_server.config.dynamic_settings import (
    CLUSTER_LEVEL_LISTENER,
    DYNAMIC,
    MIN_IN_SYNC,
    SECURITY,
    setting_of,
    split_listener,
    synonyms_of,
)
from coordinator_server.config.inert_settings import REPLICATION_QUOTAS
from coordinator_server.config.listener_checks import LISTENERS, PROTOCOLS, listeners_problem
from coordinator_server.config.settings import SETTINGS
from coordinator_server.steps import run_all
from storage.config_def import InvalidValueError, Value, parse, render

if TYPE_CHECKING:
    from coordinator_server.config.config import Config
    from coordinator_server.steps import Steps
    from storage.topic_catalogue import TopicCatalogue

ALL_BROKERS = ""


class Layers:
    """The settings that a broker would have with other dynamic configs. Call `read` first.

    `fixed_listeners` are the listeners, in lower case, with configs that cannot be changed while
    the listener is running.
    """

    def __init__(self, config: Config, own: Mapping[str, str], shared: Mapping[str, str]) -> None:
        self.config = config
        self.texts = own, shared
        self.values: dict[str, Value] = {}
        self.of_listeners: dict[str, dict[str, Value]] = {}
        self.fixed_listeners: set[str] = set()

    def read(self) -> Steps:
        """Parse the configs, a few in each step."""
        own, shared = self.texts
        for name, text in {**shared, **own}.items():
            yield
            listener, stem = split_listener(name)
            if listener is not None and stem not in SECURITY | CLUSTER_LEVEL_LISTENER:
                self.fixed_listeners.add(listener.lower())
            setting = setting_of(name)
            if setting is None or name in REPLICATION_QUOTAS:
                continue
            if listener is None and name not in DYNAMIC:
                continue
            try:
                value = parse(setting, text)
            except InvalidValueError:
                continue
            if listener is None:
                # As in Kafka, the config also overrides static settings of its synonyms in coarser
                # units (seconds, minutes).
                for unit in synonyms_of(name):
                    self.values.setdefault(unit, SETTINGS[unit].default)
                self.values[name] = value
            else:
                self.of_listeners.setdefault(listener.lower(), {})[stem.lower()] = value

    def drop_unusable_listeners(self) -> None:
        """Return to the static listeners if the dynamic ones are invalid."""
        if listeners_problem(self, self.config) is not None:
            for name in (LISTENERS, PROTOCOLS):
                self.values.pop(name, None)

    def value(self, name: str) -> Value:
        """Return the value that a broker setting would have."""
        if name in self.values:
            return self.values[name]
        return self.config.static_value(name)

    def listener_value(self, listener: str, name: str) -> Value:
        """Return the value that a listener setting would have."""
        own = self.of_listeners.get(listener.lower(), {})
        return own[name] if name in own else self.value(name)


class Listeners(Protocol):
    """The listeners of a broker."""

    def check(self, config: Config) -> None:
        """Raise ConfigError unless the listeners can use the certificates of these settings."""


class DynamicConfigs:
    """The dynamic configs in `catalogue`. Changes are applied to `configs`, by broker id."""

    def __init__(self, catalogue: TopicCatalogue, configs: Mapping[int, Config]) -> None:
        self._catalogue = catalogue
        self._configs = configs
        self.on_changed: list[Callable[[], Steps]] = []
        """Called after settings of brokers have changed; the returned steps apply the change."""
        self.servers: Mapping[int, Listeners] = {}
        """The listeners of running brokers by id, which check certificates."""
        if MIN_IN_SYNC not in self.own(ALL_BROKERS):
            shared = {**self._of_start(), **self.own(ALL_BROKERS)}
            catalogue.put_broker_configs({ALL_BROKERS: shared})
        run_all(self._follow())

    def own(self, name: str) -> Mapping[str, str]:
        """Return the configs of a broker, or the cluster-wide configs, as they were set."""
        return self._catalogue.broker_configs.get(name, {})

    def _of_start(self) -> dict[str, str]:
        """Return the cluster-wide configs that the first start sets."""
        config = next(iter(self._configs.values()))
        return {MIN_IN_SYNC: render(config.static_value(MIN_IN_SYNC)) or "1"}

    def error(
        self, node_id: int, name: str, configs: Mapping[str, str]
    ) -> Generator[None, None, str | None]:
        """Return Kafka's error for new configs of resource `name`, or None if valid; in steps.

        The configs are checked against the settings of broker `node_id`. Source:
        DynamicBrokerConfig.validate.
        """
        is_for_all = name == ALL_BROKERS
        problem = yield from names_error(configs, is_for_all=is_for_all)
        if problem is not None:
            return problem
        config = self._configs[node_id]
        own, shared = config.dynamic
        own, shared = (own, configs) if is_for_all else (configs, shared)
        layers = Layers(config, own, shared)
        yield from layers.read()
        problem = values_error(config, layers)
        server = self.servers.get(node_id)
        if problem is None and server is not None:
            candidate = copy(config)
            candidate.set_dynamic(layers.texts, layers.values, layers.of_listeners)
            try:
                server.check(candidate)
            except ConfigError as error:
                problem = store_problem(str(error))
        return problem

    def set(self, configs: Mapping[str, Mapping[str, str]]) -> Steps:
        """Replace the configs of brokers; the new configs must be valid.

        The configs are stored after the first step and in effect after the last. If the first step
        raises StorageError, nothing is changed.
        """
        self._catalogue.put_broker_configs(configs)
        yield from self._follow()
        for changed in self.on_changed:
            yield from changed()

    def clear(self) -> Steps:
        """Reset all dynamic configs to their state after a first start.

        The first step may raise StorageError.
        """
        wanted: dict[str, dict[str, str]] = {name: {} for name in self._catalogue.broker_configs}
        wanted[ALL_BROKERS] = self._of_start()
        changed = {name: own for name, own in wanted.items() if own != self.own(name)}
        if changed:
            yield from self.set(changed)

    def _follow(self) -> Steps:
        """Apply the stored configs to the brokers.

        If the stored configs change between the steps, the changes are applied as well.
        """
        for node_id, config in self._configs.items():
            while (texts := self._texts(node_id)) != config.dynamic:
                layers = Layers(config, *texts)
                yield from layers.read()
                layers.drop_unusable_listeners()
                if texts == self._texts(node_id):
                    config.set_dynamic(layers.texts, layers.values, layers.of_listeners)

    def _texts(self, node_id: int) -> tuple[dict[str, str], dict[str, str]]:
        return dict(self.own(str(node_id))), dict(self.own(ALL_BROKERS))
