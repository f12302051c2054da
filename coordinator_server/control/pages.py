"""Pages of lists: `limit` entries after the entry that `after` names."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from coordinator_server.control.request import ControlRequest

T = TypeVar("T")


def page_of_names(request: ControlRequest, names: Iterable[str]) -> tuple[list[str], str | None]:
    """Return the names of a page, sorted, and the value of `next`.

    `filter` of the request selects names that contain a text.
    """
    after, text = request.values.get("after"), request.values.get("filter")
    limit = request.values["limit"]
    wanted = (
        name for name in names if (after is None or name > after) and (text is None or text in name)
    )
    page = nsmallest(limit + 1, wanted)
    if len(page) <= limit:
        return page, None
    return page[:limit], page[limit - 1]


def page_of_places(
    request: ControlRequest, places: Iterable[tuple[Any, ...]]
) -> tuple[list[tuple[Any, ...]], str | None]:
    """Return the places of a page, and the value of `next`. `places` must be sorted.

    A place is a text followed by numbers, such as a topic and a partition; in `after` the numbers
    come first.
    """
    after, limit = _place(request.values.get("after")), request.values["limit"]
    page = list(islice((place for place in places if after is None or place > after), limit + 1))
    if len(page) <= limit:
        return page, None
    name, *numbers = page[limit - 1]
    return page[:limit], ":".join([*map(str, numbers), name])


def _place(after: str | None) -> tuple[Any, ...] | None:
    if after is None:
        return None
    numbers: list[int] = []
    rest = after
    while (head := rest.partition(":"))[1] and head[0].isdigit() and head[0].isascii():
        numbers.append(int(head[0][:20]))
        rest = head[2]
    return (rest, *numbers)
