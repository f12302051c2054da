"""ShareFetch: sessions, waiting, several partitions, errors.

The responses are those of a running Kafka, except where a test says otherwise.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from coordinator_server.coordinator import delayed_share_fetch
from coordinator_server.fetch.purgatory import KeyedPurgatory
from coordinator_server.steps import run_all
from protocol.apis.share_fetch import ShareFetchPartition, ShareFetchRequest, ShareFetchTopic
from protocol.batch import end_transaction_batch
from protocol.batch_header import iterate_batches
from protocol.control_record import EndTransaction
from protocol.errors import ErrorCode
from storage.errors import StorageError
from storage.partition_log import PartitionLog
from tests.harness.client import Client
from tests.harness.records import batch
from tests.harness.shares import ShareBroker

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)
NO_LIMITS = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "max_wait_ms": 0}


def reading(*places: tuple[str, int]) -> ShareBroker:
    """Return a broker that has loaded the states of these share partitions."""
    broker = ShareBroker()
    broker.fetch(*places, member="reader", max_wait_ms=0)
    return broker


@pytest.mark.parametrize("version", [1, 2])
def test_records_are_acquired(version: int) -> None:
    """The response has the acquired batches of the log, and the duration of their locks."""
    broker = ShareBroker()
    broker.produce("t", 3, 2)
    call = broker.fetch(T0, version=version)
    assert broker.brief(call) == {"t-0": [(0, 4, 1)]}
    (response,) = call.replies
    assert response.acquisition_lock_timeout_ms == 30_000
    (data,) = response.responses[0].partitions
    assert bytes(data.records) == broker.topics.log("t", 0).read(0, 1 << 20)
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (0, 0)
    assert response.node_endpoints == []


def test_the_first_answer_names_all_partitions() -> None:
    """The first response lists all partitions.

    Later responses list only new partitions, and partitions with records, errors or
    acknowledgements.
    """
    broker = reading(T0, T1)
    broker.produce("t", 1)
    assert broker.fetched(T0, T1) == {"t-0": [(0, 0, 1)], "t-1": []}
    assert broker.fetched(epoch=1, max_wait_ms=0) == {}
    assert broker.fetched(U0, epoch=2, max_wait_ms=0) == {"u-0": []}
    assert broker.fetched(epoch=3, max_wait_ms=0, said=(("t", 0, 0, 0, ACCEPT),)) == {"t-0": []}
    assert broker.fetched(epoch=4, max_wait_ms=0, forgotten=(T0, T1, ("?", 0))) == {}
    broker.produce("t", 1)
    assert broker.fetched(epoch=5, max_wait_ms=0) == {}


def test_states_that_are_first_read_come_one_after_the_other() -> None:
    """A fetch that must load states ends with the first partition that has enough records.

    The next fetch returns the other partitions.
    """
    broker = ShareBroker()
    broker.produce("t", 1, index=1)
    broker.produce("u", 1)
    assert broker.fetched(T0, T1, U0) == {"t-0": [], "t-1": [(0, 0, 1)]}
    assert broker.fetched(epoch=1) == {"u-0": [(0, 0, 1)]}


def test_a_state_that_is_first_read_is_left_out_beside_records() -> None:
    """A newly added partition is left to the next fetch if other partitions have enough records."""
    broker = ShareBroker()
    broker.fetch(T0, max_wait_ms=0)
    broker.produce("t", 1)
    broker.produce("u", 1)
    assert broker.fetched(U0, epoch=1) == {"t-0": [(0, 0, 1)]}
    assert broker.fetched(epoch=2) == {"u-0": [(0, 0, 1)]}


def test_states_that_are_first_read_make_up_min_bytes() -> None:
    """States are loaded until min_bytes is reached; a fetch without a wait loads all of them."""
    for max_wait_ms, third in ((500, {}), (0, {"u-0": [(0, 0, 1)]})):
        broker = ShareBroker()
        for name, index in (T0, T1, U0):
            broker.produce(name, 1, index=index)
        least = len(batch(b"v")) + 1
        answer = broker.fetched(T0, T1, U0, min_bytes=least, max_wait_ms=max_wait_ms)
        assert answer == {"t-0": [(0, 0, 1)], "t-1": [(0, 0, 1)], **third}


def test_a_fetch_waits_for_records() -> None:
    """A waiting fetch is answered when records are produced."""
    broker = ShareBroker()
    call = broker.fetch(T0)
    assert call.replies == []
    broker.produce("t", 2)
    assert broker.brief(call) == {"t-0": [(0, 1, 1)]}


def test_a_fetch_waits_for_its_time() -> None:
    """A waiting fetch is answered without records after max_wait_ms."""
    broker = ShareBroker()
    call = broker.fetch(T0)
    broker.advance(499)
    assert call.replies == []
    broker.advance(1)
    assert broker.brief(call) == {"t-0": []}


def test_a_fetch_waits_for_what_others_give_back() -> None:
    """A waiting fetch gets records that other members release.

    Records are released by acknowledgement, by the end of a session or connection, and by expiring
    locks.
    """
    broker = ShareBroker()
    broker.produce("t", 3)
    connection = Client()
    assert broker.fetched(T0, client=connection) == {"t-0": [(0, 2, 1)]}
    waiting = broker.fetch(T0, member="B")
    assert broker.acknowledged(("t", 0, 0, 0, ACCEPT)) == {"t-0": 0}
    broker.turn()
    assert waiting.replies == []
    assert broker.acknowledged(("t", 0, 1, 1, RELEASE), epoch=2) == {"t-0": 0}
    broker.turn()
    assert broker.brief(waiting) == {"t-0": [(1, 1, 2)]}
    waiting = broker.fetch(epoch=1, member="B")
    broker.share_partitions.disconnected(connection)
    broker.turn()
    assert broker.brief(waiting) == {"t-0": [(2, 2, 2)]}
    waiting = broker.fetch(T0, member="C", max_wait_ms=60_000)
    broker.acknowledge(epoch=-1, member="B")
    broker.turn()
    assert broker.brief(waiting) == {"t-0": [(1, 2, 3)]}
    waiting = broker.fetch(T0, member="D", max_wait_ms=60_000)
    broker.advance(30_000)
    assert broker.brief(waiting) == {"t-0": [(1, 1, 4)]}


def test_a_fetch_whose_client_has_gone_acquires_nothing() -> None:
    """A waiting fetch of a closed connection is dropped and acquires no records."""
    broker = ShareBroker()
    call = broker.fetch(T0)
    call.connection.closed = True
    broker.produce("t", 1)
    assert call.replies == []
    assert len(broker.broker.fetch_purgatory) == 0
    assert broker.fetched(T0, member="B") == {"t-0": [(0, 0, 1)]}


def test_min_bytes() -> None:
    """A fetch waits until all of its partitions together have min_bytes."""
    broker = ShareBroker()
    size = len(batch(b"v"))
    call = broker.fetch(T0, T1, min_bytes=2 * size)
    broker.produce("t", 1)
    assert call.replies == []
    broker.produce("t", 1, index=1)
    assert broker.brief(call) == {"t-0": [(0, 0, 1)], "t-1": [(0, 0, 1)]}


def test_min_bytes_count_up_to_the_limit_of_a_partition() -> None:
    """Each partition counts towards min_bytes only up to its share of max_bytes."""
    broker = ShareBroker()
    size = len(batch(b"v"))
    call = broker.fetch(T0, T1, min_bytes=2 * size, max_bytes=2 * size)
    broker.produce("t", 1, 1)
    assert call.replies == []
    broker.advance(500)
    assert broker.brief(call) == {"t-0": [(0, 0, 1)], "t-1": []}


def test_min_bytes_of_an_old_segment() -> None:
    """Records of an older segment end the wait at once, for any min_bytes."""
    broker = ShareBroker()
    broker.produce("t", 1)
    broker.topics.log("t", 0).roll(broker.clock.now_ms())
    assert broker.fetched(T0, min_bytes=1_000_000) == {"t-0": [(0, 0, 1)]}


def test_no_min_bytes() -> None:
    """With min_bytes=0 an empty partition is answered at once."""
    broker = ShareBroker()
    assert broker.fetched(T0, min_bytes=0) == {"t-0": []}


def test_limits_of_zero() -> None:
    """With max_records or max_bytes 0 a fetch returns no records and loads no state.

    A negative max_records also returns no records; a negative max_bytes is an error.
    """
    broker = ShareBroker()
    broker.produce("t", 1)
    assert broker.fetched(T0, max_records=0) == {}
    assert broker.fetched(T0, max_bytes=0) == {}
    assert len(broker.share_partitions) == 0
    assert broker.fetched(T0, max_records=-1) == {"t-0": []}
    assert broker.fetched(T0, max_bytes=-1) == {"t-0": ErrorCode.UNKNOWN_SERVER_ERROR}


def test_max_bytes_are_shared() -> None:
    """max_bytes is divided evenly between partitions; the first gets at least one batch."""
    broker = reading(T0, T1, U0)
    size = len(batch(b"v"))
    for name, index in (T0, T1, U0):
        broker.produce(name, 1, 1, 1, index=index)
    call = broker.fetch(T0, T1, U0, max_bytes=3 * size)
    assert broker.brief(call) == {"t-0": [(0, 0, 1)], "t-1": [(0, 0, 1)], "u-0": [(0, 0, 1)]}
    call = broker.fetch(T0, T1, U0, max_bytes=1)
    assert broker.brief(call) == {"t-0": [(1, 1, 1)], "t-1": [], "u-0": []}


def test_max_records_are_of_all_partitions() -> None:
    """If a partition has fewer than max_records records, the next partition fills the limit."""
    broker = reading(T0, T1, U0)
    for name, index in (T0, T1, U0):
        broker.produce(name, 2, 2, index=index)
    call = broker.fetch(T0, T1, U0, max_records=6)
    assert broker.brief(call) == {"t-0": [(0, 3, 1)], "t-1": [(0, 1, 1)], "u-0": []}


def test_partitions_take_turns() -> None:
    """Partitions take turns.

    Partitions that had records move to the end, and each request begins with another partition.
    """
    broker = reading(T0, T1, U0)
    for name, index in (T0, T1, U0):
        broker.produce(name, *[1] * 9, index=index)
    first = broker.fetched(T0, T1, U0, max_records=1)
    assert first == {"t-0": [(0, 0, 1)], "t-1": [], "u-0": []}
    firsts = [next(iter(broker.fetched(epoch=epoch, max_records=1))) for epoch in range(1, 5)]
    assert firsts == ["t-1", "t-0", "u-0", "t-0"]


def test_a_group_that_is_far_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group far behind reads its records in portions; large batches give larger portions."""
    broker = ShareBroker()
    for _ in range(40):
        broker.produce("t", 100)
    size = len(broker.topics.log("t", 0).read(0, 1 << 20)) // 40
    monkeypatch.setattr(delayed_share_fetch, "FIRST_READ_BYTES", 3 * size)
    reads: list[int] = []
    read = PartitionLog.read

    def noted(log: PartitionLog, offset: int, max_bytes: int, **fields: Any) -> bytes:
        found = read(log, offset, max_bytes, **fields)
        reads.append(len(found) // size)
        return found

    monkeypatch.setattr(PartitionLog, "read", noted)
    large = {"batch_size": 1000}
    assert broker.fetched(T0, max_records=250, **large) == {"t-0": [(0, 299, 1)]}
    said = broker.fetched(T0, member="B", max_records=1000, **large)
    assert said == {"t-0": [(300, 1299, 1)]}
    said = broker.fetched(T0, member="C", max_records=1, max_bytes=2 * size)
    assert said == {"t-0": [(1300, 1399, 1)]}
    assert reads == [3, 3, 24, 2]
    broker.acknowledge(("t", 0, 300, 399, RELEASE), member="B")
    said = broker.fetched(T0, member="D", max_records=500, **large)
    assert said == {"t-0": [(300, 399, 2), (1400, 1799, 1)]}


def test_only_the_batches_of_what_was_acquired_come() -> None:
    """If a record within a batch is acquired, the response has its whole batch and no other."""
    broker = ShareBroker()
    broker.produce("t", 3, 5, 3)
    broker.fetch(T0)
    broker.acknowledge(("t", 0, 5, 5, RELEASE))
    call = broker.fetch(T0, member="B")
    assert broker.brief(call) == {"t-0": [(5, 5, 2)]}
    data = call.replies[0].responses[0].partitions[0]
    (header,) = iterate_batches(bytes(data.records))
    assert (header.base_offset, header.last_offset) == (3, 7)


@pytest.mark.parametrize(
    ("group", "member"),
    [(None, "A"), ("g", None), ("g", ""), ("g", "x" * 37)],
)
def test_ids_that_cannot_be(group: str | None, member: str | None) -> None:
    """An empty group id, an empty member id and an id longer than a UUID are refused."""
    broker = ShareBroker()
    answer = broker.fetched(T0, group=group, member=member)
    assert answer == {"error": ErrorCode.INVALID_REQUEST}
    assert broker.acknowledged(group=group, member=member) == ErrorCode.INVALID_REQUEST


def test_epochs() -> None:
    """The session epoch rises by one with each fetch and each acknowledgement."""
    broker = ShareBroker()
    broker.produce("t", 1, 1)
    not_found = {"error": ErrorCode.SHARE_SESSION_NOT_FOUND}
    invalid = {"error": ErrorCode.INVALID_SHARE_SESSION_EPOCH}
    assert broker.fetched(epoch=1) == not_found
    assert broker.fetched(epoch=-1) == not_found
    assert broker.acknowledged(epoch=1) == ErrorCode.SHARE_SESSION_NOT_FOUND
    broker.fetch(T0)
    assert broker.fetched(epoch=2) == invalid
    assert broker.acknowledged(epoch=0) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert broker.acknowledged(epoch=2) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert broker.acknowledged(("t", 0, 0, 0, ACCEPT), epoch=1) == {"t-0": 0}
    assert broker.fetched(epoch=1) == invalid
    assert broker.fetched(epoch=2, max_wait_ms=0) == {}
    assert broker.fetched(epoch=-1) == {}
    assert broker.fetched(epoch=3) == not_found


def test_a_session_that_goes_on_while_a_fetch_waits() -> None:
    """A waiting fetch gets INVALID_SHARE_SESSION_EPOCH if its session has continued."""
    broker = ShareBroker()
    broker.fetch(T0, max_wait_ms=0)
    waiting = broker.fetch(epoch=1)
    assert broker.fetched(epoch=2, max_wait_ms=0) == {}
    broker.produce("t", 1)
    assert broker.brief(waiting) == {"error": ErrorCode.INVALID_SHARE_SESSION_EPOCH}


def test_a_session_is_closed_with_acknowledgements() -> None:
    """Closing a session acknowledges the given records and releases the member's other records."""
    broker = ShareBroker()
    broker.produce("t", 3)
    broker.fetch(T0)
    answer = broker.fetched(epoch=-1, said=(("t", 0, 0, 0, ACCEPT),))
    assert answer == {"t-0": []}
    assert broker.persister.writes == [((0, 0, 2, 1),), ((1, 2, 0, 1),)]
    assert broker.persister.states[broker.key("t")].start_offset == 1


def test_acknowledgements_cannot_open_a_session() -> None:
    """The first request of a session cannot acknowledge anything."""
    broker = ShareBroker()
    answer = broker.fetched(T0, said=(("t", 0, 0, 0, ACCEPT),))
    assert answer == {"error": ErrorCode.INVALID_REQUEST}


def test_what_is_released_is_not_fetched_by_the_same_request() -> None:
    """Records that a fetch releases are not returned by the same fetch.

    The release is written afterwards; a waiting fetch then gets the records.
    """
    broker = reading(T1)
    broker.produce("t", 3, 2)
    broker.fetch(T0, max_records=1)
    said = (("t", 0, 0, 2, [ACCEPT, RELEASE, 0]),)
    assert broker.fetched(epoch=1, said=said) == {"t-0": [(3, 4, 1)]}
    call = broker.fetch(T1, epoch=2, said=(("t", 0, 3, 4, ACCEPT),))
    assert broker.brief(call) == {"t-0": [(1, 1, 2)], "t-1": []}
    call = broker.fetch(epoch=3, said=(("t", 0, 1, 1, RELEASE),))
    assert call.replies == []
    broker.turn()
    assert broker.brief(call) == {"t-0": [(1, 1, 3)]}


def test_a_partition_that_is_named_twice() -> None:
    """A first request that names a partition twice ends the old session and opens no new one.

    In a later request the repetition is ignored.
    """
    broker = ShareBroker()
    failed = {"error": ErrorCode.UNKNOWN_SERVER_ERROR}
    once = ShareFetchTopic(
        topic_id=broker.topic_id("t"), partitions=[ShareFetchPartition(partition_index=0)]
    )
    broker.fetch(T0, max_wait_ms=0)
    request = ShareFetchRequest(group_id="g", member_id="A", topics=[once, once])
    assert broker.brief(broker.send(request, 2)) == failed
    assert broker.fetched(epoch=1) == {"error": ErrorCode.SHARE_SESSION_NOT_FOUND}
    broker.fetch(T1, max_wait_ms=0)
    request.share_session_epoch, request.max_records, request.max_bytes = 1, 1, 1000
    assert broker.brief(broker.send(request, 2)) == {"t-0": []}


def test_acknowledgements_that_are_refused() -> None:
    """Refused acknowledgements have Kafka's error and text per partition; the fetch continues."""
    broker = ShareBroker()
    broker.produce("t", 2)
    broker.fetch(T0, T1)
    call = broker.fetch(
        epoch=1, max_wait_ms=0, said=(("t", 0, 0, 5, ACCEPT), ("t", 1, 3, 2, ACCEPT))
    )
    assert broker.brief(call) == {"t-0": [], "t-0=": 42, "t-1": [], "t-1=": 42}
    second, first = (one for topic in call.replies[0].responses for one in topic.partitions)
    assert first.acknowledge_error_message.startswith("Batch record not found. The last offset")
    assert second.acknowledge_error_message is None
    assert first.error_message is None


def test_an_acknowledgement_that_takes_its_time() -> None:
    """The response waits until the acknowledgements are written."""
    broker = ShareBroker()
    broker.produce("t", 2, 2)
    broker.fetch(T0, max_records=1)
    broker.persister.is_held = True
    call = broker.fetch(epoch=1, said=(("t", 0, 0, 1, ACCEPT),))
    assert call.replies == []
    broker.persister.release_held()
    assert broker.brief(call) == {"t-0": [(2, 3, 1)]}


def test_renewing_fetches_nothing() -> None:
    """A fetch that renews locks returns no records, and must not request any (KIP-1222)."""
    broker = ShareBroker()
    broker.produce("t", 2, 2)
    broker.fetch(T0, max_records=1)
    said = (("t", 0, 0, 1, RENEW),)
    invalid = {"error": ErrorCode.INVALID_REQUEST}
    for name in NO_LIMITS:
        limits = NO_LIMITS | {name: 1}
        assert broker.fetched(epoch=1, said=said, is_renew_ack=True, **limits) == invalid
    broker.advance(20_000)
    answer = broker.fetched(epoch=1, said=said, is_renew_ack=True, **NO_LIMITS)
    assert answer == {"t-0": []}
    broker.advance(20_000)
    share_partition = broker.share_partitions.get(broker.key("t"))
    assert share_partition is not None
    assert share_partition.next_fetch_offset() == 2
    assert broker.fetched(epoch=2, said=said, max_wait_ms=0) == {
        "t-0": [(2, 3, 1)],
        "t-0=": ErrorCode.INVALID_REQUEST,
    }


def test_acquire_modes() -> None:
    """Strict mode acquires at most max_records; an unknown mode fails the fetch.

    The acknowledgements of the failed request are applied.
    """
    broker = ShareBroker()
    broker.produce("t", 5)
    answer = broker.fetched(T0, share_acquire_mode=1, max_records=2)
    assert answer == {"t-0": [(0, 1, 1)]}
    call = broker.fetch(epoch=1, share_acquire_mode=7, said=(("t", 0, 0, 0, ACCEPT),))
    assert broker.brief(call) == {"error": ErrorCode.UNKNOWN_SERVER_ERROR}
    assert broker.persister.writes[-1] == ((0, 0, 2, 1),)
    assert broker.fetched(epoch=2, share_acquire_mode=1, max_records=1) == {"t-0": [(2, 2, 1)]}


def test_topics_that_are_unknown() -> None:
    """An unknown topic id gets its error, and the other topics are fetched."""
    broker = ShareBroker()
    broker.produce("t", 1)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID
    assert broker.fetched(T0, ("?", 0)) == {"t-0": [(0, 0, 1)], "?-0": unknown}
    assert broker.fetched(epoch=1, max_wait_ms=0) == {"?-0": unknown}
    assert broker.fetched(epoch=2, max_records=0) == {"?-0": unknown}
    assert broker.fetched(epoch=3, forgotten=(("?", 0),), max_wait_ms=0) == {}
    answer = broker.fetched(epoch=-1, said=(("?", 0, 0, 0, ACCEPT),))
    assert answer == {"?-0": [], "?-0=": unknown}


def delete(broker: ShareBroker, name: str) -> bytes:
    """Delete a topic; return its id."""
    topic = broker.topics.topic(name)
    assert topic is not None
    run_all(broker.topics.delete([topic]))
    return topic.topic_id


def test_a_topic_that_is_deleted() -> None:
    """A deleted topic in a session gets UNKNOWN_TOPIC_OR_PARTITION.

    Its share partitions are removed.
    """
    broker = ShareBroker()
    broker.produce("t", 1)
    broker.fetch(T0, U0)
    assert len(broker.share_partitions) == 2
    delete(broker, "t")
    assert len(broker.share_partitions) == 1
    assert broker.fetched(epoch=1, max_wait_ms=0) == {"?-0": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    broker.share_partitions.remove(broker.key("u"))
    delete(broker, "u")
    call = broker.fetch(epoch=2)
    (response,) = call.replies
    assert [one.partitions[0].error_code for one in response.responses] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ] * 2


def test_a_topic_that_is_created_again() -> None:
    """The old id of a recreated topic gets an error at the end of the wait."""
    broker = ShareBroker()
    broker.fetch(T0, max_wait_ms=0)
    gone = delete(broker, "t")
    broker.topics.create("t", 1, {})
    call = broker.fetch(epoch=1)
    broker.advance(499)
    assert call.replies == []
    broker.advance(1)
    (response,) = call.replies
    (answered,) = response.responses
    assert answered.topic_id == gone
    assert answered.partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert broker.fetched(epoch=2, max_records=0) == {"?-0": ErrorCode.UNKNOWN_SERVER_ERROR}
    call = broker.fetch(U0, epoch=3)
    assert call.replies == []
    broker.produce("u", 1)
    assert broker.brief(call) == {
        "u-0": [(0, 0, 1)],
        "?-0": ErrorCode.UNKNOWN_SERVER_ERROR,
    }


def test_the_client_goes_while_a_deleted_topic_is_waited_for() -> None:
    """A client that disconnects during the wait for a deleted topic gets no response."""
    broker = ShareBroker()
    broker.fetch(T0, max_wait_ms=0)
    delete(broker, "t")
    broker.topics.create("t", 1, {})
    call = broker.fetch(epoch=1)
    call.connection.closed = True
    broker.advance(500)
    assert call.replies == []


def test_partitions_that_are_unknown() -> None:
    """A partition index that the topic does not have gets UNKNOWN_TOPIC_OR_PARTITION."""
    broker = ShareBroker()
    broker.produce("t", 1)
    answer = broker.fetched(T0, ("t", 2), ("t", -1))
    assert answer == {"t-0": [(0, 0, 1)], "t-2": 3, "t--1": 3}
    assert broker.fetched(("t", 2), member="B") == {"t-2": 3}
    said = (("t", 2, 0, 0, ACCEPT),)
    assert broker.fetched(epoch=1, said=said, max_wait_ms=0) == {"t-2": 3, "t-2=": 3, "t--1": 3}


def test_too_many_sessions() -> None:
    """A fetch that would open a session beyond the limit is refused after its max_wait_ms."""
    broker = ShareBroker(group_share_max_share_sessions="1", group_share_max_size="1")
    broker.fetch(T0, max_wait_ms=0)
    call = broker.fetch(T0, member="B")
    assert call.replies == []
    broker.produce("t", 1)
    broker.advance(500)
    assert broker.brief(call) == {"error": ErrorCode.SHARE_SESSION_LIMIT_REACHED}
    call = broker.fetch(T0, member="B")
    call.connection.closed = True
    broker.advance(500)
    assert call.replies == []


def test_a_share_partition_that_is_not_initialized() -> None:
    """An uninitialized share partition has an error; the next fetch loads its state again."""
    broker = ShareBroker()
    broker.produce("t", 1)
    assert broker.fetched(T0, group="other") == {"t-0": ErrorCode.UNKNOWN_SERVER_ERROR}
    said = ("t", 0, 0, 0, ACCEPT)
    assert broker.acknowledged(said, group="other") == {"t-0": 3}
    broker.initialize("t", 0, "other")
    assert broker.fetched(epoch=2, group="other") == {"t-0": [(0, 0, 1)]}


def test_one_share_partition_fails_and_another_does_not() -> None:
    """A share partition with an error does not affect other partitions in the same response."""
    broker = ShareBroker()
    broker.produce("t", 1)
    broker.persister.states.pop(broker.key("t", 1))
    assert broker.fetched(T0, T1) == {"t-0": [(0, 0, 1)], "t-1": -1}
    assert broker.fetched(epoch=1, max_wait_ms=0) == {"t-1": -1}
    broker.initialize("t", 1)
    assert broker.fetched(epoch=2, max_wait_ms=0) == {"t-1": []}
    assert broker.fetched(epoch=3, max_wait_ms=0) == {}


def test_a_state_that_takes_its_time() -> None:
    """Fetches wait until the state is loaded, or until max_wait_ms."""
    broker = ShareBroker()
    broker.produce("t", 1)
    broker.persister.is_held = True
    first = broker.fetch(T0, max_wait_ms=100)
    second = broker.fetch(T0, member="B")
    broker.advance(100)
    assert broker.brief(first) == {}
    broker.persister.release_held()
    broker.turn()
    assert broker.brief(second) == {"t-0": [(0, 0, 1)]}


def test_a_state_that_cannot_be_read_in_the_end() -> None:
    """A fetch whose load of the state fails gets the error after max_wait_ms, as in Kafka."""
    broker = ShareBroker()
    broker.persister.is_held = True
    broker.persister.errors = [ErrorCode.FENCED_LEADER_EPOCH]
    first = broker.fetch(T0)
    second = broker.fetch(T0, member="B")
    broker.persister.release_held()
    broker.advance(500)
    assert broker.brief(first) == {"t-0": ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert broker.brief(second) == {}
    leader = first.replies[0].responses[0].partitions[0].current_leader
    assert (leader.leader_id, leader.leader_epoch) == (1, 0)
    assert [one.node_id for one in first.replies[0].node_endpoints] == [1]


def test_another_broker_leads() -> None:
    """If another broker leads, the response names the leader (KIP-951).

    In-flight records are dropped.
    """
    broker = ShareBroker()
    broker.produce("t", 1)
    broker.fetch(T0)
    partition = broker.topics.partition("t", 0)
    assert partition is not None
    partition.begin_leadership(2)
    for listener in broker.topics.leadership.on_moved:
        listener(partition, 1)
        listener(partition, 2)
    assert len(broker.share_partitions) == 0
    call = broker.fetch(epoch=1)
    assert broker.brief(call) == {"t-0": ErrorCode.NOT_LEADER_OR_FOLLOWER}
    leader = call.replies[0].responses[0].partitions[0].current_leader
    assert (leader.leader_id, leader.leader_epoch) == (2, 1)
    assert call.replies[0].node_endpoints == []


def test_the_log_begins_later() -> None:
    """After the log start offset has risen, one fetch is empty and the next fetch starts there."""
    broker = ShareBroker()
    broker.produce("t", 2, 2)
    broker.fetch(T0, max_records=1)
    partition = broker.topics.partition("t", 0)
    assert partition is not None
    partition.delete_records(4)
    broker.produce("t", 1)
    assert broker.fetched(epoch=1) == {}
    assert broker.fetched(epoch=2) == {"t-0": [(4, 4, 1)]}


def test_a_log_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read error of the log is returned at once."""
    broker = ShareBroker()
    broker.produce("t", 1)
    log = broker.topics.log("t", 0)

    def fail(*_: Any, **__: Any) -> bytes:
        raise StorageError("no")

    monkeypatch.setattr(type(log), "read", fail)
    assert broker.fetched(T0) == {"t-0": ErrorCode.KAFKA_STORAGE_ERROR}
    monkeypatch.setattr(type(log), "bytes_below", fail)
    assert broker.fetched(T0, min_bytes=1000) == {"t-0": ErrorCode.KAFKA_STORAGE_ERROR}
    log.abandon()
    monkeypatch.setattr(type(broker.logs), "log", fail)
    broker.share_partitions.remove(broker.key("t"))
    assert broker.fetched(T0) == {"t-0": ErrorCode.KAFKA_STORAGE_ERROR}


def test_read_committed() -> None:
    """With read_committed a fetch waits for open transactions and never returns aborted records."""
    broker = ShareBroker()
    broker.configure({"share.isolation.level": "read_committed"})
    broker.produce("t", 2)
    open_end = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    broker.produce("t", 3, **open_end)
    broker.produce("t", 1)
    assert broker.fetched(T0) == {"t-0": [(0, 1, 1)]}
    waiting = broker.fetch(epoch=1)
    partition = broker.topics.partition("t", 0)
    assert partition is not None
    partition.append_own(
        end_transaction_batch(EndTransaction(7, 0, False, 0, 0), broker.clock.now_ms()),
        broker.clock.now_ms(),
    )
    broker.turn()
    assert broker.brief(waiting) == {"t-0": [(5, 6, 1)]}
    broker.configure({"share.isolation.level": "read_uncommitted"})
    broker.initialize("t", 0, "other")
    assert broker.fetched(T0, group="other") == {"t-0": [(0, 6, 1)]}
    broker.initialize("u", 0, "third")
    broker.configure({"share.isolation.level": "read_committed"})
    broker.produce("u", 1)
    assert broker.fetched(U0, group="third") == {"u-0": [(0, 0, 1)]}


@pytest.mark.parametrize(
    ("reset", "expected"),
    [
        ("latest", {"t-0": []}),
        ("earliest", {"t-0": [(0, 3, 1)]}),
        ("by_duration:PT1H", {"t-0": [(2, 3, 1)]}),
        ("by_duration:PT1S", {"t-0": ErrorCode.OFFSET_NOT_AVAILABLE}),
    ],
)
def test_where_a_group_begins(reset: str, expected: dict[str, Any]) -> None:
    """A new group starts at the offset of its share.auto.offset.reset config."""
    broker = ShareBroker()
    broker.configure({"share.auto.offset.reset": reset})
    now_ms = broker.clock.now_ms()
    broker.produce("t", 2, times_ms=[now_ms - 7_200_000] * 2)
    broker.produce("t", 2, times_ms=[now_ms - 1_800_000] * 2)
    assert broker.fetched(T0, max_wait_ms=0) == expected


def test_where_to_begin_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log error during the offset reset is returned to the client."""
    broker = ShareBroker()
    broker.configure({"share.auto.offset.reset": "by_duration:P1D"})
    log = broker.topics.log("t", 0)

    def fail(*_: Any) -> None:
        raise StorageError("no")

    monkeypatch.setattr(type(log), "offset_for_timestamp", fail)
    assert broker.fetched(T0) == {"t-0": ErrorCode.KAFKA_STORAGE_ERROR}


def test_the_last_client_of_a_group_goes() -> None:
    """When the last client of a group leaves, the group's share partitions are dropped.

    Other groups keep their share partitions. The next client loads the state again.
    """
    broker = ShareBroker()
    broker.initialize("t", 0, "other")
    broker.produce("t", 2)
    first, second = Client(), Client()
    broker.fetch(T0, client=first)
    broker.fetch(T0, group="other", client=second)
    assert len(broker.share_partitions) == 2
    broker.share_partitions.disconnected(first)
    broker.share_partitions.disconnected(Client())
    assert len(broker.share_partitions) == 1
    assert broker.fetched(T0) == {"t-0": [(0, 1, 2)]}


def test_a_group_comes_back_before_it_is_forgotten() -> None:
    """A new session stops the removal of its group's share partitions, which works in steps."""
    broker = ShareBroker()
    broker.produce("t", 2)
    connection = Client()
    broker.fetch(T0, client=connection)
    steps = broker.share_partitions._after_disconnect(
        broker.share_partitions.sessions.disconnected(connection)
    )
    next(steps)
    broker.fetch(T0, member="B", max_wait_ms=0)
    assert list(steps) == []
    assert len(broker.share_partitions) == 1


def test_the_last_client_of_a_group_has_closed_its_session() -> None:
    """A group whose sessions are all closed is dropped when its last connection ends."""
    broker = ShareBroker()
    connection = Client()
    broker.fetch(T0, client=connection, max_wait_ms=0)
    broker.fetch(epoch=-1)
    assert len(broker.share_partitions) == 1
    broker.share_partitions.disconnected(connection)
    assert len(broker.share_partitions) == 0
    broker.share_partitions.remove(broker.key("t"))


def test_a_topic_is_deleted_in_the_middle_of_a_request() -> None:
    """A topic deleted during a request does not prevent fetching the other topic."""
    outcomes = []
    for number in range(40):
        broker = reading(T0, U0)
        broker.produce("t", 1)
        broker.produce("u", 1)
        topic = broker.topics.topic("t")
        assert topic is not None
        meanwhile = (number, partial(run_all, broker.topics.delete([topic])))
        (response,) = broker.fetch(T0, U0, meanwhile=meanwhile).replies
        outcomes.append(
            response.error_code
            or {
                topic.topic_id == broker.topic_id("u"): topic.partitions[0].error_code
                for topic in response.responses
            }
        )
        if broker.topics.topic("t") is not None:
            break
    assert {False: ErrorCode.UNKNOWN_TOPIC_ID, True: 0} in outcomes
    assert {False: 3, True: 0} in outcomes
    assert {True: 0} in outcomes
    assert outcomes[-1] == {False: 0, True: 0}


def test_a_topic_is_deleted_while_states_are_first_read() -> None:
    """A topic deleted at any step of the first load does not make the fetch wait."""
    for number in range(40):
        broker = ShareBroker()
        broker.produce("t", 1)
        broker.produce("u", 1)
        topic = broker.topics.topic("t")
        assert topic is not None
        meanwhile = (number, partial(run_all, broker.topics.delete([topic])))
        assert broker.fetch(T0, U0, meanwhile=meanwhile).replies


def test_the_client_goes_while_its_session_is_opened() -> None:
    """A client that disconnects while its session is opened leaves no session behind."""
    broker = ShareBroker()
    connection = Client()
    meanwhile = (1, lambda: setattr(connection, "closed", True))
    broker.fetch(T0, T1, client=connection, meanwhile=meanwhile)
    assert len(broker.share_partitions.sessions) == 0


def test_the_broker_stops() -> None:
    """A stopping broker drops all share partitions and timers."""
    broker = ShareBroker()
    broker.produce("t", 2)
    broker.fetch(T0)
    broker.share_partitions.stop()
    assert len(broker.share_partitions.sessions) == 0
    assert broker.share_partitions.all_partitions() == []
    assert broker.clock.timers == []


def test_a_share_partition_that_is_led_elsewhere_by_now() -> None:
    """A fenced write drops the share partition and returns NOT_LEADER_OR_FOLLOWER."""
    broker = ShareBroker()
    broker.produce("t", 2)
    broker.fetch(T0)
    broker.persister.errors = [ErrorCode.FENCED_STATE_EPOCH]
    call = broker.acknowledge(("t", 0, 0, 1, ACCEPT))
    (response,) = call.replies
    (data,) = response.responses[0].partitions
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert data.error_message.startswith("The coordinator rejected the request")
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (1, 0)
    assert [one.node_id for one in response.node_endpoints] == [1]
    assert len(broker.share_partitions) == 0


def test_one_of_very_many_partitions() -> None:
    """A waiting fetch of over 2000 partitions is answered when any partition changes.

    Checking every partition at each change would take too long.
    """
    broker = ShareBroker()
    count = 2001
    broker.topics.create("many", count, {})
    for index in range(count):
        broker.initialize("many", index)
    call = broker.fetch(*[("many", index) for index in range(count)], min_bytes=10_000)
    broker.produce("many", 1)
    assert broker.brief(call)["many-0"] == [(0, 0, 1)]


def test_something_happens_while_a_large_fetch_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetch finds records that arrive between its last read and the start of its wait."""
    broker = ShareBroker()
    broker.fetch(T0, max_wait_ms=0)
    watch = KeyedPurgatory.watch

    def watch_too_late(purgatory: KeyedPurgatory, operation: Any, keys: Any) -> None:
        broker.produce("t", 1)
        watch(purgatory, operation, keys)

    monkeypatch.setattr(KeyedPurgatory, "watch", watch_too_late)
    call = broker.fetch(epoch=1)
    broker.turn()
    assert broker.brief(call) == {"t-0": [(0, 0, 1)]}
