"""The hashes that choose partitions: Java's for groups, murmur2 for keyed records."""

from __future__ import annotations

_MASK_32 = 0xFFFF_FFFF
_MULTIPLIER = 0x5BD1_E995
_SEED = 0x9747_B28C


def java_hash(text: str) -> int:
    """Return Java's String.hashCode, a signed 32-bit number over UTF-16 units."""
    value = 0
    if text.isascii():
        for unit in text.encode("ascii"):
            value = (31 * value + unit) & _MASK_32
    else:
        units = text.encode("utf-16-be", "surrogatepass")
        for position in range(0, len(units), 2):
            unit = units[position] << 8 | units[position + 1]
            value = (31 * value + unit) & _MASK_32
    return value - (1 << 32) if value & 0x8000_0000 else value


def java_table_size(count: int) -> int:
    """Return the table size of a Java HashMap that has grown to `count` entries one by one."""
    size = 16
    while count > size * 3 // 4:
        size *= 2
    return size


def java_bucket(key: str | int, table_size: int) -> int:
    """Return the bucket of a key in a Java HashMap with this table size, a power of two.

    The key is a string, or the hash code of another object. Iteration visits buckets in ascending
    order, and the keys of one bucket as they were put.
    """
    value = (key if isinstance(key, int) else java_hash(key)) & _MASK_32
    return (value ^ value >> 16) & (table_size - 1)


def partition_for(group: str, partition_count: int) -> int:
    """Return the partition of `__consumer_offsets` for a group (Kafka's Utils.abs)."""
    return (abs(java_hash(group)) & 0x7FFF_FFFF) % partition_count


def murmur2(data: bytes) -> int:
    """Return Kafka's Utils.murmur2 as a signed 32-bit number."""
    length = len(data)
    value = (_SEED ^ length) & _MASK_32
    end = length & ~3
    for position in range(0, end, 4):
        word = int.from_bytes(data[position : position + 4], "little")
        word = (word * _MULTIPLIER) & _MASK_32
        word ^= word >> 24
        word = (word * _MULTIPLIER) & _MASK_32
        value = ((value * _MULTIPLIER) & _MASK_32) ^ word
    tail = data[end:]
    if tail:
        value ^= int.from_bytes(tail, "little")
        value = (value * _MULTIPLIER) & _MASK_32
    value ^= value >> 13
    value = (value * _MULTIPLIER) & _MASK_32
    value ^= value >> 15
    return value - (1 << 32) if value & 0x8000_0000 else value


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition of a key by Kafka's default partitioner."""
    return (murmur2(key) & 0x7FFF_FFFF) % partition_count
