"""Which leader epoch began at which offset (Kafka's LeaderEpochFileCache, KIP-101).

Kept in memory and as `leader-epoch-checkpoint`; consumers learn from it where an epoch ended.
"""

from __future__ import annotations

from storage.checkpoints import write_leader_epochs
from storage.disk import Disk


class LeaderEpochs:
    """The epochs of one partition, ascending; the last one is stamped on what is appended."""

    __slots__ = ("current", "entries")

    def __init__(self, entries: list[tuple[int, int]]) -> None:
        self.entries = entries
        self.current = entries[-1][0] if entries else 0

    def begin(self, leader_epoch: int, offset: int) -> None:
        """Let a later epoch begin at `offset`; an epoch without a batch leaves no trace."""
        assert leader_epoch > self.current, (leader_epoch, self.current)
        self.current = leader_epoch
        self.entries = [entry for entry in self.entries if entry[1] < offset]
        self.entries.append((leader_epoch, offset))

    def end_offset(self, leader_epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the largest epoch not above `leader_epoch` and where it ends.

        An epoch before all that are known ends where the first of these begins; (-1, -1) for one
        that has not begun. Source: LeaderEpochFileCache.endOffsetFor.
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
        """Forget the epochs that began at or after the new log end."""
        self.entries = [entry for entry in self.entries if entry[1] < offset]

    def save(self, disk: Disk, directory: str, log_end_offset: int) -> None:
        """Write the checkpoint; a log's first epoch begins where it is first written."""
        if not self.entries:
            self.entries = [(self.current, log_end_offset)]
        write_leader_epochs(disk, directory, self.entries)
