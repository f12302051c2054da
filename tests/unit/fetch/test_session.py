"""The cache of incremental fetch sessions."""

from __future__ import annotations

import itertools

from coordinator_server.fetch.session import (
    EVICTION_MS,
    FetchContext,
    FetchSessionCache,
    FetchTarget,
    next_epoch,
)
from coordinator_server.steps import run_all
from protocol.apis.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from protocol.errors import ErrorCode


def context_of(
    sessions: FetchSessionCache, request: FetchRequest, version: int, now_ms: int
) -> FetchContext:
    """Return the context of a request."""
    return run_all(sessions.context(request, version, now_ms))


def cache(slots: int = 10) -> FetchSessionCache:
    """Return an empty cache whose session ids are 1, 2, 3, ..."""
    ids = itertools.count(1)
    return FetchSessionCache(slots, lambda: next(ids))


def request(
    *partitions: tuple[str, int, int],
    session: int = 0,
    epoch: int = 0,
    forget: tuple[tuple[str, int], ...] = (),
) -> FetchRequest:
    """Return a request for (topic, partition, offset) of one session."""
    return FetchRequest(
        session_id=session,
        session_epoch=epoch,
        topics=[
            FetchTopic(
                topic=topic,
                topic_id=topic.encode().ljust(16),
                partitions=[
                    FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=9)
                ],
            )
            for topic, partition, offset in partitions
        ],
        forgotten_topics_data=[
            ForgottenTopic(topic=topic, topic_id=topic.encode().ljust(16), partitions=[partition])
            for topic, partition in forget
        ],
    )


def asked(context: FetchContext) -> list[tuple[str | bytes, int, int]]:
    """Return the partitions that a context reads."""
    return [(target.topic, target.partition, target.fetch_offset) for target in context.targets]


def opened(sessions: FetchSessionCache, *names: str, now_ms: int = 0) -> int:
    """Return the id of a new session that reads one partition of each topic."""
    context = context_of(sessions, request(*((name, 0, 0) for name in names)), 12, now_ms)
    return sessions.open(context, now_ms)


def test_epoch_minus_one_is_no_session() -> None:
    """A request with the final epoch is read in full and opens no session."""
    context = context_of(cache(), request(("a", 0, 5), epoch=-1), 12, 0)
    assert asked(context) == [("a", 0, 5)]
    assert not context.wants_session
    assert context.session is None


def test_epoch_zero_opens_a_session() -> None:
    """A fetch with epoch 0 opens a session, whose next request has epoch 1."""
    sessions = cache()
    context = context_of(sessions, request(("a", 0, 5), ("b", 1, 7)), 12, 0)
    assert context.wants_session
    session = sessions.open(context, 0)
    following = context_of(sessions, request(session=session, epoch=1), 12, 0)
    assert following.error is ErrorCode.NONE
    assert following.session is not None
    assert asked(following) == [("a", 0, 5), ("b", 1, 7)]


def test_an_incremental_request_changes_adds_and_forgets() -> None:
    """A request changes offsets, adds partitions and forgets partitions; other partitions stay."""
    sessions = cache()
    session = opened(sessions, "a", "b", "c")
    context = context_of(
        sessions,
        request(("b", 0, 3), ("d", 2, 4), session=session, epoch=1, forget=(("a", 0),)),
        12,
        0,
    )
    assert asked(context) == [("b", 0, 3), ("c", 0, 0), ("d", 2, 4)]


def test_a_wrong_epoch_changes_nothing() -> None:
    """An old or future epoch gets INVALID_FETCH_SESSION_EPOCH; the right epoch still works."""
    sessions = cache()
    session = opened(sessions, "a")
    for epoch in (2, 7):
        context = context_of(sessions, request(("b", 0, 0), session=session, epoch=epoch), 12, 0)
        assert context.error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert asked(context_of(sessions, request(session=session, epoch=1), 12, 0)) == [("a", 0, 0)]
    repeated = context_of(sessions, request(session=session, epoch=1), 12, 0)
    assert repeated.error is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_an_unknown_session_is_not_found() -> None:
    """An unknown session with an epoch other than 0 and -1 gets FETCH_SESSION_ID_NOT_FOUND."""
    for session, epoch in ((99, 1), (0, 5), (0, -2)):
        context = context_of(cache(), request(("a", 0, 0), session=session, epoch=epoch), 12, 0)
        assert context.error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_names_and_ids_do_not_mix_in_a_session() -> None:
    """A session of names that gets ids returns FETCH_SESSION_TOPIC_ID_ERROR and keeps its epoch."""
    sessions = cache()
    session = opened(sessions, "a")
    context = context_of(sessions, request(session=session, epoch=1), 13, 0)
    assert context.error is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert context_of(sessions, request(session=session, epoch=1), 12, 0).error is ErrorCode.NONE


def test_topic_ids_from_version_13() -> None:
    """Since version 13 partitions are identified by topic id."""
    context = context_of(cache(), request(("a", 0, 0)), 13, 0)
    assert asked(context) == [(b"a".ljust(16), 0, 0)]


