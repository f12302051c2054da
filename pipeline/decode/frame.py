"""A frame of raw records into a frame of decoded ones, by Spark's workers."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from pipeline import schema
from pipeline.decode.batch import decode_batch


def decode(raw: DataFrame) -> DataFrame:
    """Frame of `schema.RAW` -> frame of `schema.OFFSETS_LOG`."""

    def decode_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(decode_batch, batches)

    return raw.mapInArrow(decode_all, schema.OFFSETS_LOG.spark())
