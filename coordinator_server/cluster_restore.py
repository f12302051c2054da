"""Replaces the cluster of a process by one that starts on other data, while the process runs on.

The new data is prepared in a subdirectory of the data directory (see `storage.replacement`). Then
the cluster is closed as at the end of the process and built again, on the same ports. Clients that
connect meanwhile wait. A crash at any time leaves the old or the new data for the next start.
"""

from __future__ import annotations

import asyncio
import gc
import shutil
import sys
from contextlib import suppress
from copy import copy
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.config.config import ConfigError
from coordinator_server.config.dynamic_configs import DynamicConfigs
from coordinator_server.events.log import LOG
from coordinator_server.net.acceptor import StartError, bind
from coordinator_server.security.listener_security import ListenerSecurity
from storage import replacement
from storage.errors import StorageError
from storage.topic_catalogue import TopicCatalogue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from coordinator_server.cluster import Cluster, Handover
    from coordinator_server.config.config import Listener
    from coordinator_server.steps import Steps

    Prepare = Callable[[], Awaitable[None]]
    Use = Callable[[Cluster], None]

CLOSING_SECONDS = 0.3
"""How long clients get to read the responses that are queued when the cluster is closed."""

_COLLECT_SECONDS = 1.0
"""Delay before the memory of a closed cluster is freed, so that no request refers to it."""

_MOST_COLLECTED = 150_000
"""Limit of the objects of the process for a full garbage collection, which then takes at most
about 50 ms. With more objects, some 1 500 objects of the closed cluster stay in memory."""


class NotRestoredError(Exception):
    """The cluster was not replaced; nothing has changed."""


class RestoreSource(NamedTuple):
    """The directory of the restored snapshot, and the user and address that requested this."""

    directory: str | None = None
    user: str | None = None
    remote: str | None = None


class ServedCluster:
    """The cluster that a process serves. Call `start` first and `stop` at the end.

    `new_cluster(handover)` builds a cluster. `failed` gets an exception if a replacement
    fails after its commit: the process then has no cluster. `prepare` is called before the old
    cluster is closed, and `use` with the new cluster.
    """

    def __init__(self, new_cluster: Callable[[Handover | None], Cluster]) -> None:
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.prepare: Prepare = _prepared
        self.use: Use = _used
        self._new_cluster = new_cluster
        self._replacing: asyncio.Task[float] | None = None
        self._is_closed = False
        self.is_stopping = False
        """Whether the process is about to stop, so that no replacement may begin."""
        self.cluster = self._started(None)

    def _started(self, handover: Handover | None) -> Cluster:
        """Return a new cluster that has started. Raises StartError, ConfigError."""
        try:
            cluster = self._new_cluster(handover)
            cluster.start()
        except (StorageError, OSError) as error:
            raise StartError(str(error)) from error
        return cluster

    async def listen(self) -> tuple[Listener, ...]:
        """Open the sockets and return the addresses of the first broker. Raises StartError."""
        return await self.cluster.listen()

    async def stop(self) -> None:
        """Finish a replacement in progress, and stop the cluster. Raises StorageError."""
        self.is_stopping = True
        if self._replacing is not None:
            await asyncio.gather(self._replacing, return_exceptions=True)
        if not self._is_closed:
            await self.cluster.stop()

    async def restore(self, source: RestoreSource | None = None) -> float:
        """Replace the cluster by one with the staged data; return how many seconds this took.

        If the caller is cancelled, the replacement continues; the staged data of a failed
        replacement is removed here. `source` is for the log. Raises NotRestoredError if nothing has
        changed, StartError if the new cluster cannot start.
        """
        self._replacing = asyncio.get_running_loop().create_task(
            self._restore(source or RestoreSource())
        )
        return await asyncio.shield(self._replacing)

    async def _restore(self, source: RestoreSource) -> float:
        former = self.cluster
        async with former.changing:
            started_s = perf_counter()
            handover = await self._commit(former)
            is_served = False
            try:
                await self.prepare()
                self._is_closed = True
                # Ignore the failure, because the data is about to be replaced.
                with suppress(StorageError):
                    await former.close(CLOSING_SECONDS)
                if former.shared.counts is not None:
                    # Wait one event loop iteration, in which the closed connections end.
                    await asyncio.sleep(0)
                    former.shared.counts.forget_closed()
                self.cluster = self._started(handover)
                self._is_closed = False
                await self.cluster.listen(handover)
                self.use(self.cluster)
                is_served = True
            finally:
                if not is_served:  # a process without a cluster must end, whatever the reason
                    self.failed.set_exception(_cannot_serve(former, sys.exc_info()[1]))
        duration_s = perf_counter() - started_s
        LOG.emit(
            "cluster.restored",
            directory=source.directory,
            duration_ms=round(duration_s * 1000),
            user=source.user,
            remote=source.remote,
        )
        self.cluster.step_runner.run_later(_COLLECT_SECONDS, _free(former))
        return duration_s

    async def _commit(self, former: Cluster) -> Handover:
        """Make the staged data the data of the next start. Raises NotRestoredError."""
        handover, is_committed = None, False
        former.servers.hold_requests()
        try:
            if self.is_stopping:
                raise NotRestoredError("the broker is stopping")
            handover = former.handover()
            commit(former, handover)
            is_committed = True
        except (ConfigError, StorageError, OSError, StartError) as error:
            raise NotRestoredError(str(error)) from error
        finally:
            if not is_committed:
                former.servers.release_requests()
                if handover is not None:
                    handover.close()
                with suppress(OSError):
                    await remove(Path(former.topics.volume()[0], replacement.STAGED))
        return handover


