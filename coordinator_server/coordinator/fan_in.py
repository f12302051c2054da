"""Fan-in: the responses of several groups become the one response of a request.

DescribeGroups, DeleteGroups and OffsetFetch name many groups, and each answers from its own task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from coordinator_server.core.caller import Caller

Response = TypeVar("Response")


class SplitCall(Protocol):
    """What a fan-in needs of the call of the whole request."""

    @property
    def caller(self) -> Caller:
        """Who sent the request."""

    @property
    def answered(self) -> bool:
        """Whether the request is answered."""

    def fail(self) -> None:
        """Answer the request with UNKNOWN_SERVER_ERROR, unless it is answered."""


class FanIn(Generic[Response]):
    """The parts of one response, in the order of the request.

    `finish(parts)` is called once, when all of the `count` parts are there.
    """

    __slots__ = ("_caller", "_finish", "_missing", "_parts", "call")

    def __init__(
        self, call: SplitCall, count: int, finish: Callable[[list[Response]], None]
    ) -> None:
        self.call = call
        self._caller = call.caller
        self._finish = finish
        self._missing = count
        self._parts: list[Response | None] = [None] * count
        if not count:
            finish([])

    def part(self, index: int) -> Part[Response]:
        """The call that takes the part at `index`."""
        return Part(self, index, self._caller)

    def take(self, index: int, response: Response) -> None:
        """Take one part; the last one makes the response."""
        assert self._parts[index] is None, f"part {index} came twice"
        self._parts[index] = response
        self._missing -= 1
        if not self._missing and not self.call.answered:
            self._finish([part for part in self._parts if part is not None])


class Part(Generic[Response]):
    """A GroupCall for one group of a request."""

    __slots__ = ("_index", "caller", "fan_in")

    def __init__(self, fan_in: FanIn[Response], index: int, caller: Caller) -> None:
        self.fan_in = fan_in
        self._index = index
        self.caller = caller

    @property
    def is_large(self) -> bool:
        """Never: the part of one group is small, however many groups a request names."""
        return False

    def reply(self, response: Response, /) -> None:
        """Hand in the part."""
        self.fan_in.take(self._index, response)

    def fail(self) -> None:
        """The part will never come: the whole request fails, unless it is answered."""
        self.fan_in.call.fail()
