"""The last offset of each key, collected during a compaction (Kafka's OffsetMap).

The number of records that are the last of their key is also counted for each batch. In a log of
offset commits most batches have no such records and are dropped without being read again; a batch
in which all records are the last of their key is copied unchanged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from protocol.batch_header import BatchHeader
from protocol.raw_records import RawKey, raw_keys
from protocol.uniform_records import uniform_keys

# The longest key that is stored unchanged; longer keys are stored as a digest.
KEY_BYTES_MAX = 128


class LatestKeys:
    """The last offset of each key. Batches must be added in ascending order."""

    __slots__ = ("_bases", "_last", "_left", "_number_of", "_with_tombstones")

    def __init__(self) -> None:
        self._last: dict[bytes, int] = {}
        # `_bases`: the base offset of each batch. `_left`: how many records of each batch are the
        # latest of their keys.
        self._bases: list[int] = []
        self._left: list[int] = []
        self._number_of: dict[int, int] = {}
        self._with_tombstones: set[int] = set()

    def __len__(self) -> int:
        """Return the number of known keys."""
        return len(self._last)

    def remember(self, section: bytes, batch: BatchHeader) -> None:
        """Add the keys of the next batch, whose CRC must have been verified.

        Raises ProtocolError if its records are malformed.
        """
        last, left, base_offset = self._last, self._left, batch.base_offset
        number = len(self._bases)
        self._bases.append(base_offset)
        self._number_of[base_offset] = number
        left.append(0)
        uniform = uniform_keys(section, batch.record_count)
        if uniform is not None and len(uniform[0]) <= KEY_BYTES_MAX:
            self._remember_uniform(uniform, number, base_offset)
            return
        added = 0
        # Cache the offset range of the batch that was found last, because keys of one batch are
        # often superseded together.
        low, high, other = 0, 0, 0
        for _, _, _, offset_delta, key, has_value in raw_keys(section, batch.record_count):
            if key is None:
                continue
            if len(key) > KEY_BYTES_MAX:
                key = _digest(key)
            added += 1
            if not has_value:
                self._with_tombstones.add(number)
            superseded = last.get(key)
            last[key] = base_offset + offset_delta
            if superseded is None:
                continue
            if not low <= superseded < high:
                other = bisect_right(self._bases, superseded) - 1
                low = self._bases[other]
                high = self._bases[other + 1] if other < number else superseded + 1
            left[other] -= 1
        left[number] += added

    def remember_superseded(self, batch: BatchHeader) -> None:
        """Add a batch whose keys all occur in a later batch."""
        self._number_of[batch.base_offset] = len(self._bases)
        self._bases.append(batch.base_offset)
        self._left.append(0)

    def _remember_uniform(self, keys: list[bytes], number: int, base_offset: int) -> None:
        """Add the keys of a batch that has each key once and no tombstones.

        Usually all superseded records are in one batch, because one commit follows another.
        """
        bases, left = self._bases, self._left
        superseded = [offset for offset in map(self._last.get, keys) if offset is not None]
        self._last.update(zip(keys, range(base_offset, base_offset + len(keys)), strict=True))
        left[number] = len(keys)
        if not superseded:
            return
        other = bisect_right(bases, min(superseded)) - 1
        if max(superseded) < bases[other + 1]:
            left[other] -= len(superseded)
            return
        for offset in superseded:
            left[bisect_right(bases, offset) - 1] -= 1

    def records_left(self, batch: BatchHeader) -> int | None:
        """Return the number of records that are last of their key; None for an unknown batch."""
        number = self._number_of.get(batch.base_offset)
        return None if number is None else self._left[number]

    def has_tombstones(self, batch: BatchHeader) -> bool:
        """Return whether a batch that was added contains a tombstone."""
        return self._number_of[batch.base_offset] in self._with_tombstones

    def kept(
        self, section: bytes, batch: BatchHeader, *, drops_tombstones: bool
    ) -> tuple[Sequence[RawKey], bool]:
        """Return the records of a batch to keep, and whether they include a tombstone.

        Raises ProtocolError if the records are malformed.
        """
        last, base_offset = self._last.get, batch.base_offset
        kept: list[RawKey] = []
        has_tombstone = False
        for record in raw_keys(section, batch.record_count):
            key = record[4]
            if key is None:
                continue
            if len(key) > KEY_BYTES_MAX:
                key = _digest(key)
            if last(key, -1) > base_offset + record[3]:
                continue
            if not record[5]:
                if drops_tombstones:
                    continue
                has_tombstone = True
            kept.append(record)
        return kept, has_tombstone


def _digest(key: bytes) -> bytes:
    from hashlib import blake2b

    # Longer than any key that is stored unchanged, so digests and keys cannot be equal.
    return blake2b(key, digest_size=KEY_BYTES_MAX).digest() + b"#"
