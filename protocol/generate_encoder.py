"""Writes encoders: pieces of bytes are collected in order and joined once.

Adjacent fixed-width fields, and a length after them, use one pack. An encoder in parts returns the
pieces unjoined, so that a Fetch response does not copy batches.
"""

from __future__ import annotations

from itertools import repeat
from struct import pack
from typing import Any

from construct import Construct

from protocol.constructs import (
    COMPACT,
    SHORT,
    Array,
    MessageStruct,
    NullableStruct,
    Sized,
    String,
    TaggedFields,
)
from protocol.generator import UUID_LETTER, ShortForm, Writer, fixed_letter, short_form
from protocol.schema import Columns, Field
from protocol.varint import ONE_BYTE, encode_unsigned_varint

LARGE_PART_BYTES = 64 * 1024
"""An encoder in parts does not copy records with more bytes than this."""


class EncoderWriter(Writer):
    """Writes the encoder of one MessageStruct."""

    def __init__(
        self, struct: MessageStruct, *, in_steps: bool = False, in_parts: bool = False
    ) -> None:
        super().__init__(in_steps=in_steps)
        self.in_parts = in_parts
        self.struct = struct
        # The fields to pack together: (struct letter, expression).
        self.run: list[tuple[str, str]] = []
        # The expressions of bytes that were not yet added to `parts`.
        self.pieces: list[str] = []
        # The name of the list to which the generated code adds bytes.
        self.parts = "parts"
        self.parts_used = False

    def write(self) -> tuple[str, dict[str, Any]]:
        """Return the source and its globals."""
        self.scope.update(
            pack=pack,
            one_byte=ONE_BYTE,
            encode_unsigned_varint=encode_unsigned_varint,
            joined_small_parts=joined_small_parts,
        )
        self.message(self.struct, "message")
        self.flush_run()
        head = ["def generated(message):", *self.steps_begin()]
        if self.in_steps:  # the bytes grow in steps, because one join would take too long
            head.append(f"    whole = {'[]' if self.in_parts else 'bytearray()'}")
        if self.parts_used:
            head.append("    parts = []")
            self.flush()
            if self.in_steps:
                self.line(self.gather_parts())
                self.line("return whole")
            elif self.in_parts:
                self.line("return joined_small_parts(parts)")
            else:
                self.line('return b"".join(parts)')
        elif self.in_parts:
            self.line(f"return [{', '.join(self.pieces)}]")
        elif len(self.pieces) == 1:
            self.line(f"return {self.pieces[0]}")
        else:
            self.line(f'return b"".join(({", ".join(self.pieces)}))')
        return "\n".join(head + self.lines) + "\n", self.scope

    def gather_parts(self) -> str:
        """Return the line that appends the parts of a step to the whole."""
        return "whole += joined_small_parts(parts)" if self.in_parts else 'whole += b"".join(parts)'

    def flush_run(self, varint: str = "") -> None:
        """Turn the pending fixed-width run, and a varint after it, into a piece."""
        letters = [letter for letter, _ in self.run]
        values = [value for letter, value in self.run if letter != "x"]
        self.run.clear()
        if letters == ["x"] and not varint:
            self.pieces.append('b"\\x00"')
            return
        fixed = f"{self.packer(letters, 'pack')}({', '.join(values)})" if letters else ""
        if not varint:
            if fixed:
                self.pieces.append(fixed)
            return
        long = f"encode_unsigned_varint({varint})"
        if fixed:
            short = f"{self.packer([*letters, 'B'], 'pack')}({', '.join([*values, varint])})"
            self.pieces.append(f"{short} if {varint} < 128 else {fixed} + {long}")
        else:
            self.pieces.append(f"one_byte[{varint}] if {varint} < 128 else {long}")

    def flush(self) -> None:
        """Add all pending pieces to the parts.

        Must be called before a loop or branch, and at its end.
        """
        self.flush_run()
        if not self.pieces:
            return
        if self.parts == "parts":
            self.parts_used = True
        if len(self.pieces) == 1:
            self.line(f"{self.parts}.append({self.pieces[0]})")
        else:
            self.line(f"{self.parts} += ({', '.join(self.pieces)})")
        self.pieces.clear()

    def message(self, struct: MessageStruct, source: str) -> None:
        """Write the code that encodes all fields of the message in the local `source`."""
        for subcon in struct.subcons:
            if isinstance(subcon.subcon, TaggedFields):
                self.tagged(subcon.subcon, source)
            else:
                self.value(subcon.subcon, f"{source}.{subcon.name}")

    def value(self, element: Construct, source: str) -> None:
        """Write the code that encodes a value of any type, given as an expression."""
        letter = fixed_letter(element)
        if letter is not None:
            self.run.append((letter, source))
        elif isinstance(element, Array):
            self.array(element, source)
        elif isinstance(element, Sized):
            self.sized(element, source)
        elif isinstance(element, NullableStruct):
            self.nullable_struct(element, source)
        else:
            assert isinstance(element, MessageStruct), element
            inner = self.new_name("nested")
            self.line(f"{inner} = {source}")
            self.message(element, inner)

    def length(self, element: Sized, length: str) -> None:
        """Write the code that encodes a length (compact: length + 1) after the pending run."""
        if element.prefix == COMPACT:
            self.flush_run(varint=length)
        else:
            self.run.append(("h" if element.prefix == SHORT else "i", length))
            self.flush_run()

    def sized(self, element: Sized, source: str) -> None:
        """Write the code that encodes a string, bytes or records."""
        data, length = self.new_name("data"), self.new_name("length")
        plus = " + 1" if element.prefix == COMPACT else ""
        encode = ".encode()" if isinstance(element, String) else ""
        if element.nullable:
            null = "0" if element.prefix == COMPACT else "-1"
            self.line(f"{data} = {source}")
            self.line(f"if {data} is None:")
            self.line(f'    {data} = b""')
            self.line(f"    {length} = {null}")
            self.line("else:")
            if encode:
                self.line(f"    {data} = {data}.encode()")
            self.line(f"    {length} = len({data}){plus}")
        else:
            self.line(f"{data} = {source}{encode}")
            self.line(f"{length} = len({data}){plus}")
        self.length(element, length)
        self.pieces.append(data)

    def array(self, element: Array, source: str) -> None:
        """Write the code that encodes an array with its count."""
        items, count = self.new_name("items"), self.new_name("count")
        plus = " + 1" if element.prefix == COMPACT else ""
        self.line(f"{items} = {source}")
        if element.nullable:
            null = "0" if element.prefix == COMPACT else "-1"
            self.line(f"if {items} is None:")
            self.line(f"    {items} = ()")
            self.line(f"    {count} = {null}")
            self.line("else:")
            self.line(f"    {count} = len({items}){plus}")
        else:
            self.line(f"{count} = len({items}){plus}")
        self.length(element, count)
        letter = fixed_letter(element.element)
        if letter is not None and letter != UUID_LETTER:
            self.pieces.append(f'pack(f">{{len({items})}}{letter}", *{items})')
            return
        self.flush()
        item = self.new_name("item")
        nested = element.element if isinstance(element.element, MessageStruct) else None
        short = None if nested is None else short_form(nested)
        if short is not None and not short.strings and not self.in_steps:
            values = ", ".join([f"{item}.{name}" if name else "0" for name in short.names])
            pack_item = self.packer(short.letters, "pack")
            self.line(f"{self.parts} += [{pack_item}({values}) for {item} in {items}]")
            return
        if short is not None and short.strings and not self.in_steps:
            self.columns(short, items)
            self.depth += 1
        self.line(f"for {item} in {items}:")
        self.depth += 1
        if nested is not None:
            if short is not None and short.strings:
                self.short_element(short, item)
                self.depth += 1
            self.message(nested, item)
            self.flush()
            if short is not None and short.strings:
                self.depth -= 1
        else:
            self.value(element.element, item)
            self.flush()
        self.count_step(self.gather_parts(), "parts.clear()")
        self.depth -= 1
        if short is not None and short.strings and not self.in_steps:
            self.depth -= 1

    def columns(self, short: ShortForm, items: str) -> None:
        """Write the code that encodes an array stored by columns; the `else` is left open."""
        self.scope.update(Columns=Columns, repeat=repeat)
        columns: list[str] = []
        for index, name in enumerate(short.names):
            element = short.strings.get(index)
            if element is not None:
                columns.append(f"repeat({1 if element.prefix == COMPACT else 0})")
            else:
                columns.append(f'{items}.columns["{name}"]' if name else "repeat(0)")
        self.line(f"if type({items}) is Columns:")
        pack_item = self.packer(short.letters, "pack")
        self.line(f"    {self.parts} += map({pack_item}, {', '.join(columns)})")
        self.line("else:")

    def short_element(self, short: ShortForm, item: str) -> None:
        """Write the code that encodes an element with empty strings; the `else` is left open."""
        values: list[str] = []
        conditions: list[str] = []
        for index, name in enumerate(short.names):
            value = f"{item}.{name}" if name else "0"
            element = short.strings.get(index)
            if element is not None:
                conditions.append(f'{value} == ""')
                value = "1" if element.prefix == COMPACT else "0"
            values.append(value)
        self.line(f"if {' and '.join(conditions)}:")
        pack_short = self.packer(short.letters, "pack")
        self.line(f"    {self.parts}.append({pack_short}({', '.join(values)}))")
        self.line("else:")
        if self.parts == "parts":
            self.parts_used = True

    def nullable_struct(self, element: NullableStruct, source: str) -> None:
        """Write the code that encodes a nullable message.

        A null marker precedes the message: an int8, negative for null, or for a tagged field a
        varint, 0 for null.
        """
        inner = self.new_name("nested")
        self.flush()
        self.line(f"{inner} = {source}")
        self.line(f"if {inner} is None:")
        null = "\\x00" if element.is_tagged else "\\xff"
        self.line(f'    {self.parts}.append(b"{null}")')
        self.line("else:")
        self.depth += 1
        self.line(f'{self.parts}.append(b"\\x01")')
        self.message(element.element, inner)
        self.flush()
        self.depth -= 1
        if self.parts == "parts":
            self.parts_used = True

    def tagged(self, element: TaggedFields, source: str) -> None:
        """Write the code for the tagged fields that differ from their default, in tag order."""
        if not element.fields:
            self.run.append(("x", ""))
            return
        self.flush()
        outer, outer_used = self.parts, self.parts_used
        count, tagged = self.new_name("tags"), self.new_name("tagged")
        self.line(f"{count} = 0")
        self.line(f"{tagged} = []")
        for number, (field, kind) in sorted(element.fields.items()):
            value = f"{source}.{field.name}"
            self.line(f"if {self.differs(field, kind, value)}:")
            self.depth += 1
            self.parts = self.new_name("parts")
            self.line(f"{self.parts} = []")
            self.value(kind, value)
            self.flush()
            body = self.new_name("body")
            self.line(f'{body} = b"".join({self.parts})')
            tag = encode_unsigned_varint(number)
            self.line(f"{tagged} += ({tag!r}, encode_unsigned_varint(len({body})), {body})")
            self.line(f"{count} += 1")
            self.depth -= 1
        self.parts, self.parts_used = outer, outer_used
        self.run.append(("B", count))
        self.flush()
        self.line(f"{self.parts} += {tagged}")

    def differs(self, field: Field, kind: Construct, value: str) -> str:
        """Return the source of a condition: `value` is not the default of `field`."""
        if isinstance(kind, MessageStruct):
            tests = [
                self.differs(inner, inner.type, f"{value}.{inner.name}")
                for inner in kind.message_type.FIELDS
            ]
            return " or ".join(tests)
        if isinstance(kind, NullableStruct) and field.fresh_default:
            return f"{value} != {self.refer_type(kind.element.message_type)}()"
        if field.fresh_default:
            return value if not kind.nullable else f"{value} is None or {value}"
        if field.default is None:
            return f"{value} is not None"
        return f"{value} != {self.literal(field.default)}"


def joined_small_parts(parts: list[bytes]) -> list[bytes]:
    """Join adjacent parts except large ones; called by generated code."""
    joined: list[bytes] = []
    small: list[bytes] = []
    for part in parts:
        if len(part) <= LARGE_PART_BYTES:
            small.append(part)
            continue
        joined += (b"".join(small), part)
        small = []
    if small:
        joined.append(b"".join(small))
    return joined
