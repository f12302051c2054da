"""Log defaults: each log uses the settings of the broker that leads its partition.

The brokers of a process share their logs. A dynamic config of one broker applies to the partitions
that this broker leads, as if each broker had logs of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from coordinator_server.topics.topic_configs import log_defaults

if TYPE_CHECKING:
    from coordinator_server.config.config import Config
    from coordinator_server.steps import Steps
    from coordinator_server.topics.manager import TopicManager
    from coordinator_server.topics.topic import Partition
    from storage.log_config import LogConfig
    from storage.log_manager import LogManager


class LogDefaults:
    """Applies broker settings to the logs of `logs`; `configs` has the settings by broker id."""

    def __init__(self, logs: LogManager, configs: Mapping[int, Config]) -> None:
        self._logs = logs
        self._configs = configs
        self._topics: TopicManager | None = None
        self._defaults: dict[int, LogConfig] = {}
        if self._take():
            for _ in logs.reconfigure():  # reconfigure the logs that were recovered
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
