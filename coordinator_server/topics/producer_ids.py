"""Producer ids for idempotent producers, each given out only once, even across restarts.

Ids come from blocks of 1000, as from Kafka's controller (ProducerIdsBlock). The end of a block is
on disk before its first id is used, so a crash loses at most the rest of one block.
"""

from collections.abc import Callable

BLOCK_SIZE = 1000


class ProducerIdManager:
    """Gives out producer ids.

    `reserve(count)` stores a new block on disk and returns its first id, as
    `LogManager.next_producer_ids` does. It is called when the current block is used up.
    """

    __slots__ = ("_block_end", "_next_id", "_reserve")

    def __init__(self, reserve: Callable[[int], int]) -> None:
        self._reserve = reserve
        self._next_id = 0
        self._block_end = 0

    def next_id(self) -> int:
        """Return a new producer id. Raises StorageError if a new block cannot be stored."""
        if self._next_id == self._block_end:
            self._next_id = self._reserve(BLOCK_SIZE)
            self._block_end = self._next_id + BLOCK_SIZE
        producer_id = self._next_id
        self._next_id += 1
        return producer_id
