"""Which record is the last of its key: what one pass of compaction knows (Kafka's OffsetMap).

Beside the last offset of each key it counts how many records of each batch are still the last of
their keys. In a log of commits nearly every batch that was read has none left, so it is dropped
without being opened again, and one that has all of them is copied as it lies.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from protocol.batch_header import BatchHeader
from protocol.raw_records import RawKey, raw_keys
from protocol.uniform_records import uniform_keys

# Keys up to this long are remembered as they are, longer ones by a digest.
KEY_BYTES_MAX = 128


class LatestKeys:
    """The last offset of each key of the batches that were remembered, in ascending order."""

    __slots__ = ("_bases", "_last", "_left", "_number_of", "_with_tombstones")

    def __init__(self) -> None:
        self._last: dict[bytes, int] = {}
        # Of each batch: its base offset, and how many of its records are the last of their keys.
        self._bases: list[int] = []
        self._left: list[int] = []
        self._number_of: dict[int, int] = {}
        self._with_tombstones: set[int] = set()

    def __len__(self) -> int:
        """How many keys are known."""
        return len(self._last)

    def remember(self, section: bytes, batch: BatchHeader) -> None:
        """Take in a batch that follows all before it; its CRC must be right.

        Raises ProtocolError when its records do not parse.
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
        # The batch of the key before, since keys that came together are superseded together.
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
        """Take in a batch of which every key comes again later."""
        self._number_of[batch.base_offset] = len(self._bases)
        self._bases.append(batch.base_offset)
        self._left.append(0)

    def _remember_uniform(self, keys: list[bytes], number: int, base_offset: int) -> None:
        """Take in the keys of a batch, each once, none with a tombstone.

        What they supersede mostly came together too: one commit follows another.
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
        """How many records of a batch no later one supersedes; None if it was not remembered."""
        number = self._number_of.get(batch.base_offset)
        return None if number is None else self._left[number]

    def has_tombstones(self, batch: BatchHeader) -> bool:
        """Whether a batch that was remembered holds a tombstone."""
        return self._number_of[batch.base_offset] in self._with_tombstones

    def kept(
        self, section: bytes, batch: BatchHeader, *, drops_tombstones: bool
    ) -> tuple[Sequence[RawKey], bool]:
        """The records of a batch that stay, and whether there is a tombstone among them.

        Raises ProtocolError when they do not parse.
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

    # Longer than any key that is remembered as it is, so the two kinds cannot meet.
    return blake2b(key, digest_size=KEY_BYTES_MAX).digest() + b"#"
