"""Producer ids for idempotent producers: every id is given once, over all restarts.

Ids are taken from blocks of 1000, as Kafka's controller gives them out (ProducerIdsBlock): the end
of a block is on the disk before its first id is used, so a crash loses the rest of a block at most.
"""

from collections.abc import Callable

BLOCK_SIZE = 1000


class ProducerIdManager:
    """Gives out producer ids.

    `reserve(count)` keeps a block and returns its first id, as `LogManager.next_producer_ids` does;
    it is called when an id is wanted and none is left.
    """

    __slots__ = ("_block_end", "_next_id", "_reserve")

    def __init__(self, reserve: Callable[[int], int]) -> None:
        self._reserve = reserve
        self._next_id = 0
        self._block_end = 0

    def next_id(self) -> int:
        """A producer id that was never given before. Raises StorageError when none can be kept."""
        if self._next_id == self._block_end:
            self._next_id = self._reserve(BLOCK_SIZE)
            self._block_end = self._next_id + BLOCK_SIZE
        producer_id = self._next_id
        self._next_id += 1
        return producer_id
