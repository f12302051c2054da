"""What a user can put right: said in one line, without a trace."""

from __future__ import annotations


class InputError(Exception):
    """An input that is not there or cannot be read; the text says which and what to do."""
