"""Describe how the answers of two releases differ, with one line per kind of difference."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

_NOTHING = object()
_SHOWN_CHARACTERS = 160


class Recording(NamedTuple):
    """A suite's answers in the project's recording and in the new one, by name.

    `unstable` are the names whose answers were not the same each time, for instance because the
    machine was too busy. Unstable answers do not count as differences of the release.
    """

    before: Mapping[str, Any]
    now: Mapping[str, Any]
    unstable: Collection[str] = ()

    @property
    def differing(self) -> list[str]:
        """Return the names whose stable answers differ or exist on one side only."""
        names = (self.before.keys() | self.now.keys()) - set(self.unstable)
        return sorted(name for name in names if self.before.get(name) != self.now.get(name))


class Report(NamedTuple):
    """The number of differences, a line for each group of equal differences, and unstable names."""

    total: int
    lines: list[str]
    unstable: list[str]

    @property
    def described(self) -> list[str]:
        """Return the lines, and a line that names the unstable answers, if any."""
        if not self.unstable:
            return self.lines
        return [*self.lines, f"not the same each time: {', '.join(self.unstable)}"]

    @classmethod
    def of_lines(cls, lines: list[str]) -> Report:
        """Return a report with one difference in each line."""
        return cls(len(lines), lines, [])

    @classmethod
    def of_recording(cls, recording: Recording) -> Report:
        """Return the report of a suite: equal differences share a line, the most frequent first."""
        before, now = recording.before, recording.now
        names: dict[str, list[str]] = {}
        for name in recording.differing:
            text = difference(before.get(name, _NOTHING), now.get(name, _NOTHING))
            names.setdefault(text, []).append(name)
        groups = sorted(names.items(), key=lambda group: (-len(group[1]), group[0]))
        lines = [f"{len(some)} x {text}: {', '.join(some)}" for text, some in groups]
        return cls(len(recording.differing), lines, sorted(recording.unstable))


def difference(before: Any, now: Any) -> str:
    """Return the path of the first part that differs, and this part's new and old values.

    The path has no indexes, so that equal differences in different places are described equally.
    """
    path, was, is_now = next(_parts(before, now, ""), ("", before, now))
    place = f"{path}: " if path else ""
    if was is _NOTHING:
        return f"{place}new {_short(is_now)}"
    if is_now is _NOTHING:
        return f"{place}missing, was {_short(was)}"
    return f"{place}{_short(is_now)}, was {_short(was)}"


def _parts(before: Any, now: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield the path and both values of each part that differs."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name in before | now:
            inner = f"{path}.{name}" if path else str(name)
            yield from _parts(before.get(name, _NOTHING), now.get(name, _NOTHING), inner)
    elif isinstance(before, list) and isinstance(now, list):
        yield from _elements(before, now, path)
    elif isinstance(before, str) and isinstance(now, str) and "\n" in before + now:
        yield from _elements(before.split("\n"), now.split("\n"), path)
    elif before != now or before is _NOTHING:
        yield path, before, now


def _elements(before: list[Any], now: list[Any], path: str) -> Iterator[tuple[str, object, object]]:
    for index in range(max(len(before), len(now))):
        one: Any = before[index] if index < len(before) else _NOTHING
        other: Any = now[index] if index < len(now) else _NOTHING
        if _label(one) is not None and _label(one) == _label(other):
            yield from _parts(one[1], other[1], f"{path} {one[0]}".strip())
        else:
            yield from _parts(one, other, f"{path}[]")


def _label(value: Any) -> str | None:
    """Return the label of a step of a transcript, which is a list of a label and a result."""
    is_step = isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)
    return value[0] if is_step else None


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}.."
