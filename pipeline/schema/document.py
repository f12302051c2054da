"""The schema as Markdown: the second part of docs/pipeline-tables.md, printed by this module.

`python -m pipeline.schema.document` prints it; a test holds the page to it.
"""

from __future__ import annotations

from pipeline import schema

MARK = "<!-- From here on printed by `python -m pipeline.schema.document`. -->"
"""The line of the page after which everything is generated."""

_SECTIONS = (("Tables", (*schema.TABLES, schema.COVERAGE)), ("Bronze", schema.BRONZE))


def describe() -> str:
    """Every table with its key and its columns, from `MARK` to the end of the page."""
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
    """Text that stays within its cell."""
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(describe(), end="")
