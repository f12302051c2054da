"""ShareAcknowledge: the checks before any acknowledgement, and the responses."""

from __future__ import annotations

import pytest

from coordinator_server.apis.share_acknowledgements import TYPES_PER_STEP, leader_of
from protocol.apis.share_acknowledge import AcknowledgementBatch
from protocol.errors import ErrorCode
from tests.harness.shares import UNKNOWN_TOPIC, ShareBroker

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
T0, T1 = ("t", 0), ("t", 1)
INVALID = ErrorCode.INVALID_REQUEST


def with_records(count: int = 10) -> ShareBroker:
    """Return a broker on which member A has acquired all records of "t"."""
    broker = ShareBroker()
    broker.produce("t", count)
    broker.fetch(T0)
    return broker


@pytest.mark.parametrize("version", [1, 2])
def test_records_are_acknowledged(version: int) -> None:
    """Since version 2 the response has the duration of renewed locks."""
    broker = with_records(5)
    call = broker.acknowledge(("t", 0, 0, 4, ACCEPT), version=version)
    (response,) = call.replies
    assert (response.error_code, response.error_message) == (0, None)
    assert response.acquisition_lock_timeout_ms == (30_000 if version == 2 else 0)
    (topic,) = response.responses
    assert topic.topic_id == broker.topic_id("t")
    (data,) = topic.partitions
    assert (data.partition_index, data.error_code, data.error_message) == (0, 0, None)
    kept = broker.persister.states[broker.key("t")]
    assert (kept.start_offset, kept.batches()) == (0, [(0, 4, 2, 1)])


@pytest.mark.parametrize(
    "said",
    [
        [(3, 2, ACCEPT)],
        [(0, 4, ACCEPT), (3, 5, ACCEPT)],
        [(0, 4, [])],
        [(0, 4, [ACCEPT, ACCEPT])],
        [(0, 1, [ACCEPT] * 3)],
        [(0, 4, -1)],
        [(0, 4, 5)],
        [(0, 4, RENEW)],
        [(0, 1, [ACCEPT, RENEW])],
    ],
)
def test_what_cannot_be(said: list[tuple[int, int, int | list[int]]]) -> None:
    """Decreasing offsets, a wrong type or number of types, and RENEW without IsRenewAck fail."""
    broker = with_records()
    assert broker.acknowledged(*[("t", 0, *one) for one in said]) == {"t-0": INVALID}
    assert broker.persister.writes == []


def test_renewal_is_of_version_2() -> None:
    """ShareAcknowledge 1 does not accept the acknowledge type RENEW."""
    broker = with_records()
    assert broker.acknowledged(("t", 0, 0, 4, RENEW), version=1) == {"t-0": INVALID}
    said = ("t", 0, 0, 4, RENEW)
    assert broker.acknowledged(said, epoch=2, renews=True) == {"t-0": 0}
    broker.configure({"share.renew.acknowledge.enable": "false"})
    assert broker.acknowledged(said, epoch=3, renews=True) == {"t-0": 121}


def test_many_types() -> None:
    """Many acknowledge types of one batch are checked in steps."""
    count = 2 * TYPES_PER_STEP
    broker = with_records(count)
    types = [ACCEPT] * count
    types[-1] = 9
    assert broker.acknowledged(("t", 0, 0, count - 1, types)) == {"t-0": INVALID}
    types[-1] = REJECT
    assert broker.acknowledged(("t", 0, 0, count - 1, types), epoch=2) == {"t-0": 0}
    assert broker.persister.writes[-1] == ((0, count - 2, 2, 1), (count - 1, count - 1, 4, 1))


def test_each_partition_has_its_own_outcome() -> None:
    """An error in one partition does not affect the other partitions of a ShareAcknowledge."""
    broker = with_records(5)
    broker.produce("t", 5, index=1)
    broker.fetch(T1, epoch=1)
    answer = broker.acknowledged(
        ("t", 0, 0, 9, ACCEPT),
        ("t", 1, 0, 4, ACCEPT),
        ("t", 7, 0, 4, ACCEPT),
        ("u", 0, 0, 4, ACCEPT),
        ("?", 0, 0, 4, ACCEPT),
        epoch=2,
        named=(("t", 0),),
    )
    assert answer == {"t-0": 42, "t-1": 0, "t-7": 3, "u-0": 3, "?-0": 100}


def test_partitions_of_which_nothing_is_said() -> None:
    """The response includes partitions without acknowledgements if another partition has some."""
    broker = with_records(5)
    assert broker.acknowledged(named=(T0, T1)) == {}
    assert broker.acknowledged(("t", 0, 0, 4, ACCEPT), epoch=2, named=(T1,)) == {
        "t-0": 0,
        "t-1": 0,
    }