def _cannot_serve(former: Cluster, reason: BaseException | None) -> StartError:
    """Return the error of a restore that has failed, with the directory of the replaced data."""
    replaced = Path(former.shared.logs.path, replacement.REPLACED)
    kept = f"; the replaced data is in {replaced}" if replaced.exists() else ""
    return StartError(f"the restored data cannot be served: {reason}{kept}")


async def remove(directory: Path) -> None:
    """Remove a directory, if it exists, in a thread. Raises OSError."""
    if directory.exists():
        await asyncio.to_thread(shutil.rmtree, directory)


def commit(cluster: Cluster, handover: Handover) -> None:
    """Make the staged data the data of the next start.

    Raises StorageError, OSError, StartError, and ConfigError for settings that cannot be used.

    For the clients, no producer id is assigned twice, and the leader epoch of every partition
    rises, as after the unclean election of a replica that is behind.
    """
    logs, topics = cluster.shared.logs, cluster.topics
    catalogue = TopicCatalogue(logs.disk, f"{logs.path}/{replacement.STAGED}")
    _bind_new_listeners(cluster, catalogue, handover)
    used_ids = logs.catalogue.next_producer_id - catalogue.next_producer_id
    if used_ids > 0:
        catalogue.take_producer_ids(used_ids)
    known = {(log.topic, log.partition): log.leader_epoch for log in logs.open_logs()}
    records = []
    for record in catalogue.topics.values():
        topic = topics.topic(record.name)
        if topic is None:
            continue
        for partition in topic.partitions:
            key = partition.topic_name, partition.index
            known[key] = max(known.get(key, 0), partition.epoch)
        factor = topics.default_factor(record.name)
        leadership = tuple(
            placement._replace(
                leader_epoch=1 + max(placement.leader_epoch, known.get((record.name, index), 0))
            )
            for index, placement in enumerate(topics.leadership.at_start(record, factor))
        )
        records.append(record._replace(leadership=leadership))
    if records:
        catalogue.put(records)
    replacement.commit(logs.disk, logs.path)


def _bind_new_listeners(cluster: Cluster, catalogue: TopicCatalogue, handover: Handover) -> None:
    """Add sockets for listeners that only the dynamic configs in `catalogue` have.

    Ports of current listeners are skipped, because this process frees them before the next start.
    Raises StartError if another process uses one of the other ports, and ConfigError if TLS or SASL
    of a listener cannot be set up.
    """
    configs = {node_id: copy(config) for node_id, config in cluster.shared.configs.items()}
    DynamicConfigs(catalogue, configs)
    own_ports = {listener.port for known in handover.listeners.values() for listener in known}
    for node_id, config in configs.items():
        names = {listener.name for listener in config.listeners_of_start()}
        for listener in config.listeners():
            security = ListenerSecurity(config, listener.name)
            security.authentication(cluster.machine_clock, cluster.security, _take_no_turn)
            if listener.name in names and listener.port not in own_ports | {0}:
                handover.sockets[node_id][listener] = bind(listener)


def _take_no_turn(_: Callable[[], None]) -> None:
    pass


async def _prepared() -> None:
    pass


def _used(_: Cluster) -> None:
    pass


def _free(former: Cluster) -> Steps:
    """Free the memory of a closed cluster in steps of one partition.

    The objects of the current cluster are exempt from later garbage collections.
    """
    for topic in former.topics.all_topics():
        while topic.partitions:
            topic.partitions.pop()
            yield
    if not gc.get_freeze_count():
        return  # without frozen objects, Python's default garbage collection frees the memory
    gc.freeze()
    if gc.get_freeze_count() <= _MOST_COLLECTED:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
