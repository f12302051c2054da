"""Fetch: limits, waiting, errors and sessions. The responses are those of a running Kafka."""

from __future__ import annotations

import pytest

from coordinator_server.steps import run_all
from protocol.apis.fetch import (
    FetchResponse,
    ReplicaState,
)
from protocol.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.errors import ErrorCode
from tests.harness.client import Client
from tests.unit.apis.fetching import (
    MIB,
    SMALL,
    Partition,
    Session,
    ask,
    broker,
    fill,
    park,
    request,
)


def brief(response: FetchResponse) -> list[tuple[str, int, int, int]]:
    """Return topic, partition, error and size of every answered partition."""
    return [
        (topic.topic, one.partition_index, one.error_code, len(one.records or b""))
        for topic in response.responses
        for one in topic.partitions
    ]


@pytest.mark.parametrize("version", range(4, 19))
def test_the_stored_batches_come_back(version: int) -> None:
    """At every version the response has the batches of the log and its three offsets."""
    made = broker()
    fill(made, "t", 0, 3)
    response = ask(made, ("t", 0, 0), version=version)
    (topic,) = response.responses
    (one,) = topic.partitions
    assert bytes(one.records) == made.topics.log("t", 0).read(0, MIB)
    assert (one.high_watermark, one.last_stable_offset) == (3, 3)
    assert one.log_start_offset == (0 if version >= 5 else -1)
    assert one.preferred_read_replica == -1
    known = made.topics.topic("t")
    assert known is not None
    assert (topic.topic, topic.topic_id) == (
        ("t", bytes(16)) if version < 13 else ("", known.topic_id)
    )


def test_aborted_transactions_are_told_to_read_committed_only() -> None:
    """The list of aborted transactions is null with read_uncommitted, not with read_committed."""
    made = broker()
    fill(made, "t", 0)
    for level, expected in ((0, None), (1, [])):
        response = ask(made, ("t", 0, 0), isolation_level=level)
        assert response.responses[0].partitions[0].aborted_transactions == expected
        assert brief(response) == [("t", 0, 0, len(SMALL))]


def test_the_limit_of_a_partition() -> None:
    """partition_max_bytes limits whole batches, but the first batch is always returned."""
    made = broker()
    fill(made, "t", 0, 5)
    size = len(SMALL)
    assert brief(ask(made, ("t", 0, 0, 3 * size))) == [("t", 0, 0, 3 * size)]
    assert brief(ask(made, ("t", 0, 0, 3 * size + 5))) == [("t", 0, 0, 3 * size)]
    assert brief(ask(made, ("t", 0, 0, 1))) == [("t", 0, 0, size)]
    assert brief(ask(made, ("t", 0, 0, 0))) == [("t", 0, 0, size)]
    assert brief(ask(made, ("t", 0, 0, -1))) == [("t", 0, 0, size)]


def test_the_limit_of_a_request() -> None:
    """max_bytes limits all partitions together; only the very first batch may exceed it."""
    made = broker()
    size = len(SMALL)
    for topic, partition in (("t", 1), ("t", 0), ("u", 0)):
        fill(made, topic, partition, 3)
    asked: tuple[Partition, ...] = (("t", 1, 0), ("t", 0, 0), ("u", 0, 0))

    def sizes(max_bytes: int) -> list[int]:
        return [found[3] for found in brief(ask(made, *asked, max_bytes=max_bytes))]

    assert sizes(1) == [size, 0, 0]
    assert sizes(0) == [size, 0, 0]
    assert sizes(5 * size) == [3 * size, 2 * size, 0]
    assert sizes(MIB) == [3 * size] * 3


def test_the_first_batch_goes_out_from_the_first_partition_that_has_one() -> None:
    """The first batch of a fetch may exceed the limits, also after empty partitions."""
    made = broker()
    fill(made, "u", 0)
    assert brief(ask(made, ("t", 0, 0, 1), ("u", 0, 0, 1))) == [
        ("t", 0, 0, 0),
        ("u", 0, 0, len(SMALL)),
    ]


def test_the_brokers_own_limit() -> None:
    """No Fetch response is larger than fetch.max.bytes."""
    made = broker(fetch_max_bytes="1024")
    fill(made, "t", 0, 50)
    assert brief(ask(made, ("t", 0, 0)))[0][3] <= 1024


