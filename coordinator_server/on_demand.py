"""OnDemand: a part of the broker that is built when it is first needed.

A broker without share groups, for example, imports none of the modules that serve share groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class OnDemand(Generic[T]):
    """Builds a part with `build` at the first `get`; `built` is None until then.

    `close` ends the part, by calling `end` with the part.
    """

    __slots__ = ("_build", "_end", "_is_closed", "built")

    def __init__(self, build: Callable[[], T], end: Callable[[T], None]) -> None:
        self.built: T | None = None
        self._build = build
        self._end = end
        self._is_closed = False

    def get(self) -> T:
        """Return the part; the first call builds the part."""
        part = self.built
        if part is None:
            part = self.built = self._build()
            if self._is_closed:
                self._end(part)
        return part

    def close(self) -> None:
        """End the part. A part that is not built yet is ended as soon as it is built."""
        self._is_closed = True
        if self.built is not None:
            self._end(self.built)
