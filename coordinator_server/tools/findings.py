"""What the checks of `verify-log` found: errors, notes and how much was looked at."""

from __future__ import annotations

from pathlib import Path


class Findings:
    """What a check found, and how much it looked at. Errors are damage; notes cost only time."""

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
        """Take in something that is wrong."""
        self.errors.append(f"{path}: {reason}")

    def note(self, path: Path, reason: str) -> None:
        """Take in something that the next start mends by itself."""
        self.notes.append(f"{path}: {reason}")
