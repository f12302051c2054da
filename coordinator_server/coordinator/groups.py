"""GroupCoordinator: which group belongs where, and everything that concerns more than one group.

A group belongs to the partition of `__consumer_offsets` that its id hashes to, and is served by the
broker that leads the partition, once it is loaded (Kafka's GroupCoordinatorService and
CoordinatorRuntime). A broker that comes to lead a partition loads it (immigration); one that leads
it no longer lets its groups go (emigration). What a request does to a group happens in the group's
own task (`group_task`); here requests find their task.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import uuid4

from coordinator_server.coordinator.offsets_partition import OffsetsPartition, PartitionState
from coordinator_server.coordinator.task import GroupTask
from coordinator_server.events.log import LOG
from coordinator_server.group.classic.metadata import GroupMetadata
from coordinator_server.group.settings import GroupSettings
from coordinator_server.topics.names import OFFSETS_TOPIC
from protocol.errors import ErrorCode, ProtocolError
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable
    from typing import Any

    from coordinator_server.clock.broker_clock import BrokerClock, Timer
    from coordinator_server.config.config import Config
    from coordinator_server.coordinator.offsets_topic import OffsetsTopic
    from coordinator_server.rebalances.journal import RebalanceJournal
    from coordinator_server.topics.manager import Partition, Topic, TopicManager

_ERROR_IN = {
    PartitionState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    PartitionState.ACTIVE: ErrorCode.NONE,
    PartitionState.FAILED: ErrorCode.NOT_COORDINATOR,
    PartitionState.CLOSED: ErrorCode.NOT_COORDINATOR,
}
_EXPIRED_PER_TURN = 200  # groups told to look for expired offsets before the loop may go on


class GroupCoordinator:
    """All groups of a broker, by id in `tasks`.

    `node_id` is the broker's id, `offsets_topic` and `journal` are shared with the other brokers
    of the process.
    """

    def __init__(
        self,
        config: Config,
        clock: BrokerClock,
        topics: TopicManager,
        offsets_topic: OffsetsTopic,
        journal: RebalanceJournal,
        node_id: int,
    ) -> None:
        self.tasks: dict[str, GroupTask] = {}
        self._clock = clock
        self._topics = topics
        self._offsets_topic = offsets_topic
        self._journal = journal
        self._node_id = node_id
        self._settings = group_settings(config)
        self._check_interval_ms = config.integer("offsets.retention.check.interval.ms")
        # The partitions that this broker leads, by index, and the topic that they are of.
        self._led: dict[int, OffsetsPartition] = {}
        self._seen: tuple[Partition, ...] = ()
        self._loads: dict[OffsetsPartition, asyncio.Task[None]] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        self._leaves_snapshots = not config.ephemeral
        self._load_turn = asyncio.Lock()
        self._expiry_timer: Timer | None = None

    # --- life -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to load the groups that the log holds, and to look for expired offsets."""
        self._topics.on_deleted.append(self._on_topic_deleted)
        self._look()
        self._expire_later()

    def stop(self) -> None:
        """Answer what is parked with NOT_COORDINATOR and end every task."""
        self._is_stopping = True
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
        self._topics.on_deleted.remove(self._on_topic_deleted)
        for background in tuple(self._background):
            background.cancel()
        self._let_go(tuple(self._led))

    def immigrate(self, partition: Partition) -> None:
        """Begin to load the groups of a partition that this broker leads from now on."""
        if self._seen is not self._offsets_topic.partitions:
            self._look()  # and takes this one with the others
            return
        if partition.index >= len(self._seen) or partition.index in self._led:
            return  # added later, no group lives there; or seen before we were told
        assert partition.leader_id == self._node_id
        led = OffsetsPartition(partition, self._clock)
        self._led[partition.index] = led
        if led.is_blank:
            led.state = PartitionState.ACTIVE
        else:
            name = f"load {OFFSETS_TOPIC}-{partition.index}"
            self._loads[led] = self._in_background(self._load(led), name)

    def emigrate(self, index: int) -> None:
        """Let the groups of a partition go: nothing is written any more, the tasks end.

        What is in the mailboxes is handled, with this broker as leader if it is so still. Parked
        requests are answered NOT_COORDINATOR, a load in progress is given up.
        """
        self._let_go((index,))

    def emigrate_all(self) -> None:
        """Let every group go, as `emigrate` does."""
        self._let_go(tuple(self._led))

    def _let_go(self, indexes: Iterable[int]) -> None:
        """Close partitions, all of them before the first answer: more requests may follow it."""
        going = {self._led.pop(index) for index in indexes if index in self._led}
        groups: dict[OffsetsPartition, list[GroupMetadata]] = {}
        for led in going:
            if led.state is PartitionState.ACTIVE:
                groups[led] = []
            load = self._loads.pop(led, None)
            if load is not None:
                load.cancel()
        for group_id, task in tuple(self.tasks.items()):
            if task.partition in going:
                task.post(GroupMetadata.unload, (ErrorCode.NOT_COORDINATOR,))
                task.drain()
                task.stop()
                groups[task.partition].append(task.group)
                if self.tasks.get(group_id) is task:
                    del self.tasks[group_id]
        for led in going:
            led.state = PartitionState.CLOSED
        if self._leaves_snapshots and self._topics.partition_count(OFFSETS_TOPIC):
            for led, groups_of_led in groups.items():
                led.keep(groups_of_led)

    def _look(self) -> None:
        """Take what this broker leads of an offsets topic that it has not seen yet."""
        if self._seen is not self._offsets_topic.partitions:
            self._seen = self._offsets_topic.partitions
            for partition in self._seen:
                if partition.leader_id == self._node_id:
                    self.immigrate(partition)

    def _on_topic_deleted(self, topic: Topic) -> None:
        """Drop the offsets of a topic that is gone; all groups go with the offsets topic itself."""
        if topic.name == OFFSETS_TOPIC:
            self._let_go(tuple(self._led))
            return
        for task in tuple(self.tasks.values()):
            if topic.name in task.group.image.offsets:
                task.post(GroupMetadata.topics_deleted, ((topic.name,),))

    def _in_background(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def _load(self, partition: OffsetsPartition) -> None:
        """Replay one partition; its groups are served from then on."""
        started_ms = self._clock.now_ms()
        try:
            # One after the other: the slices of fifty loads in a row would stop everyone else.
            async with self._load_turn:
                groups = await partition.load(self._new_group)
        except (StorageError, ProtocolError) as error:
            partition.state = PartitionState.FAILED
            LOG.emit(
                "log.failed",
                topic=OFFSETS_TOPIC,
                partition=partition.index,
                reason=f"its groups cannot be loaded: {error}",
            )
            return
        finally:
            self._loads.pop(partition, None)
        # A load that was overtaken by an emigration is cancelled, and does not come so far.
        assert self._led.get(partition.index) is partition
        partition.state = PartitionState.ACTIVE
        kept = 0
        for group in groups.values():
            if group.image.is_blank:
                continue
            kept += 1
            self._adopt(group, partition).post(GroupMetadata.load_finished, ())
        LOG.emit(
            "coordinator.loaded",
            topic=OFFSETS_TOPIC,
            partition=partition.index,
            groups=kept,
            elapsed_ms=self._clock.now_ms() - started_ms,
        )

    # --- routing ----------------------------------------------------------------------------------

    def unavailable(self, group_id: str) -> ErrorCode:
        """Why the group of this id cannot be served now; NONE if it can."""
        error = self.ensure_offsets_topic()
        if error is not ErrorCode.NONE:
            return error
        led = self._led.get(self._offsets_topic.partition_of(group_id).index)
        return ErrorCode.NOT_COORDINATOR if led is None else _ERROR_IN[led.state]

    def ensure_offsets_topic(self) -> ErrorCode:
        """Make the offsets topic if it is not there yet. NONE, or why it cannot be made."""
        if self._is_stopping:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self._offsets_topic.ensure()
        self._look()
        return error

    def coordinator_of(self, group_id: str) -> int:
        """The id of the broker that coordinates a group, -1 for none; the topic has to be there."""
        return self._offsets_topic.partition_of(group_id).leader_id

    def create(self, group_id: str) -> GroupTask:
        """The task of a group that nobody knows yet; its first request records the group."""
        assert group_id not in self.tasks, group_id
        led = self._led[self._offsets_topic.partition_of(group_id).index]
        return self._adopt(self._new_group(group_id), led)

    @property
    def settings(self) -> GroupSettings:
        """The settings that all groups share."""
        return self._settings

    def busy_with(self, *, with_groups: bool) -> str:
        """What is being done for groups now, "" if nothing; `with_groups` asks each of them."""
        if self._background:
            return next(iter(self._background)).get_name()
        if with_groups:
            for group_id, task in self.tasks.items():
                if not task.is_idle:
                    return f"group {group_id}"
        return ""

    @property
    def is_loading(self) -> bool:
        """Whether some groups are not known yet because their partition is being loaded."""
        return any(one.state is PartitionState.LOADING for one in self._led.values())

    def _new_group(self, group_id: str) -> GroupMetadata:
        return GroupMetadata(group_id, self._settings, _new_member_id)

    def _adopt(self, group: GroupMetadata, partition: OffsetsPartition) -> GroupTask:
        task = GroupTask(
            group, self._clock, partition, self._new_group, self._on_settled, self._journal.take
        )
        self.tasks[group.group_id] = task
        return task

    def _on_settled(self, task: GroupTask) -> None:
        """Forget a group that is over, or that never came to be."""
        group_id = task.group.group_id
        if task.group.is_vacant and task.is_idle and self.tasks.get(group_id) is task:
            del self.tasks[group_id]
            task.stop()

    # --- maintenance ------------------------------------------------------------------------------

    async def expire_offsets(self) -> None:
        """Tell every group to drop what is too old; lets the loop run in between."""
        for number, task in enumerate(tuple(self.tasks.values()), start=1):
            task.post(GroupMetadata.expire_offsets, ())
            if number % _EXPIRED_PER_TURN == 0:
                await asyncio.sleep(0)

    def _expire_later(self) -> None:
        """Look for old offsets after offsets.retention.check.interval.ms, and so on."""
        delay_seconds = self._check_interval_ms / 1000
        self._expiry_timer = self._clock.call_maintenance(delay_seconds, self._begin_expiry)

    def _begin_expiry(self) -> None:
        async def expire() -> None:
            await self.expire_offsets()
            self._expire_later()

        self._in_background(expire(), "offset expiry")


def group_settings(config: Config) -> GroupSettings:
    """What the heart needs of the broker's settings."""
    return GroupSettings(
        min_session_timeout_ms=config.integer("group.min.session.timeout.ms"),
        max_session_timeout_ms=config.integer("group.max.session.timeout.ms"),
        initial_rebalance_delay_ms=config.integer("group.initial.rebalance.delay.ms"),
        max_size=config.integer("group.max.size"),
        offset_metadata_max_length=config.integer("offset.metadata.max.bytes"),
        offsets_retention_ms=config.integer("offsets.retention.minutes") * 60_000,
    )


def _new_member_id(prefix: str) -> str:
    """Client id or instance id, and a random uuid (Kafka's generateMemberId)."""
    return f"{prefix}-{uuid4()}"
