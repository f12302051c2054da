"""Fetch sessions while topics are deleted and recreated. The responses are those of Kafka.

`tests/conformance/scenarios/fetch_topics.py` has more of them, recorded from a running Kafka.
"""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_server.steps import run_all
from protocol.apis.fetch import FetchResponse
from protocol.errors import ErrorCode
from tests.harness.broker import MemoryBroker
from tests.harness.client import SentRequest
from tests.unit.apis.fetching import Session, ask, broker, fill, park, request

BY_NAME, BY_ID = 12, 13
VERSIONS = (BY_NAME, BY_ID)
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def delete(made: MemoryBroker, name: str) -> None:
    """Delete a topic, and wake waiting fetches."""
    topic = made.topics.topic(name)
    assert topic is not None
    run_all(made.topics.delete([topic]))
    made.turn()


def errors(response: FetchResponse) -> list[int]:
    """Return the error of each partition of a response."""
    return [one.error_code for topic in response.responses for one in topic.partitions]


def waiting(made: MemoryBroker, session: Session) -> SentRequest:
    """Send the next request of a session, which waits 500 ms for one byte; return its call."""
    session.epoch += 1
    fields: dict[str, Any] = {"session_id": session.id, "session_epoch": session.epoch}
    return made.send(request(made, max_wait_ms=500, min_bytes=1, **fields), session.version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_deleted_topic_of_a_session_is_unknown_by_its_name(version: int) -> None:
    """A deleted topic that the session has seen gets UNKNOWN_TOPIC_OR_PARTITION, also by id."""
    made = broker()
    session = Session(made, ("t", 0, 0), version=version)
    delete(made, "t")
    assert errors(session.ask()) == [UNKNOWN]
    assert errors(session.ask()) == [UNKNOWN]


def test_an_id_that_a_session_never_saw_is_unknown() -> None:
    """An id that the session has never seen gets UNKNOWN_TOPIC_ID."""
    made = broker()
    session = Session(made, ("no", 0, 0), version=BY_ID)
    assert errors(session.first) == errors(session.ask()) == [ErrorCode.UNKNOWN_TOPIC_ID]


def test_a_recreated_topic_of_a_session_is_told_at_once() -> None:
    """The id of a recreated topic gets INCONSISTENT_TOPIC_ID at once, without waiting for data."""
    made = broker()
    session = Session(made, ("t", 0, 0), ("u", 0, 0), version=BY_ID)
    delete(made, "t")
    made.topics.create("t", 2, {})
    call = waiting(made, session)
    assert [errors(reply) for reply in call.replies] == [[ErrorCode.INCONSISTENT_TOPIC_ID]]
    assert errors(session.ask()) == [ErrorCode.INCONSISTENT_TOPIC_ID]


def test_a_recreated_topic_with_fewer_partitions() -> None:
    """A partition that the recreated topic lacks gets UNKNOWN_TOPIC_OR_PARTITION."""
    made = broker()
    session = Session(made, ("t", 1, 0), version=BY_ID)
    delete(made, "t")
    made.topics.create("t", 1, {})
    assert errors(session.ask()) == [UNKNOWN]


def test_a_recreated_topic_is_read_by_its_name() -> None:
    """A session by name continues with the recreated topic."""
    made = broker()
    session = Session(made, ("t", 0, 0))
    delete(made, "t")
    made.topics.create("t", 1, {})
    fill(made, "t", 0)
    assert errors(session.ask()) == [ErrorCode.NONE]


def test_outside_a_session_no_name_is_known() -> None:
    """Outside of a session the id of a deleted topic gets UNKNOWN_TOPIC_ID."""
    made = broker()
    asked = request(made, ("t", 0, 0))
    delete(made, "t")
    made.topics.create("t", 1, {})
    assert errors(made.ask(asked, BY_ID)) == [ErrorCode.UNKNOWN_TOPIC_ID]


@pytest.mark.parametrize("version", VERSIONS)
def test_deletion_ends_the_wait(version: int) -> None:
    """A waiting fetch gets UNKNOWN_TOPIC_OR_PARTITION when its topic is deleted."""
    made = broker()
    session = Session(made, ("t", 0, 0), ("u", 0, 0), version=version)
    call = waiting(made, session)
    assert call.replies == []
    delete(made, "t")
    (response,) = call.replies
    assert errors(response) == [UNKNOWN]
    assert response.responses[0].partitions[0].aborted_transactions is None
    # The next fetch waits, because an unknown partition alone does not end the wait.
    assert waiting(made, session).replies == []


def test_a_fetch_outside_a_session_waits_likewise() -> None:
    """Deleting one of two topics ends the wait of a fetch outside of a session."""
    made = broker()
    call = park(made, ("t", 0, 0), ("u", 0, 0))
    delete(made, "u")
    assert [errors(reply) for reply in call.replies] == [[ErrorCode.NONE, UNKNOWN]]


def test_a_reader_whose_log_diverges_is_told_where() -> None:
    """A reader whose log diverges gets the end offset of its epoch at once, without records."""
    made = broker()
    fill(made, "t", 0, 2)
    made.topics.log("t", 0).begin_leader_epoch(4)
    fill(made, "t", 0)

    def diverging(offset: int, epoch: int) -> tuple[int, int, bytes]:
        asked = request(made, ("t", 0, offset), max_wait_ms=500, min_bytes=1)
        asked.topics[0].partitions[0].last_fetched_epoch = epoch
        (response,) = made.send(asked, BY_NAME).replies
        (one,) = response.responses[0].partitions
        assert (one.error_code, one.high_watermark) == (ErrorCode.NONE, 3)
        return one.diverging_epoch.epoch, one.diverging_epoch.end_offset, bytes(one.records)

    assert diverging(3, 0) == (0, 2, b"")
    assert diverging(5, 4) == (4, 3, b"")
    assert diverging(1, 2) == (0, 2, b"")
    assert diverging(1, 0)[:2] == (-1, -1)


def test_a_session_repeats_that_a_log_diverges() -> None:
    """An incremental response repeats a diverging partition, although its offsets are unchanged."""
    made = broker()
    fill(made, "t", 0)
    asked = request(made, ("t", 0, 7), session_epoch=0)
    asked.topics[0].partitions[0].last_fetched_epoch = 0
    opened = made.ask(asked, BY_NAME)
    response = ask(made, session_id=opened.session_id, session_epoch=1)
    assert response.responses[0].partitions[0].diverging_epoch.end_offset == 1
