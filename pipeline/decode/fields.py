"""Reading many byte strings at once: one numpy operation for a field of all rows.

`Slices` are the values of an Arrow binary column as places in its buffer; a `Cursor` walks through
all of them in step. A row that turns out damaged is no longer `alive` and does not advance.
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

_PADDING_BYTES = 16  # so that a read of 8 bytes at any place stays within the buffer
_STRING_BYTES_MAX = 0x7FFF


class Slices(NamedTuple):
    """`start` to `stop` of each row in `data`, which is padded; `valid`: not null."""

    data: npt.NDArray[np.uint8]
    start: Integers
    stop: Integers
    valid: Flags

    @property
    def length(self) -> Integers:
        """Bytes of each row; 0 for a null."""
        return self.stop - self.start


def slices_of(column: pa.Array) -> Slices:
    """The values of a binary column; its buffer is copied once, for the padding."""
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
    # The bytes below a null mean nothing.
    return Slices(data, start, np.where(valid, stop, start), valid)


def binary_column(slices: Slices, valid: Flags) -> pa.Array:
    """The rows as Arrow binary, null where not `valid`. Rows follow each other in `data`.

    Arrow's offsets are laid over rows and the gaps between them; taking every other one copies the
    bytes in C++.
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
    """The same as strings; bytes that are no UTF-8 become what `protocol.utf8` makes of them."""
    column = binary_column(slices, valid)
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        # Some are no UTF-8: each different one is decoded once.
        coded = column.dictionary_encode()
        words = [str(word, "utf-8", JAVA_REPLACE) for word in coded.dictionary.to_pylist()]
        return pa.array(words, pa.string()).take(coded.indices)


def uuid_column(data: npt.NDArray[np.uint8], places: Integers, valid: Flags) -> pa.Array:
    """Uuids as Kafka prints them, null where not `valid` or zero.

    They name topics, so each different one is written out once.
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
    """A place in each row. Reads return one value per row; rows not alive give nonsense."""

    __slots__ = ("alive", "data", "position", "stop")

    def __init__(
        self, data: npt.NDArray[np.uint8], position: Integers, stop: Integers, alive: Flags
    ) -> None:
        self.data = data
        self.position = position.copy()
        self.stop = stop
        self.alive = alive.copy()

    def integers(self, width: int, where: Flags | None = None) -> Integers:
        """Signed big-endian numbers of `width` bytes, in the rows `where`; others stay put."""
        need: Any = width if where is None else where * width
        self.alive &= self.stop - self.position >= need
        view: npt.NDArray[Any] = np.ndarray(
            (len(self.data) - width + 1,), f">i{width}", self.data, strides=(1,)
        )
        values = view[np.where(self.alive, self.position, 0)].astype(np.int64)
        self.position += need
        return values

    def unsigned_varints(self, where: Flags | None = None) -> Integers:
        """Unsigned varints of one to five bytes, cut to 32 bits; 0 in rows not in `where`."""
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
        """Step over `lengths` bytes, null (negative) not allowed; returns where they began."""
        start = self.position.copy()
        self.alive &= (lengths >= 0) & (lengths <= self.stop - self.position)
        self.position += np.where(self.alive, lengths, 0)
        return start

    def strings(self, lengths: Integers, rows: Slices) -> Slices:
        """Strings of known lengths; empty ones at the row's start where the row is dead."""
        self.alive &= lengths <= _STRING_BYTES_MAX
        start = self.skip(lengths)
        return Slices(
            self.data,
            np.where(self.alive, start, rows.start),
            np.where(self.alive, self.position, rows.start),
            self.alive.copy(),
        )

    def short_strings(self, rows: Slices) -> Slices:
        """Strings after an int16 length."""
        return self.strings(self.integers(2), rows)

    def subset(self, rows: Integers) -> FieldReader:
        """A cursor over some of the rows; `put_back` moves this one as far as that came."""
        return FieldReader(self.data, self.position[rows], self.stop[rows], self.alive[rows])

    def put_back(self, rows: Integers, other: FieldReader) -> None:
        """Go to where a subset has come."""
        self.position[rows] = other.position
        self.alive[rows] = other.alive

    def zigzags(self, bits: int = 32) -> Integers:
        """Signed varints as records carry them, of five bytes at most, or ten for 64 bits."""
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
