"""Checks lines of a file of changes (one JSON text per line) for incomplete writes and damage."""

from __future__ import annotations

import json

DAMAGE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""The errors of reading a damaged line."""


def is_unwritten(line: bytes) -> bool:
    """Return whether a power cut lost a part of a line, so that the line was not acknowledged.

    The lost part of a file that has grown reads as zero bytes, which no JSON text contains.
    """
    return b"\0" in line


def line_error(number: int, error: Exception) -> str:
    """Return the reason why a line is damaged, for the error message."""
    if isinstance(error, json.JSONDecodeError):
        return f"line {number}, column {error.colno}: {error.msg}"
    what = f"no field {error}" if isinstance(error, KeyError) else str(error)
    return f"line {number}: {what}"
