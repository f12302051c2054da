"""Share sessions: the partitions that a member fetches, and what the last response reported.

A session is identified by group and member. It is opened by a fetch with epoch 0 and belongs to
that fetch's connection: when the connection ends, the session ends. Only the client can end the
session earlier; leaving the group does not end it. Source: ShareSession, ShareSessionCache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_EPOCH_MAX = 2**31 - 1


class ShareSessionKey(NamedTuple):
    """The group and member of a session."""

    group_id: str
    member_id: str


PartitionKey = tuple[bytes, int]
"""Topic id and partition."""


def next_epoch(epoch: int) -> int:
    """Return the epoch of the request after `epoch`; wraps to 1 (ShareRequestMetadata)."""
    return 1 if epoch == _EPOCH_MAX else epoch + 1


class ShareSession:
    """The session of one member; `epoch` is the epoch that the next request must carry."""

    __slots__ = ("connection", "epoch", "key", "names", "partitions")

    def __init__(
        self, key: ShareSessionKey, partitions: dict[PartitionKey, bool], connection: Hashable
    ) -> None:
        self.key = key
        self.partitions = partitions
        """Partition -> whether the next response includes the partition even without news."""
        self.names: dict[bytes, str] = {}
        """Topic id -> name, for the topics that existed when they were fetched."""
        self.connection = connection
        self.epoch = next_epoch(INITIAL_EPOCH)

    def update(
        self, added: Iterable[PartitionKey], forgotten: Iterable[PartitionKey]
    ) -> Iterator[None]:
        """Add partitions of a request, then remove forgotten partitions, in steps."""
        for key in added:
            self.partitions.setdefault(key, True)
            yield
        has_forgotten = False
        for key in forgotten:
            has_forgotten |= self.partitions.pop(key, None) is not None
            yield
        if has_forgotten:
            fetched = {topic_id for topic_id, _ in self.partitions}
            for topic_id in [name for name in self.names if name not in fetched]:
                del self.names[topic_id]

    def has_news(self, key: PartitionKey, *, has_records: bool, has_error: bool) -> bool:
        """Return whether the response must include a partition; record the reported state.

        A partition with an error is included in every response, and once more after the error.
        """
        must = has_records or has_error or self.partitions.get(key, False)
        if key in self.partitions:
            if has_records:
                # Move the partition to the end, so that the other partitions come first in the
                # next response.
                del self.partitions[key]
            self.partitions[key] = has_error
        return must


class Disconnected(NamedTuple):
    """The session of a closed connection, and the group id if the group has no session left."""

    session: ShareSession | None
    empty_group_id: str | None


class ShareSessionCache:
    """All share sessions of a broker, at most `max_sessions`."""

    __slots__ = ("_by_connection", "_group_sizes", "_max_sessions", "_sessions")

    def __init__(self, max_sessions: int) -> None:
        self._max_sessions = max_sessions
        self._sessions: dict[ShareSessionKey, ShareSession] = {}
        self._group_sizes: dict[str, int] = {}
        # For each connection: the key of the last session opened, and whether that session has
        # ended.
        self._by_connection: dict[Hashable, tuple[ShareSessionKey, bool]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, key: ShareSessionKey) -> ShareSession | None:
        """Return the session of a member, or None."""
        return self._sessions.get(key)

    def has_group(self, group_id: str) -> bool:
        """Return whether a group has a session."""
        return group_id in self._group_sizes

    def sessions(self) -> Iterable[ShareSession]:
        """Return all sessions."""
        return self._sessions.values()

    def open(
        self, key: ShareSessionKey, partitions: dict[PartitionKey, bool], connection: Hashable
    ) -> ShareSession | None:
        """Open a session in place of the member's current session; return None at the limit."""
        self.remove(key)
        if len(self._sessions) >= self._max_sessions:
            return None
        session = self._sessions[key] = ShareSession(key, partitions, connection)
        self._group_sizes[key.group_id] = self._group_sizes.get(key.group_id, 0) + 1
        self._by_connection[connection] = key, False
        return session

    def remove(self, key: ShareSessionKey) -> ShareSession | None:
        """End a session and return it, or None.

        The session's connection stays in the cache: when the connection ends, `disconnected` must
        know the group, which may have no session left.
        """
        session = self._sessions.pop(key, None)
        if session is not None:
            self._group_sizes[key.group_id] -= 1
            if not self._group_sizes[key.group_id]:
                del self._group_sizes[key.group_id]
            opened = self._by_connection.get(session.connection)
            if opened is not None:
                self._by_connection[session.connection] = opened[0], True
        return session

    def disconnected(self, connection: Hashable) -> Disconnected:
        """Remove the session of a closed connection.

        Returns the session, and the group id if the group has no session left.
        """
        key, is_over = self._by_connection.pop(connection, (None, True))
        if key is None:
            return Disconnected(None, None)
        session = None if is_over else self.remove(key)
        group_id = key.group_id
        if self.has_group(group_id):
            return Disconnected(session, None)
        return Disconnected(session, group_id)

    def clear(self) -> None:
        """Remove all sessions."""
        self._sessions.clear()
        self._group_sizes.clear()
        self._by_connection.clear()
