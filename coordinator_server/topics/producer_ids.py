"""Producer ids for idempotent producers: every id is given once, over all restarts.

Ids are taken from blocks of 1000, as Kafka's controller gives them out (ProducerIdsBlock): the end
of a block is on disk before its first id is used, so a crash loses at most the rest of a block.
"""

from storage.disk import Disk, write_atomically
from storage.errors import StorageError

BLOCK_SIZE = 1000
FILE_NAME = "producer-ids"
_VERSION_LINE = "0"


class ProducerIdManager:
    """Gives out producer ids; `path` is the data directory. Reads the file at the first id."""

    __slots__ = ("_block_end", "_disk", "_next_id", "_path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = f"{path}/{FILE_NAME}"
        self._next_id = -1
        self._block_end = -1

    def next_id(self) -> int:
        """A producer id that was never given before. Raises StorageError when none can be kept."""
        if self._next_id == self._block_end:
            start = self._block_end if self._block_end >= 0 else self._reserved()
            end = start + BLOCK_SIZE
            try:
                write_atomically(self._disk, self._path, f"{_VERSION_LINE}\n{end}\n".encode())
            except OSError as error:
                raise StorageError(f"{self._path}: {error}") from error
            self._next_id, self._block_end = start, end
        producer_id = self._next_id
        self._next_id += 1
        return producer_id

    def _reserved(self) -> int:
        """The end of the last block that was reserved on this disk."""
        if not self._disk.exists(self._path):
            return 0
        try:
            version, end = self._disk.read_file(self._path).split()
            if version != _VERSION_LINE.encode():
                raise ValueError(f"version {version!r} is not known")
            return int(end)
        except (OSError, ValueError) as error:
            raise StorageError(f"{self._path}: {error}") from error
