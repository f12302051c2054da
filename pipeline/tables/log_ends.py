"""The log end of a partition at any instant, replayed from the records: exact, without sampling.

The log end at t is one more than the greatest offset among the records with a timestamp up to t:
a running maximum, because producers set timestamps (CreateTime) and these may be out of order.
What no record shows is not seen here: after a control record the log end is one higher than this.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sql

from pipeline.inputs import Bronze

_BEFORE_ALL_TIME = -(2**63)


def ends_at(bronze: Bronze, instants: DataFrame) -> DataFrame:
    """`instants` with a column `log_end` (bigint) added; each row is kept once.

    `instants` has at least `topic`, `partition` and `t_ms`, which may be null, and any other
    columns. `log_end` is 0 before the first record of a partition whose log began at 0, and null
    where nothing is known: an instant before the first known record, no instant, no such partition.
    """
    others = [name for name in instants.columns if name not in ("topic", "partition")]
    asked = instants.select(
        "topic",
        "partition",
        sql.col("t_ms").alias("_at"),
        sql.lit(None).cast("bigint").alias("_end"),
        sql.struct(*others).alias("_row"),
    )
    nothing = sql.lit(None).cast(asked.schema["_row"].dataType)
    steps = _steps(bronze).select("topic", "partition", "_at", "_end", nothing.alias("_row"))
    # What happened at the very instant counts: rows without an end, the questions, come last.
    in_time = Window.partitionBy("topic", "partition").orderBy(
        "_at", sql.col("_end").desc_nulls_last()
    )
    up_to_now = in_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        steps.unionByName(asked)
        .withColumn("log_end", sql.max("_end").over(up_to_now))
        .where(sql.col("_row").isNotNull())
        .select(*(_kept(name) for name in instants.columns), "log_end")
    )


def _kept(name: str) -> Column:
    return sql.col(name) if name in ("topic", "partition") else sql.col("_row")[name].alias(name)


def _steps(bronze: Bronze) -> DataFrame:
    """Where a log end is known to have been reached: topic, partition, _at, _end."""
    records = bronze.topic_records
    begun = sql.lit(_BEFORE_ALL_TIME).alias("_at"), sql.lit(0).cast("bigint").alias("_end")
    written = records.where(sql.col("timestamp_ms").isNotNull()).select(
        "topic",
        "partition",
        sql.col("timestamp_ms").alias("_at"),
        (sql.col("offset") + 1).alias("_end"),
    )
    # A log whose record 0 is known held nothing before it; one that ends at 0 never did.
    first = written.where(sql.col("_end") == 1).select("topic", "partition", *begun)
    empty = bronze.partition_ends.where(sql.col("log_end") == 0).select(
        "topic", "partition", *begun
    )
    return written.unionByName(first).unionByName(empty)
