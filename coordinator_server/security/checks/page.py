"""Prints the table as Markdown: `python -m coordinator_server.security.checks.page`."""

from __future__ import annotations

from coordinator_server.security.checks.table import TABLE
from protocol.registry import SPECS


def page() -> str:
    """Return one line per check, with the APIs in the order of their keys."""
    lines = ["| API | operation | resource | | answer when refused |", "|---|---|---|---|---|"]
    for spec in SPECS:
        name = f"{spec.name} ({spec.key})"
        checks = TABLE[spec.name].all_checks
        if not checks:
            lines.append(f"| {name} | nothing | | | |")
        for check in checks:
            operation, resource_type = check.operation.name, check.resource_type.name
            lines.append(
                f"| {name} | {operation} | {resource_type} | {check.resource} | {check.answer} |"
            )
            name = ""
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
