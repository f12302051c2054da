"""The table in docs/transactions.md matches the code.

`python -m tests.unit.core.transactions.test_docs` rewrites it.
"""

from __future__ import annotations

from pathlib import Path

from coordinator_server.core.transactions.metadata import LEGAL_TRANSITIONS, TransactionState
from tests.generated_parts import with_part

PAGE = Path(__file__).parents[4] / "docs" / "transactions.md"


def transitions() -> str:
    """Return a table of the legal transitions, without the end of an id."""
    lines = ["| from | to |", "|---|---|"]
    moves = [
        (source.label, target.label)
        for source, targets in LEGAL_TRANSITIONS.items()
        for target in sorted(targets)
        if target is not TransactionState.DEAD
    ]
    for source in dict.fromkeys(source for source, _ in moves):
        targets = ", ".join(target for one, target in moves if one == source)
        lines.append(f"| {source} | {targets} |")
    return "\n".join(lines)


def rendered(page: str) -> str:
    """Return the page with its generated part up to date."""
    return with_part(page, "transitions", transitions() + "\n")


def test_the_page_shows_the_table_that_runs() -> None:
    """The generated part of docs/transactions.md is up to date."""
    page = PAGE.read_text(encoding="utf-8")
    assert page == rendered(page), "run: python -m tests.unit.core.transactions.test_docs"


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
