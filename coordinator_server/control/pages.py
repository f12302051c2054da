"""Pages of lists: `limit` entries after the entry that `after` names."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from coordinator_server.control.request import ControlRequest
    from coordinator_server.steps import Computation

T = TypeVar("T", bound="str | tuple[Any, ...]")

_SORTED_AT_ONCE = 1_000
_ITEMS_PER_STEP = 20


def page_of_names(
    request: ControlRequest, names: Iterable[str | None]
) -> Computation[tuple[list[str], str | None]]:
    """Return the names of a page, sorted, and the value of `next`, in steps.

    `filter` of the request selects names that contain a text. None in `names` is left out; it lets
    a search end a step without a name.
    """
    after, text = request.values.get("after"), request.values.get("filter")
    limit = request.values["limit"]
    wanted = (
        name
        if name is not None and (after is None or name > after) and (text is None or text in name)
        else None
        for name in names
    )
    page = yield from first(wanted, limit + 1)
    if len(page) <= limit:
        return page, None
    return page[:limit], page[limit - 1]


def page_of_places(
    request: ControlRequest, places: Iterable[tuple[Any, ...] | None]
) -> Computation[tuple[list[tuple[Any, ...]], str | None]]:
    """Return the places of a page, sorted, and the value of `next`, in steps.

    A place is a text followed by numbers, such as a topic and a partition; in `after` the numbers
    come first. None is left out, see `page_of_names`.
    """
    after, limit = _place(request.values.get("after")), request.values["limit"]
    page = yield from first(
        (
            place if place is not None and (after is None or place > after) else None
            for place in places
        ),
        limit + 1,
    )
    if len(page) <= limit:
        return page, None
    name, *numbers = page[limit - 1]
    return page[:limit], ":".join([*map(str, numbers), name])


def first(items: Iterable[T | None], limit: int) -> Computation[list[T]]:
    """Return the smallest `limit` items, sorted, in steps. None is left out."""
    runs: list[list[T]] = [[]]
    for number, item in enumerate(items, start=1):
        if item is not None:
            runs[-1].append(item)
            if len(runs[-1]) == _SORTED_AT_ONCE:
                runs[-1].sort()
                runs.append([])
        if not number % _ITEMS_PER_STEP:
            yield
    runs[-1].sort()
    page: list[T] = []
    for item in islice(merge(*runs), limit):
        page.append(item)
        if not len(page) % _ITEMS_PER_STEP:
            yield
    return page


def _place(after: str | None) -> tuple[Any, ...] | None:
    if after is None:
        return None
    numbers: list[int] = []
    rest = after
    while (head := rest.partition(":"))[1] and head[0].isdigit() and head[0].isascii():
        numbers.append(int(head[0][:20]))
        rest = head[2]
    return (rest, *numbers)
