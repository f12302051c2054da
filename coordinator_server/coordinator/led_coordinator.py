"""LedCoordinator: what a coordinator does for the partitions of its topic that its broker leads.

Groups, transactional ids and the state of share partitions have one each.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from coordinator_server.coordinator.led_partitions import L

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from coordinator_server.clock.broker_clock import BrokerClock, Timer
    from coordinator_server.coordinator.led_partitions import LedPartitions
    from coordinator_server.topics.manager import TopicManager
    from coordinator_server.topics.topic import Partition, Topic
    from protocol.errors import ErrorCode


class LedCoordinator(Generic[L]):
    """What is common to them; subclasses set `_led`."""

    _led: LedPartitions[L, Any]

    def __init__(self, clock: BrokerClock, topics: TopicManager) -> None:
        self.clock = clock
        self._topics = topics
        self._timers: dict[Callable[[], None], Timer] = {}

    def start(self) -> None:
        """Begin to load what the log holds."""
        self._topics.on_deleted.append(self._on_topics_deleted)
        self._led.look()

    def stop(self) -> None:
        """Let everything go, as `emigrate` does, and begin nothing more."""
        self._led.close()
        for timer in self._timers.values():
            timer.cancel()
        self._topics.on_deleted.remove(self._on_topics_deleted)
        self.emigrate_all()

    def immigrate(self, partition: Partition) -> None:
        """Begin to load a partition that this broker leads from now on."""
        self._led.immigrate(partition)

    def renew(self, partition: Partition) -> None:
        """Go on with a partition whose leader epoch has risen while this broker leads it."""
        self._led.renew(partition)

    def emigrate(self, index: int) -> None:
        """Let the keys of a partition go: another broker goes on with them.

        Whoever waits for one of them is answered NOT_COORDINATOR.
        """
        self._unload(self._led.release((index,)))

    def emigrate_all(self) -> None:
        """Let every partition go, as `emigrate` does."""
        self._unload(self._led.release())

    @property
    def is_loading(self) -> bool:
        """Whether some keys are not known yet because their partition is being loaded."""
        return self._led.is_loading

    def ensure_topic(self) -> ErrorCode:
        """Create the coordinator's topic if it does not exist. NONE, or why it cannot be."""
        return self._led.ensure_topic()

    def _repeat(self, work: Callable[[], None], interval_ms: int) -> None:
        """Do maintenance each time that the interval has passed."""
        due = partial(self._do_and_repeat, work, interval_ms)
        self._timers[work] = self.clock.call_maintenance(interval_ms / 1000, due)

    def _do_and_repeat(self, work: Callable[[], None], interval_ms: int) -> None:
        work()
        self._repeat(work, interval_ms)

    @abstractmethod
    def _unload(self, closing: set[L]) -> None:
        """Close partitions that were released, and let their keys go."""

    @abstractmethod
    def _on_topics_deleted(self, topics: Mapping[str, Topic]) -> None:
        """Topics were deleted, perhaps the coordinator's own."""
