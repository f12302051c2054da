"""Frames that several tables are made from: made once for a bronze and its questions."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

    from pipeline.inputs import Bronze, Questions
    from pipeline.tables import Make

BY_PARTITION: dict[str, Make] = {}
"""What is made by topic and partition, before and apart from what is made by group; by name."""


def kept(make: Make) -> Make:
    """`make`, whose rows are kept with the bronze that it is made from, for each set of questions.

    Nothing is computed before some table wants it; the rows go when the bronze does.
    """
    name = f"{make.__module__}.{make.__qualname__}"

    @wraps(make)
    def once(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
        if (name, questions) not in bronze.results:
            bronze.results[name, questions] = make(bronze, questions).collect()
        return bronze.results[name, questions].lazy()

    return once


def by_partition(make: Make) -> Make:
    """A kept frame that is made of all records, commits and ends of a (topic, partition).

    Such functions alone may look at `topic_records` and `partition_ends`, and of the offsets log
    they may look at commits only: where bronze is split by partition, nothing else is there. Their
    frames have columns `topic` and `partition`, and those about readers `group` too.
    """
    once = kept(make)
    BY_PARTITION[f"{make.__module__}.{make.__qualname__}"] = once
    return once
