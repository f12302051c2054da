"""What a table and a column are, and the columns that many tables share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class Column(NamedTuple):
    """A column: its type as Spark's DDL, and what it means."""

    name: str
    type: str
    meaning: str


class Table(NamedTuple):
    """A table: `key` is unique in it; `partitioned_by` are folders of its Parquet files."""

    name: str
    meaning: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    partitioned_by: tuple[str, ...] = ()

    @property
    def ddl(self) -> str:
        """The columns as Spark's DDL."""
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)

    @property
    def names(self) -> list[str]:
        """The columns' names in order."""
        return [column.name for column in self.columns]

    def spark(self) -> StructType:
        """The columns as Spark's StructType, all nullable; a session must be open."""
        from pyspark.sql.types import StructType

        return cast("StructType", StructType.fromDDL(self.ddl))


PARTITIONS = "array<struct<topic: string, partitions: array<int>>>"

LOG_PLACE = (
    Column("log_partition", "int", "Partition of the offsets topic that holds the record."),
    Column("log_offset", "bigint", "Its offset there; (log_partition, log_offset) is unique."),
    Column("log_timestamp_ms", "bigint", "The record's own timestamp."),
)
GTP = (
    Column("group", "string", "Group id."),
    Column("topic", "string", "Topic."),
    Column("partition", "int", "Partition of the topic."),
)
DAY = Column("day", "date", "UTC day of the event; the folder it lies in.")
