"""Decorators that cache a frame with its bronze and questions, for use by several tables."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

    from pipeline.inputs import Bronze, Questions
    from pipeline.tables import Make

BY_PARTITION: dict[str, Make] = {}
"""The functions, by name, whose frames are computed per partition, separately from those computed
per group."""


def kept(make: Make) -> Make:
    """Cache the rows that `make` returns, with the bronze, for each set of questions.

    The rows are computed at the first call and released together with the bronze.
    """
    name = f"{make.__module__}.{make.__qualname__}"

    @wraps(make)
    def once(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
        if (name, questions) not in bronze.results:
            bronze.results[name, questions] = make(bronze, questions).collect()
        return bronze.results[name, questions].lazy()

    return once


def by_partition(make: Make) -> Make:
    """Like `kept`, and register `make` as a function that works on single partitions.

    Only such functions may read `topic_records` and `partition_ends`, and of the offsets log they
    may read commits only: where bronze is split by partition, a part has nothing else. Their frames
    have the columns `topic` and `partition`, and those about readers also `group`.
    """
    once = kept(make)
    BY_PARTITION[f"{make.__module__}.{make.__qualname__}"] = once
    return once
