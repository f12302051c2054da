"""What `coordinator-server ctl` prints: tables, facts, and accounts of rebalances in words."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coordinator_server.tools.ctl_times import Times

_MOST_CHARACTERS = 80
"""Limit of a cell of a narrow table, and of the padding of a wide one."""

_IN_WORDS = frozenset({"last_rebalance", "now", "story", "summary", "under_way"})
"""Fields that are texts in lines."""


class Printer:
    """Prints answers. Cells of tables are cut to _MOST_CHARACTERS unless the output `is_wide`."""

    def __init__(self, times: Times, *, is_wide: bool = True) -> None:
        self._times = times
        self._is_wide = is_wide

    def show(self, answer: dict[str, Any]) -> None:
        """Print the answer to a request."""
        for name, value in answer.items():
            if not isinstance(value, dict | list) and name != "next":
                _print(f"{name}: {self._text(name, value)}")
        for name, value in answer.items():
            if isinstance(value, list):
                for line in self._list(name, value):
                    _print(line)
            elif isinstance(value, dict):
                _print(f"{name}: {self._text(name, value)}")
        if answer.get("next") is not None:
            print(f"there is more: --after {printable(str(answer['next']))}", file=sys.stderr)

    def show_event(self, event: dict[str, Any]) -> None:
        """Print an event; a rebalance in words."""
        data = event["data"]
        text = self._text("data", data)
        if event["type"] == "rebalance":
            from coordinator_server.rebalances.story import tell

            first, *rest = tell(data)
            text = "\n".join(
                [f"{printable(data['group'])}: {first}", *(f"    {line}" for line in rest)]
            )
        at = self._times.shown("at_ms", event["at_ms"])
        _print(f"{at}  {event['type']}  {text}", flush=True)

    def show_record(self, record: dict[str, Any]) -> None:
        """Print a record in one line."""
        place = f"{record['partition']}:{record['offset']}"
        contents = [self._cell(name, record[name]) for name in ("key", "value")]
        _print("  ".join([place, *contents]), flush=True)

    def _list(self, name: str, values: list[Any]) -> Iterator[str]:
        if name in _IN_WORDS:
            yield f"{name}: {'' if values else 'none'}".rstrip()
            yield from (f"    {printable(line)}" for line in values)
        elif not values or not all(isinstance(value, dict) for value in values):
            yield f"{name}: {', '.join(self._text('', value) for value in values) or 'none'}"
        elif all("story" in value and "account" in value for value in values):
            yield from self._rebalances(values)
        else:
            yield from self._table(values)

    def _rebalances(self, rebalances: Sequence[dict[str, Any]]) -> Iterator[str]:
        """Yield a table of rebalances, then the account of each in words."""
        rows = []
        for rebalance in rebalances:
            account = rebalance["account"]
            rows.append(
                {
                    "started_ms": rebalance["started_ms"],
                    "duration_ms": rebalance["ended_ms"] - rebalance["started_ms"],
                    "trigger": account.get("trigger"),
                    "generation": account.get("generation"),
                    "members": account.get("members_after"),
                }
            )
        yield from self._table(rows)
        for rebalance in rebalances:
            yield ""
            started = self._times.shown("started_ms", rebalance["started_ms"])
            yield f"{printable(rebalance['group'])}, {started}:"
            yield from (f"    {printable(line)}" for line in rebalance["story"])

    def _table(self, rows: Sequence[dict[str, Any]]) -> Iterator[str]:
        """Yield the lines of a table; columns whose values are null in all rows are left out."""
        names = {name: None for row in rows for name, value in row.items() if value is not None}
        cells = [[name.removesuffix("_ms").upper() for name in names]]
        cells += [[self._cell(name, row.get(name)) for name in names] for row in rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for line in cells:
            padded = [
                text.ljust(min(width, _MOST_CHARACTERS))
                for text, width in zip(line, widths, strict=True)
            ]
            yield "  ".join(padded).rstrip()

    def _cell(self, name: str, value: Any) -> str:
        """Return the value of a field, in a few characters unless the output is wide."""
        text = self._text(name, value)
        if self._is_wide or len(text) <= _MOST_CHARACTERS:
            return text
        return f"{text[: _MOST_CHARACTERS - 3]}..."

    def _text(self, name: str, value: Any) -> str:
        if value is None:
            return "-"
        if isinstance(value, bool):
            return "true" if value else "false"
        if name == "beyond_end" and value:
            return f"{value} beyond the log end"
        if name.endswith("_ms") and isinstance(value, int):
            return self._times.shown(name, value)
        if isinstance(value, dict):
            if "size_bytes" in value and "format" in value:  # a key, a value or a header
                return _content(value)
            pairs = (f"{key}={self._text(key, part)}" for key, part in value.items())
            return printable(", ".join(pairs)) or "none"
        if isinstance(value, list):
            separator = "; " if any(isinstance(part, dict) for part in value) else ","
            return printable(separator.join(self._text("", part) for part in value)) or "none"
        return printable(value if isinstance(value, str) else json.dumps(value))


def _content(content: dict[str, Any]) -> str:
    """Return a key, a value or a header: decoded if possible, with its schema id before the text.

    A text that the broker has cut, or that was not decoded, is marked.
    """
    decoded = content.get("decoded")
    if content["text"] is None:
        return "-"
    shown = content if decoded is None or decoded["text"] is None else decoded
    text = f"{shown['text']}{'...' if shown.get('is_cut') else ''}"
    if content.get("schema_id") is not None:
        words = [f"schema {content['schema_id']}"]
        if decoded is not None:
            reason = decoded["error"] and f"not decoded: {decoded['error']}"
            kind = " ".join(filter(None, (decoded["schema_type"], decoded["name"])))
            words += filter(None, (kind, reason))
        text = f"[{', '.join(words)}] {text}"
    return printable(text)


def _print(text: str, *, flush: bool = False) -> None:
    """Print lines; what is not escaped yet is escaped here."""
    print("\n".join(map(printable, text.split("\n"))), flush=flush)


def printable(text: str) -> str:
    """Escape characters that a terminal would act on."""
    return text if text.isprintable() else ascii(text)[1:-1]
