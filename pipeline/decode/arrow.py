"""Decode a batch of raw records into the columns of `schema.OFFSETS_LOG`."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline import schema
from pipeline.decode.commits import Commits, read_commits
from pipeline.decode.fields import Flags, Integers, Slices, slices_of
from pipeline.decode.kinds import COMMIT_TYPES, KINDS, UNKNOWN
from pipeline.decode.others import Columns, decode_other
from pipeline.schema.arrow import arrow_schema

NO_KEY = "there is no key"
SHORT_KEY = "the key has no record type"
KEY_EARLY = "the key ends early"
KEY_LATE = "there are bytes behind the key"
VALUE_EARLY = "the value ends early"
VALUE_LATE = "there are bytes behind the value"

_NOT_A_TYPE = -(2**15) - 1  # no record type has this value: it is outside the range of int16


@cache
def output_schema() -> pa.Schema:
    """Return the Arrow schema of `decode_arrow`'s result."""
    return arrow_schema(schema.OFFSETS_LOG)


def decode_arrow(raw: pa.RecordBatch) -> pa.RecordBatch:
    """Decode records with the columns of `schema.RAW` to those of `schema.OFFSETS_LOG`.

    Malformed bytes raise no error: the row has the reason in `problem`, and its key and value in
    hex.
    """
    keys, values = slices_of(raw.column("key")), slices_of(raw.column("value"))
    record_type = _leading_numbers(keys)
    version = _leading_numbers(values)
    is_commit = np.isin(record_type, COMMIT_TYPES)
    commits = read_commits(keys, values, is_commit, record_type == 0, version)
    reasons = _Reasons(len(keys.start))
    _commit_reasons(reasons, commits, record_type, version)
    reasons.say(~keys.valid, NO_KEY)
    reasons.say(keys.valid & (keys.length < 2), SHORT_KEY)
    has_type = record_type != _NOT_A_TYPE
    known = np.isin(record_type, list(KINDS))
    reasons.say_number(has_type & ~known, record_type, "record type {} is not known")
    others, rows = _decode_others(keys, values, record_type, known & ~is_commit)
    for row, columns in zip(others, rows, strict=True):
        if columns.get("problem") is not None:
            reasons.texts[int(row)] = columns["problem"]
    damage = raw.column("damage")
    for row in np.flatnonzero(np.asarray(damage.is_valid())):
        reasons.texts[int(row)] = damage[int(row)].as_py()
    arrays = {name: raw.column(name) for name in ("log_partition", "log_offset")}
    arrays["log_timestamp_ms"] = raw.column("log_timestamp_ms")
    arrays["record_type"] = pa.array(record_type, pa.int32(), mask=~has_type)
    arrays["kind"] = _kind_column(np.where(known, record_type, _NOT_A_TYPE))
    arrays["value_version"] = pa.array(version, pa.int32(), mask=version == _NOT_A_TYPE)
    is_whole = ~np.asarray(damage.is_valid())
    arrays["tombstone"] = pa.array(~values.valid, mask=~is_whole)
    arrays["record_bytes"] = pa.array(keys.length + values.length, pa.int32())
    arrays.update(commits.columns)
    _merge(arrays, others, rows, len(known))
    arrays["problem"], arrays["key_hex"], arrays["value_hex"] = reasons.columns(raw)
    arrays["earlier_commits"] = pa.nulls(len(known), pa.int64())
    schema = output_schema()
    return pa.RecordBatch.from_arrays(
        [arrays[name].cast(schema.field(name).type) for name in schema.names], schema=schema
    )


