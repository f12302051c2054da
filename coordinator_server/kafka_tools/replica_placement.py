"""Placement of new replicas on brokers, spread over racks (Kafka's StripedReplicaPlacer)."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from coordinator_server.client import ClientError
from protocol.errors import ErrorCode


class _Rack:
    """The brokers of a rack; each partition starts at the next broker."""

    def __init__(self, brokers: list[int], random: Random) -> None:
        self.brokers = sorted(brokers)
        self._random = random
        self._offset = random.randrange(len(brokers))
        self._index = self._partition = 0

    def next(self, partition: int) -> int | None:
        """Return the next broker for a partition; None if all brokers of the rack are used."""
        count = len(self.brokers)
        if self._partition != partition:
            self._partition, self._index = partition, 0
            self._offset = (self._offset + 1) % count
        if self._index >= count:
            return None
        self._index += 1
        return self.brokers[(self._index - 1 + self._offset) % count]

    def shuffle(self) -> None:
        """Shuffle the brokers."""
        self._random.shuffle(self.brokers)


def place(
    racks: Mapping[int, str | None], partitions: int, replicas: int, random: Random
) -> list[list[int]]:
    """Return the replicas of each partition, leader first; `racks` maps brokers to racks.

    Raises ClientError if there are too few brokers.
    """
    if not racks:
        message = "All brokers are currently fenced, or have all their log directories cordoned."
        raise ClientError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    if replicas > len(racks):
        message = (
            f"The target replication factor of {replicas} cannot be reached because only "
            f"{len(racks)} broker(s) are registered or some brokers have all their log directories "
            "cordoned."
        )
        raise ClientError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    by_rack: dict[str | None, list[int]] = {}
    for broker, rack in racks.items():
        by_rack.setdefault(rack, []).append(broker)
    names = sorted(by_rack, key=lambda name: (name is not None, name or ""))
    ordered = [_Rack(by_rack[name], random) for name in names]
    offset = random.randrange(len(ordered))
    placed: list[list[int]] = []
    turn = 0
    for _ in range(partitions):
        if turn == len(racks) > 1:  # shuffle, so that assignments are not repeated
            random.shuffle(ordered)
            for one in ordered:
                one.shuffle()
            turn = 0
        placed.append(_place_one(ordered, offset % len(ordered), turn, replicas))
        turn += 1
        offset = offset % len(ordered) + 1
    return placed


def _place_one(racks: list[_Rack], offset: int, turn: int, replicas: int) -> list[int]:
    """Return the replicas of a partition, chosen from the racks in turn."""
    count = len(racks)
    first = offset
    while (leader := racks[first].next(turn)) is None:
        first = (first + 1) % count
    brokers = [leader]
    index, used = offset, first
    while len(brokers) < replicas:
        if index == used:
            used = -1  # skip the leader's rack once
        else:
            broker = racks[index].next(turn)
            if broker is not None:
                brokers.append(broker)
        index = (index + 1) % count
    return brokers
