"""Bronze frames from plain rows, and tables as plain rows, for the tests of single tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from pipeline import schema
from pipeline.inputs import Bronze

Row = Mapping[str, Any]


def frame(spark: SparkSession, table: schema.Table, rows: Sequence[Row] = ()) -> DataFrame:
    """A frame of a table's columns; what a row leaves out is null, what it adds is an error."""
    for row in rows:
        assert set(row) <= set(table.names), f"{table.name} has no {set(row) - set(table.names)}"
    values = [tuple(row.get(name) for name in table.names) for row in rows]
    return spark.createDataFrame(values, table.spark())


def bronze(spark: SparkSession, **rows: Sequence[Row]) -> Bronze:
    """All bronze frames; `rows` by table name, empty where nothing is given."""
    return Bronze(
        **{table.name: frame(spark, table, rows.pop(table.name, ())) for table in (schema.BRONZE)}
    )


def rows_of(made: DataFrame, table: schema.Table, *names: str) -> list[tuple[Any, ...]]:
    """The rows of a made table in the order of its key, all columns or the named ones.

    Fails when the columns are not those of the table, or its key is not unique.
    """
    assert made.columns == table.names, f"{made.columns} instead of {table.names}"
    assert [kind for _, kind in made.dtypes] == [
        field.dataType.simpleString() for field in (table.spark().fields)
    ]
    rows = [row.asDict(recursive=True) for row in made.collect()]
    rows.sort(key=lambda row: tuple((row[name] is not None, row[name]) for name in table.key))
    keys = [tuple(row[name] for name in table.key) for row in rows]
    assert len(set(keys)) == len(keys), f"{table.key} is not unique: {keys}"
    return [tuple(row[name] for name in names or table.names) for row in rows]
