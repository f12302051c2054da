"""Writes decoders: adjacent fixed-width fields in one unpack, lengths checked before slicing.

The generated function has `position` in a local variable. Between two places where it must be
exact, the writer counts the bytes (`ahead`) instead of adding them at run time. The first byte of a
varint, or a whole int16/int32 length, is unpacked together with the preceding fixed fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from struct import Struct, unpack_from
from struct import error as StructError  # noqa: N812
from typing import Any, NoReturn

from construct import Construct

from protocol.constructs import (
    COMPACT,
    SHORT,
    Array,
    MessageStruct,
    NullableStruct,
    Records,
    Sized,
    String,
    TaggedFields,
)
from protocol.errors import ProtocolError
from protocol.generator import (
    NUMBERS_PER_STEP,
    UUID_LETTER,
    ShortForm,
    Writer,
    fixed_letter,
    letter_size,
    short_form,
)
from protocol.schema import Field, Message, ReceivedColumns, dispose
from protocol.utf8 import JAVA_REPLACE
from protocol.varint import (
    MAX_TAGGED_FIELDS,
    decode_unsigned_varint,
    skip_tagged_fields,
    unsigned_varint_tail,
)

LEAST_ROWS = 8
"""Arrays with fewer elements are decoded one by one."""


class DecoderWriter(Writer):
    """Writes the decoder of one MessageStruct."""

    def __init__(self, struct: MessageStruct, *, in_steps: bool = False) -> None:
        super().__init__(in_steps=in_steps)
        self.struct = struct
        # The fields to unpack together: (struct letter, target).
        self.run: list[tuple[str, str]] = []
        # The number of bytes between `position` and the next byte to read.
        self.ahead = 0

    def write(self) -> tuple[str, dict[str, Any]]:
        """Return the source and its globals."""
        title = f"{self.struct.message_type.__name__} v{self.struct.version}"
        self.scope.update(
            ProtocolError=ProtocolError,
            MAX_TAGGED_FIELDS=MAX_TAGGED_FIELDS,
            dispose=dispose,
            StructError=StructError,
            new=object.__new__,
            reject=reject,
            long_varint=unsigned_varint_tail,
            long_string_varint=long_string_varint,
            skip_tagged_fields=skip_tagged_fields,
            unpack_from=unpack_from,
            decode_unsigned_varint=decode_unsigned_varint,
        )
        self.depth = 2
        self.message(self.struct, "message")
        self.flush()
        self.line(f"return message, {self.here()}")
        head = [
            "def generated(buffer, position=0):",
            "    size = len(buffer)",
            *self.steps_begin(),
            "    try:",
        ]
        tail = [
            "    except (IndexError, StructError) as error:",
            *self.steps_dispose(),
            f'        raise ProtocolError("{title}: the bytes end early") from error',
        ]
        if self.in_steps:
            tail += ["    except ProtocolError:", *self.steps_dispose(), "        raise"]
        return "\n".join(head + self.lines + tail) + "\n", self.scope

    def steps_dispose(self) -> list[str]:
        """Return the line that frees a partially decoded message after an error, in step mode."""
        return ["        yield from dispose(message)"] if self.in_steps else []

    def here(self, offset: int = 0) -> str:
        """Return the position of the next byte plus `offset`, as a source expression."""
        ahead = self.ahead + offset
        return f"position + {ahead}" if ahead else "position"

    def flush(self) -> None:
        """Write the code for the pending fixed-width run."""
        if not self.run:
            return
        letters = [letter for letter, _ in self.run]
        if letters == ["B"]:
            self.line(f"{self.run[0][1]} = buffer[{self.here()}]")
        else:
            targets = ", ".join(target for _, target in self.run)
            comma = "," if len(self.run) == 1 else ""
            unpack = self.packer(letters, "unpack_from")
            self.line(f"{targets}{comma} = {unpack}(buffer, {self.here()})")
        self.ahead += sum(letter_size(letter) for letter in letters)
        self.run.clear()

    def settle(self) -> None:
        """Flush and make `position` exact, before a loop or a branch."""
        self.flush()
        if self.ahead:
            self.line(f"position += {self.ahead}")
            self.ahead = 0

    def message(self, struct: MessageStruct, target: str) -> None:
        """Write the code that decodes a message or nested struct into a new local `target`."""
        self.line(f"{target} = new({self.refer_type(struct.message_type)})")
        self.fields(struct, target)

    def fields(self, struct: MessageStruct, target: str) -> None:
        """Write the code that decodes the fields of a message into the local `target`."""
        for field in struct.message_type.FIELDS:
            if field.tag is not None or not field.in_version(struct.version):
                self.default(field, f"{target}.{field.name}")
        for subcon in struct.subcons:
            if isinstance(subcon.subcon, TaggedFields):
                self.tagged(subcon.subcon, target)
            else:
                self.value(subcon.subcon, f"{target}.{subcon.name}", subcon.name)

    def default(self, field: Field, target: str) -> None:
        """Write the code that sets the default of a field that is not or not always present."""
        if not field.fresh_default:
            self.line(f"{target} = {self.literal(field.default)}")
        elif isinstance(field.type, type):
            self.line(f"{target} = {self.refer_type(field.type)}()")
        else:
            self.line(f"{target} = []")

    def value(self, element: Construct, target: str, label: str) -> None:
        """Write the code that decodes a value into `target`; `label` names the value in errors."""
        letter = fixed_letter(element)
        if letter is not None:
            self.run.append((letter, target))
        elif isinstance(element, Array):
            self.array(element, target, label)
        elif isinstance(element, Sized):
            self.sized(element, target, label)
        elif isinstance(element, NullableStruct):
            self.nullable_struct(element, target)
        else:
            assert isinstance(element, MessageStruct), element
            inner = self.new_name("nested")
            self.message(element, inner)
            self.line(f"{target} = {inner}")

    def length(self, element: Sized) -> str:
        """Write the code that reads the length of `element` into a local, length + 1 if compact."""
        name = self.new_name("length")
        letter = "B" if element.prefix == COMPACT else "h" if element.prefix == SHORT else "i"
        self.run.append((letter, name))
        self.flush()
        if element.prefix == COMPACT:
            long = "long_string_varint" if isinstance(element, String) else "long_varint"
            self.line(f"if {name} > 127:")
            self.line(f"    {name}, position = {long}(buffer, {self.here()}, {name})")
            if self.ahead:
                self.line(f"    position -= {self.ahead}")
        return name

    def sized(self, element: Sized, target: str, label: str) -> None:
        """Write the code that decodes a string, bytes or records."""
        length = self.length(element)
        compact = element.prefix == COMPACT
        start = self.new_name("start")
        self.line(f"{start} = {self.here()}")
        self.ahead = 0
        end = f"{start} + {length} - 1" if compact else f"{start} + {length}"
        if isinstance(element, String):
            expression = f'str(buffer[{start}:position], "utf-8", "{JAVA_REPLACE}")'
        elif isinstance(element, Records):
            expression = f"memoryview(buffer)[{start}:position]"
        else:
            expression = f"bytes(buffer[{start}:position])"
        fail = f'reject("{label}", {length}, size - {start})'
        if not element.nullable:
            self.line(f"position = {end}")
            self.line(f"if not {start} <= position <= size:")
            self.line(f"    {fail}")
            self.line(f"{target} = {expression}")
            return
        self.line(f"if {length}:" if compact else f"if {length} >= 0:")
        self.line(f"    position = {end}")
        self.line("    if position > size:")
        self.line(f"        {fail}")
        self.line(f"    {target} = {expression}")
        self.line("else:")
        self.line(f"    position = {start}")
        self.line(f"    {target} = None")

    def array(self, element: Array, target: str, label: str) -> None:
        """Write the code that decodes an array, after checking its count against the bytes left."""
        count = self.length(element)
        self.settle()
        if element.prefix == COMPACT:
            self.line(f"{count} -= 1")
        if element.nullable:
            self.line(f"if {count} < 0:")
            self.line(f"    {target} = None")
            self.line("else:")
            self.depth += 1
            self.line(f"if {count} > size - position:")
        else:
            self.line(f"if not 0 <= {count} <= size - position:")
        self.line(f'    reject("{label}", {count}, size - position)')
        letter = fixed_letter(element.element)
        if letter is not None and letter != UUID_LETTER:
            self.array_of_numbers(letter, target, count)
        else:
            self.array_of_others(element.element, target, label, count)
        if element.nullable:
            self.depth -= 1

    def array_of_numbers(self, letter: str, target: str, count: str) -> None:
        """Write the code that decodes fixed-width elements: one unpack, or one per step."""
        if not self.in_steps:
            expression = f'unpack_from(f">{{{count}}}{letter}", buffer, position)'
            self.line(f"{target} = list({expression})")
            self.line(f"position += {count} * {letter_size(letter)}")
            return
        items, part = self.new_name("items"), self.new_name("part")
        self.line(f"if {count} * {letter_size(letter)} > size - position:")
        self.line(f"    raise StructError({count})")
        self.line(f"{target} = {items} = []")
        self.line(f"while len({items}) < {count}:")
        self.line(f"    {part} = min({count} - len({items}), {NUMBERS_PER_STEP})")
        self.line(f'    {items} += unpack_from(f">{{{part}}}{letter}", buffer, position)')
        self.line(f"    position += {part} * {letter_size(letter)}")
        self.line("    yield")

    def array_of_others(self, element: Construct, target: str, label: str, count: str) -> None:
        """Write the loop that decodes elements without a common fixed width."""
        items = self.new_name("items")
        item = self.new_name("item")
        short = short_form(element) if isinstance(element, MessageStruct) else None
        by_columns = short is not None and self.columns(element, short, target, count)
        self.line(f"{target} = {items} = []")
        self.line(f"for _ in range({count}):")
        self.depth += 1
        if isinstance(element, MessageStruct):
            self.line(f"{item} = new({self.refer_type(element.message_type)})")
            # Append the item at once, so that `dispose` can free it.
            self.line(f"{items}.append({item})")
            if short is not None and short.strings:
                self.short_element(element, short, item)
                self.depth += 1
            self.fields(element, item)
            self.settle()
            if short is not None and short.strings:
                self.depth -= 1
        else:
            self.value(element, item, label)
            self.settle()
            self.line(f"{items}.append({item})")
        self.count_step()
        self.depth -= 1
        if by_columns:
            self.depth -= 1

    def columns(self, struct: MessageStruct, short: ShortForm, target: str, count: str) -> bool:
        """Write the code that decodes an array by columns if all elements are short.

        Returns whether the code was written; its `else` branch is then open.
        """
        if self.in_steps or not struct.message_type.BY_COLUMNS:
            return False
        name = self.new_name("columns")
        read = self.refer(f"read_{name}", ColumnsReader(struct, short).read)
        self.line(
            f"{name} = {read}(buffer, position, {count}) if {count} >= {LEAST_ROWS} else None"
        )
        self.line(f"if {name} is not None:")
        self.line(f"    {target} = {name}")
        self.line(f"    position += {count} * {sum(map(letter_size, short.letters))}")
        self.line("else:")
        self.depth += 1
        return True

    def short_element(self, struct: MessageStruct, short: ShortForm, item: str) -> None:
        """Write the code that decodes a short-form element with one unpack.

        The `else` branch is left open. Every other element is longer, so the unpack never reads
        past a valid message.
        """
        targets: list[str] = []
        conditions: list[str] = []
        for index, name in enumerate(short.names):
            target = f"{item}.{name}"
            element = short.strings.get(index)
            if element is not None:
                target = self.new_name("length")
                empty = 1 if element.prefix == COMPACT else 0
                is_short = f"{target} <= {empty}" if element.nullable else f"{target} == {empty}"
                conditions.append(is_short)
            elif not name:
                target = self.new_name("tags")
                conditions.append(f"not {target}")
            targets.append(target)
        unpack = self.packer(short.letters, "unpack_from")
        self.line(f"{', '.join(targets)} = {unpack}(buffer, position)")
        self.line(f"if {' and '.join(conditions)}:")
        self.depth += 1
        for field in struct.message_type.FIELDS:
            if not field.in_version(struct.version):
                self.default(field, f"{item}.{field.name}")
        for index, element in short.strings.items():
            empty = 1 if element.prefix == COMPACT else 0
            value = f'"" if {targets[index]} == {empty} else None' if element.nullable else '""'
            self.line(f"{item}.{short.names[index]} = {value}")
        self.line(f"position += {sum(map(letter_size, short.letters))}")
        self.depth -= 1
        self.line("else:")

    def nullable_struct(self, element: NullableStruct, target: str) -> None:
        """Write the code that decodes a nullable message.

        A null marker precedes the message: an int8, negative for null, or for a tagged field a
        varint, 0 for null.
        """
        marker = self.new_name("marker")
        if element.is_tagged:
            self.settle()
            self.line(f"{marker}, position = decode_unsigned_varint(buffer, position)")
            self.line(f"if not {marker}:")
        else:
            self.run.append(("b", marker))
            self.settle()
            self.line(f"if {marker} < 0:")
        self.line(f"    {target} = None")
        self.line("else:")
        self.depth += 1
        self.value(element.element, target, "")
        self.settle()
        self.depth -= 1

    def tagged(self, element: TaggedFields, target: str) -> None:
        """Write the code for tagged fields, with a fast path for none."""
        count = self.new_name("tags")
        self.run.append(("B", count))
        self.flush()
        if not element.fields:
            self.line(f"if {count}:")
            self.line(f"    position = skip_tagged_fields(buffer, {self.here(-1)}) - {self.ahead}")
            return
        self.settle()
        self.line(f"if {count}:")
        self.depth += 1
        self.line(f"{count}, position = decode_unsigned_varint(buffer, position - 1)")
        self.line(f"if {count} > MAX_TAGGED_FIELDS:")
        self.line(f'    raise ProtocolError(f"{{{count}}} tagged fields")')
        self.line(f"for _ in range({count}):")
        self.depth += 1
        tag, tag_size = self.new_name("tag"), self.new_name("tag_size")
        self.line(f"{tag}, position = decode_unsigned_varint(buffer, position)")
        self.line(f"{tag_size}, position = decode_unsigned_varint(buffer, position)")
        word = "if"
        for number, (field, kind) in sorted(element.fields.items()):
            self.line(f"{word} {tag} == {number}:")
            self.depth += 1
            self.value(kind, f"{target}.{field.name}", field.name)
            self.settle()
            self.depth -= 1
            word = "elif"
        self.line("else:")
        self.line(f"    position += {tag_size}")
        self.line("    if position > size:")
        self.line(f'        reject("tagged field", {tag_size}, 0)')
        self.depth -= 2


# Functions that generated code calls for unusual values, such as null.


class ColumnsReader:
    """Decodes arrays whose elements are all in short form and have equal string lengths.

    An element in short form determines where the next one begins. So unpacking all elements as if
    they were short shows whether they are.
    """

    __slots__ = ("_defaults", "_names", "_strings", "_struct", "_tags", "_type")

    def __init__(self, struct: MessageStruct, short: ShortForm) -> None:
        self._type = struct.message_type
        self._struct = Struct(">" + "".join(short.letters))
        self._names = [
            (index, name)
            for index, name in enumerate(short.names)
            if name and index not in short.strings
        ]
        self._tags = [index for index, name in enumerate(short.names) if not name]
        self._strings = []
        for index, element in short.strings.items():
            empty, null = (1, 0) if element.prefix == COMPACT else (0, -1)
            values = {empty: repeat("")} | ({null: repeat(None)} if element.nullable else {})
            self._strings.append((index, short.names[index], values))
        self._defaults = {
            field.name: repeat(field.default)
            for field in self._type.FIELDS
            if not field.in_version(struct.version)
        }

    def read(
        self, buffer: bytes | bytearray, position: int, count: int
    ) -> ReceivedColumns[Message] | None:
        """Decode the array of `count` elements at `position`; return None if not all are short."""
        rows = buffer[position : position + count * self._struct.size]
        if len(rows) < count * self._struct.size:
            return None
        read = list(zip(*self._struct.iter_unpack(rows), strict=True))
        if any(any(read[index]) for index in self._tags):
            return None
        columns: dict[str, Iterable[Any]] = dict(self._defaults)
        for index, name in self._names:
            columns[name] = read[index]
        for index, name, values in self._strings:
            lengths = read[index]
            value = values.get(lengths[0])
            if value is None or lengths.count(lengths[0]) < count:
                return None
            columns[name] = value
        return ReceivedColumns(self._type, count, columns)


def reject(label: str, length: int, left: int) -> NoReturn:
    """Raise ProtocolError for a length or count that is too large or null."""
    raise ProtocolError(f"{label}: length {length} with {left} bytes left")


def long_string_varint(buffer: bytes | memoryview, position: int, first: int) -> tuple[int, int]:
    """Return the rest of a string's length + 1.

    Raises ProtocolError above 32767 bytes, as in Kafka.
    """
    length, position = unsigned_varint_tail(buffer, position, first)
    if length > 0x8000:
        raise ProtocolError(f"a string of {length - 1} bytes")
    return length, position
