"""The table of cases: a name, the batches, the topic configs, and the API version."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from tests.conformance.odd_batches import payloads
from tests.conformance.odd_batches.encode import (
    CODECS,
    CONTROL,
    DELETE_HORIZON,
    GZIP,
    LOG_APPEND_TIME,
    LZ4,
    SNAPPY,
    TRANSACTIONAL,
    ZSTD,
    Odd,
    Rec,
    legacy,
    varint,
)
from tests.conformance.odd_batches.large_records import LARGE_RECORDS, LIMIT

_NOTHING: Mapping[str, str] = MappingProxyType({})
_TWO = (Rec(b"a", b"1"), Rec(b"b", b"2", time=5))
_THREE = (*_TWO, Rec(b"c", b"3", time=2))
_NO_KEYS = (Rec(b"a"), Rec(None), Rec(b"c"), Rec(None, None))
_LONG = (Rec(b"a", b"x" * 4000),)
_COMPACT = {"cleanup.policy": "compact"}
_STAMPED = {"message.timestamp.type": "LogAppendTime"}
_HOUR_MS = 3_600_000
_LONGEST = b"\xff" * 9 + b"\x01"


class Case(NamedTuple):
    """A case. Its topic is named after it; `transactional` begins a transaction first."""

    name: str
    batches: tuple[Odd, ...]
    configs: Mapping[str, str] = _NOTHING
    version: int = 12
    transactional: bool = False

    @property
    def topic(self) -> str:
        """Return the topic of the case."""
        return "".join(one if one.isalnum() else "-" for one in self.name)


Rows = dict[str, Odd]


def _cases(
    area: str, rows: Rows, configs: Mapping[str, str] = _NOTHING, version: int = 12
) -> list[Case]:
    return [Case(f"{area}: {name}", (odd,), configs, version) for name, odd in rows.items()]


def _bytes(count: int) -> bytes:
    return bytes(count)


_SOUND = Odd().encode(0) or b""

_FRAME: Rows = {
    "sound": Odd(_THREE),
    "null": Odd(is_null=True),
    "empty": Odd(raw=b""),
    "11 bytes": Odd(cut=11),
    "16 bytes": Odd(cut=16),
    "17 bytes": Odd(cut=17),
    "60 bytes": Odd(cut=60),
    "cut by a byte": Odd(_TWO, cut=-1),
    "1 byte after": Odd(_TWO, after=b"\x07"),
    "11 bytes after": Odd(_TWO, after=bytes(11)),
    "16 zero bytes after": Odd(_TWO, after=bytes(16)),
    "40 zero bytes after": Odd(_TWO, after=bytes(40)),
    "16 bytes of a second batch after": Odd(_TWO, after=_SOUND[:16]),
    "60 bytes of a second batch after": Odd(_TWO, after=_SOUND[:60]),
    "a second batch after": Odd(_TWO, after=_SOUND),
    "a message of magic 1 after": Odd(_TWO, after=legacy(1)),
    "an unknown magic after": Odd(_TWO, after=_SOUND[:16] + b"\x05" + _SOUND[17:]),
    "length 13": Odd(raw=_SOUND[:8] + bytes((0, 0, 0, 13)) + _SOUND[12:]),
    "length 14": Odd(raw=_SOUND[:8] + bytes((0, 0, 0, 14)) + _SOUND[12:26]),
    "length 14 of more": Odd(raw=_SOUND[:8] + bytes((0, 0, 0, 14)) + _SOUND[12:]),
    "length 48": Odd(raw=_SOUND[:8] + bytes((0, 0, 0, 48)) + _SOUND[12:60]),
    "length 49": Odd(raw=_SOUND[:8] + bytes((0, 0, 0, 49)) + _SOUND[12:61]),
    "length -1": Odd(raw=_SOUND[:8] + b"\xff\xff\xff\xff" + _SOUND[12:]),
    "length too small by 1": Odd(_TWO, length_by=-1),
    "length too great by 1": Odd(_TWO, length_by=1),
    "magic 0": Odd(magic=0),
    "magic 1": Odd(magic=1),
    "magic 3": Odd(magic=3),
    "magic -1": Odd(magic=-1),
    "message of magic 0": Odd(raw=legacy(0)),
    "message of magic 1": Odd(raw=legacy(1)),
    "gzip messages of magic 1": Odd(
        raw=legacy(1, payloads.as_codec(GZIP)(legacy(1) + legacy(1, offset=1)), GZIP)
    ),
    "CRC": Odd(wrong_crc=True),
    "CRC of a second batch": Odd(after=Odd(wrong_crc=True).encode(0) or b""),
    "leader epoch 7": Odd(leader_epoch=7),
    "leader epoch -2": Odd(leader_epoch=-2),
    "base offset 1": Odd(base_offset=1),
    "base offset -1": Odd(base_offset=-1),
}

_COUNTS: Rows = {
    "0 of 1, delta 0": Odd(claimed=0, last_delta=0),
    "0 of none, delta -1": Odd(section=b"", claimed=0),
    "0 of none, delta 0": Odd(section=b"", claimed=0, last_delta=0),
    "1 of none": Odd(section=b"", claimed=1),
    "-1": Odd(claimed=-1, last_delta=0),
    "2 of 1": Odd(claimed=2),
    "3 of 2": Odd(_TWO, claimed=3),
    "2 of 3": Odd(_THREE, claimed=2),
    "1 of 2": Odd(_TWO, claimed=1),
    "1 of 2, delta 1": Odd(_TWO, claimed=1, last_delta=1),
    "2 of 2, delta 2": Odd(_TWO, last_delta=2),
    "2 of 2, delta 0": Odd(_TWO, last_delta=0),
    "delta -1": Odd(last_delta=-1),
    "the largest": Odd(claimed=2**31 - 1),
    "the largest delta": Odd(last_delta=2**31 - 1),
}

_ATTRIBUTES: Rows = {
    "unused bit 7": Odd(attributes=0x80),
    "unused bits 8 to 15": Odd(attributes=0xFF00),
    "unused bit 8, wrong largest time": Odd(attributes=0x0100, max_time=-1),
    "unused bits 7 and 8, log append time": Odd(attributes=0x0188),
    "delete horizon": Odd(_TWO, attributes=DELETE_HORIZON),
    "delete horizon, wrong largest time": Odd(_TWO, attributes=DELETE_HORIZON, max_time=-1),
    "control": Odd(attributes=CONTROL),
    "control of a producer": Odd(attributes=CONTROL, producer=(9, 0, 0)),
    "transactional without an id": Odd(attributes=TRANSACTIONAL, producer=(9, 0, 0)),
    "transactional without a producer": Odd(attributes=TRANSACTIONAL),
    "log append time": Odd(_TWO, attributes=LOG_APPEND_TIME),
    "log append time -1": Odd(_TWO, attributes=LOG_APPEND_TIME, max_time=-1),
    "codec 5": Odd(attributes=5),
    "codec 6": Odd(attributes=6),
    "codec 7": Odd(attributes=7),
}

_TIMESTAMPS: Rows = {
    "largest time -1": Odd(_THREE, max_time=-1),
    "largest time 0": Odd(_THREE, max_time=0),
    "largest time too small": Odd(_THREE, max_time=Odd().base_time),
    "largest time too great": Odd(_THREE, max_time=Odd().base_time + 1000),
    "largest time of the last": Odd(_THREE, max_time=Odd().base_time + 2),
    "largest time in the future": Odd(_THREE, max_time=1 << 45),
    "largest time smallest": Odd(_THREE, max_time=-(1 << 63)),
    "base time -1": Odd(base_time=-1),
    "base time -1, largest time 5": Odd(base_time=-1, max_time=5),
    "base time -1, deltas": Odd(_THREE, base_time=-1),
    "base time -2": Odd(base_time=-2),
    "base time 0": Odd(base_time=0),
    "delta before the base time": Odd((Rec(time=-7), Rec(time=-3)), max_time=-1),
    "delta to below zero": Odd((Rec(time=-5),), base_time=2),
    "delta of ten bytes": Odd((Rec(time=_LONGEST),), max_time=0),
    "delta overflows": Odd((Rec(time=2**63 - 1),), max_time=0),
    "records in the future": Odd((Rec(), Rec(time=2)), from_now_ms=2 * _HOUR_MS),
    "records in the future, largest time -1": Odd(from_now_ms=2 * _HOUR_MS, max_time=-1),
    "one of three in the future": Odd(
        (Rec(), Rec(time=3 * _HOUR_MS), Rec()), from_now_ms=0, max_time=0
    ),
}
_TOO_OLD: Rows = {
    "old": Odd(_TWO, from_now_ms=-2 * _HOUR_MS),
    "old, largest time -1": Odd(_TWO, from_now_ms=-2 * _HOUR_MS, max_time=-1),
    "one of two old": Odd((Rec(time=-3 * _HOUR_MS), Rec()), from_now_ms=0, max_time=-1),
    "none": Odd(base_time=-1),
    "four old": Odd((Rec(), Rec(), Rec(), Rec())),
    "old by the header alone": Odd(from_now_ms=0, max_time=5),
    "old zstd": Odd(_TWO, codec=ZSTD, from_now_ms=-2 * _HOUR_MS, max_time=-1),
}
_STAMPED_ROWS: Rows = {
    "sound": Odd(_THREE),
    "largest time -1": Odd(_THREE, max_time=-1),
    "no time": Odd(base_time=-1),
    "in the future": Odd(from_now_ms=20 * _HOUR_MS),
    "log append time": Odd(_TWO, attributes=LOG_APPEND_TIME),
    "log append time, no time": Odd(_TWO, attributes=LOG_APPEND_TIME, max_time=-1),
    "delete horizon and unused bits": Odd(_TWO, attributes=DELETE_HORIZON | 0x180),
    "log append time, null key": Odd((Rec(None, None), Rec()), attributes=LOG_APPEND_TIME),
    "zstd, log append time, null key": Odd(
        (Rec(None, None), Rec()), attributes=LOG_APPEND_TIME, codec=ZSTD
    ),
    "zstd": Odd(_THREE, codec=ZSTD),
    "zstd, offsets with gaps": Odd((Rec(offset=3), Rec(offset=9)), codec=ZSTD),
    "5 of 2": Odd(_TWO, claimed=5),
}

_PRODUCERS: Rows = {
    "sequence -1": Odd(producer=(9, 0, -1)),
    "sequence -2": Odd(producer=(9, 0, -2)),
    "epoch -1": Odd(producer=(9, -1, 0)),
    "epoch -2": Odd(producer=(9, -2, 0)),
    "id -2": Odd(producer=(-2, 0, 0)),
    "id -1 with epoch and sequence": Odd(producer=(-1, 3, 8)),
    "id -1 with sequence -5": Odd(producer=(-1, -1, -5)),
    "first sequence 7": Odd(producer=(9, 0, 7)),
    "sequence wraps": Odd(_TWO, producer=(9, 0, 2**31 - 1)),
    "largest time -1": Odd(_TWO, producer=(9, 0, 0), max_time=-1),
    "3 of 2": Odd(_TWO, producer=(9, 0, 0), claimed=3),
    "garbage zstd": Odd(codec=ZSTD, payload=payloads.garbage, producer=(9, 0, 0)),
}

_RECORDS: Rows = {
    "no key, no value": Odd((Rec(None, None),)),
    "empty key and value": Odd((Rec(b"", b""),)),
    "key length -2": Odd((Rec(sized_key=varint(-2)),)),
    "value length -3": Odd((Rec(sized_value=varint(-3)),)),
    "key longer than the record": Odd((Rec(sized_key=varint(9) + b"k"), Rec())),
    "value longer than the record": Odd((Rec(sized_value=varint(9) + b"v"), Rec(), Rec())),
    "key longer than the batch": Odd((Rec(sized_key=varint(900) + b"k"),)),
    "value longer than the batch": Odd((Rec(sized_value=varint(900) + b"v"),)),
    "value of 2 GB": Odd((Rec(sized_value=varint(2**31 - 1)),)),
    "attributes": Odd((Rec(attributes=0xFF), Rec(attributes=1))),
    "length too small": Odd((Rec(length_by=-1), Rec())),
    "length too great": Odd((Rec(length_by=1), Rec())),
    "last length too great": Odd((Rec(), Rec(length_by=1))),
    "length 0": Odd((Rec(sized_length=b"\x00"),)),
    "length -1": Odd((Rec(sized_length=b"\x01"),)),
    "length of five bytes": Odd((Rec(sized_length=b"\x90\x80\x80\x80\x00"),)),
    "length of six bytes": Odd((Rec(sized_length=b"\x90\x80\x80\x80\x80\x00"),)),
    "key length of two bytes": Odd((Rec(sized_key=b"\x82\x00k"),)),
    "key length of five bytes": Odd((Rec(sized_key=b"\x82\x80\x80\x80\x00k"),)),
    "key length of six bytes": Odd((Rec(sized_key=b"\x82\x80\x80\x80\x80\x00k"),)),
    "null key in five bytes": Odd((Rec(sized_key=b"\xff\xff\xff\xff\x0f"),)),
    "length with bits beyond 32": Odd((Rec(sized_key=b"\x82\x80\x80\x80\x70k"),)),
    "time delta of two bytes": Odd((Rec(time=b"\x84\x00"),), max_time=Odd().base_time + 2),
    "time delta of eleven bytes": Odd((Rec(time=b"\xff" * 10 + b"\x01"),)),
    "offset delta of two bytes": Odd((Rec(offset=b"\x80\x00"),)),
    "offset delta of six bytes": Odd((Rec(offset=b"\x80\x80\x80\x80\x80\x00"),)),
    "headers -1": Odd((Rec(headers=varint(-1)),)),
    "headers 1 of none": Odd((Rec(headers=varint(1)),)),
    "headers 1 of none, a record after": Odd((Rec(headers=varint(1)), Rec())),
    "headers 0 of one": Odd((Rec(headers=varint(0) + b"\x02h\x02v"),)),
    "headers more than bytes": Odd((Rec(headers=varint(99) + b"\x02h\x02v"),)),
    "header": Odd((Rec(headers=varint(1) + b"\x02h\x02v"),)),
    "header key null": Odd((Rec(headers=varint(1) + b"\x01\x02v"),)),
    "header key empty": Odd((Rec(headers=varint(1) + b"\x00\x02v"),)),
    "header key not UTF-8": Odd((Rec(headers=varint(1) + b"\x04\xff\xfe\x02v"),)),
    "header key longer than the batch": Odd((Rec(headers=varint(1) + varint(900) + b"h"),)),
    "header value null": Odd((Rec(headers=varint(1) + b"\x02h\x01"),)),
    "header value length -2": Odd((Rec(headers=varint(1) + b"\x02h\x03"),)),
    "header value longer than the record": Odd((Rec(headers=varint(1) + b"\x02h\x08v"), Rec())),
    "header value longer than the batch": Odd((Rec(headers=varint(1) + b"\x02h\x60v"),)),
    "bytes after the headers": Odd((Rec(tail=b"\x00\x01"), Rec())),
    "bytes after the last headers": Odd((Rec(), Rec(tail=b"\x07"))),
    "a byte after the records": Odd(section=Rec().encode(0) + b"\x00", claimed=1),
    "offset deltas reversed": Odd((Rec(offset=1), Rec(offset=0))),
    "offset deltas with gaps": Odd((Rec(offset=0), Rec(offset=5), Rec(offset=2))),
    "offset deltas from 1": Odd((Rec(offset=1), Rec(offset=2))),
    "offset deltas the same": Odd((Rec(offset=0), Rec(offset=0))),
    "offset delta negative": Odd((Rec(offset=-1),)),
    "garbage": Odd(section=b"\xff" * 40, claimed=1),
}

_IN_CODECS: Rows = {
    name: _RECORDS[name]
    for name in (
        "no key, no value", "key length -2", "key longer than the record",
        "value longer than the batch", "attributes", "length too small", "length too great",
        "length 0", "key length of six bytes",
        "time delta of eleven bytes", "headers -1", "headers 1 of none", "headers more than bytes",
        "header key null", "header key not UTF-8", "header value length -2",
        "bytes after the headers", "bytes after the last headers", "a byte after the records",
        "offset deltas reversed", "offset deltas with gaps", "offset deltas from 1", "garbage",
    )
} | {
    name: _COUNTS[name] for name in ("1 of none", "3 of 2", "2 of 3", "1 of 2, delta 1")
} | {
    name: _TIMESTAMPS[name]
    for name in ("largest time -1", "largest time too great", "records in the future",
                 "base time -2", "delta overflows")
} | {
    name: _ATTRIBUTES[name] for name in ("log append time", "delete horizon", "control")
}  # fmt: skip
"""Cases that are also sent compressed, because Kafka then reads records with other code."""


def _in_codecs() -> list[Case]:
    cases = _cases("zstd", {name: odd._replace(codec=ZSTD) for name, odd in _IN_CODECS.items()})
    few = ("3 of 2", "1 of 2, delta 1", "largest time -1", "offset deltas from 1", "headers -1")
    for codec in ("gzip", "snappy", "lz4"):
        rows = {name: _IN_CODECS[name]._replace(codec=CODECS[codec]) for name in few}
        cases += _cases(codec, rows)
    return cases


def _payloads() -> list[Case]:
    cases = []
    for name, codec in CODECS.items():
        odd = Odd(_THREE, codec=codec)
        frames: dict[str, payloads.Payload] = {
            "sound": payloads.as_codec(codec),
            "garbage": payloads.garbage,
            "empty": payloads.empty,
            "not compressed": bytes,
            "first byte": payloads.flipped(codec, 0),
            "last byte": payloads.flipped(codec, -1),
            "cut by a byte": payloads.cut(codec, 1),
            "cut by 9 bytes": payloads.cut(codec, 9),
            "garbage after": payloads.followed(codec, b"\x01\x02\x03\x04\x05\x06\x07\x08"),
            "zeros after": payloads.followed(codec, bytes(8)),
            "two frames": payloads.in_two(codec),
            "an empty frame after": payloads.with_empty_frame(codec),
        }
        rows = {f"payload {one}": odd._replace(payload=frame) for one, frame in frames.items()}
        cases += _cases(name, rows)
    other: dict[str, tuple[int, payloads.Payload]] = {
        "gzip: payload with a name": (GZIP, payloads.gzip_with_name),
        "gzip: payload of zlib": (GZIP, payloads.zlib_stream),
        "gzip: payload of zstd": (GZIP, payloads.as_codec(ZSTD)),
        "zstd: payload of gzip": (ZSTD, payloads.as_codec(GZIP)),
        "snappy: payload raw": (SNAPPY, payloads.raw_snappy),
        "snappy: payload in frames": (SNAPPY, payloads.framed_snappy),
        "snappy: 3 bytes after": (SNAPPY, payloads.followed(SNAPPY, b"\x00\x00\x01")),
        "snappy: a cut header after": (SNAPPY, payloads.followed(SNAPPY, b"\x82SNAPPY\x00\x00")),
        "snappy: payload of version 1, compatible to 0": (SNAPPY, payloads.xerial_version(1, 0)),
        "gzip: 19 bytes of a member after": (
            GZIP, payloads.followed(GZIP, payloads.as_codec(GZIP)(b"")[:19])),
        "gzip: 18 bytes of a member after": (
            GZIP, payloads.followed(GZIP, payloads.as_codec(GZIP)(b"")[:18])),
        "gzip: 30 bytes of garbage after": (GZIP, payloads.followed(GZIP, b"g" * 30)),
        "snappy: payload of version 2": (SNAPPY, payloads.xerial_version(2, 1)),
        "snappy: payload of version 2 only": (SNAPPY, payloads.xerial_version(2, 2)),
        "lz4: payload of the library": (LZ4, payloads.lz4_frame),
        "lz4: payload with linked blocks": (LZ4, payloads.lz4_linked),
        "lz4: payload of another version": (LZ4, payloads.lz4_other_version),
        "lz4: payload header checksum": (LZ4, payloads.flipped(LZ4, 6)),
        "zstd: skippable frame after": (
            ZSTD, payloads.followed(ZSTD, b"\x50\x2a\x4d\x18\x02\x00\x00\x00ab")),
    }  # fmt: skip
    return cases + [
        Case(name, (Odd(_THREE, codec=codec, payload=payload),))
        for name, (codec, payload) in other.items()
    ]


def _compression_types() -> list[Case]:
    cases = []
    for target in ("uncompressed", "gzip", "snappy", "lz4", "zstd"):
        configs = {"compression.type": target}
        rows = {
            f"from {name}": Odd(_THREE, codec=codec, max_time=-1)
            for name, codec in ({"none": 0} | CODECS).items()
        }
        cases += _cases(f"to {target}", rows, configs)
    zstd = {"compression.type": "zstd"}
    rows = {
        "offset deltas with gaps": _RECORDS["offset deltas with gaps"],
        "offset delta negative": _RECORDS["offset delta negative"],
        "record attributes": _RECORDS["attributes"],
        "unused bits": _ATTRIBUTES["unused bits 8 to 15"],
        "delete horizon": _ATTRIBUTES["delete horizon"],
        "log append time": _ATTRIBUTES["log append time"],
        "control": _ATTRIBUTES["control"],
        "base time -1": Odd(base_time=-1),
        "base time -1, deltas": Odd(_THREE, base_time=-1),
        "base time -2": Odd(base_time=-2),
        "first time is not the smallest": Odd((Rec(time=9), Rec(time=-2))),
        "producer": Odd(_TWO, producer=(9, 1, 4)),
        "3 of 2": Odd(_TWO, claimed=3),
        "2 of 3": Odd(_THREE, claimed=2),
        "in the future": Odd(_TWO, from_now_ms=2 * _HOUR_MS, max_time=-1),
        "header key null": _RECORDS["header key null"],
        "header key not UTF-8": _RECORDS["header key not UTF-8"],
        "key length of two bytes": _RECORDS["key length of two bytes"],
        "null key in five bytes": _RECORDS["null key in five bytes"],
        "bytes after the headers": _RECORDS["bytes after the headers"],
        "garbage gzip": Odd(codec=GZIP, payload=payloads.garbage),
        "no record of gzip": Odd(section=b"", codec=GZIP, claimed=1),
        "trailing bytes": Odd(_TWO, after=b"\x07"),
    }
    cases += _cases("to zstd", rows, zstd)
    cases += _cases("to zstd, stamped", {
        "from gzip": Odd(_THREE, codec=GZIP),
        "from none, no time": Odd(base_time=-1),
        "unchanged": Odd(_THREE, codec=ZSTD, max_time=-1),
    }, zstd | _STAMPED)  # fmt: skip
    cases += _cases("to zstd, compacted", {"keys": Odd(_NO_KEYS)}, zstd | _COMPACT)
    return cases


def _sizes() -> list[Case]:
    zeros = Odd(_LONG, codec=ZSTD)
    small = {"max.message.bytes": "1000"}
    uncompressed = {"compression.type": "uncompressed"}
    segment = {"segment.bytes": str(1 << 20), "max.message.bytes": str(1 << 22)}
    big = Odd((Rec(b"a", b"x" * 1_100_000),), codec=ZSTD)
    return [
        Case("size: compressed below the limit", (zeros,), small),
        Case("size: stored above the limit", (zeros,), small | uncompressed),
        Case("size: sent above the limit", (Odd(_LONG),), small | {"compression.type": "zstd"}),
        Case("size: sent above the limit as it is stored", (Odd(_LONG),), small),
        Case("size: wrong CRC above the limit", (Odd(_LONG, wrong_crc=True),), small),
        Case("size: base offset above the limit", (Odd(_LONG, base_offset=1),), small),
        Case("size: bytes after above the limit", (Odd(_TWO, after=bytes(11)),),
             {"max.message.bytes": "90"}),
        Case("size: segment", (big,), segment),
        Case("size: stored above the segment", (big,),
             segment | uncompressed),
    ]  # fmt: skip


def _compacted() -> list[Case]:
    rows = {
        "no key": Odd((Rec(None),)),
        "one without a key": Odd((Rec(b"a"), Rec(None))),
        "two without keys": Odd(_NO_KEYS),
        "five without keys": Odd((Rec(None),) * 5),
        "key length -2": _RECORDS["key length -2"],
        "null key in five bytes": _RECORDS["null key in five bytes"],
        "empty key": Odd((Rec(b""),)),
        "no value": Odd((Rec(b"a", None),)),
        "no key, in the future": Odd((Rec(), Rec(None), Rec()), from_now_ms=2 * _HOUR_MS),
        "no key, 4 of 3": Odd((Rec(), Rec(None), Rec()), claimed=4),
        "no key, base offset": Odd((Rec(None),), base_offset=1),
        "no key in zstd": Odd((Rec(b"a"), Rec(None)), codec=ZSTD),
        "no key of a producer": Odd((Rec(None),), producer=(9, 0, 0)),
        "garbage zstd": Odd(codec=ZSTD, payload=payloads.garbage),
        "delete horizon": _ATTRIBUTES["delete horizon"],
    }
    both = {"cleanup.policy": "compact,delete"}
    return _cases("compacted", rows, _COMPACT) + _cases("both", {"no key": rows["no key"]}, both)


def _sequences() -> list[Case]:
    first, second = (Odd(_TWO, producer=(9, 0, one)) for one in (0, 2))
    return [
        Case("sent again", (first, first)),
        Case("sent again with largest time -1", (first, first._replace(max_time=-1))),
        Case("sent again with a wrong count", (first, first._replace(claimed=3))),
        Case("sent again, other records", (first, first._replace(records=(Rec(), Rec(b"z"))))),
        Case("sequence after a refused batch", (first, second._replace(claimed=3), second)),
        Case("sent again to a stamped topic", (first, first), _STAMPED),
        Case("sent again to zstd", (first, first), {"compression.type": "zstd"}),
        Case("two batches, the second with largest time -1",
             (Odd(_TWO), Odd((Rec(time=50),), max_time=-1))),
        Case("two batches, the first with a largest time in the future",
             (Odd(_TWO, max_time=1 << 45), Odd((Rec(time=50),)))),
    ]  # fmt: skip


def _transactions() -> list[Case]:
    own = Odd(_TWO, attributes=TRANSACTIONAL, producer=(0, 0, 0), own=True)
    rows = {
        "sound": own,
        "largest time -1": own._replace(max_time=-1),
        "3 of 2": own._replace(claimed=3),
        "garbage zstd": own._replace(codec=ZSTD, payload=payloads.garbage),
        "control": own._replace(attributes=TRANSACTIONAL | CONTROL),
        "sequence -1": own._replace(producer=(0, 0, -1)),
        "first sequence 3": own._replace(producer=(0, 0, 3)),
        "not transactional": own._replace(attributes=0),
    }
    cases = [Case(f"transaction: {name}", (odd,), transactional=True) for name, odd in rows.items()]
    zstd = {"compression.type": "zstd"}
    return [*cases, Case("transaction: to zstd", (own,), zstd, transactional=True)]


def _versions() -> list[Case]:
    cases = []
    for version in (3, 5, 7, 8, 9):
        cases += _cases(
            f"version {version}",
            {
                "largest time -1": Odd(_TWO, max_time=-1),
                "3 of 2": Odd(_TWO, claimed=3),
                "garbage gzip": Odd(codec=GZIP, payload=payloads.garbage),
                "zstd": Odd(codec=ZSTD),
                "message of magic 1": Odd(raw=legacy(1)),
            },
            version=version,
        )
        cases += _cases(f"version {version}", {"no key": Odd(_NO_KEYS)}, _COMPACT, version)
    return cases


CASES: tuple[Case, ...] = (
    *_cases("frame", _FRAME),
    *_cases("count", _COUNTS),
    *_cases("attributes", _ATTRIBUTES),
    *_cases("time", _TIMESTAMPS),
    *_cases("before.max", _TOO_OLD, {"message.timestamp.before.max.ms": str(_HOUR_MS)}),
    *_cases("stamped", _STAMPED_ROWS, _STAMPED),
    *_cases("producer", _PRODUCERS),
    *_cases("record", _RECORDS),
    *_in_codecs(),
    *_payloads(),
    *_compression_types(),
    *_sizes(),
    *_compacted(),
    *_sequences(),
    *_transactions(),
    *_versions(),
    *_cases("decompressed", LARGE_RECORDS, LIMIT),
    *_cases("decompressed to gzip", LARGE_RECORDS, LIMIT | {"compression.type": "gzip"}),
)
"""Every case, in the order of play."""
