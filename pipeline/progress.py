"""Lines that say how far a long run is, on standard error, with the time since its beginning."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Tell = Callable[[str], None]

EVERY_SECONDS = 10.0


def teller() -> Tell:
    """A function that writes such lines."""
    began = time.monotonic()

    def tell(text: str) -> None:
        print(f"[{time.monotonic() - began:7.1f} s] {text}", file=sys.stderr, flush=True)

    return tell


def silent(text: str) -> None:
    """For who wants no lines."""


@contextmanager
def watched(
    spark: SparkSession, tell: Tell, every_seconds: float = EVERY_SECONDS
) -> Iterator[None]:
    """Report now and then how many tasks of the stages at work are done; nothing while none is."""
    tracker = spark.sparkContext.statusTracker()
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(every_seconds):
            stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
            known = [stage for stage in stages if stage is not None]
            if known:
                done = sum(stage.numCompletedTasks for stage in known)
                tell(f"  at work: {done} of {sum(stage.numTasks for stage in known)} tasks done")

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
