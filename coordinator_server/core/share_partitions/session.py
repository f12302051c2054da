"""Share sessions: which partitions a member fetches, and what it was told of them.

Kafka's ShareSession and ShareSessionCache. A session is known by group and member; it is opened by
a fetch of epoch 0, and belongs to the connection of that: when the connection ends, so does the
session. Nothing else ends it but the client, not even the member's leaving the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_EPOCH_MAX = 2**31 - 1


class ShareSessionKey(NamedTuple):
    """Whose session it is."""

    group_id: str
    member_id: str


PartitionKey = tuple[bytes, int]
"""Topic id and partition."""


def next_epoch(epoch: int) -> int:
    """The epoch of the request after one of `epoch`; wraps to 1 (ShareRequestMetadata)."""
    return 1 if epoch == _EPOCH_MAX else epoch + 1


class ShareSession:
    """What one member fetches. `epoch` is the one that its next request must carry."""

    __slots__ = ("connection", "epoch", "key", "names", "partitions")

    def __init__(
        self, key: ShareSessionKey, partitions: dict[PartitionKey, bool], connection: Hashable
    ) -> None:
        self.key = key
        self.partitions = partitions
        """With each, whether the next answer names it even if there is nothing to say of it."""
        self.names: dict[bytes, str] = {}
        """The name of each topic that was there when it was fetched, by topic id."""
        self.connection = connection
        self.epoch = next_epoch(INITIAL_EPOCH)

    def update(
        self, added: Iterable[PartitionKey], forgotten: Iterable[PartitionKey]
    ) -> Iterator[None]:
        """Take what a request adds, then what it forgets, in steps."""
        for key in added:
            self.partitions.setdefault(key, True)
            yield
        has_forgotten = False
        for key in forgotten:
            has_forgotten |= self.partitions.pop(key, None) is not None
            yield
        if has_forgotten:
            fetched = {topic_id for topic_id, _ in self.partitions}
            for topic_id in [one for one in self.names if one not in fetched]:
                del self.names[topic_id]

    def has_news(self, key: PartitionKey, *, has_records: bool, has_error: bool) -> bool:
        """Whether the answer must name a partition; notes what the client then knows.

        An error is told again until it has gone, and then that it has.
        """
        must = has_records or has_error or self.partitions.get(key, False)
        if key in self.partitions:
            if has_records:
                del self.partitions[key]  # the others come first next time
            self.partitions[key] = has_error
        return must


class Disconnected(NamedTuple):
    """What the end of a connection ends: a session, and perhaps the last one of its group."""

    session: ShareSession | None
    empty_group_id: str | None


class ShareSessionCache:
    """All share sessions of a broker, at most `max_sessions`."""

    __slots__ = ("_by_connection", "_group_sizes", "_max_sessions", "_sessions")

    def __init__(self, max_sessions: int) -> None:
        self._max_sessions = max_sessions
        self._sessions: dict[ShareSessionKey, ShareSession] = {}
        self._group_sizes: dict[str, int] = {}
        # By connection the session that was opened last, and whether the connection has ended one.
        self._by_connection: dict[Hashable, tuple[ShareSessionKey, bool]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, key: ShareSessionKey) -> ShareSession | None:
        """The session of a member."""
        return self._sessions.get(key)

    def has_group(self, group_id: str) -> bool:
        """Whether a group has a session."""
        return group_id in self._group_sizes

    def sessions(self) -> Iterable[ShareSession]:
        """All sessions."""
        return self._sessions.values()

    def open(
        self, key: ShareSessionKey, partitions: dict[PartitionKey, bool], connection: Hashable
    ) -> ShareSession | None:
        """Begin a session, instead of the one that the member may have; None if there are too
        many."""
        self.remove(key)
        if len(self._sessions) >= self._max_sessions:
            return None
        session = self._sessions[key] = ShareSession(key, partitions, connection)
        self._group_sizes[key.group_id] = self._group_sizes.get(key.group_id, 0) + 1
        self._by_connection[connection] = key, False
        return session

    def remove(self, key: ShareSessionKey) -> ShareSession | None:
        """End a session, if there is one.

        Its connection goes on being known: when it ends, the group may be without a session.
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
        """A connection has ended: what ends with it."""
        key, is_over = self._by_connection.pop(connection, (None, True))
        if key is None:
            return Disconnected(None, None)
        session = None if is_over else self.remove(key)
        group_id = key.group_id
        if self.has_group(group_id):
            return Disconnected(session, None)
        return Disconnected(session, group_id)

    def clear(self) -> None:
        """Forget all sessions."""
        self._sessions.clear()
        self._group_sizes.clear()
        self._by_connection.clear()
