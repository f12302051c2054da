"""What `coordinator-server ctl` prints: tables, facts, and accounts of rebalances in words."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coordinator_server.tools.ctl_times import Times

_MOST_CHARACTERS = 80
_IN_WORDS = frozenset({"last_rebalance", "now", "story", "summary", "under_way"})
"""Fields that are texts in lines."""


def show(answer: dict[str, Any], times: Times) -> None:
    """Print the answer to a request."""
    for name, value in answer.items():
        if not isinstance(value, dict | list) and name != "next":
            _print(f"{name}: {cell(name, value, times)}")
    for name, value in answer.items():
        if isinstance(value, list):
            for line in _list(name, value, times):
                _print(line)
        elif isinstance(value, dict):
            _print(f"{name}: {cell(name, value, times)}")
    if answer.get("next") is not None:
        print(f"there is more: --after {printable(str(answer['next']))}", file=sys.stderr)


def show_event(event: dict[str, Any], times: Times) -> None:
    """Print an event; a rebalance in words."""
    data = event["data"]
    text = cell("data", data, times)
    if event["type"] == "rebalance":
        from coordinator_server.rebalances.story import tell

        first, *rest = tell(data)
        text = "\n".join(
            [f"{printable(data['group'])}: {first}", *(f"    {line}" for line in rest)]
        )
    _print(f"{times.shown('at_ms', event['at_ms'])}  {event['type']}  {text}", flush=True)


def show_record(record: dict[str, Any], times: Times) -> None:
    """Print a record in one line."""
    place = f"{record['partition']}:{record['offset']}"
    contents = [cell(name, record[name], times) for name in ("key", "value")]
    _print("  ".join([place, *contents]), flush=True)


def _print(text: str, *, flush: bool = False) -> None:
    """Print lines; what is not escaped yet is escaped here."""
    print("\n".join(map(printable, text.split("\n"))), flush=flush)


def _list(name: str, values: list[Any], times: Times) -> Iterator[str]:
    if name in _IN_WORDS:
        yield f"{name}: {'' if values else 'none'}".rstrip()
        yield from (f"    {printable(line)}" for line in values)
    elif not values or not all(isinstance(value, dict) for value in values):
        yield f"{name}: {', '.join(cell('', value, times) for value in values) or 'none'}"
    elif all("story" in value and "account" in value for value in values):
        yield from _rebalances(values, times)
    else:
        yield from _table(values, times)


def _rebalances(rebalances: Sequence[dict[str, Any]], times: Times) -> Iterator[str]:
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
    yield from _table(rows, times)
    for rebalance in rebalances:
        yield ""
        started = times.shown("started_ms", rebalance["started_ms"])
        yield f"{printable(rebalance['group'])}, {started}:"
        yield from (f"    {printable(line)}" for line in rebalance["story"])


def _table(rows: Sequence[dict[str, Any]], times: Times) -> Iterator[str]:
    """Yield the lines of a table; columns whose values are null in all rows are left out."""
    names = [name for name in rows[0] if any(row.get(name) is not None for row in rows)]
    cells = [[name.removesuffix("_ms").upper() for name in names]]
    cells += [[cell(name, row.get(name), times) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        padded = [text.ljust(width) for text, width in zip(line, widths, strict=True)]
        yield "  ".join(padded).rstrip()


def cell(name: str, value: Any, times: Times) -> str:
    """Return the value of a field in a few characters."""
    text = _text(name, value, times)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 3]}..."


def _text(name: str, value: Any, times: Times) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if name == "beyond_end" and value:
        return f"{value} beyond the log end"
    if name.endswith("_ms") and isinstance(value, int):
        return times.shown(name, value)
    if isinstance(value, dict):
        if "size_bytes" in value and "format" in value:  # a key, a value or a header
            return _text("", value["text"], times)
        pairs = (f"{key}={_text(key, part, times)}" for key, part in value.items())
        return printable(", ".join(pairs)) or "none"
    if isinstance(value, list):
        separator = "; " if any(isinstance(part, dict) for part in value) else ","
        return printable(separator.join(_text("", part, times) for part in value)) or "none"
    return printable(value if isinstance(value, str) else json.dumps(value))


def printable(text: str) -> str:
    """Escape characters that a terminal would act on."""
    return text if text.isprintable() else ascii(text)[1:-1]
