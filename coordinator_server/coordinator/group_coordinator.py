"""GroupCoordinator: routes requests to groups and handles work that concerns several groups.

A group belongs to the partition of `__consumer_offsets` that its id hashes to. The broker that
leads the partition serves the group once the partition is loaded (Kafka's GroupCoordinatorService
and CoordinatorRuntime). A broker that becomes leader of a partition loads it (immigration); a
broker that loses leadership unloads its groups (emigration). Requests are applied in the group's
task (`coordinator.task`); `submit` posts them to the task.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from coordinator_server.coordinator.group_apis import row_of
from coordinator_server.coordinator.offsets_partition import OffsetsPartition
from coordinator_server.coordinator.operations import InternalOperation, PendingRequest
from coordinator_server.coordinator.task import GroupTask
from coordinator_server.core.groups.classic.metadata import GroupMetadata
from coordinator_server.core.groups.kinds import load_finished
from coordinator_server.core.groups.retention import expire_offsets, topics_deleted
from coordinator_server.core.groups.transactional_commit import TransactionalCommit
from coordinator_server.events.log import LOG
from coordinator_server.runtime.coordinator import CoordinatorRuntime
from coordinator_server.runtime.partition import PartitionState
from coordinator_server.topics.names import OFFSETS_TOPIC
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from coordinator_server.clock.broker_clock import BrokerClock
    from coordinator_server.clock.step_runner import StepRunner
    from coordinator_server.coordinator.operations import GroupCall
    from coordinator_server.core.groups.api import A, GroupApi, Q
    from coordinator_server.core.groups.effects import StateCall, StateErrors
    from coordinator_server.core.groups.explain import Rebalance
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.groups.settings import GroupEnvironment, GroupSettings
    from coordinator_server.core.share_partitions.persister import SharePersister
    from coordinator_server.events.log import EventLog
    from coordinator_server.runtime.topic import CoordinatorTopic
    from coordinator_server.steps import Steps
    from coordinator_server.topics.manager import TopicManager
    from coordinator_server.topics.topic import Partition, Topic
    from protocol.apis.list_groups import ListedGroup
    from protocol.control_record import EndTransaction

# Number of groups processed per step when offsets expire; other work runs between the steps.
_EXPIRED_PER_STEP = 100


class GroupCoordinator(CoordinatorRuntime[OffsetsPartition, "Group"]):
    """All groups of a broker, by id in `tasks`.

    All brokers of the process share `topics` and `offsets_topic`. New groups get `environment`.
    `explain(group_id, rebalance)` is called for each rebalance that has ended. `persister()`
    returns the client of the share coordinator. If `keeps_snapshots` is set, a clean stop saves
    snapshots of the groups.
    """

    keys = "groups"

    def __init__(
        self,
        environment: GroupEnvironment,
        clock: BrokerClock,
        step_runner: StepRunner,
        topics: TopicManager,
        offsets_topic: CoordinatorTopic,
        *,
        node_id: int,
        explain: Callable[[str, Rebalance], None],
        persister: Callable[[], SharePersister],
        keeps_snapshots: bool = True,
        log: EventLog = LOG,
    ) -> None:
        super().__init__(clock, step_runner, topics, offsets_topic, node_id=node_id, log=log)
        self.tasks: dict[str, GroupTask] = {}
        self._settings = environment.settings
        self._environment = environment
        self.explain = explain
        self.persister = persister
        self._keeps_snapshots = keeps_snapshots
        # (partition, producer id) -> ids of groups in the producer's open transaction
        self._in_transaction: dict[tuple[int, int], set[str]] = {}
        self._is_expiring = False

    # --- start and stop ---------------------------------------------------------------------------

    def start(self) -> None:
        """Start loading groups from the log and expiring offsets periodically."""
        super().start()
        self._repeat(self.expire_offsets, self._settings.offsets_retention_check_interval_ms)

    def settings_changed(self, settings: GroupSettings) -> None:
        """Apply settings that were changed at run time."""
        self._settings = self._environment.settings = settings

    def take_over(self, partition: Partition) -> OffsetsPartition:
        """Return the offsets of a partition that this broker now leads."""
        return OffsetsPartition(partition, self.clock)

    def _unload(self, closing: set[OffsetsPartition]) -> None:
        """Unload the groups of `closing` and close these partitions.

        The caller has already removed the partitions, because a response sent here may be followed
        by another request. A partition with a group that could not be reloaded gets no snapshot,
        because the log holds records that memory lacks.
        """
        groups: dict[OffsetsPartition, list[Group]] = {}
        for partition in closing:
            if partition.state is PartitionState.ACTIVE:
                groups[partition] = []
        for group_id, task in tuple(self.tasks.items()):
            if task.partition in closing:
                task.unload()
                if task.is_broken:
                    groups.pop(task.partition, None)
                elif task.partition in groups:
                    groups[task.partition].append(task.group)
                if self.tasks.get(group_id) is task:
                    del self.tasks[group_id]
        for partition in closing:
            partition.state = PartitionState.CLOSED
        indexes_closed = {partition.index for partition in closing}
        for key in [key for key in self._in_transaction if key[0] in indexes_closed]:
            del self._in_transaction[key]
        if self._keeps_snapshots and self._topics.partition_count(OFFSETS_TOPIC):
            for partition, of_partition in groups.items():
                partition.save_snapshot(of_partition)

    def _forget(self, topics: Mapping[str, Topic]) -> None:
        """Delete the offsets of deleted topics."""
        topic_ids = {topic.topic_id for topic in topics.values()}
        for task in tuple(self.tasks.values()):
            offsets = task.group.offsets
            deleted = topics.keys() & (offsets.by_topic.keys() | offsets.pending.by_topic.keys())
            if deleted or task.group.has_state_of(topic_ids):
                delete = partial(topics_deleted, topics=sorted(deleted), topic_ids=topic_ids)
                task.post(InternalOperation(delete, is_exclusive=True))

    # --- loading ----------------------------------------------------------------------------------

    def _load(self, partition: OffsetsPartition, groups: dict[str, Group]) -> Steps:
        """Replay one partition into `groups`."""
        yield from partition.load(self.new_group, groups)

    def _serve(
        self, partition: OffsetsPartition, groups: dict[str, Group], elapsed_ms: int
    ) -> None:
        """Create a task for each loaded group and log the load."""
        loaded = 0
        for group in groups.values():
            if group.is_blank:
                continue
            loaded += 1
            task = self.adopt(group, partition)
            for producer_id in group.offsets.pending.producer_ids:
                self._note_transaction(task, producer_id)
            task.post(LOAD_FINISHED)
        self.log.emit(
            "coordinator.loaded",
            topic=OFFSETS_TOPIC,
            partition=partition.index,
            groups=loaded,
            elapsed_ms=elapsed_ms,
        )

    # --- requests ---------------------------------------------------------------------------------

    def submit(self, call: GroupCall[A], request: Q) -> None:
        """Post a request to its group, or reply immediately if no group can serve it.

        The row of the API in `group_apis` defines validation, the response for a missing group, and
        whether the request creates the group.
        """
        api: GroupApi[Q, A] = row_of(type(request))
        if api.protocol is not None and api.protocol not in self._settings.protocols:
            call.reply(api.refuse(request, call.caller, ErrorCode.UNSUPPORTED_VERSION))
            return
        if api.validate is not None:
            error = api.validate(request, call.caller, self._settings)
            if error is not ErrorCode.NONE:
                if api.refuse_invalid is None:
                    call.reply(api.refuse(request, call.caller, error))
                else:
                    call.reply(api.refuse_invalid(request, call.caller, error, self._settings))
                return
        task = self.tasks.get(request.group_id)
        if task is None:
            partition, error = self.partition_of(request.group_id)
            if partition is None or error is not ErrorCode.NONE:
                if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    error = api.error_while_loading
                call.reply(api.refuse(request, call.caller, error))
                return
            if api.creates_group is None or not api.creates_group(request):
                call.reply(api.missing(request, call.caller))
                return
            task = self._create(request.group_id, partition)
        if isinstance(request, TransactionalCommit):
            self._note_transaction(task, request.producer.producer_id)
        task.post(PendingRequest(api, call, request))

    def listed_groups(self) -> Iterator[ListedGroup]:
        """Yield the ListGroups entry of every group that exists when the iteration starts."""
        for task in tuple(self.tasks.values()):
            yield task.group.listed()

    def busy_with(self, *, with_groups: bool) -> str:
        """Return a description of pending work, "" if there is none.

        `with_groups` also checks the mailbox of each group.
        """
        if self.is_loading:
            return f"loading {OFFSETS_TOPIC}"
        if self._is_expiring:
            return "offset expiry"
        if with_groups:
            for group_id, task in self.tasks.items():
                if not task.is_idle:
                    return f"group {group_id}"
        return ""

    def _create(self, group_id: str, partition: OffsetsPartition) -> GroupTask:
        """Create the task of a new group. The first request writes the group's records."""
        assert group_id not in self.tasks, group_id
        return self.adopt(self.new_group(group_id), partition)

    def new_group(self, group_id: str) -> Group:
        """Return an empty classic group. Replaying a record may change its kind."""
        return GroupMetadata(group_id, self._environment)

    def adopt(self, group: Group, partition: OffsetsPartition) -> GroupTask:
        """Create and return the task of a group."""
        task = self.tasks[group.group_id] = GroupTask(group, partition, self)
        return task

    def on_settled(self, task: GroupTask) -> None:
        """Remove a group that has ended or was never created."""
        group_id = task.group.group_id
        if task.is_done and self.tasks.get(group_id) is task:
            del self.tasks[group_id]
            task.stop()

    # --- share groups -----------------------------------------------------------------------------

    def ask(self, task: GroupTask, call: StateCall) -> None:
        """Send a call to the share coordinator in steps; the response is posted to the task."""
        from coordinator_server.coordinator.state_calls import StateAnswered, carry_out

        def done(errors: StateErrors) -> None:
            answered = StateAnswered(call, errors)
            if self.tasks.get(group_id) is task:
                task.post_answer(answered, call)
            else:
                answered.resubmit(self)

        group_id = task.group.group_id
        self.step_runner.run(carry_out(self.persister(), group_id, call, done))

    # --- transactions -----------------------------------------------------------------------------

    def _note_transaction(self, task: GroupTask, producer_id: int) -> None:
        """Record that a group has pending offsets in a producer's transaction."""
        key = task.partition.index, producer_id
        self._in_transaction.setdefault(key, set()).add(task.group.group_id)

    def end_transaction(
        self, index: int, end: EndTransaction, done: Callable[[ErrorCode], None]
    ) -> None:
        """End a transaction in one partition: append the marker and complete the pending offsets.

        Requests already in the groups' mailboxes are applied first, so that the transaction's
        commits precede the marker in the log. `done` is called with NONE once the marker is flushed
        as configured, or with an error; CONCURRENT_TRANSACTIONS means that a group is running a
        large operation.
        """
        partition, error = self.partition_at(index)
        if partition is None or error is not ErrorCode.NONE:
            done(error)
            return
        group_ids = self._in_transaction.get((index, end.producer_id), ())
        for task in [self.tasks[group_id] for group_id in group_ids if group_id in self.tasks]:
            # A callback of this task called this method, so retry when the task is done.
            if task.is_draining:
                self.clock.call_soon(partial(self.end_transaction, index, end, done))
                return
            if not task.settle():
                done(ErrorCode.CONCURRENT_TRANSACTIONS)
                return
        error = partition.append_end(end)
        if error is not ErrorCode.NONE:
            done(error)
            return
        for group_id in self._in_transaction.pop((index, end.producer_id), ()):
            if group_id in self.tasks:
                self.tasks[group_id].group.replay_end(end.producer_id, commits=end.commits)
        partition.after_flush(lambda error: done(ErrorCode.NONE if error is None else error.code))

    # --- offset expiry ----------------------------------------------------------------------------

    def expire_offsets(self) -> None:
        """Delete expired offsets of every group, a few groups per step."""
        if not self._is_expiring:
            self._is_expiring = True
            self.step_runner.run(self._expire_all())

    def _expire_all(self) -> Iterator[None]:
        for number, task in enumerate(tuple(self.tasks.values()), start=1):
            task.post(_EXPIRE_OFFSETS)
            if number % _EXPIRED_PER_STEP == 0:
                yield
        self._is_expiring = False


LOAD_FINISHED = InternalOperation(load_finished)
_EXPIRE_OFFSETS = InternalOperation(expire_offsets, is_exclusive=True)
