"""Blank strings in requests, as Java's trim() sees them."""

from __future__ import annotations


def is_blank(text: str) -> bool:
    """Return whether Java's trim() leaves an empty string.

    trim() removes characters up to and including the space, but no other white space. Source:
    Utils.throwIfEmptyString.
    """
    return all(one <= " " for one in text)