class _Reasons:
    """Reasons why rows could not be decoded, by row; most batches have none."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.texts: dict[int, str] = {}

    def say(self, rows: Flags, text: str) -> None:
        """Set the same reason for all `rows`."""
        for row in np.flatnonzero(rows):
            self.texts[int(row)] = text

    def say_number(self, rows: Flags, numbers: Integers, text: str) -> None:
        """Set a reason for each of `rows` that includes its number."""
        for row in np.flatnonzero(rows):
            self.texts[int(row)] = text.format(numbers[row])

    def columns(self, raw: pa.RecordBatch) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Return the columns `problem`, `key_hex` and `value_hex`."""
        nothing = pa.nulls(self.count, pa.string())
        if not self.texts:
            return nothing, nothing, nothing
        rows = sorted(self.texts)
        index = _spread(np.array(rows), self.count)
        hexed = []
        for name in ("key", "value"):
            some = raw.column(name).take(pa.array(rows)).to_pylist()
            hexed.append(
                pa.array([None if value is None else value.hex() for value in some], pa.string())
            )
        texts = pa.array([self.texts[row] for row in rows], pa.string())
        return texts.take(index), hexed[0].take(index), hexed[1].take(index)


def _commit_reasons(
    reasons: _Reasons, commits: Commits, record_type: Integers, version: Integers
) -> None:
    reasons.say(commits.key_early, KEY_EARLY)
    reasons.say(commits.key_late, KEY_LATE)
    text = "value version {} of an offset commit is not known"
    reasons.say_number(commits.unknown_version, version, text)
    reasons.say(commits.value_early, VALUE_EARLY)
    reasons.say(commits.value_late, VALUE_LATE)


def _leading_numbers(slices: Slices) -> Integers:
    """Return each row's leading int16; `_NOT_A_TYPE` if the row has fewer than two bytes."""
    present = slices.length >= 2
    start = np.where(present, slices.start, 0)
    high, low = slices.data[start].astype(np.int8), slices.data[start + 1]
    return np.where(present, high.astype(np.int64) << 8 | low, _NOT_A_TYPE)


def _decode_others(
    keys: Slices, values: Slices, record_type: Integers, mine: Flags
) -> tuple[npt.NDArray[np.intp], list[Columns]]:
    """Return the positions of the rows that are `mine`, and each row's decoded columns."""
    places = np.flatnonzero(mine)
    rows = []
    for row in places:
        key = keys.data[keys.start[row] : keys.stop[row]].tobytes()
        value = values.data[values.start[row] : values.stop[row]].tobytes()
        whole = value if values.valid[row] else None
        rows.append(decode_other(int(record_type[row]), key, whole))
    return places, rows


def _kind_column(record_type: Integers) -> pa.Array:
    """Return the names of the record types; `UNKNOWN` for a type without a name."""
    numbers = sorted(KINDS)
    names = pa.array([UNKNOWN, *(KINDS[number] for number in numbers)])
    place = np.searchsorted(numbers, record_type)
    return names.take(pa.array(np.where(record_type == _NOT_A_TYPE, 0, place + 1)))


def _merge(
    arrays: dict[str, pa.Array], places: npt.NDArray[np.intp], rows: list[Columns], count: int
) -> None:
    """Add the columns of `decode_other` to `arrays`, and merge its group ids into `group`."""
    schema = output_schema()
    index = _spread(places, count) if rows else None
    for name in schema.names:
        if name in ("problem", "key_hex", "value_hex"):
            continue
        kind = schema.field(name).type
        if index is None:
            if name not in arrays:
                arrays[name] = pa.nulls(count, kind)
        elif name == "group":
            column = pa.array([row.get(name) for row in rows], kind).take(index)
            arrays[name] = pc.coalesce(arrays[name], column)
        elif name not in arrays:
            arrays[name] = pa.array([row.get(name) for row in rows], kind).take(index)


def _spread(places: npt.NDArray[np.intp], count: int) -> pa.Array:
    """Return indices for `take` that move the n-th value to row `places[n]`; null elsewhere."""
    index = np.zeros(count, np.int64)
    index[places] = np.arange(len(places))
    empty = np.ones(count, np.bool_)
    empty[places] = False
    return pa.array(index, mask=empty)
