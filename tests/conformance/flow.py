"""The values in data files: YAML's flow style, with bytes, tuples and references.

    {error_code: NONE, members: [A, null], text: "two words"}    (<t1>, 0)    b"\\x00"    1200ms

A string of letters, digits and some signs needs no quotes. "x"*300 is a string of 300 characters.
`raw"..."` are bytes that a member sends as they are. `1200ms` is scaled by a run's `--patience`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.conformance.subscriptions import Raw

_WORD = re.compile(r"[A-Za-z_<@#/][\w.<>:/@#-]*(?<!:)")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:ms)?(?![\w.])")
_LONG, _LONG_BYTES = 60, 16
_TIMES = re.compile(r"\*\d+")
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_CONSTANTS = {"null": None, "true": True, "false": False}
_CLOSING = {"[": "]", "(": ")", "{": "}"}


class Word(str):
    """A string without quotes, which may be the name of a member or another reference."""

    __slots__ = ()


class Milliseconds(int):
    """A duration that is scaled by the `--patience` of a run."""


def render(value: Any) -> str:
    """Return a value as text; equal texts mean equal values."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Milliseconds):
        return f"{int(value)}ms"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, Word):
        return str(value)
    if isinstance(value, str):
        if len(value) > _LONG and len(set(value)) == 1:
            return f"{json.dumps(value[0])}*{len(value)}"
        is_word = _WORD.fullmatch(value) and value not in _CONSTANTS
        return value if is_word else json.dumps(value)
    if isinstance(value, bytes):
        if len(value) >= _LONG_BYTES and len(set(value)) == 1 and not isinstance(value, Raw):
            return f"{render(value[:1])}*{len(value)}"
        text = "".join(chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}" for byte in value)
        kind = "raw" if isinstance(value, Raw) else "b"
        return f'{kind}"{_escaped(value) if 92 in value or 34 in value else text}"'
    if isinstance(value, dict):
        return "{" + ", ".join(f"{render(k)}: {render(v)}" for k, v in value.items()) + "}"
    parts = ", ".join(map(render, value))
    if isinstance(value, tuple):
        return f"({parts},)" if len(value) == 1 else f"({parts})"
    return f"[{parts}]"


def _escaped(data: bytes) -> str:
    return "".join(
        chr(byte) if 32 <= byte < 127 and byte not in (34, 92) else f"\\x{byte:02x}"
        for byte in data
    )


class Reader:
    """A text with a position."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.position = 0

    def skip(self, sign: str) -> bool:
        """Skip spaces and the sign; return whether the sign was there."""
        self._spaces()
        if not self._text.startswith(sign, self.position):
            return False
        self.position += len(sign)
        return True

    def at_end(self) -> bool:
        """Return whether only spaces are left."""
        self._spaces()
        return self.position == len(self._text)

    def match(self, pattern: re.Pattern[str]) -> str | None:
        """Skip spaces, then skip the match of the pattern and return the match."""
        self._spaces()
        matched = pattern.match(self._text, self.position)
        if matched is None:
            return None
        self.position = matched.end()
        return matched[0]

    def rest(self) -> str:
        """Return the text from the position on."""
        return self._text[self.position :].strip()

    def value(self) -> Any:
        """Return the next value. Raises ValueError if there is none."""
        self._spaces()
        for kind in ("raw", "b"):
            if self._text.startswith(f'{kind}"', self.position):
                self.position += len(kind)
                quoted = self.match(_TEXT) or ""
                data = quoted[1:-1].encode("latin-1").decode("unicode_escape").encode("latin-1")
                data *= self._times()
                return Raw(data) if kind == "raw" else data
        text = self.match(_TEXT)
        if text is not None:
            return json.loads(text) * self._times()
        text = self.match(_NUMBER)
        if text is not None:
            if text.endswith("ms"):
                return Milliseconds(text[:-2])
            return float(text) if "." in text else int(text)
        text = self.match(_WORD)
        if text is not None:
            return _CONSTANTS[text] if text in _CONSTANTS else Word(text)
        opening = self._text[self.position : self.position + 1]
        if opening not in _CLOSING or not opening:
            raise ValueError(f"no value at {self.position} of {self._text!r}")
        self.position += 1
        parts = list(self._parts(opening))
        return {"[": list, "(": tuple, "{": dict}[opening](parts)

    def _times(self) -> int:
        count = self.match(_TIMES)
        return int(count[1:]) if count else 1

    def _parts(self, opening: str) -> Iterator[Any]:
        while not self.skip(_CLOSING[opening]):
            part = self.value()
            if opening == "{":
                if not self.skip(":"):
                    raise ValueError(f"no colon at {self.position} of {self._text!r}")
                yield part, self.value()
            else:
                yield part
            self.skip(",")

    def _spaces(self) -> None:
        while self._text.startswith(" ", self.position):
            self.position += 1


def wrapped(text: str, indent: str, columns: int = 100) -> list[str]:
    """Return a text wrapped at single spaces, if possible within `columns` columns."""
    lines, line = [], indent
    for part in re.split(r"(?<! ) (?! )", text):
        if line.strip() and len(line) + 1 + len(part) > columns:
            lines.append(line)
            line = f"{indent}    {part}"
        else:
            line = f"{line} {part}" if line.strip() else line + part
    return [*lines, line]