def test_offsets_out_of_range() -> None:
    """An offset outside of the log start and end gets OFFSET_OUT_OF_RANGE at once."""
    made = broker()
    fill(made, "t", 0, 2)
    outside = ErrorCode.OFFSET_OUT_OF_RANGE
    for offset, error in ((0, 0), (2, 0), (3, outside), (-1, outside)):
        response = ask(made, ("t", 0, offset), max_wait_ms=500 if error else 0, min_bytes=1)
        one = response.responses[0].partitions[0]
        assert one.error_code == error
        if error:
            assert (one.high_watermark, one.last_stable_offset, one.records) == (-1, -1, b"")


def test_unknown_partitions_stand_behind_the_known() -> None:
    """Unknown partitions come last: UNKNOWN_TOPIC_OR_PARTITION by name, UNKNOWN_TOPIC_ID by id."""
    made = broker()
    fill(made, "t", 0)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    asked: tuple[Partition, ...] = (("no", 0, 0), ("t", 9, 0), ("t", 0, 0))
    assert brief(ask(made, *asked)) == [
        ("t", 0, 0, len(SMALL)),
        ("no", 0, unknown, 0),
        ("t", 9, unknown, 0),
    ]
    by_id = [found[2] for found in brief(ask(made, *asked, version=13))]
    assert by_id == [0, ErrorCode.UNKNOWN_TOPIC_ID, unknown]


def test_leader_epochs() -> None:
    """Fetches are fenced by the client's leader epoch, and by the last epoch that it read."""
    made = broker()
    fill(made, "t", 0)
    made.topics.log("t", 0).begin_leader_epoch(3)

    def error(current: int, last_fetched: int = -1) -> int:
        asked = request(made, ("t", 0, 0))
        asked.topics[0].partitions[0].current_leader_epoch = current
        asked.topics[0].partitions[0].last_fetched_epoch = last_fetched
        return brief(made.ask(asked, 12))[0][2]

    assert error(-1) == error(3) == 0
    assert error(2) == ErrorCode.FENCED_LEADER_EPOCH
    assert error(4) == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert error(3, last_fetched=3) == 0
    assert error(3, last_fetched=4) == ErrorCode.OFFSET_OUT_OF_RANGE


def test_replicas_are_refused() -> None:
    """A fetch by a broker gets NOT_LEADER_OR_FOLLOWER; a debugging consumer (-2) is served."""
    made = broker()
    fill(made, "t", 0)
    refused = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert brief(ask(made, ("t", 0, 0), replica_id=5))[0][2] == refused
    assert brief(ask(made, ("t", 0, 0), replica_id=-2))[0][2] == 0
    state = ReplicaState(replica_id=5, replica_epoch=1)
    response = ask(made, ("t", 0, 0), version=15, replica_state=state)
    assert brief(response)[0][2] == refused


def test_a_debugging_consumer_reads_from_followers() -> None:
    """Replica id -2 is served by each broker with a replica, other consumers only by the leader."""
    made = broker()
    fill(made, "t", 0)
    partition = made.topics.partition("t", 0)
    assert partition is not None
    partition.leader_id = made.node_id + 1
    refused = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert brief(ask(made, ("t", 0, 0)))[0][2] == refused
    assert brief(ask(made, ("t", 0, 0), replica_id=-2))[0][2:] == (0, len(SMALL))
    partition.replicas = (made.node_id + 1,)
    assert brief(ask(made, ("t", 0, 0), replica_id=-2))[0][2] == refused


def test_zstd_topics_need_version_10() -> None:
    """A topic that is compressed with zstd cannot be read below version 10."""
    made = broker()
    made.topics.create("z", 1, {"compression.type": "zstd"})
    assert brief(ask(made, ("z", 0, 0), version=9))[0][2] == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert brief(ask(made, ("z", 0, 0), version=10))[0][2] == 0


def test_a_partition_named_twice_is_answered_once() -> None:
    """A partition named twice is answered once, at its first position with its last offset."""
    made = broker()
    fill(made, "t", 0, 3)
    found = brief(ask(made, ("t", 0, 0), ("u", 0, 0), ("t", 0, 2)))
    assert found == [("t", 0, 0, len(SMALL)), ("u", 0, 0, 0)]


# --- waiting --------------------------------------------------------------------------------------


def test_a_fetch_waits_for_data() -> None:
    """A fetch with nothing to read is parked until the next append to its partition."""
    made = broker()
    call = park(made, ("t", 0, 0), ("t", 1, 0))
    fill(made, "u", 0)
    assert call.replies == []
    fill(made, "t", 1)
    assert brief(call.replies[0]) == [("t", 0, 0, 0), ("t", 1, 0, len(SMALL))]
    assert len(made.broker.fetch_purgatory) == made.broker.fetch_purgatory.watched_keys == 0


