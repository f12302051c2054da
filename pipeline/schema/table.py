"""The types `Table` and `Column`, and the columns that several tables share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class Column(NamedTuple):
    """A column: its name, its type in Spark's DDL, and its meaning."""

    name: str
    type: str
    meaning: str


class Table(NamedTuple):
    """A table; `key` is unique in it, `partitioned_by` names the folders of its Parquet files."""

    name: str
    meaning: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    partitioned_by: tuple[str, ...] = ()

    @property
    def ddl(self) -> str:
        """Return the columns in Spark's DDL."""
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)

    @property
    def names(self) -> list[str]:
        """Return the names of the columns in order."""
        return [column.name for column in self.columns]

    def spark(self) -> StructType:
        """Return the columns as a Spark StructType, all nullable. Needs an open Spark session."""
        from pyspark.sql.types import StructType

        return cast("StructType", StructType.fromDDL(self.ddl))


PARTITIONS = "array<struct<topic: string, partitions: array<int>>>"

LOG_PLACE = (
    Column("log_partition", "int", "Partition of the offsets topic that holds the record."),
    Column(
        "log_offset",
        "bigint",
        "Offset of the record in that partition; (log_partition, log_offset) is unique.",
    ),
    Column("log_timestamp_ms", "bigint", "Timestamp of the record."),
)
GTP = (
    Column("group", "string", "Group id."),
    Column("topic", "string", "Topic."),
    Column("partition", "int", "Partition of the topic."),
)
DAY = Column("day", "date", "UTC day of the event, which names the folder of the row.")
