"""The error of a control request, and checks of names and numbers that raise it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from reprlib import Repr
from typing import Any

_INT64 = 1 << 63
_cut = Repr()
_cut.maxstring = _cut.maxlong = 200
_INT64_DIGITS = 19
_MOST_COMPARED, _MOST_CHARACTERS, _LENGTHS_APART, _SIMILARITY = 50, 40, 3, 0.75


class ControlError(Exception):
    """A failed request: `status` is the HTTP status, the message states the problem.

    `headers` are sent with the response.
    """

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


def shown(value: object) -> str:
    """Return a value for an error message, without the rest of a long one."""
    return _cut.repr(value)


def unique_names(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object. Raises ControlError for a repeated name, with both values."""
    value = dict(pairs)
    if len(value) < len(pairs):
        first: dict[str, Any] = {}
        for name, second in pairs:
            if name in first:
                values = f"{shown(first[name])} and {shown(second)}"
                raise ControlError(400, f"{shown(name)} is given twice: {values}")
            first[name] = second
    return value


def refuse_both(new: Collection[str], removed: Iterable[str]) -> None:
    """Raise ControlError for a name that is both set and unset."""
    for name in removed:
        if name in new:
            raise ControlError(400, f"{shown(name)} is in both set and unset")


def refuse_others(what: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise ControlError if a name is not known, with the known names."""
    for name in given:
        if name not in known:
            names = f"the names are {', '.join(known)}" if known else "there is none"
            raise ControlError(400, f"{shown(name)} is no {what}: {names}")


def proposal(name: str, known: Iterable[str]) -> str:
    """Return the end of an error about an unknown name that proposes a similar one, or nothing.

    Only names with the same first letter and about the same length are compared, at most
    _MOST_COMPARED, because a comparison takes long. Names that differ only in their digits, such as
    `group-1` and `group-2`, are different things and not proposed.
    """
    from difflib import get_close_matches

    if len(name) > _MOST_CHARACTERS:  # candidates are at most _LENGTHS_APART longer
        return ""
    candidates = (
        other
        for other in known
        if abs(len(other) - len(name)) <= _LENGTHS_APART
        and not differ_in_digits(name, other)
        and other[:1].casefold() == name[:1].casefold()
    )
    similar = get_close_matches(
        name, list(islice(candidates, _MOST_COMPARED)), n=1, cutoff=_SIMILARITY
    )
    return f"; did you mean {similar[0]}?" if similar else ""


def differ_in_digits(name: str, other: str) -> bool:
    """Return whether two names with digits are equal without their digits."""
    (digits, rest), (other_digits, other_rest) = _split_digits(name), _split_digits(other)
    return bool(digits and other_digits) and rest == other_rest


def _split_digits(name: str) -> tuple[str, str]:
    digits = "".join(filter(str.isdigit, name))
    return digits, "".join(character for character in name if not character.isdigit())


def natural_number(text: str) -> int | None:
    """Parse decimal digits; return None for other text and for numbers of 2^63 or more."""
    if not (text.isascii() and text.isdigit() and len(text) <= _INT64_DIGITS):
        return None
    return number if (number := int(text)) < _INT64 else None