def test_the_producer_is_answered_before_the_consumer() -> None:
    """A produce is answered before the fetch that it wakes."""
    made = broker()
    call = park(made, ("t", 0, 0))
    data = [PartitionProduceData(index=0, records=SMALL)]
    asked = ProduceRequest(acks=1, topic_data=[TopicProduceData(name="t", partition_data=data)])
    produced = made.send(asked, 9)
    assert (len(produced.replies), len(call.replies)) == (1, 0)
    made.turn()
    assert len(call.replies) == 1


def test_a_fetch_does_not_wait_for_ever() -> None:
    """After max_wait_ms a fetch is answered with the available data."""
    made = broker()
    call = park(made, ("t", 0, 0), max_wait_ms=500)
    made.advance(499)
    assert call.replies == []
    made.advance(1)
    assert brief(call.replies[0]) == [("t", 0, 0, 0)]


def test_min_bytes() -> None:
    """A fetch is answered when several appends have reached min_bytes together."""
    made = broker()
    size = len(SMALL)
    call = park(made, ("t", 0, 0), ("t", 1, 0), min_bytes=3 * size)
    fill(made, "t", 0)
    fill(made, "t", 1)
    assert call.replies == []
    fill(made, "t", 0)
    assert [found[3] for found in brief(call.replies[0])] == [2 * size, size]


def test_min_bytes_counts_what_was_there() -> None:
    """Data present at the start counts towards min_bytes, and is returned at the deadline."""
    made = broker()
    fill(made, "t", 0)
    call = park(made, ("t", 0, 0), min_bytes=1000)
    made.advance(500)
    assert brief(call.replies[0]) == [("t", 0, 0, len(SMALL))]


def test_min_bytes_cannot_exceed_max_bytes() -> None:
    """A fetch whose min_bytes exceeds its max_bytes does not wait."""
    made = broker()
    fill(made, "t", 0)
    response = ask(made, ("t", 0, 0), max_wait_ms=500, min_bytes=10_000, max_bytes=10)
    assert brief(response) == [("t", 0, 0, len(SMALL))]


def test_an_unknown_topic_does_not_end_the_wait() -> None:
    """An unknown topic beside a known partition is answered at the deadline, as in Kafka."""
    made = broker()
    call = park(made, ("t", 0, 0), ("no", 0, 0))
    made.advance(500)
    assert brief(call.replies[0]) == [("t", 0, 0, 0), ("no", 0, 3, 0)]


@pytest.mark.parametrize(
    ("partitions", "max_wait_ms"), [((("no", 0, 0),), 500), ((), 500), ((("t", 0, 0),), -1)]
)
def test_what_need_not_wait(partitions: tuple[Partition, ...], max_wait_ms: int) -> None:
    """A fetch with only unknown topics, no topics, or a negative wait is answered at once."""
    response = ask(broker(), *partitions, max_wait_ms=max_wait_ms, min_bytes=1)
    assert len(brief(response)) == len(partitions)


def test_a_deleted_topic_answers_who_waits_for_it() -> None:
    """A parked fetch is answered at once when its topic is deleted, also if it is recreated."""
    made = broker()
    call = park(made, ("t", 0, 0))
    topic = made.topics.topic("t")
    assert topic is not None
    run_all(made.topics.delete([topic]))
    made.topics.create("t", 1, {})
    made.turn()
    assert brief(call.replies[0]) == [("t", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)]


def test_a_fetch_of_a_closed_connection_is_dropped() -> None:
    """The fetch of a closed connection is dropped without reading anything."""
    made = broker()
    connection = Client()
    asked = request(made, ("t", 0, 0), max_wait_ms=500, min_bytes=1)
    call = made.send(asked, 12, client=connection)
    connection.closed = True
    fill(made, "t", 0)
    assert (call.replies, len(made.broker.fetch_purgatory)) == ([], 0)


def test_a_stopping_broker_answers_who_waits() -> None:
    """A closing purgatory answers parked fetches with the available data."""
    made = broker()
    call = park(made, ("t", 0, 0))
    made.broker.fetch_purgatory.close()
    assert brief(call.replies[0]) == [("t", 0, 0, 0)]


# --- sessions -------------------------------------------------------------------------------------


