"""The parser of `coordinator-server ctl`: errors for typos and for options that are given twice."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from coordinator_server.control.errors import differ_in_digits


class Once(argparse.Action):
    """Stores a value; a second value is an error that names both."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Store the value. Raises ArgumentError."""
        given = namespace.__dict__.setdefault("given", {})
        if self.dest in given:
            text = f"given twice: {given[self.dest]} and {values}"
            raise argparse.ArgumentError(self, text)
        given[self.dest] = values
        setattr(namespace, self.dest, values)


class Parser(argparse.ArgumentParser):
    """A parser that proposes similar commands and options for unknown ones."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = ", ".join(map(str, action.choices))
            text = f"there is no {value!r}{proposal(value, action.choices)} (known: {known})"
            raise argparse.ArgumentError(action, text)

    def refuse_unknown(self, words: Sequence[str]) -> NoReturn:
        """End the process with exit code 2 and the unknown arguments."""
        proposals = (
            proposal(word.partition("=")[0], self._option_string_actions)
            for word in words
            if word.startswith("-")
        )
        hint = next(filter(None, proposals), "")
        self.error(f"unknown arguments: {' '.join(words)}{hint}")


def proposal(word: str, known: Iterable[str]) -> str:
    """Return the end of an error message that proposes a known word, or nothing."""
    from difflib import get_close_matches

    others = [other for other in known if not differ_in_digits(word, other)]
    similar = get_close_matches(word, others, n=1)
    return f", did you mean {similar[0]}?" if similar else ""
