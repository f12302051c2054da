"""What published compose files set for their broker, and what becomes of it here.

The rows are in published.toml. Files, hosts and ports are those of the test
(tests/e2e/test_published_variables.py); docs/docker.md has the rows as a table, which the same test
compares.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

TABLE = Path(__file__).with_suffix(".toml")


class Login(NamedTuple):
    """A client that connects to a listener; TLS follows from the protocol of the listener."""

    listener: str
    mechanism: str = ""
    user: str = ""
    password: str = ""


class Published(NamedTuple):
    """One service of one published file; published.toml says what the fields are."""

    source: str
    service: str
    image: str
    what: str
    variables: str
    logins: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    refusal: str = ""
    change: str = ""
    topics: tuple[str, ...] = ()
    jaas: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """The variables by name."""
        lines = (line.partition("=") for line in self.variables.splitlines())
        return {name: value for name, _, value in lines}

    @property
    def clients(self) -> list[Login]:
        """The logins, taken apart."""
        return [Login(*login.split()) for login in self.logins]

    @property
    def line_of_documentation(self) -> str:
        """The row of the table in docs/docker.md."""
        result = "starts"
        if self.warnings:
            result = f"starts, with a warning: {'; '.join(self.warnings)}"
        if self.refusal:
            result = f"does not start: {self.refusal}. {self.change}"
        return f"| {self.source}: `{self.service}` | {self.image} | {self.what} | {result} |"


def _rows() -> list[Published]:
    rows: list[dict[str, Any]] = tomllib.loads(TABLE.read_text())["row"]
    for row in rows:
        row.update({name: tuple(one) for name, one in row.items() if isinstance(one, list)})
    return [Published(**row) for row in rows]


ROWS = _rows()
