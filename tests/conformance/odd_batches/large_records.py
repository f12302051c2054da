"""Batches for a topic that limits the size of decompressed records to 100 bytes."""

from __future__ import annotations

from tests.conformance.odd_batches import payloads
from tests.conformance.odd_batches.encode import CODECS, GZIP, ZSTD, Odd, Rec, varint

LIMIT = {"max.decompressed.message.bytes": "100"}

_OVERHEAD = 8
_SMALL = Rec(b"b", b"2")


def _of(body_bytes: int) -> Rec:
    """Return a record whose fields have this total size."""
    return Rec(b"a", b"x" * (body_bytes - _OVERHEAD))


_SIZES = {
    "at the limit": (_of(100),),
    "above the limit": (_of(101),),
    "the second above the limit": (_SMALL, _of(101)),
    "far above the limit": (_of(4000),),
    "many below the limit": tuple([_SMALL] * 50),
    "above the limit without a key": (Rec(None, b"x" * 101),),
}
LARGE_RECORDS: dict[str, Odd] = {
    f"{name}, {what}": Odd(records, codec=codec)
    for name, codec in ({"none": 0} | CODECS).items()
    for what, records in _SIZES.items()
} | {
    "gzip, claims to be large": Odd(section=varint(101) + b"\0\0\0\x02a\x02b\0", codec=GZIP),
    "gzip, claims to be small": Odd(section=varint(5) + _of(101).encode(0)[2:], codec=GZIP),
    "zstd, 2 of 3, the third above the limit": Odd(
        (_SMALL, _SMALL, _of(101)), codec=ZSTD, claimed=2
    ),
    "zstd, above the limit in the future": Odd((_of(101),), codec=ZSTD, from_now_ms=7_200_001),
    "gzip, garbage": Odd(codec=GZIP, payload=payloads.garbage),
}