def test_an_answer_waits_for_all_partitions() -> None:
    """The response is sent once the acknowledgements of every partition are written."""
    broker = with_records(5)
    broker.produce("t", 5, index=1)
    broker.fetch(T1, epoch=1)
    broker.persister.is_held = True
    call = broker.acknowledge(("t", 0, 0, 4, ACCEPT), ("t", 1, 7, 9, ACCEPT), epoch=2)
    assert call.replies == []
    broker.persister.release_held()
    assert [one.error_code for one in call.replies[0].responses[0].partitions] == [42, 0]


def test_a_session_is_closed() -> None:
    """Closing a share session releases the member's records."""
    broker = with_records(5)
    broker.fetch(T1, epoch=1, max_wait_ms=0)
    broker.share_partitions.remove(broker.key("t", 1))
    assert broker.acknowledged(("t", 0, 0, 0, ACCEPT), epoch=-1) == {"t-0": 0}
    assert broker.persister.writes[-1] == ((1, 4, 0, 1),)
    assert len(broker.share_partitions.sessions) == 0


def test_a_session_that_is_gone_when_it_is_closed() -> None:
    """A session may end with its connection while its last acknowledgements are written."""
    broker = with_records(5)
    broker.persister.is_held = True
    call = broker.acknowledge(("t", 0, 0, 0, ACCEPT), epoch=-1)
    broker.share_partitions.sessions.clear()
    broker.persister.release_held()
    assert call.replies[0].error_code == 0


def test_a_share_partition_was_forgotten_while_it_was_written() -> None:
    """The successor of a forgotten share partition stays when an old write completes."""
    broker = with_records(5)
    broker.persister.is_held = True
    broker.persister.errors = [ErrorCode.FENCED_LEADER_EPOCH]
    call = broker.acknowledge(("t", 0, 0, 4, ACCEPT))
    broker.share_partitions.remove(broker.key("t"))
    broker.persister.is_held = False
    assert broker.fetched(T0, member="B") == {"t-0": [(0, 4, 1)]}
    broker.persister.release_held()
    (data,) = call.replies[0].responses[0].partitions
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len(broker.share_partitions) == 1


def test_one_timer_rings_for_all_locks() -> None:
    """One timer covers all locks of a share partition.

    The timer is set for the earliest lock, and set again if it fires before a lock expires.
    """
    broker = ShareBroker(group_share_min_record_lock_duration_ms="1000")
    broker.produce("t", 1, 1, 1)
    for epoch in range(3):
        broker.fetch(T0, epoch=epoch, max_records=1)
        broker.advance(1_000)
    timers = broker.clock.timers
    assert len(timers) == 1
    broker.acknowledge(("t", 0, 0, 0, ACCEPT), epoch=3)
    broker.advance(27_000)
    broker.configure({"share.record.lock.duration.ms": "15000"})
    broker.acknowledge(("t", 0, 2, 2, RENEW), epoch=4, renews=True)
    broker.advance(1_000)
    share_partition = broker.share_partitions.get(broker.key("t"))
    assert share_partition is not None
    assert share_partition.next_fetch_offset() == 1
    broker.configure({"share.record.lock.duration.ms": "1000"})
    broker.acknowledge(("t", 0, 2, 2, RENEW), epoch=5, renews=True)
    broker.advance(1_000)
    assert [run.member_id for batch in share_partition.in_flight for run in batch.runs] == ["", ""]
    broker.advance(60_000)


def test_nobody_leads_what_is_unknown() -> None:
    """`leader_of` returns leader -1 and epoch -1 for an unknown topic."""
    broker = ShareBroker()
    assert leader_of(broker, (UNKNOWN_TOPIC, 0)) == (-1, -1)  # type: ignore[arg-type]  # a fake


def test_a_partition_is_forgotten_while_its_locks_are_renewed() -> None:
    """A partition that is forgotten while locks are renewed is not written any more."""
    broker = with_records()
    manager, key = broker.share_partitions, broker.key("t")
    renewals = [
        AcknowledgementBatch(first_offset=first, last_offset=first, acknowledge_types=[RENEW])
        for first in range(10)
    ]
    share_partition = manager.get(key)
    assert share_partition is not None
    steps = manager.acknowledge(share_partition, "A", renewals)
    next(steps)
    manager.remove(key)
    for _ in steps:
        pass
    broker.advance(60_000)
    assert broker.persister.writes == []
