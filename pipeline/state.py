"""The state of an output: the offsets log reduced to what later tables need, and where it ends.

A state is a folder `state/NUMBER` of a local output with

- `_state.json`: the fields of `State`,
- `offsets_log`: the reduced rows (see `pipeline.reduction`) of all bronze below `next_offsets`,
- `offset_commits`: the rows of that table for the same part of the log. They never change, so the
  tables of later runs take these files as hard links.

The folder is written aside and renamed, and the greatest number counts. A state is made from bronze
alone: if it is deleted, the next run reads all of bronze and makes it again.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import NamedTuple

from pipeline import schema

_FORMAT = 1
"""States of another format are not used. It rises when `pipeline.reduction` keeps other rows."""
_MANIFEST = "_state.json"
_SETTLED = "settled-"
_FRESH = "part-"


class State(NamedTuple):
    """What a state covers.

    `next_offsets` are the first offsets of the offsets log, by partition, that the state does not
    cover. `batches` are those of bronze that need not be opened, because the state covers all their
    rows. `rows` and `events` are the number of reduced rows and of rows of `offset_commits`. Tables
    can be made from the state for instants from `at_ms` on and windows up to `window_ms`.
    """

    folder: str
    next_offsets: dict[int, int]
    batches: list[str]
    rows: int
    events: int
    first_log_ms: int | None
    at_ms: int
    window_ms: int


def last_state(states: Path) -> State | None:
    """Return the last state in the folder of states; None if there is none of this format.

    A state whose manifest is damaged is none: bronze has all of its rows.
    """
    folder = max(_numbered(states), default=None)
    if folder is None:
        return None
    try:
        kept = json.loads((folder / _MANIFEST).read_text())
    except (OSError, ValueError):
        return None
    if kept.pop("format") != _FORMAT:
        return None
    offsets = {int(number): offset for number, offset in kept.pop("next_offsets").items()}
    return State(folder=str(folder), next_offsets=offsets, **kept)


def keep_state(states: Path, staging: Path, state: State, tables: Path) -> None:
    """Complete a state whose reduced rows are in `staging`, and remove the states before it.

    `tables` is the folder of the tables that were made from the same rows. A kill leaves the state
    before or the new one.
    """
    before = _numbered(states)
    number = 1 + max((int(folder.name) for folder in before), default=0)
    for file in _commits(tables).rglob("*.parquet"):
        name = file.name
        if name.startswith(_FRESH):
            name = f"{_SETTLED}{number}-{name.removeprefix(_FRESH)}"
        _link(file, _commits(staging) / file.parent.relative_to(_commits(tables)) / name)
    fields = {name: value for name, value in state._asdict().items() if name != "folder"}
    (staging / _MANIFEST).write_text(json.dumps({"format": _FORMAT, **fields}))
    states.mkdir(exist_ok=True)
    staging.rename(states / f"{number:012}")
    for folder in before:
        shutil.rmtree(folder)


def link_commits(state: State, tables: Path) -> None:
    """Put the files of `offset_commits` that the state has into a folder of new tables."""
    kept = _commits(Path(state.folder))
    for file in kept.rglob("*.parquet"):
        _link(file, _commits(tables) / file.relative_to(kept))


def _commits(folder: Path) -> Path:
    return folder / schema.OFFSET_COMMITS.name


def _numbered(states: Path) -> list[Path]:
    return [folder for folder in states.glob("*") if folder.name.isdecimal()]


def _link(file: Path, target: Path) -> None:
    """Link a file that never changes; copy it where the file system has no hard links."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, target)
    except OSError:
        shutil.copy2(file, target)
