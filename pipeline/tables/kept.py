"""Frames that several tables are made from: made once a run, and planned once.

Spark plans a table from its very beginning, so a frame that ten tables are made from would be
analysed and optimised ten times, and on small data planning is nearly all that a run costs. A kept
frame is a checkpoint without a file: what is made from it is planned from its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.inputs import Bronze, Questions

Make = Callable[["Bronze", "Questions"], "DataFrame"]


def kept(make: Make) -> Make:
    """`make`, whose frame is kept with the bronze that it is made from, for each set of questions.

    Nothing is computed before some table wants it; the rows go when the frame does.
    """

    @wraps(make)
    def once(bronze: Bronze, questions: Questions) -> DataFrame:
        name = (make, questions)
        if name not in bronze.made:
            source = make(bronze, questions)
            # The source is kept as well: with it Spark would forget the counters of its tasks,
            # and complain of each when they run.
            bronze.made[name] = (source.localCheckpoint(eager=False), source)
        return bronze.made[name][0]

    return once
