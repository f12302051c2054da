"""A client of the control server for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from coordinator_server.testing.control import (
    Control,
    EventReader,
    content_of,
    json_of,
)


class AsyncControl:
    """The methods of `Control` as coroutines; see `Control`."""

    def __init__(self, address: tuple[str, int], token: str | None = None) -> None:
        self._control = Control(address, token)

    async def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, object] | None = None,
        *,
        timeout: float = 30.0,
    ) -> dict[str, Any]:
        """Like `Control.call`; `timeout` applies to the whole request."""
        content = await self._ask(method, path, query, body, timeout)
        return json_of(content, f"{method} {path}")

    async def text(
        self, path: str, query: Mapping[str, object] | None = None, *, timeout: float = 30.0
    ) -> str:
        """Like `Control.text`."""
        return (await self._ask("GET", path, query, None, timeout)).decode()

    async def events(
        self, path: str, query: Mapping[str, object] | None = None, *, timeout: float = 60.0
    ) -> AsyncIterator[dict[str, Any]]:
        """Like `Control.events`."""
        request = f"GET {path}"
        events = EventReader(request)
        writer = None
        try:
            reader, writer = await asyncio.open_connection(*self._control.address)
            writer.write(self._control.encoded("GET", path, query, None))
            while part := await asyncio.wait_for(reader.read(1 << 16), timeout):
                for event in events.read(part):
                    yield event
        except OSError as error:
            raise self._control.unreachable(request, error) from error
        finally:
            if writer is not None:
                writer.close()
        events.end()

    async def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None,
        body: Mapping[str, object] | None,
        timeout: float,
    ) -> bytes:
        request = f"{method} {path}"
        writer = None
        try:
            async with asyncio.timeout(timeout):
                reader, writer = await asyncio.open_connection(*self._control.address)
                writer.write(self._control.encoded(method, path, query, body))
                received = await reader.read(-1)
        except OSError as error:
            raise self._control.unreachable(request, error) from error
        finally:
            if writer is not None:
                writer.close()
        return content_of(received, request)
