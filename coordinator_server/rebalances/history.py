"""The last rebalance records of each group, kept in memory.

Records are JSON with constant field names, so each record is compressed with a dictionary of these
names. A record with one member shrinks from 1 000 bytes to about 200, larger records shrink more.
A small window keeps compression to a few microseconds.
"""

from __future__ import annotations

import zlib

_WINDOW_BITS, _MEMORY_LEVEL, _FASTEST = 12, 4, 1

_TYPICAL = (
    b'"outcome":"superseded","outcome":"empty","reason":"session expired","status":"left",'
    b'{"trigger":"member left","culprit":null,"reason":null,"timeout_ms":null,"after_ms":0},'
    b'{"schema":1,"group":"","outcome":"stable","trigger":"member joined","culprit":{"member":"'
    b'consumer-1-","instance":null,"client_id":"consumer-1","host":"/127.0.0.1"},"reason":"",'
    b'"timeout_ms":null,"error":"","also":[],"generation_before":0,"generation":1,'
    b'"protocol_type":"consumer","protocol_before":null,"protocol":"range","leader_before":null,'
    b'"leader":"consumer-1-","started_ms":17,"ended_ms":17,"initial_delay_ms":0,"join_ms":0,'
    b'"sync_ms":0,"members_before":0,"members_rejoined":0,"members_joined":1,"members_after":1,'
    b'"stragglers":[],"dropped":[],"partitions":{"kept":0,"moved":0,"added":0,"removed":0},'
    b'"partitions_unknown":null,"members":[{"member":"consumer-1-","instance":null,"client_id":"'
    b'consumer-1","host":"/127.0.0.1","member_before":null,"status":"joined","rejoined_ms":0,'
    b'"partitions_before":{},"partitions":{},"topics_added":[],"topics_removed":[]}],'
    b'"shortened":false},"member_before":"consumer-1-","status":"stayed","rejoined_ms":null,'
)


class RebalanceHistory:
    """The records of up to `size` rebalances of each group, as JSON."""

    __slots__ = ("_by_group", "_size")

    def __init__(self, size: int) -> None:
        self._size = size
        self._by_group: dict[str, list[bytes]] = {}  # not deques: an empty deque takes 760 bytes

    def add(self, group_id: str, value: bytes) -> None:
        """Add a record of a group; drop the group's oldest record if there are more than `size`."""
        if not self._size:
            return
        compressor = zlib.compressobj(
            _FASTEST, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL, zdict=_TYPICAL
        )
        compressed = compressor.compress(value) + compressor.flush()
        kept = self._by_group.get(group_id)
        if kept is None:
            self._by_group[group_id] = [compressed]
            return
        if len(kept) == self._size:
            del kept[0]
        kept.append(compressed)

    def of(self, group_id: str) -> list[bytes]:
        """Return the records of a group, oldest first."""
        return [
            zlib.decompressobj(_WINDOW_BITS, zdict=_TYPICAL).decompress(compressed)
            for compressed in self._by_group.get(group_id, ())
        ]

    def drop(self, group_id: str) -> None:
        """Remove all records of a group."""
        self._by_group.pop(group_id, None)

    def clear(self) -> None:
        """Remove all records of all groups."""
        self._by_group.clear()
