"""Share sessions: their contents, limits, and ends."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator_server.core.share_partitions.session import (
    Disconnected,
    PartitionKey,
    ShareSession,
    ShareSessionCache,
    ShareSessionKey,
    next_epoch,
)

A, B, C = (ShareSessionKey("group", name) for name in "ABC")
P0, P1, P2 = ((b"\1" * 16, index) for index in range(3))


def opened(
    cache: ShareSessionCache, key: ShareSessionKey = A, connection: str = "a"
) -> ShareSession:
    """Return a new session of two partitions."""
    session = cache.open(key, {P0: False, P1: False}, connection)
    assert session is not None
    return session


def update(
    session: ShareSession, added: Sequence[PartitionKey], forgotten: Sequence[PartitionKey]
) -> list[PartitionKey]:
    """Update the session; return the partitions that it fetches."""
    for _ in session.update(added, forgotten):
        pass
    return list(session.partitions)


def test_epochs() -> None:
    """Session epochs start at 1 and wrap around to 1."""
    assert opened(ShareSessionCache(1)).epoch == 1
    assert next_epoch(1) == 2
    assert next_epoch(2**31 - 1) == 1


def test_partitions_join_and_leave() -> None:
    """A partition that is added and forgotten in one request is forgotten."""
    session = opened(ShareSessionCache(1))
    assert update(session, [P2, P0], []) == [P0, P1, P2]
    assert update(session, [P1], [P0, P1]) == [P2]
    assert update(session, [], [P0]) == [P2]


def test_names_of_topics_that_are_not_fetched_any_more_are_forgotten() -> None:
    """The name of a topic is dropped with its last partition."""
    session = opened(ShareSessionCache(1))
    other = (b"\2" * 16, 0)
    update(session, [other], [])
    session.names = {P0[0]: "a", other[0]: "b"}
    update(session, [], [P0, other])
    assert session.names == {P0[0]: "a"}
    update(session, [], [P1])
    assert session.names == {}


def test_news() -> None:
    """A response has the partitions with records or errors.

    A partition that is new, or whose error has ended, is included once.
    """
    session = opened(ShareSessionCache(1))
    update(session, [P2], [])

    def has_news(key: PartitionKey, *, records: bool = False, error: bool = False) -> bool:
        return session.has_news(key, has_records=records, has_error=error)

    assert not has_news(P0)
    assert has_news(P2)
    assert not has_news(P2)
    assert has_news(P1, error=True)
    assert has_news(P1, error=True)
    assert has_news(P1)
    assert not has_news(P1)
    assert has_news(P0, records=True)
    assert list(session.partitions) == [P1, P2, P0]
    assert not has_news((b"\2" * 16, 0))


def test_nothing_is_kept_of_a_group_without_sessions() -> None:
    """A group without sessions leaves nothing in the cache.

    One connection may open and close sessions of ever new groups.
    """
    cache = ShareSessionCache(2)
    for number in range(10):
        key = ShareSessionKey(f"group-{number}", "A")
        opened(cache, key)
        assert cache.has_group(key.group_id)
        cache.remove(key)
        assert not cache.has_group(key.group_id)
    assert cache._group_sizes == {}
    assert cache.disconnected("a") == Disconnected(None, "group-9")


def test_so_many_sessions() -> None:
    """A session beyond the limit is refused, but a member may restart its own session."""
    cache = ShareSessionCache(2)
    opened(cache, A, "a")
    opened(cache, B, "b")
    assert cache.open(C, {}, "c") is None
    opened(cache, A, "a2")
    assert len(cache) == 2
    assert {session.key for session in cache.sessions()} == {A, B}
    assert cache.remove(A) is not None
    assert cache.remove(A) is None
    assert cache.get(A) is None
    cache.clear()
    assert len(cache) == 0


def test_a_connection_ends() -> None:
    """The end of a connection ends its session, and the group's last session ends the group."""
    cache = ShareSessionCache(10)
    first, second = opened(cache, A, "a"), opened(cache, B, "b")
    assert cache.disconnected("x") == Disconnected(None, None)
    assert cache.disconnected("a") == Disconnected(first, None)
    assert cache.disconnected("a") == Disconnected(None, None)
    assert cache.disconnected("b") == Disconnected(second, "group")
    assert len(cache) == 0


def test_a_connection_ends_whose_session_is_over() -> None:
    """The end of a connection does not affect a session that was closed or moved before."""
    cache = ShareSessionCache(10)
    opened(cache, A, "a")
    cache.remove(A)
    assert cache.disconnected("a") == Disconnected(None, "group")
    opened(cache, A, "a")
    again = opened(cache, A, "a2")
    assert cache.disconnected("a") == Disconnected(None, None)
    assert cache.get(A) is again
    assert opened(cache, A, "a2") is not again
    assert cache.disconnected("a2").session is not None


def test_two_sessions_of_one_connection() -> None:
    """The end of a connection ends only the last session that the connection opened.

    As in Kafka, no session ends if another session of the connection was removed before.
    """
    cache = ShareSessionCache(10)
    opened(cache, A, "a")
    last = opened(cache, B, "a")
    assert cache.disconnected("a") == Disconnected(last, None)
    assert cache.get(A) is not None
    cache.remove(A)
    opened(cache, A, "a")
    last = opened(cache, B, "a")
    cache.remove(A)
    assert cache.disconnected("a") == Disconnected(None, None)
    assert cache.get(B) is last
