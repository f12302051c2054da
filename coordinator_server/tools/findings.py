"""The findings of `verify-log`: errors, notes and counts."""

from __future__ import annotations

from pathlib import Path


class Findings:
    """Errors, notes and counts of a check.

    An error is damage; a note only makes the next start slower.
    """

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.notes: list[str] = []
        self.partitions = 0
        self.segments = 0
        self.batches = 0
        self.records = 0
        self.size_bytes = 0
        self.index_entries = 0

    def error(self, path: Path, reason: str) -> None:
        """Add an error."""
        self.errors.append(f"{path}: {reason}")

    def note(self, path: Path, reason: str) -> None:
        """Add a note on a problem that the next start repairs."""
        self.notes.append(f"{path}: {reason}")
