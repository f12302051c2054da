"""The interface of an input that has a log: segment files or a broker."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame

    from pipeline.sources.sampling import Times


PartitionOffsets = Mapping[tuple[str, int], int]


class Holder(NamedTuple):
    """The transaction at a partition's last stable offset: `held_by` and `held_since_ms`."""

    name: str | None
    since_ms: int | None


NO_HOLDER = Holder(None, None)


class Source(Protocol):
    """An input. `starts` are next offsets to read; a source may return earlier records as well."""

    @property
    def input(self) -> str:
        """Return the bootstrap addresses, or the log directory."""

    @property
    def cluster_id(self) -> str | None:
        """Return the id of the cluster; None if unknown."""

    def offsets_log(self, starts: Mapping[int, int]) -> DataFrame:
        """Return `schema.OFFSETS_LOG`, decoded, in packed rows (see `pipeline.pieces`)."""

    def offsets_log_stream(self) -> DataFrame:
        """Return the offsets log as a stream from its beginning, in packed rows."""

    def partition_ends(self, topics: Sequence[str]) -> DataFrame:
        """Return the current `schema.PARTITION_ENDS`."""

    def topic_records(self, topics: Sequence[str], starts: PartitionOffsets) -> DataFrame:
        """Return `schema.TOPIC_RECORDS` of those topics that exist; `topic_id` may be null."""

    def times(self) -> AbstractContextManager[Times]:
        """Return what answers questions about the times of records."""

    def share_state(self, starts: Mapping[int, int]) -> DataFrame | None:
        """Return `schema.SHARE_STATE` with null topics; None if the cluster has no share state."""

    def topic_names(self) -> dict[str, str]:
        """Return the name of each existing topic by its id."""

    def group_events(self, start: int) -> DataFrame | None:
        """Return `schema.GROUP_EVENTS`; None if the cluster has none."""

    def notes(self) -> list[str]:
        """Return notes for readers of the tables, on refused requests, damage or torn tails."""


_OF_KAFKA = re.compile(r"org\.apache\.kafka\.common\.\w+\.(\w+Exception: [^\n]+)")


class InputError(Exception):
    """An input is missing or cannot be read. The text names the input and what to do."""


_OUTAGES = ("Timeout", "Disconnect", "Network", "NotLeaderOrFollower", "LeaderNotAvailable",
            "CoordinatorNotAvailable", "BrokerNotAvailable")  # fmt: skip
"""Errors of Kafka's clients, without `Exception`, that end when the cluster is well again."""

_UNRESOLVED = "No resolvable bootstrap urls"
"""The text of Kafka's ConfigException if no broker's name resolves, as in an outage of DNS."""


def is_outage(error: Exception) -> bool:
    """Return whether the error comes from a cluster that does not answer, or not yet again."""
    kind = getattr(error, "kind", None)
    if kind is None:
        kind = (refused_by_kafka(str(error)) or "").partition(":")[0]
    return kind.removesuffix("Exception") in _OUTAGES or _UNRESOLVED in str(error)


_OF_MACHINE = re.compile(
    r"[^\n]*(?:(No space left on device|Disk quota exceeded|Read-only file system)"
    "|Permission denied|Too many open files|Cannot allocate memory|Java heap space"
    r"|GC overhead limit exceeded)[^\n]*"
)


def refused_by_machine(text: str, out: str) -> str | None:
    """Return what the machine lacks or refuses from the text of an error, else None.

    If this is space or a writable disk, the result names `out`. Otherwise it is the line of the
    error, which has the path of a file that cannot be read.
    """
    reason = _OF_MACHINE.search(text)
    if reason is None:
        return None
    if reason[1] is None:
        return reason[0].strip()
    return f"{reason[1]}: the run wrote to --out {out} and to Spark's local disk"


def refused_by_kafka(text: str) -> str | None:
    """Return the error of a Kafka client from the text of a Spark error, else None.

    The text of a Spark error includes the Java stack trace of the failed task.
    """
    reason = _OF_KAFKA.search(text)
    return None if reason is None else reason[1]