def test_without_a_session_the_id_is_zero() -> None:
    """A fetch with epoch -1 gets a full response with session id 0."""
    response = ask(broker(), ("t", 0, 0), session_epoch=-1)
    assert (response.session_id, len(brief(response))) == (0, 1)


def test_an_incremental_answer_has_only_news() -> None:
    """An incremental response omits partitions that have not changed."""
    made = broker()
    fill(made, "t", 1)
    session = Session(made, ("t", 0, 0), ("t", 1, 0), ("u", 0, 0))
    assert session.id
    assert len(brief(session.first)) == 3
    assert brief(session.ask(("t", 1, 1))) == []
    fill(made, "u", 0)
    response = session.ask()
    assert (response.session_id, brief(response)) == (session.id, [("u", 0, 0, len(SMALL))])
    assert brief(session.ask()) == [("u", 0, 0, len(SMALL))]
    assert brief(session.ask(("u", 0, 1))) == []


def test_forgotten_partitions_are_not_answered() -> None:
    """A forgotten partition is not returned, although it has data."""
    made = broker()
    fill(made, "t", 0)
    fill(made, "u", 0)
    session = Session(made, ("t", 0, 0), ("u", 0, 0))
    assert brief(session.ask(forget=(("u", 0),))) == [("t", 0, 0, len(SMALL))]


def test_errors_in_a_session_are_repeated() -> None:
    """A partition error is repeated in every response; a recovered partition is returned once."""
    made = broker()
    session = Session(made, ("t", 0, 0))
    outside = ("t", 0, ErrorCode.OFFSET_OUT_OF_RANGE, 0)
    assert brief(session.ask(("t", 0, 99))) == [outside]
    assert brief(session.ask()) == [outside]
    assert brief(session.ask(("t", 0, 0))) == [("t", 0, 0, 0)]
    assert brief(session.ask()) == []


def test_unknown_topics_stay_in_a_session() -> None:
    """An unknown topic is in every response until it is created."""
    made = broker()
    session = Session(made, ("t", 0, 0), ("new", 0, 0))
    assert brief(session.ask()) == [("new", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)]
    made.topics.create("new", 1, {})
    assert brief(session.ask()) == [("new", 0, 0, 0)]


def test_errors_of_sessions_are_told_at_the_top() -> None:
    """An unknown session, a wrong epoch, or names instead of ids give only a top-level error."""
    made = broker()
    session = Session(made, ("t", 0, 0))
    for fields, version, error in (
        ({"session_id": 999, "session_epoch": 1}, 12, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        ({"session_id": session.id, "session_epoch": 7}, 12, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (
            {"session_id": session.id, "session_epoch": 1},
            13,
            ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ),
    ):
        response = ask(made, version=version, max_wait_ms=500, **fields)
        assert (response.error_code, response.session_id, brief(response)) == (error, 0, [])


def test_partitions_take_turns() -> None:
    """Within a session a partition that had data is read last the next time."""
    made = broker()
    size = len(SMALL)
    for topic, partition in (("t", 0), ("t", 1), ("u", 0)):
        fill(made, topic, partition, 9)
    session = Session(made, ("t", 0, 0, 2 * size), ("t", 1, 0, 2 * size), ("u", 0, 0, 2 * size))
    first = brief(session.ask())
    assert [(name, index) for name, index, _, _ in first] == [("t", 0), ("t", 1), ("u", 0)]

    def served() -> list[tuple[str, int]]:
        session.epoch += 1
        response = ask(made, session_id=session.id, session_epoch=session.epoch, max_bytes=2 * size)
        return [(name, index) for name, index, _, found in brief(response) if found]

    assert [served() for _ in range(4)] == [[("t", 0)], [("t", 1)], [("u", 0)], [("t", 0)]]


def test_a_session_that_was_taken_over_voids_the_parked_fetch() -> None:
    """A parked fetch gets an epoch error if its session continues elsewhere."""
    made = broker()
    session = Session(made, ("t", 0, 0))
    call = park(made, session_id=session.id, session_epoch=1)
    session.epoch = 1
    session.ask()
    fill(made, "t", 0)
    assert call.replies[0].error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_no_free_slot_means_no_session() -> None:
    """With all session slots taken, the full response has session id 0."""
    made = broker(max_incremental_fetch_session_cache_slots="1")
    assert Session(made, ("t", 0, 0)).id > 0
    assert Session(made, ("t", 0, 0)).id == 0
