"""The helpers as coroutines, with the same names, for tests that run in an event loop.

Each helper runs in a thread, so that clients in the event loop keep running meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator_server.testing.aio_api import AsyncControlApi
    from coordinator_server.testing.clock import AsyncClock
    from coordinator_server.testing.groups import Group
    from coordinator_server.testing.helpers import Helpers
    from coordinator_server.testing.records import Content, Headers, Record, TopicPartition


class AsyncHelpers:
    """The methods of `Helpers` as coroutines; see `Helpers`."""

    def __init__(self, helpers: Helpers) -> None:
        self._helpers = helpers

    @property
    def clock(self) -> AsyncClock:
        """Like `Helpers.clock`."""
        from coordinator_server.testing.clock import AsyncClock

        return AsyncClock(self._helpers.clock)

    @property
    def api(self) -> AsyncControlApi:
        """The control API, with a coroutine for each route."""
        from coordinator_server.testing.aio_api import AsyncControlApi
        from coordinator_server.testing.aio_control import AsyncControl

        control = self._helpers.control
        return AsyncControlApi(AsyncControl(control.address, control.token))

    async def reset(self) -> None:
        """Like `Helpers.reset`."""
        await asyncio.to_thread(self._helpers.reset)

    async def create_topic(
        self,
        topic: str,
        partitions: int | None = None,
        configs: Mapping[str, object] | None = None,
    ) -> None:
        """Like `Helpers.create_topic`."""
        await asyncio.to_thread(self._helpers.create_topic, topic, partitions, configs)

    async def topics(self) -> dict[str, int]:
        """Like `Helpers.topics`."""
        return await asyncio.to_thread(self._helpers.topics)

    async def produce(
        self,
        topic: str,
        *values: Content,
        key: Content = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> list[Record]:
        """Like `Helpers.produce`."""
        return await asyncio.to_thread(
            self._helpers.produce,
            topic,
            *values,
            key=key,
            partition=partition,
            headers=headers,
            timestamp_ms=timestamp_ms,
        )

    async def consume(
        self,
        topic: str,
        count: int | None = 1,
        *,
        partition: int | None = None,
        offset: int = 0,
        timeout: float = 10.0,
    ) -> list[Record]:
        """Like `Helpers.consume`."""
        return await asyncio.to_thread(
            self._helpers.consume,
            topic,
            count,
            partition=partition,
            offset=offset,
            timeout=timeout,
        )

    async def groups(self) -> dict[str, str]:
        """Like `Helpers.groups`."""
        return await asyncio.to_thread(self._helpers.groups)

    async def group(self, group: str) -> Group | None:
        """Like `Helpers.group`."""
        return await asyncio.to_thread(self._helpers.group, group)

    async def committed(self, group: str) -> dict[TopicPartition, int]:
        """Like `Helpers.committed`."""
        return await asyncio.to_thread(self._helpers.committed, group)

    async def wait_for_group(
        self,
        group: str,
        *,
        state: str | None = "Stable",
        members: int | None = None,
        timeout: float = 10.0,
    ) -> Group:
        """Like `Helpers.wait_for_group`."""
        return await asyncio.to_thread(
            self._helpers.wait_for_group, group, state=state, members=members, timeout=timeout
        )
