"""Writes the fast codec: straight-line Python from the construct Struct of a message version.

This module has the parts that encoders and decoders share: the source lines, the names that the
source refers to, and the entry points. `protocol.generate_decoder` and `protocol.generate_encoder`
read the Struct.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple

import construct

from protocol.constructs import COMPACT, SHORT, MessageStruct, Sized, String, TaggedFields
from protocol.schema import Message

# The letter of the struct module for a UUID. Adjacent fixed-width fields are packed and unpacked
# in one call.
UUID_LETTER = "16s"


def fixed_letter(element: construct.Construct) -> str | None:
    """Return the struct letter of a fixed-width construct; None for other constructs."""
    if isinstance(element, construct.FormatField):
        return str(element.fmtstr[-1])
    if element is construct.Flag:
        return "?"
    if isinstance(element, construct.Bytes):
        return UUID_LETTER
    return None


def letter_size(letter: str) -> int:
    """Return the size in bytes of a value with this struct letter."""
    return Struct(">" + letter).size


ITEMS_PER_STEP = 500
NUMBERS_PER_STEP = 50_000
"""Array elements per step of a codec in steps: nested messages, and plain numbers."""


class ShortForm(NamedTuple):
    """The fixed-width form of a nested message whose strings are all empty.

    `letters` are the struct letters of the whole element, with length prefixes and the count of
    tagged fields as "B" or wider. `strings` maps the indexes of the lengths to the strings; `names`
    has the field at each index, "" for the count. Most elements of large arrays have this form, and
    one pack or unpack handles each.
    """

    letters: list[str]
    names: list[str]
    strings: dict[int, Sized]


def short_form(struct: MessageStruct) -> ShortForm | None:
    """Return the short form of an element; None if the element has none.

    An element that begins with a string has no short form: the string is a name and never empty.
    """
    letters: list[str] = []
    names: list[str] = []
    strings: dict[int, Sized] = {}
    for subcon in struct.subcons:
        element = subcon.subcon
        letter = fixed_letter(element)
        if isinstance(element, TaggedFields) and not element.fields:
            letters.append("B")
            names.append("")
            continue
        if isinstance(element, String):
            strings[len(letters)] = element
            letter = "B" if element.prefix == COMPACT else "h" if element.prefix == SHORT else "i"
        elif letter is None:
            return None
        letters.append(letter)
        names.append(subcon.name)
    return ShortForm(letters, names, strings) if 0 not in strings else None


class Writer:
    """Collects source lines, and the values to which the source refers by name.

    `in_steps` writes a generator that yields at intervals in its loops and returns the plain
    function's result. It is for messages that are too large for one iteration of the event loop.
    """

    def __init__(self, *, in_steps: bool = False) -> None:
        self.in_steps = in_steps
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {}
        self.depth = 1
        self._numbers: dict[str, int] = {}

    def line(self, text: str) -> None:
        """Add a line at the current indentation."""
        self.lines.append("    " * self.depth + text)

    def steps_begin(self) -> list[str]:
        """Return the first lines of a function in steps."""
        return ["    steps = 0", "    if False:", "        yield"] if self.in_steps else []

    def count_step(self, *before: str) -> None:
        """Write the end of a loop body, where a step ends after ITEMS_PER_STEP elements."""
        if self.in_steps:
            self.line("steps += 1")
            self.line(f"if not steps % {ITEMS_PER_STEP}:")
            for text in before:
                self.line(f"    {text}")
            self.line("    yield")

    def new_name(self, stem: str) -> str:
        """Return an unused local name."""
        number = self._numbers.get(stem, 0) + 1
        self._numbers[stem] = number
        return f"{stem}_{number}"

    def refer(self, name: str, value: Any) -> str:
        """Return a global name for `value` in the generated module."""
        known = self.scope.setdefault(name, value)
        if known is value:
            return name
        return self.refer(name + "_", value)

    def refer_type(self, message_type: type[Message]) -> str:
        """Return the name of a message class in the generated module."""
        return self.refer(message_type.__name__, message_type)

    def literal(self, value: Any) -> str:
        """Return a constant as source text."""
        if value is None or isinstance(value, bool | int | str):
            return repr(value)
        if value == bytes(16):
            return self.refer("ZERO_UUID", value)
        return repr(value)

    def packer(self, letters: list[str], method: str) -> str:
        """Return the name of a bound method of the struct.Struct for these letters."""
        text = "".join(letters)
        name = f"{method}_{text.replace('?', 'b_')}"
        known = self.scope.get(name)
        if known is None:
            self.scope[name] = known = getattr(Struct(">" + text), method)
        return name


def compile_function(source: str, scope: dict[str, Any], title: str) -> Callable[..., Any]:
    """Compile and return the function that `source` defines."""
    exec(compile(source, f"<generated {title}>", "exec"), scope)
    function: Callable[..., Any] = scope["generated"]
    return function


def decoder_source(struct: MessageStruct, *, in_steps: bool = False) -> tuple[str, dict[str, Any]]:
    """Return the source of `generated(buffer, position=0) -> (message, position)`.

    The second value is the globals of the source.
    """
    from protocol.generate_decoder import DecoderWriter

    return DecoderWriter(struct, in_steps=in_steps).write()


def encoder_source(
    struct: MessageStruct, *, in_steps: bool = False, in_parts: bool = False
) -> tuple[str, dict[str, Any]]:
    """Return the source of `generated(message) -> bytes`, or list of bytes, and its globals."""
    from protocol.generate_encoder import EncoderWriter

    return EncoderWriter(struct, in_steps=in_steps, in_parts=in_parts).write()
