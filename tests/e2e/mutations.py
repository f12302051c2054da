"""Damaged variants of valid values for fuzzing parsers. All of them follow from a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

S = TypeVar("S", str, bytes)

LONG_SHARE = 0.004
"""Share of inputs that have the maximum length."""

_STRANGE: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    -(2**63),
    10**400,
    0.5,
    1e308,
    -0.0,
    "",
    " ",
    "\0",
    "a",
    "none",
    "\ud800",
    "\u00e9\u4e2d\U0001f600",
    "x" * 300,
    [],
    {},
    [[]],
    [None],
    {"a": {}},
)


class Mutator:
    """Makes inputs; `random` may also be used directly."""

    def __init__(self, seed: object) -> None:
        self.random = random.Random(repr(seed))

    def sequence(self, seeds: Sequence[S], words: Sequence[S], most: int) -> S:
        """Return a seed with parts cut out, doubled, or replaced by words or parts of other seeds.

        `most` is the maximum length; some inputs reach it by repeating one part.
        """
        pick = self.random
        value = pick.choice(seeds)
        if pick.random() < 0.03:
            return value
        for _ in range(pick.choice((1, 1, 1, 2, 2, 3, 5, 9))):
            start = pick.randint(0, len(value))
            end = min(len(value), start + pick.choice((0, 0, 1, 1, 2, 4, 16, len(value))))
            value = value[:start] + self._piece(value, seeds, words) + value[end:]
        if pick.random() < LONG_SHARE:
            value = self._long(value, seeds, words, most)
        return value[:most]

    def _piece(self, value: S, seeds: Sequence[S], words: Sequence[S]) -> S:
        pick = self.random
        source = pick.random()
        if source < 0.25:
            return value[:0]
        if source < 0.75:
            return pick.choice(words)
        other = value if source < 0.85 else pick.choice(seeds)
        start = pick.randint(0, len(other))
        return other[start : start + pick.choice((1, 1, 2, 4, 8, 40))] * pick.choice((1, 1, 2, 30))

    def _long(self, value: S, seeds: Sequence[S], words: Sequence[S], most: int) -> S:
        """Fill the value up to the maximum length by repeating one piece, or two in turn."""
        piece = self._piece(value, seeds, words) or words[0]
        if self.random.random() < 0.3:
            piece += self.random.choice(words) or words[0]
        start = self.random.randint(0, len(value))
        room = most - len(value)
        return value[:start] + (piece * (room // len(piece) + 1))[: max(room, 0)] + value[start:]

    def bits(self, value: bytes) -> bytes:
        """Return the value with a few changed bytes."""
        changed = bytearray(value)
        for _ in range(self.random.choice((1, 1, 1, 2, 4, 8))):
            if changed:
                position = self.random.randrange(len(changed))
                changed[position] = self.random.choice(
                    (0, 1, 0x7F, 0x80, 0xFF, changed[position] ^ 1, self.random.getrandbits(8))
                )
        return bytes(changed)

    def tree(self, value: Any) -> Any:
        """Return a JSON value with one part replaced, removed, renamed or repeated."""
        pick = self.random
        if isinstance(value, dict) and value and pick.random() < 0.85:
            name = pick.choice(list(value))
            changed = dict(value)
            what = pick.random()
            if what < 0.1:
                del changed[name]
            elif what < 0.2:
                changed[pick.choice(("", "a", name + "x", *value))] = changed.pop(name)
            else:
                changed[name] = self.tree(value[name])
            return changed
        if isinstance(value, list) and value and pick.random() < 0.85:
            position = pick.randrange(len(value))
            part = [self.tree(value[position])] * pick.choice((0, 1, 1, 1, 2, 50))
            return value[:position] + part + value[position + 1 :]
        if isinstance(value, str) and pick.random() < 0.5:
            return self.sequence((value,), (" ", ",", "=", "\0", "\u00e9", "a" * 50), 600)
        if isinstance(value, int) and abs(value) < 2**63 and pick.random() < 0.5:
            return value + pick.choice((-1, 1, 1000, -1000, 10**9, 0.5))
        return pick.choice(_STRANGE)

    def json(self, value: Any, most: int) -> str:
        """Return a JSON text: mostly well-formed with a changed value, otherwise damaged."""
        pick = self.random
        for _ in range(pick.choice((1, 1, 2, 3))):
            value = self.tree(value)
        text = json.dumps(value)
        if pick.random() < 0.2:
            words = (
                "[",
                "{",
                '"',
                "\\",
                ",",
                ":",
                "]",
                "}",
                "9",
                "NaN",
                "1e999",
                '{"a":',
                "\\ud800",
            )
            text = self.sequence((text,), words, most)
        return text


class Surface(NamedTuple):
    """A parser with a function that makes inputs and the errors that it may raise.

    `share` is the weight with which the surface gets inputs.
    """

    name: str
    make: Callable[[Mutator], Any]
    parse: Callable[[Any], object]
    refusals: tuple[type[BaseException], ...]
    share: float = 1.0
