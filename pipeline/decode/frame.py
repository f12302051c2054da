"""A frame of raw records into a frame of decoded ones, by Spark's workers."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from pipeline.decode.arrow import decode_arrow
from pipeline.pieces import PACKED, ArrowBatches, pack_batch


def decode(raw: DataFrame) -> DataFrame:
    """Frame of `schema.RAW` -> packed rows of `schema.OFFSETS_LOG`, see `pipeline.pieces`."""

    def decode_all(batches: ArrowBatches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pack_batch(decode_arrow(batch))

    return raw.mapInArrow(decode_all, PACKED)
