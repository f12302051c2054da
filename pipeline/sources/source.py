"""What the pipeline asks of an input that has a log, whether files or a broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PartitionOffsets = Mapping[tuple[str, int], int]


class Holder(NamedTuple):
    """The open transaction at a partition's last stable offset: `held_by` and `held_since_ms`."""

    name: str | None
    since_ms: int | None


NO_HOLDER = Holder(None, None)


class Source(Protocol):
    """Frames; `starts` are next offsets to read, and a source may give more than asked for."""

    @property
    def input(self) -> str:
        """The bootstrap addresses, or the log directory."""

    @property
    def cluster_id(self) -> str | None:
        """The id of the cluster; None where it is not known."""

    def offsets_log(self, starts: Mapping[int, int]) -> DataFrame:
        """The offsets log, decoded: `schema.OFFSETS_LOG` in packed rows, see `pipeline.pieces`."""

    def offsets_log_stream(self) -> DataFrame:
        """The same as a stream from its beginning."""

    def partition_ends(self, topics: Sequence[str]) -> DataFrame:
        """`schema.PARTITION_ENDS`, looked at now."""

    def topic_records(self, topics: Sequence[str], starts: PartitionOffsets) -> DataFrame:
        """`schema.TOPIC_RECORDS` of the topics that there are."""

    def group_events(self, start: int) -> DataFrame | None:
        """`schema.GROUP_EVENTS`; None where none are written."""

    def notes(self) -> list[str]:
        """What a reader of the tables should know about the input: damage, torn tails."""
