"""Decode all offset commits of a batch at once: keys of type 0 and 1, values of version 0 to 4."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.decode.fields import FieldReader, Flags, Integers, Slices, string_column, uuid_column

VALUE_VERSION_MAX = 4
_WITH_EXPIRY = 1
_WITH_EPOCH = 3
_FLEXIBLE = 4
_TOPIC_ID_TAG = 0
_UUID_BYTES = 16
_NONE = -1
_PREFIX_BYTES = 2


class Commits(NamedTuple):
    """The columns by name, and flags per row that say what is malformed; at most one is set."""

    columns: dict[str, pa.Array]
    key_early: Flags
    key_late: Flags
    unknown_version: Flags
    value_early: Flags
    value_late: Flags


def read_commits(
    keys: Slices, values: Slices, mine: Flags, legacy: Flags, version: Integers
) -> Commits:
    """Decode the rows that are `mine`; `legacy` rows have key type 0 and value version 0.

    `version` is the version of the value; the number is arbitrary if the value is null or too
    short to have a version.
    """
    key = FieldReader(keys.data, keys.start + _PREFIX_BYTES, keys.stop, mine)
    group = key.short_strings(keys)
    topic = key.short_strings(keys)
    partition = key.integers(4)
    key_early = mine & ~key.alive
    key_late = key.alive & (key.position != keys.stop)
    whole = key.alive & ~key_late
    with_value = whole & values.valid
    has_version = values.length >= _PREFIX_BYTES
    highest = np.where(legacy, 0, VALUE_VERSION_MAX)
    unknown = with_value & has_version & ((version < 0) | (version > highest))
    body = FieldReader(
        values.data, values.start + _PREFIX_BYTES, values.stop, with_value & has_version & ~unknown
    )
    columns, value_late = _read_values(body, values, version)
    good = body.alive & ~value_late
    number = {"partition": (partition, pa.int32())}
    return Commits(
        {
            "group": string_column(group, whole),
            "topic": string_column(topic, whole),
            **{name: pa.array(read, kind, mask=~whole) for name, (read, kind) in number.items()},
            **_value_columns(columns, values, good),
        },
        key_early,
        key_late,
        unknown,
        with_value & ~unknown & ~body.alive,
        value_late,
    )


class _Values(NamedTuple):
    """The fields of the values; numbers are -1 where a version does not have the field."""

    offset: Integers
    leader_epoch: Integers
    metadata: Slices
    commit_timestamp: Integers
    expire_timestamp: Integers
    topic_id: Integers  # position of the id in the buffer, or -1


def _read_values(body: FieldReader, values: Slices, version: Integers) -> tuple[_Values, Flags]:
    """Read all values; return them, and flags for rows with bytes left over."""
    flexible = version == _FLEXIBLE
    with_epoch = version >= _WITH_EPOCH
    with_expiry = version == _WITH_EXPIRY
    offset = body.integers(8)
    leader_epoch = np.where(with_epoch, body.integers(4, with_epoch), _NONE)
    short = body.integers(2, ~flexible)
    compact = body.unsigned_varints(flexible) - 1
    metadata = body.strings(np.where(flexible, compact, short), values)
    commit_timestamp = body.integers(8)
    expire_timestamp = np.where(with_expiry, body.integers(8, with_expiry), _NONE)
    topic_id = _read_tags(body, flexible)
    read = _Values(offset, leader_epoch, metadata, commit_timestamp, expire_timestamp, topic_id)
    return read, body.alive & (body.position != values.stop)


def _read_tags(body: FieldReader, flexible: Flags) -> Integers:
    """Read tagged fields (KIP-482): the n-th tag of all rows in one round, usually only one round.

    Return the positions of the topic ids. As in Kafka, the length of a known field comes from its
    type, not from the size before the field, and the last of several equal tags counts.
    """
    places = np.full(len(body.position), _NONE, np.int64)
    left = body.unsigned_varints(flexible)
    rows = np.flatnonzero(body.alive & (left > 0))
    while rows.size:
        some = body.subset(rows)
        tag = some.unsigned_varints()
        size = some.unsigned_varints()
        is_topic_id = tag == _TOPIC_ID_TAG
        start = some.skip(np.where(is_topic_id, _UUID_BYTES, size))
        body.put_back(rows, some)
        ids = some.alive & is_topic_id
        places[rows[ids]] = start[ids]
        left[rows] -= 1
        rows = rows[some.alive & (left[rows] > 0)]
    return places


def _value_columns(read: _Values, values: Slices, good: Flags) -> dict[str, pa.Array]:
    """Return Arrow columns; null where a row is not `good` or the value lacks the field."""
    return {
        "committed_offset": pa.array(read.offset, mask=~good),
        "leader_epoch": pa.array(
            read.leader_epoch, pa.int32(), mask=~good | (read.leader_epoch == _NONE)
        ),
        "metadata": string_column(read.metadata, good),
        "commit_timestamp_ms": pa.array(
            read.commit_timestamp, mask=~good | (read.commit_timestamp == _NONE)
        ),
        "expire_timestamp_ms": pa.array(
            read.expire_timestamp, mask=~good | (read.expire_timestamp == _NONE)
        ),
        "topic_id": uuid_column(values.data, read.topic_id, good & (read.topic_id >= 0)),
    }
