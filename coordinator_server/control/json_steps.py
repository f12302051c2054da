"""JSON of any size, written in steps, and JSON of limited size, read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from coordinator_server.control.errors import unique_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coordinator_server.steps import Computation

_PIECE_BYTES = 64 * 1024
"""Approximate size of the JSON that is written in one step."""


def _refuse_constant(name: str) -> None:
    """Refuse NaN and Infinity, which Python reads although they are not JSON."""
    raise ValueError(f"{name} is not a number")


_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=unique_names)


# --- writing --------------------------------------------------------------------------------------


def written(value: object) -> Computation[bytearray]:
    """Return a value as JSON in ASCII, with a newline at the end."""
    data = bytearray()
    for piece in _pieces(value):
        data += piece.encode()
        yield
    data += b"\n"
    return data


def written_compactly(value: object) -> Computation[bytes]:
    """Return a value as JSON in UTF-8, without spaces. Lone surrogates are kept."""
    if is_short(value):
        return _COMPACT.encode(value).encode("utf-8", "surrogatepass")
    data = bytearray()
    for piece in _COMPACT.iterencode(value):
        data += piece.encode("utf-8", "surrogatepass")
        yield
    return bytes(data)


def _pieces(value: object) -> Iterator[str]:
    """Yield JSON; short values are one piece."""
    if is_short(value):
        yield json.dumps(value)
    elif isinstance(value, dict):
        separator = "{"
        for name, item in value.items():
            yield f"{separator}{json.dumps(name)}: "
            separator = ", "
            yield from _pieces(item)
        yield "}"
    elif isinstance(value, list):
        separator = "["
        for item in value:
            yield separator
            separator = ", "
            yield from _pieces(item)
        yield "]"
    else:
        assert isinstance(value, str)
        yield '"'
        for start in range(0, len(value), _PIECE_BYTES):
            yield json.dumps(value[start : start + _PIECE_BYTES])[1:-1]
        yield '"'


def is_short(value: object) -> bool:
    """Return whether the JSON of a value has about _PIECE_BYTES bytes at most."""
    left, items = _PIECE_BYTES, [value]
    while items and left > 0:
        item = items.pop()
        if isinstance(item, str):
            left -= len(item)
        elif isinstance(item, dict):
            left -= 20 * len(item)
            if left > 0:
                items.extend(item.values())
        elif isinstance(item, list):
            left -= 5 * len(item)
            if left > 0:
                items.extend(item)
    return left > 0


# --- reading --------------------------------------------------------------------------------------


def read(data: bytes) -> Computation[Any]:
    """Return the value of a JSON text. Raises ValueError, and ControlError for a repeated name.

    The parser of the standard library runs in one step: `request.check_size` limits the number of
    values, and 16 MiB of strings, the longest body, take 20 to 90 ms.
    """
    text = data.decode()
    yield
    try:
        return _DECODER.decode(text)
    except RecursionError as error:
        raise ValueError("too many arrays and objects are nested") from error
