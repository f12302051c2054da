"""Bronze of an older release lacks columns of this one."""

from __future__ import annotations

import io

import polars as pl
import pytest

from pipeline.schema.arrow import polars_schema
from pipeline.shards import _BY_PARTITION, _Part, _read

NEW = {"topic_records": "from_ms", "partition_ends": "data_end", "offsets_log": "topic_id"}


@pytest.mark.parametrize("part", [part for part in _BY_PARTITION if part.table.name in NEW])
def test_files_of_two_releases_have_the_same_columns(part: _Part) -> None:
    """A file without a column that later files have is read like these, with nulls."""
    columns = polars_schema(part.table)
    row = dict.fromkeys(columns) | {"kind": "offset_commit", "group": "g", "topic": "t"}
    rows = pl.DataFrame([{name: row[name] for name in columns}], columns)
    read = []
    for frame in (rows, rows.drop(NEW[part.table.name])):
        file = io.BytesIO()
        frame.write_parquet(file)
        read.append(_read(file.getvalue(), part, None))
    assert pl.concat(read).select("topic").to_series().to_list() == ["t", "t"]
    assert set(read[1].columns) == set(part.columns or part.table.names)
