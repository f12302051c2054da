"""Collects the answers of several groups into the one answer of a request.

DescribeGroups, DeleteGroups and OffsetFetch name many groups, and each answers from its own task.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from coordinator_server.net.call import Call

Part = TypeVar("Part")


class Gathering(Generic[Part]):
    """The parts of one answer in the order of the request; `finish(parts)` gets them once."""

    __slots__ = ("_call", "_finish", "_missing", "_parts")

    def __init__(self, call: Call, count: int, finish: Callable[[Sequence[Part]], None]) -> None:
        self._call = call
        self._finish = finish
        self._missing = count
        self._parts: list[Part | None] = [None] * count
        if not count:
            finish(())

    def taker(self, index: int) -> Callable[[Part], None]:
        """What takes the part at `index`; to be called exactly once."""
        return partial(self.take, index)

    def take(self, index: int, part: Part) -> None:
        """Take one part; the last one makes the answer."""
        assert self._parts[index] is None, f"part {index} came twice"
        self._parts[index] = part
        self._missing -= 1
        if not self._missing and not self._call.answered:
            self._finish([one for one in self._parts if one is not None])

    def fail(self) -> None:
        """A part will never come: the whole request fails, unless it is answered."""
        self._call.fail()
