"""Dicts for requests that may name millions of things.

One dict of millions takes too long at once when it has to be rehashed to grow, and when it is
freed. These are cut into shards that stay small.
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
    """A dict in shards, without an order."""

    __slots__ = ("_shards",)

    def __init__(self) -> None:
        self._shards: defaultdict[int, dict[K, V]] = defaultdict(dict)

    def setdefault(self, key: K, value: V) -> V:
        """As in a dict."""
        return self._shards[hash(key) % _SHARDS].setdefault(key, value)

    def pop(self, key: K, default: V) -> V:
        """As in a dict."""
        return self._shards[hash(key) % _SHARDS].pop(key, default)

    def clear(self) -> Steps:
        """Forget everything, in steps."""
        while self._shards:
            self._shards.popitem()
            yield


class Counts(ShardedDict[K, int]):
    """How often each key was added."""

    __slots__ = ()

    def add(self, key: K) -> int:
        """Count a key once more; how often it was added."""
        shard = self._shards[hash(key) % _SHARDS]
        count = shard[key] = shard.get(key, 0) + 1
        return count

    def __getitem__(self, key: K) -> int:
        return self._shards[hash(key) % _SHARDS].get(key, 0)
