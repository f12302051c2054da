"""The helpers as coroutines, with the same names, for tests that run in an event loop.

Each helper runs in a thread, so that clients in the event loop keep running meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from coordinator_server.testing.clock import Clock
from coordinator_server.testing.helpers import Helpers

if TYPE_CHECKING:
    from coordinator_server.testing.aio_api import AsyncControlApi

P = ParamSpec("P")
T = TypeVar("T")


def _in_thread(
    method: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return a method that calls the method of `self._wrapped` in a thread."""

    @wraps(method)
    async def call(self: Any, /, *arguments: P.args, **named: P.kwargs) -> T:
        import asyncio  # tests without an event loop do not need asyncio

        blocking: Callable[P, T] = getattr(self._wrapped, method.__name__)
        return await asyncio.to_thread(blocking, *arguments, **named)

    return call


class AsyncClock:
    """The methods of `Clock` as coroutines; available as `broker.aio.clock`."""

    def __init__(self, clock: Clock) -> None:
        self._wrapped = clock

    advance = _in_thread(Clock.advance)
    freeze = _in_thread(Clock.freeze)
    resume = _in_thread(Clock.resume)
    state = _in_thread(Clock.state)


class AsyncHelpers:
    """The methods of `Helpers` as coroutines; available as `broker.aio`."""

    def __init__(self, helpers: Helpers) -> None:
        self._wrapped = helpers

    @property
    def clock(self) -> AsyncClock:
        """Like `Helpers.clock`."""
        return AsyncClock(self._wrapped.clock)

    @property
    def api(self) -> AsyncControlApi:
        """The control API, with a coroutine for each route."""
        from coordinator_server.testing.aio_api import AsyncControlApi
        from coordinator_server.testing.aio_control import AsyncControl

        control = self._wrapped.control
        return AsyncControlApi(AsyncControl(control.address, control.token))

    reset = _in_thread(Helpers.reset)
    create_topic = _in_thread(Helpers.create_topic)
    topics = _in_thread(Helpers.topics)
    produce = _in_thread(Helpers.produce)
    consume = _in_thread(Helpers.consume)
    groups = _in_thread(Helpers.groups)
    group = _in_thread(Helpers.group)
    committed = _in_thread(Helpers.committed)
    wait_for_group = _in_thread(Helpers.wait_for_group)
