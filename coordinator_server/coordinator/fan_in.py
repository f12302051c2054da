"""Fan-in: combine the responses of several groups into the response of one request.

DescribeGroups, DeleteGroups and OffsetFetch name many groups; each group's task produces its part
separately.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from coordinator_server.core.caller import Caller

Response = TypeVar("Response")


class SplitCall(Protocol):
    """A client's request, with the attributes and the method that FanIn requires."""

    @property
    def caller(self) -> Caller:
        """The client that sent the request."""

    @property
    def answered(self) -> bool:
        """Whether a response has been sent."""

    def fail(self) -> None:
        """Answer the request with UNKNOWN_SERVER_ERROR, unless a response has been sent."""


class FanIn(Generic[Response]):
    """Collects the parts of one response, in the order of the request.

    `finish(parts)` is called once, when all `count` parts have been taken.
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
        """Return the call that receives the part at `index`."""
        return Part(self, index, self._caller)

    def take(self, index: int, response: Response) -> None:
        """Store one part; the last part completes the response."""
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
        """Return False: the part of one group is small, even if the request names many groups."""
        return False

    def reply(self, response: Response, /) -> None:
        """Pass this group's response to the fan-in."""
        self.fan_in.take(self._index, response)

    def fail(self) -> None:
        """Fail the whole request, unless a response has been sent."""
        self.fan_in.call.fail()
