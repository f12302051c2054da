"""JSON of any size, read and written in steps."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from coordinator_server.steps import Computation

_PIECE_BYTES = 64 * 1024
"""Approximate size of the JSON that is written in one step."""

_WINDOW_CHARACTERS = 4096
"""Arrays and objects up to this length are read in one step."""

MOST_LEVELS = 200
"""Limit of nested arrays and objects in JSON that is read in steps."""

_LONG_BYTES = 256 * 1024
"""JSON above this size is read in steps."""


def _refuse_constant(name: str) -> None:
    """Refuse NaN and Infinity, which Python reads although they are not JSON."""
    raise ValueError(f"{name} is not a number")


_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_scan_once: Callable[[str, int], tuple[Any, int]]
_scan_once = _DECODER.scan_once  # type: ignore[attr-defined]  # missing in the stubs
_space = re.compile(r"[ \t\n\r]*").match


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
    """Return the value of a JSON text, in steps if it is long. Raises ValueError."""
    text = data.decode()
    if len(data) <= _LONG_BYTES:
        try:
            return _DECODER.decode(text)
        except RecursionError as error:
            raise ValueError("too many arrays and objects are nested") from error
    yield
    position = _after_space(text, 0)
    containers: list[Any] = []
    names: list[str] = []
    while True:
        if text[position : position + 1] in ("[", "{"):
            value, position = _short_container(text, position)
            if value is None:
                if len(containers) == MOST_LEVELS:
                    raise ValueError(f"more than {MOST_LEVELS} arrays and objects are nested")
                position = _opened(text, position, containers, names)
                yield
                continue
        else:
            value, position = _scalar(text, position)
        while True:
            position = _after_space(text, position)
            if not containers:
                if position != len(text):
                    raise json.JSONDecodeError("Extra data", text, position)
                return value
            letter, container = text[position : position + 1], containers[-1]
            is_list = isinstance(container, list)
            if is_list:
                container.append(value)
            else:
                container[names.pop()] = value
            if letter == ",":
                position = _after_space(text, position + 1)
                if not is_list:
                    position = _name(text, position, names)
                break
            if letter != ("]" if is_list else "}"):
                raise json.JSONDecodeError("Expecting ',' delimiter", text, position)
            position += 1
            value = containers.pop()
        yield


def _after_space(text: str, position: int) -> int:
    match = _space(text, position)
    assert match is not None, "the pattern matches no space, too"
    return match.end()


def _short_container(text: str, position: int) -> tuple[Any, int]:
    """Return a short array or object and the position after it; None and its position otherwise.

    A malformed array or object is not short: the error is found when its items are read.
    """
    window = text[position : position + _WINDOW_CHARACTERS]
    try:
        value, length = _DECODER.raw_decode(window)
    except (ValueError, RecursionError):
        return None, position
    return value, position + length


def _opened(text: str, position: int, containers: list[Any], names: list[str]) -> int:
    """Open an array or object, and return the position of its first value."""
    is_list = text[position] == "["
    containers.append([] if is_list else {})
    position = _after_space(text, position + 1)
    return position if is_list else _name(text, position, names)


def _name(text: str, position: int, names: list[str]) -> int:
    """Read the name of a field, and return the position of its value."""
    if text[position : position + 1] != '"':
        raise json.JSONDecodeError(
            "Expecting property name enclosed in double quotes", text, position
        )
    name, position = _scalar(text, position)
    names.append(name)
    position = _after_space(text, position)
    if text[position : position + 1] != ":":
        raise json.JSONDecodeError("Expecting ':' delimiter", text, position)
    return _after_space(text, position + 1)


def _scalar(text: str, position: int) -> tuple[Any, int]:
    try:
        value, end_position = _scan_once(text, position)
    except StopIteration as end:
        raise json.JSONDecodeError("Expecting value", text, end.value) from None
    return value, end_position
