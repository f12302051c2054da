"""Dicts for requests that may have millions of entries.

Rehashing or freeing a dict of that size blocks the event loop for too long. The dicts here consist
of small shards.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

    from coordinator_server.steps import Steps

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")

_SHARDS = 1024


class ShardedDict(Generic[K, V]):
    """A dict in shards. It keeps no order of the keys."""

    __slots__ = ("_shards",)

    def __init__(self) -> None:
        self._shards: defaultdict[int, dict[K, V]] = defaultdict(dict)

    def setdefault(self, key: K, value: V) -> V:
        """Like `dict.setdefault`."""
        return self._shards[hash(key) % _SHARDS].setdefault(key, value)

    def pop(self, key: K, default: V) -> V:
        """Like `dict.pop`."""
        return self._shards[hash(key) % _SHARDS].pop(key, default)

    def clear(self) -> Steps:
        """Remove all entries, in steps."""
        while self._shards:
            self._shards.popitem()
            yield


class Counts(ShardedDict[K, int]):
    """How often each key was added."""

    __slots__ = ()

    def add(self, key: K) -> int:
        """Add a key and return how often it was added so far."""
        shard = self._shards[hash(key) % _SHARDS]
        count = shard[key] = shard.get(key, 0) + 1
        return count

    def __getitem__(self, key: K) -> int:
        return self._shards[hash(key) % _SHARDS].get(key, 0)
