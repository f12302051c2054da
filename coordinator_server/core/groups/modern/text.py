"""What counts as no text in the requests of members."""

from __future__ import annotations


def is_blank(text: str) -> bool:
    """Whether nothing is left by Java's trim, which takes off all up to the space, and no other
    white space. Source: Utils.throwIfEmptyString."""
    return all(one <= " " for one in text)