def test_the_final_epoch_closes_a_session() -> None:
    """A fetch with epoch -1 closes the session."""
    sessions = cache()
    session = opened(sessions, "a")
    context_of(sessions, request(session=session, epoch=-1), 12, 0)
    assert len(sessions) == 0
    context = context_of(sessions, request(session=session, epoch=1), 12, 0)
    assert context.error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_epoch_zero_with_an_id_replaces_the_session() -> None:
    """A full request with a session id replaces that session by a new session."""
    sessions = cache()
    session = opened(sessions, "a")
    context = context_of(sessions, request(("b", 0, 0), session=session, epoch=0), 12, 0)
    assert sessions.open(context, 0) != session
    assert len(sessions) == 1


def test_a_session_without_partitions_ends() -> None:
    """A session whose last partition is forgotten ends, and the response has no session."""
    sessions = cache()
    session = opened(sessions, "a")
    context = context_of(sessions, request(session=session, epoch=1, forget=(("a", 0),)), 12, 0)
    assert context.error is ErrorCode.NONE
    assert context.session is None
    assert not context.wants_session
    assert asked(context) == []
    assert len(sessions) == 0


def test_the_request_that_ends_a_session_is_served() -> None:
    """A request that fetches and forgets a session's last partition is served without a session."""
    sessions = cache()
    session = opened(sessions, "a")
    ending = request(("a", 0, 2), session=session, epoch=1, forget=(("a", 0),))
    context = context_of(sessions, ending, 12, 0)
    assert asked(context) == [("a", 0, 2)]
    assert context.session is None
    assert not context.wants_session
    assert len(sessions) == 0


def test_a_partition_named_twice_counts_once() -> None:
    """A partition named twice is read once, at its first position with its last offset."""
    context = context_of(cache(), request(("a", 0, 5), ("b", 0, 6), ("a", 0, 7)), 12, 0)
    assert asked(context) == [("a", 0, 7), ("b", 0, 6)]


def test_news_is_data_errors_and_moved_offsets() -> None:
    """A response has partitions with records, an error, a new high watermark or a new log start."""
    target = FetchTarget("a", 0)
    assert target.has_news(0, 5, 0, 0)
    assert not target.has_news(0, 5, 0, 0)
    assert target.has_news(0, 5, 0, 100)
    assert target.has_news(0, 6, 0, 0)
    assert target.has_news(0, 6, 2, 0)
    assert not target.has_news(0, 6, 2, 0)


def test_an_error_is_always_news_and_so_is_its_end() -> None:
    """An error is returned every time, and the recovered partition once."""
    target = FetchTarget("a", 0)
    target.has_news(0, 5, 0, 0)
    assert target.has_news(ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1, 0)
    assert target.has_news(ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1, 0)
    assert target.has_news(0, 5, 0, 0)
    assert not target.has_news(0, 5, 0, 0)


def test_without_a_free_slot_there_is_no_session() -> None:
    """If all slots have active young sessions, a full response has session id 0."""
    sessions = cache(slots=2)
    assert opened(sessions, "a")
    assert opened(sessions, "b")
    assert opened(sessions, "c", "d", "e") == 0
    assert len(sessions) == 2
    assert opened(cache(slots=0), "a") == 0


def test_an_idle_session_gives_way() -> None:
    """A session that is idle for two minutes is evicted; an active session stays."""
    sessions = cache(slots=2)
    first, second = opened(sessions, "a"), opened(sessions, "b")
    context_of(sessions, request(session=first, epoch=1), 12, EVICTION_MS)
    third = opened(sessions, "c", now_ms=EVICTION_MS + 1)
    assert third
    found = [
        context_of(sessions, request(session=session, epoch=epoch), 12, EVICTION_MS + 1).error
        for session, epoch in ((first, 2), (second, 1), (third, 1))
    ]
    assert found == [ErrorCode.NONE, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.NONE]


def test_a_bigger_session_takes_the_slot_of_an_old_smaller_one() -> None:
    """An active session older than two minutes is replaced only by a larger session."""
    sessions = cache(slots=1)
    session = opened(sessions, "a", "b")
    later = EVICTION_MS + 1
    context_of(sessions, request(session=session, epoch=1), 12, later)
    assert opened(sessions, "c", "d", now_ms=later) == 0
    assert opened(sessions, "c", "d", "e", now_ms=later) != 0


def test_a_session_that_went_on_overtakes_a_parked_request() -> None:
    """A parked request detects that its session has continued with a later request."""
    sessions = cache()
    session = opened(sessions, "a")
    parked = context_of(sessions, request(session=session, epoch=1), 12, 0)
    assert not parked.is_overtaken
    context_of(sessions, request(session=session, epoch=2), 12, 0)
    assert parked.is_overtaken


def test_a_partition_that_had_data_goes_to_the_end() -> None:
    """A partition that had data goes to the end of its session."""
    sessions = cache()
    session = opened(sessions, "a", "b")
    context = context_of(sessions, request(session=session, epoch=1), 12, 0)
    assert context.session is not None
    context.session.move_to_end(context.targets[0])
    following = context_of(sessions, request(session=session, epoch=2), 12, 0)
    assert [target.topic for target in following.targets] == ["b", "a"]


def test_epochs_wrap_to_one() -> None:
    """The largest int32 epoch is followed by 1, since 0 means a new session."""
    assert next_epoch(1) == 2
    assert next_epoch(2**31 - 1) == 1


def test_an_id_in_use_is_not_given_twice() -> None:
    """A random id that is in use is drawn again."""
    numbers = iter((5, 5, 6))
    sessions = FetchSessionCache(10, lambda: next(numbers))
    assert opened(sessions, "a") == 5
    assert opened(sessions, "b") == 6
