"""Read many byte strings at once: one numpy operation reads a field of all rows.

`Slices` gives the values of an Arrow binary column as positions in its buffer. A `FieldReader`
steps through all of them at the same time. A malformed row is no longer `alive`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from protocol.json_form import uuid_to_text
from protocol.schema import ZERO_UUID
from protocol.utf8 import JAVA_REPLACE

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_PADDING_BYTES = 16  # padding, so that a read of 8 bytes stays within the buffer at any position
_STRING_BYTES_MAX = 0x7FFF


class Slices(NamedTuple):
    """Rows as ranges `start` to `stop` of `data`, which is padded; null rows are not `valid`."""

    data: npt.NDArray[np.uint8]
    start: Integers
    stop: Integers
    valid: Flags

    @property
    def length(self) -> Integers:
        """Return the length of each row in bytes; 0 for a null."""
        return self.stop - self.start


def slices_of(column: pa.Array) -> Slices:
    """Return the values of a binary column. Copies its buffer once, for the padding."""
    count = len(column)
    if column.type != pa.binary():
        column = column.cast(pa.binary())
    _, offset_buffer, data_buffer = column.buffers()
    if count == 0 or offset_buffer is None:
        nothing = np.zeros(count, np.int64)
        data = np.zeros(_PADDING_BYTES, np.uint8)
        return Slices(data, nothing, nothing, np.zeros(count, np.bool_))
    offsets = np.frombuffer(offset_buffer, np.int32)[column.offset : column.offset + count + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.zeros(last - first + _PADDING_BYTES, np.uint8)
    if last > first:
        data[: last - first] = np.frombuffer(data_buffer, np.uint8)[first:last]
    places = offsets.astype(np.int64) - first
    valid = np.asarray(column.is_valid())
    start, stop = places[:-1], places[1:]
    # A null may have bytes in the buffer: give the null length 0.
    return Slices(data, start, np.where(valid, stop, start), valid)


def binary_column(slices: Slices, valid: Flags) -> pa.Array:
    """Return the rows as Arrow binary, null where not `valid`. Rows must be in order in `data`.

    The Arrow offsets describe the rows and the gaps between them; taking every other value drops
    the gaps and copies the bytes in C++.
    """
    count = len(slices.start)
    if count == 0:
        return pa.array([], pa.binary())
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2] = slices.start
    offsets[1::2] = slices.stop
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(slices.data)]
    rows_and_gaps = pa.Array.from_buffers(pa.binary(), 2 * count - 1, buffers)
    return rows_and_gaps.take(pa.array(np.arange(0, 2 * count - 1, 2), mask=~valid))


def string_column(slices: Slices, valid: Flags) -> pa.Array:
    """Like `binary_column`, as strings; malformed UTF-8 is replaced as in Java (JAVA_REPLACE)."""
    column = binary_column(slices, valid)
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        # Some values are not UTF-8: decode each distinct value once, in Python.
        coded = column.dictionary_encode()
        words = [str(word, "utf-8", JAVA_REPLACE) for word in coded.dictionary.to_pylist()]
        return pa.array(words, pa.string()).take(coded.indices)


def uuid_column(data: npt.NDArray[np.uint8], places: Integers, valid: Flags) -> pa.Array:
    """Return UUIDs in Kafka's text form, null where not `valid` or zero.

    Only distinct UUIDs are converted to text: the column has topic ids, which repeat.
    """
    nothing = pa.nulls(len(places), pa.string())
    rows = np.flatnonzero(valid)
    if not rows.size:
        return nothing
    width = len(ZERO_UUID)
    anywhere: npt.NDArray[np.void] = np.ndarray(
        (len(data) - width + 1,), f"V{width}", data, strides=(1,)
    )
    buffers = [None, pa.py_buffer(anywhere[places[rows]])]
    coded = pa.Array.from_buffers(pa.binary(width), len(rows), buffers).dictionary_encode()
    texts = [
        None if uuid == ZERO_UUID else uuid_to_text(uuid) for uuid in coded.dictionary.to_pylist()
    ]
    return pc.replace_with_mask(
        nothing, pa.array(valid), pa.array(texts, pa.string()).take(coded.indices)
    )


class FieldReader:
    """A read position in each row; reads return one value per row, undefined if it is not alive."""

    __slots__ = ("alive", "data", "position", "stop")

    def __init__(
        self, data: npt.NDArray[np.uint8], position: Integers, stop: Integers, alive: Flags
    ) -> None:
        self.data = data
        self.position = position.copy()
        self.stop = stop
        self.alive = alive.copy()

    def integers(self, width: int, where: Flags | None = None) -> Integers:
        """Read signed big-endian integers of `width` bytes in the rows `where`, only there."""
        need: Any = width if where is None else where * width
        self.alive &= self.stop - self.position >= need
        view: npt.NDArray[Any] = np.ndarray(
            (len(self.data) - width + 1,), f">i{width}", self.data, strides=(1,)
        )
        values = view[np.where(self.alive, self.position, 0)].astype(np.int64)
        self.position += need
        return values

    def unsigned_varints(self, where: Flags | None = None) -> Integers:
        """Read unsigned varints of up to five bytes, cut to 32 bits; 0 where not in `where`."""
        values = np.zeros(len(self.position), np.int64)
        active = self.alive.copy() if where is None else self.alive & where
        for shift in (0, 7, 14, 21, 28):
            self.alive &= ~active | (self.position < self.stop)
            active &= self.alive
            byte = self.data[np.where(active, self.position, 0)].astype(np.int64)
            values |= np.where(active, (byte & 0x7F) << shift, 0)
            self.position += active
            active &= byte > 127
            if not active.any():
                break
        self.alive &= ~active
        return values & 0xFFFF_FFFF

    def skip(self, lengths: Integers) -> Integers:
        """Skip `lengths` bytes and return where they began.

        A row with a negative length, or too few bytes left, is no longer alive.
        """
        start = self.position.copy()
        self.alive &= (lengths >= 0) & (lengths <= self.stop - self.position)
        self.position += np.where(self.alive, lengths, 0)
        return start

    def strings(self, lengths: Integers, rows: Slices) -> Slices:
        """Read strings of known lengths; rows that are not alive give empty strings."""
        self.alive &= lengths <= _STRING_BYTES_MAX
        start = self.skip(lengths)
        return Slices(
            self.data,
            np.where(self.alive, start, rows.start),
            np.where(self.alive, self.position, rows.start),
            self.alive.copy(),
        )

    def short_strings(self, rows: Slices) -> Slices:
        """Read strings with an int16 length."""
        return self.strings(self.integers(2), rows)

    def subset(self, rows: Integers) -> FieldReader:
        """Return a reader of some of the rows; `put_back` copies its positions back."""
        return FieldReader(self.data, self.position[rows], self.stop[rows], self.alive[rows])

    def put_back(self, rows: Integers, other: FieldReader) -> None:
        """Copy positions and states from a reader made by `subset`."""
        self.position[rows] = other.position
        self.alive[rows] = other.alive

    def zigzags(self, bits: int = 32) -> Integers:
        """Read zigzag varints, of up to five bytes for 32 bits or ten for 64 bits."""
        values = np.zeros(len(self.position), np.uint64)
        active = self.alive.copy()
        for shift in range(0, 35 if bits == 32 else 70, 7):
            self.alive &= ~active | (self.position < self.stop)
            active &= self.alive
            byte = self.data[np.where(active, self.position, 0)]
            part = (byte & np.uint8(0x7F)).astype(np.uint64) << np.uint64(shift)
            values |= np.where(active, part, np.uint64(0))
            self.position += active
            active &= byte > 127
            if not active.any():
                break
        self.alive &= ~active
        if bits == 32:
            values &= np.uint64(0xFFFF_FFFF)
        half = (values >> np.uint64(1)).astype(np.int64)
        return half ^ -(values & np.uint64(1)).astype(np.int64)
