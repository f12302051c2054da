"""The golden rows of every table for the story: `now/` at `AT_MS`, `then/` at a past instant.

There is a file per table and a line per row, in key order. The rows were computed by the model and
checked by hand; `python -m tests.pipeline.golden` writes them again. `then/` has the tables for
`THEN_MS`, with partition ends that were read later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pipeline import schema
from tests.pipeline import model_forecasts, model_groups, model_status, model_work
from tests.pipeline.model import Model, Row
from tests.pipeline.scenes import tell
from tests.pipeline.story import AT_MS, MINUTE_MS, START_MS, Story

HERE = Path(__file__).parent
NOW, THEN = "now", "then"
THEN_MS = START_MS + 75 * MINUTE_MS
REPLAY_FROM_MS = START_MS + 30 * MINUTE_MS
_ELSEWHERE = {
    "status": model_status,
    "group_generations": model_groups,
    "group_members": model_groups,
    "rebalances": model_groups,
    "member_skew": model_work,
    "abandoned_groups": model_work,
    "commit_hygiene": model_work,
    "offset_expiry_forecast": model_forecasts,
    "data_loss_forecast": model_forecasts,
    "replay_plan": model_forecasts,
}
Tables = Mapping[str, list[Row]]


def modelled(story: Story, which: str) -> Tables:
    """Return all tables of the model, in key order."""
    past = which == THEN
    model = Model(story, THEN_MS if past else AT_MS, past=past, replay_from_ms=REPLAY_FROM_MS)
    made = {}
    for table in schema.TABLES:
        where = _ELSEWHERE.get(table.name)
        make = getattr(model, table.name) if where is None else getattr(where, table.name)
        rows = make() if where is None else make(model)
        made[table.name] = in_order(table, [_in_columns(table, row) for row in rows])
    return made


def _in_columns(table: schema.Table, row: Row) -> Row:
    assert set(row) == set(table.names), (table.name, set(row) ^ set(table.names))
    return {name: row[name] for name in table.names}


def in_order(table: schema.Table, rows: list[Row]) -> list[Row]:
    """Sort rows by the table's key, null first."""
    return sorted(rows, key=lambda row: [(row[name] is not None, row[name]) for name in table.key])


def frozen(which: str, name: str) -> list[Row]:
    """Return the golden rows of a table."""
    lines = (HERE / which / f"{name}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def write() -> None:
    """Write all golden files from the model."""
    story = tell()
    for which in (NOW, THEN):
        (HERE / which).mkdir(exist_ok=True)
        for name, rows in modelled(story, which).items():
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            (HERE / which / f"{name}.jsonl").write_text("".join(lines))
