"""Progress lines on standard error, with the time since the start of the run."""

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
    """Return a function that prints a progress line."""
    began = time.monotonic()

    def tell(text: str) -> None:
        print(f"[{time.monotonic() - began:7.1f} s] {text}", file=sys.stderr, flush=True)

    return tell


def silent(text: str) -> None:
    """Print nothing: a `Tell` for callers that want no progress lines."""


@contextmanager
def watched(
    spark: SparkSession, tell: Tell, every_seconds: float = EVERY_SECONDS
) -> Iterator[None]:
    """Print, every `every_seconds`, how many tasks of the active stages are done.

    No line is printed while no stage is active.
    """
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
