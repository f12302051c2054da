"""Decode a frame of raw records in Spark's Python workers."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from pipeline.decode.arrow import decode_arrow
from pipeline.pieces import PACKED, ArrowBatches, pack_batch


def decode(raw: DataFrame) -> DataFrame:
    """Decode `schema.RAW` to packed rows (see `pipeline.pieces`) of `schema.OFFSETS_LOG`."""

    def decode_all(batches: ArrowBatches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pack_batch(decode_arrow(batch))

    return raw.mapInArrow(decode_all, PACKED)
