"""Print the schema as Markdown: the generated part of docs/pipeline-tables.md.

Run `python -m pipeline.schema.document`. A test compares its output with the page.
"""

from __future__ import annotations

from pipeline import schema

MARK = "<!-- From here on printed by `python -m pipeline.schema.document`. -->"
"""The line of the page that starts its generated part."""

_SECTIONS = (("Tables", (*schema.TABLES, schema.COVERAGE)), ("Bronze", schema.BRONZE))


def describe() -> str:
    """Return the generated part of the page, from `MARK` on: each table, its key and columns."""
    lines = [MARK]
    for title, tables in _SECTIONS:
        lines += ["", f"## {title}"]
        for table in tables:
            lines += ["", f"### {table.name}", "", _cell(table.meaning), ""]
            lines.append(f"Key: {_names(table.key)}.")
            if table.partitioned_by:
                lines.append(f"In folders by {_names(table.partitioned_by)}.")
            lines += ["", "| column | type | meaning |", "|---|---|---|"]
            lines += [
                f"| `{column.name}` | `{column.type}` | {_cell(column.meaning)} |"
                for column in table.columns
            ]
    return "\n".join(lines) + "\n"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _cell(text: str) -> str:
    """Return the text with pipes escaped for a Markdown table cell."""
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(describe(), end="")
