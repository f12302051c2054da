"""Decode records of `__share_group_state`: the positions of share groups (KIP-932)."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from pipeline import schema
from pipeline.schema.arrow import arrow_schema
from protocol.errors import ProtocolError
from protocol.share_state_log import decode_share_state_key, decode_share_state_value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Row = dict[str, object]


def share_state(raw: DataFrame) -> DataFrame:
    """Decode `schema.RAW` to `schema.SHARE_STATE` with null topics; bad records are left out."""

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [state for row in batch.to_pylist() if (state := state_of(row)) is not None]
            yield pa.RecordBatch.from_pylist(rows, schema=arrow_schema(schema.SHARE_STATE))

    return raw.mapInArrow(decode, schema.SHARE_STATE.ddl)


def state_of(row: Row) -> Row | None:
    """Return the state in a row of `schema.RAW`; None if it is malformed."""
    key_bytes, value_bytes = row["key"], row["value"]
    if not isinstance(key_bytes, bytes):
        return None
    try:
        key = decode_share_state_key(key_bytes)
        value = None
        if isinstance(value_bytes, bytes):
            value, _ = decode_share_state_value(key, value_bytes)
    except ProtocolError:
        return None
    place = {name: row[name] for name in ("log_partition", "log_offset", "log_timestamp_ms")}
    start = None if value is None else value.start_offset
    delivered = None if value is None else value.delivery_complete_count
    return {
        **place,
        "group": key.group_id,
        "partition": key.partition,
        "topic_id": base64.urlsafe_b64encode(key.topic_id).decode().rstrip("="),
        "tombstone": value is None,
        "start_offset": None if start is None or start < 0 else start,
        "delivered": None if delivered is None or delivered < 0 else delivered,
    }
