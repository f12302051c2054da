"""The tables in docs/coordinator.md match the code.

`python -m tests.unit.core.groups.test_docs` rewrites them.
"""

from pathlib import Path

from coordinator_server.core.groups.classic.state import (
    COMMIT_ANSWER,
    HEARTBEAT_ANSWER,
    SYNC_ANSWER,
    TRANSITIONS,
)
from tests.generated_parts import with_part

PAGE = Path(__file__).parents[4] / "docs" / "coordinator.md"


def transitions() -> str:
    """Return a table of the legal transitions."""
    lines = ["| from | to | when |", "|---|---|---|"]
    lines += [
        f"| {source.value} | {target.value} | {cause} |"
        for (source, target), cause in TRANSITIONS.items()
    ]
    return "\n".join(lines)


def answers() -> str:
    """Return the table of each state's responses."""
    states = list(HEARTBEAT_ANSWER)
    lines = ["| | " + " | ".join(state.value for state in states) + " |"]
    lines.append("|---" * (len(states) + 1) + "|")
    for name, table in (
        ("Heartbeat", HEARTBEAT_ANSWER),
        ("SyncGroup", SYNC_ANSWER),
        ("OffsetCommit", COMMIT_ANSWER),
    ):
        cells = []
        for state in states:
            error = table[state]
            cells.append("parked until the leader's is written" if error is None else error.name)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def rendered(page: str) -> str:
    """Return the page with its generated parts up to date."""
    for name, text in (("transitions", transitions()), ("answers", answers())):
        page = with_part(page, name, text + "\n")
    return page


def test_the_page_shows_the_tables_that_run() -> None:
    """The generated parts of docs/coordinator.md are up to date."""
    page = PAGE.read_text(encoding="utf-8")
    assert page == rendered(page), "run: python -m tests.unit.core.groups.test_docs"


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
