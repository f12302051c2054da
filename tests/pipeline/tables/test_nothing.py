"""The tables about offsets for a cluster without groups."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from pipeline import schema
from pipeline.inputs import Bronze, Questions
from pipeline.tables import (
    data_loss_forecast,
    lag,
    offset_expiry_forecast,
    replay_plan,
)
from tests.pipeline.frames import bronze, rows_of

MAKERS: tuple[tuple[Callable[[Bronze, Questions], pl.LazyFrame], schema.Table], ...] = (
    (lag.make, schema.LAG),
    (offset_expiry_forecast.make, schema.OFFSET_EXPIRY_FORECAST),
    (data_loss_forecast.make, schema.DATA_LOSS_FORECAST),  # computed from `rates`
    (replay_plan.make, schema.REPLAY_PLAN),
)


def test_nothing_comes_of_nothing() -> None:
    """A cluster without groups and topics has tables without rows."""
    empty = bronze()
    questions = Questions(0, replay_from_ms=0)
    for make, table in MAKERS:
        assert rows_of(make(empty, questions), table) == []
