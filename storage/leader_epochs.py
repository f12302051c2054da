"""The start offset of each leader epoch (Kafka's LeaderEpochFileCache, KIP-101).

The epochs are in memory and in the file `leader-epoch-checkpoint`. Consumers request the end offset
of an epoch to detect truncation.
"""

from __future__ import annotations

from storage.checkpoints import write_leader_epochs
from storage.disk import Disk


class LeaderEpochs:
    """The epochs of one partition, ascending. Appended batches get the last epoch."""

    __slots__ = ("current", "entries")

    def __init__(self, entries: list[tuple[int, int]]) -> None:
        self.entries = entries
        self.current = entries[-1][0] if entries else 0

    def begin(self, leader_epoch: int, offset: int) -> None:
        """Begin a later epoch at `offset`; epochs without a batch are dropped."""
        assert leader_epoch > self.current, (leader_epoch, self.current)
        self.current = leader_epoch
        self.entries = [entry for entry in self.entries if entry[1] < offset]
        self.entries.append((leader_epoch, offset))

    def end_offset(self, leader_epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the largest epoch not above `leader_epoch`, and the end offset of that epoch.

        An epoch before all known epochs ends at the start of the first known epoch. Returns
        (-1, -1) for an epoch that has not begun. Source: LeaderEpochFileCache.endOffsetFor.
        """
        if not 0 <= leader_epoch <= self.current:
            return -1, -1
        if leader_epoch == self.current:
            return leader_epoch, log_end_offset
        result = leader_epoch
        for epoch, start in self.entries:
            if epoch > leader_epoch:
                return result, start
            result = epoch
        return result, log_end_offset

    def truncate(self, offset: int) -> None:
        """Remove the epochs that began at or after `offset`, the new log end."""
        self.entries = [entry for entry in self.entries if entry[1] < offset]

    def save(self, disk: Disk, directory: str, log_end_offset: int) -> None:
        """Write the checkpoint. If no epoch is known, the current one begins at the log end."""
        if not self.entries:
            self.entries = [(self.current, log_end_offset)]
        write_leader_epochs(disk, directory, self.entries)
