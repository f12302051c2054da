"""Merge small batches of bronze into one, so that their number does not grow with every interval.

The merged batch has a file with the names of the batches that it replaces. Both appear at once, by
a rename; readers leave out the replaced batches, which are deleted ten minutes later. A kill at any
time therefore neither loses a record nor doubles one.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from uuid import uuid4

import polars as pl

from pipeline import schema
from pipeline.files import completed, write_parts
from pipeline.inputs import MINUTE_MS

BATCHES_LEAST = 32
"""The number of small batches from which on they are merged."""
SMALL_BYTES = 8 << 20
_MERGED_BYTES = 32 << 20
"""The size, compressed, up to which one merge reads batches into memory."""
_KEPT_SECONDS = 10 * MINUTE_MS // 1000
_REPLACED = "_replaced.json"


def replaced_batches(folder: Path) -> set[str]:
    """Return the names of the batches in the folder of a table that merged batches replace."""
    return {name for file in folder.glob(f"*/{_REPLACED}") for name in json.loads(file.read_text())}


def merge_batches(folder: Path, staging: Path, table: schema.Table) -> None:
    """Merge the small batches in the folder of a table if there are many of them."""
    _delete_replaced(folder)
    away = replaced_batches(folder)
    sizes = {
        batch.name: sum(file.stat().st_size for file in batch.rglob("*.parquet"))
        for batch in folder.glob("batch=*")
        if batch.name not in away
    }
    names: list[str] = []
    total = 0
    for size, name in sorted((size, name) for name, size in sizes.items()):
        total += size
        if size > SMALL_BYTES or total > _MERGED_BYTES:
            break
        names.append(name)
    if len(names) < BATCHES_LEAST:
        return
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    files = [file for name in names for file in (folder / name).rglob("*.parquet")]
    write_parts(table, [pl.concat(read_whole(file, table) for file in files)], staging, "part")
    (staging / _REPLACED).write_text(json.dumps(names))
    staging.rename(folder / f"batch=merged-{uuid4().hex[:12]}")


def read_whole(file: Path, table: schema.Table) -> pl.DataFrame:
    """Return the rows of a file of bronze; columns that an older release lacks are null."""
    rows = pl.read_parquet(file, hive_partitioning=False)
    return completed(rows.lazy(), table, table.names).collect()


def _delete_replaced(folder: Path) -> None:
    for file in folder.glob(f"*/{_REPLACED}"):
        if file.stat().st_mtime > time.time() - _KEPT_SECONDS:
            continue
        for name in json.loads(file.read_text()):
            shutil.rmtree(folder / name, ignore_errors=True)
        file.unlink()
