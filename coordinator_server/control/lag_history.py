"""The lag of each group over time, for the timeline of the page.

The control server samples the lag of all groups every few seconds, in steps. A sample is kept only
if the lag differs from the sample before: a group that stands still needs no memory, and a group
that is read all the time reaches back an hour. The history begins with the control server. It goes
on when the coordinator of a group stops or moves, and ends with the group.
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.control.errors import ControlError
from coordinator_server.control.feed import is_gone
from coordinator_server.control.lag import LagReader
from coordinator_server.control.pace import timed_steps
from coordinator_server.core.groups.settings import GroupKind
from coordinator_server.events.log import LOG

if TYPE_CHECKING:
    from coordinator_server.cluster import Cluster
    from coordinator_server.core.groups.group import Group
    from coordinator_server.steps import Steps

INTERVAL_SECONDS = 5.0
"""Pause between two rounds of samples."""

PAUSE_FACTOR = 100
"""Least pause, as a multiple of the time of a round, which takes at most 1 % of the time."""

KEPT_SAMPLES, KEPT_GROUPS = 720, 2_000
"""Limits of the samples of a group, and of the groups that have samples."""


class Sample(NamedTuple):
    """The lag of a group in records from a time on; None while it has no committed offset."""

    at_ms: int
    lag: int | None


class LagHistory:
    """The samples of all groups of a cluster. Call `start` first and `stop` at the end."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._samples: dict[str, deque[Sample]] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Take the first samples, and go on every few seconds."""
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(_on_end)

    def stop(self) -> None:
        """End the sampling."""
        if self._task is not None:
            self._task.cancel()

    def of_group(self, group_id: str) -> list[Sample]:
        """Return the samples of a group, the oldest first. Each is valid until the next."""
        return list(self._samples.get(group_id, ()))

    async def _run(self) -> None:
        while True:
            seconds = await self.sample()
            await asyncio.sleep(max(INTERVAL_SECONDS, seconds * PAUSE_FACTOR))

    async def sample(self) -> float:
        """Take a sample of each group; return the seconds that this took."""
        reader, began_s = LagReader(self._cluster), perf_counter()
        share_groups = [
            (broker.node_id, task.group)
            for broker in tuple(self._cluster.brokers.values())
            for task in tuple(broker.groups.tasks.values())
            if task.group.kind is GroupKind.SHARE and not task.group.is_dead
        ]
        try:
            await reader.read_share_groups(share_groups)
        except ControlError:  # a coordinator is not available now
            reader.unread_groups.update(group.group_id for _, group in share_groups)
        reading_s = perf_counter() - began_s
        return reading_s + await timed_steps(self.take(reader))

    def take(self, reader: LagReader) -> Steps:
        """Take a sample of each group, in steps."""
        for broker in tuple(self._cluster.brokers.values()):
            for task in tuple(broker.groups.tasks.values()):
                group_id = task.group.group_id
                has_place = group_id in self._samples or len(self._samples) < KEPT_GROUPS
                if has_place and not task.group.is_dead and group_id not in reader.unread_groups:
                    yield from self._sample(reader, task.group)
        for group_id in tuple(self._samples):
            if is_gone(self._cluster, "group", group_id):
                del self._samples[group_id]
            yield

    def _sample(self, reader: LagReader, group: Group) -> Steps:
        lag = yield from reader.of_group(group, with_times=False)
        samples = self._samples.setdefault(group.group_id, deque(maxlen=KEPT_SAMPLES))
        now_ms = self._cluster.clock.now_ms()
        if not samples or samples[-1].lag != lag.records:
            samples.append(Sample(now_ms, lag.records))


def _on_end(task: asyncio.Task[None]) -> None:
    """Log a bug that has ended the sampling."""
    if not task.cancelled() and task.exception() is not None:
        LOG.emit("control_task.failed", task="lag history", exc_info=task.exception())
