"""docs/pipeline-tables.md matches the schema."""

from __future__ import annotations

from pathlib import Path

from pipeline import schema
from pipeline.schema.document import MARK, describe

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "pipeline-tables.md"


def test_the_documentation_is_the_schema() -> None:
    """docs/pipeline-tables.md ends with the output of `python -m pipeline.schema.document`."""
    text = PAGE.read_text()
    assert text[text.index(MARK) :] == describe()


def test_every_table_has_a_place_and_no_column_is_left_out() -> None:
    """The output has every table once, and all of its keys and columns."""
    text = describe()
    for table in (*schema.TABLES, schema.COVERAGE, *schema.BRONZE):
        assert text.count(f"### {table.name}\n") == 1
        assert set(table.key) <= set(table.names)
        assert set(table.partitioned_by) <= set(table.names)
        assert len(set(table.names)) == len(table.names), table.name
        part = text[text.index(f"### {table.name}\n") :].split("\n### ")[0]
        assert all(f"| `{name}` | `" in part for name in table.names), table.name


def test_what_is_printed_stays_in_its_cell() -> None:
    """Pipes in meanings are escaped, so that every table row has three cells."""
    rows = [line for line in describe().splitlines() if line.startswith("| ")]
    assert rows
    for row in rows:
        assert row.replace("\\|", "").count("|") == 4, row
