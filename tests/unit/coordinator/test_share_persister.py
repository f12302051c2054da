"""The share persister of a broker, which calls any coordinator in the process with retries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from coordinator_server.coordinator.share_persister import PATIENCE_MS, LocalSharePersister
from coordinator_server.core.share_partitions.persister import (
    SharePartitionKey,
    SharePersister,
    ShareState,
    ShareStateSummary,
    StateBatch,
)
from coordinator_server.core.share_state.coordinator_key import coordinator_key
from coordinator_server.topics.names import SHARE_STATE_TOPIC
from coordinator_server.topics.topic import Topic
from protocol.errors import ErrorCode as E
from storage.errors import StorageError
from tests.harness.nodes import Nodes
from tests.harness.share_states import ShareStateBroker

BATCHES = (StateBatch(0, 9, 2, 1),)
STATE = ShareState(E.NONE, 1, 0, BATCHES)


class Asker:
    """A caller that records the responses in the order of their arrival."""

    def __init__(self, persister: SharePersister, key: SharePartitionKey) -> None:
        self.answers: list[object] = []
        self._persister = persister
        self.key = key

    def initialize(self) -> None:
        """Initialize the state at offset 0."""
        self._persister.initialize(self.key, 1, 0, self._take)

    def write(self) -> None:
        """Acknowledge ten records."""
        self._persister.write(self.key, 1, 0, 0, 10, BATCHES, self._take)

    def read(self, leader_epoch: int = 0) -> None:
        """Read the state."""
        self._persister.read(self.key, leader_epoch, self._take)

    def summary(self) -> None:
        """Read the state without its batches."""
        self._persister.read_summary(self.key, 0, self._take)

    def delete(self) -> None:
        """Delete the state."""
        self._persister.delete(self.key, self._take)

    def everything(self) -> None:
        """Make every kind of call, in order."""
        for ask in (self.initialize, self.write, self.read, self.summary, self.delete, self.read):
            ask()

    def _take(self, answer: object) -> None:
        self.answers.append(answer)

    def takes(self) -> list[object]:
        """Return the responses so far, and forget them."""
        taken, self.answers = self.answers, []
        return taken


def everything(last: ShareState) -> list[object]:
    """Return the responses to `everything`."""
    return [E.NONE, E.NONE, STATE, ShareStateSummary(E.NONE, 1, 0, 0, 10), E.NONE, last]


UNINITIALIZED = ShareState(
    E.INVALID_REQUEST, message="Read operation on uninitialized share partition not allowed."
)


def wait(broker: ShareStateBroker, elapsed_ms: int) -> None:
    """Advance the time in small steps."""
    for _ in range(0, elapsed_ms, 20):
        broker.advance(20)


def load(broker: ShareStateBroker) -> Callable[[], None]:
    """Start a load of the internal topic's partition; calling the returned function ends it."""
    broker.share_states.emigrate(0)
    partition = broker.topics.partition(SHARE_STATE_TOPIC, 0)
    assert partition is not None
    broker.share_states.immigrate(partition)
    assert broker.share_states.is_loading
    held = broker.clock.take_soon()
    return lambda: broker.clock.soon.extend(held)


def test_it_is_asked_at_once() -> None:
    """The first call creates the internal topic, and responses arrive before a call returns."""
    broker = ShareStateBroker()
    asker = Asker(broker.persister, broker.key())
    asker.everything()
    assert asker.takes() == everything(UNINITIALIZED)
    assert broker.is_replayed()


def test_who_is_answered_asks_again() -> None:
    """A callback may make the next call; the queue of a delayed call is removed once."""
    broker = ShareStateBroker()
    asker = Asker(broker.persister, broker.key())
    asker.initialize()
    go_on = load(broker)
    broker.persister.initialize(broker.key(), 1, 0, lambda _: asker.summary())
    wait(broker, 100)
    assert asker.takes() == [E.NONE]
    go_on()
    wait(broker, 2000)
    assert asker.takes() == [ShareStateSummary(E.NONE, 1, 0, 0, 0)]
    asker.summary()
    assert asker.takes() == [ShareStateSummary(E.NONE, 1, 0, 0, 0)]


def test_who_fails_at_its_answer_stops_nobody() -> None:
    """A callback that raises does not prevent later calls."""
    broker = ShareStateBroker()

    def fail(_: E) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broker.persister.initialize(broker.key(), 1, 0, fail)
    asker = Asker(broker.persister, broker.key())
    asker.summary()
    assert asker.takes() == [ShareStateSummary(E.NONE, 1, 0, 0, 0)]


def test_what_is_loading_is_asked_again() -> None:
    """Calls during a load are retried in order, including calls made during the retries."""
    broker = ShareStateBroker()
    asker = Asker(broker.persister, broker.key())
    other = Asker(broker.persister, broker.key(1))
    asker.initialize()
    go_on = load(broker)
    asker.everything()
    other.initialize()
    wait(broker, 5000)
    assert asker.takes() == [E.NONE]  # only the response to the call from before the load
    assert other.takes() == []
    go_on()
    wait(broker, 1000)
    assert asker.takes() == everything(UNINITIALIZED)
    assert other.takes() == [E.NONE]
    assert not broker.persister._lines


def test_patience_has_an_end() -> None:
    """All queued calls fail with the error once Kafka's retry time is over.

    A later call gets the full retry time.
    """
    broker = ShareStateBroker()
    broker.share_states.ensure_topic()
    broker.share_states.emigrate_all()
    asker = Asker(broker.persister, broker.key())
    asker.initialize()
    asker.read()
    elapsed_ms = 0
    while not asker.answers:
        wait(broker, 500)
        elapsed_ms += 500
    assert PATIENCE_MS <= elapsed_ms <= PATIENCE_MS + 1500
    initialized, read = asker.takes()
    assert initialized is E.NOT_COORDINATOR
    assert isinstance(read, ShareState)
    assert read.error is E.NOT_COORDINATOR
    assert not broker.persister._lines
    asker.read()
    wait(broker, PATIENCE_MS - 1000)
    assert not asker.answers


def test_what_was_answered_makes_patient_again() -> None:
    """A successful call restarts the retry time of the calls queued behind it."""
    broker = ShareStateBroker()
    broker.share_states.ensure_topic()
    broker.share_states.emigrate_all()
    asker = Asker(broker.persister, broker.key())

    def emigrate(error: E) -> None:
        asker.answers.append(error)
        broker.share_states.emigrate_all()

    broker.persister.initialize(asker.key, 1, 0, emigrate)
    asker.read()
    wait(broker, PATIENCE_MS - 1000)
    partition = broker.topics.partition(SHARE_STATE_TOPIC, 0)
    assert partition is not None
    broker.share_states.immigrate(partition)
    wait(broker, 2000)
    assert asker.takes() == [E.NONE]
    wait(broker, PATIENCE_MS - 2000)
    assert not asker.answers
    wait(broker, 3000)
    (read,) = asker.takes()
    assert isinstance(read, ShareState)
    assert read.error is E.NOT_COORDINATOR


@pytest.mark.parametrize("waits", [False, True])
def test_a_closed_persister(waits: bool) -> None:
    """A closed persister fails queued and new calls at once."""
    broker = ShareStateBroker()
    broker.share_states.ensure_topic()
    asker = Asker(broker.persister, broker.key())
    if waits:
        broker.share_states.stop()
        timers = broker.clock.timers
        asker.everything()
        assert asker.takes() == []
        broker.persister.close()
    else:
        broker.persister.close()
        asker.everything()
    gone = E.COORDINATOR_NOT_AVAILABLE
    assert asker.takes() == [
        *(gone, gone, ShareState(gone), ShareStateSummary(gone), gone, ShareState(gone))
    ]
    assert not waits or broker.clock.timers == timers
    assert not broker.persister._lines


def test_the_topic_cannot_be_made() -> None:
    """Creating the topic is retried if it fails."""
    broker = ShareStateBroker()
    create, errors = broker.topics.create_internal, [StorageError("full")]

    def failing(name: str) -> Topic:
        if errors:
            raise errors.pop()
        return create(name)

    broker.topics.create_internal = failing  # type: ignore[method-assign]  # a failing disk
    asker = Asker(broker.persister, broker.key())
    asker.initialize()
    assert asker.takes() == []
    wait(broker, 100)
    assert asker.takes() == [E.NONE]


def test_one_that_asks_again_when_it_is_answered() -> None:
    """A callback may write again, as a share partition does with changes since the last write."""
    broker = ShareStateBroker()
    persister = broker.persister
    seen: list[E] = []

    def write(error: E) -> None:
        seen.append(error)
        if len(seen) < 5:
            persister.write(broker.key(), 1, 0, -1, 0, BATCHES, write)

    persister.initialize(broker.key(), 1, 0, write)
    assert seen == [E.NONE] * 5
    assert len(broker.records()) == 5


def test_a_long_line_is_asked_in_a_loop() -> None:
    """A long queue is processed in a loop, not by recursion."""
    broker = ShareStateBroker()
    broker.share_states.ensure_topic()
    asker = Asker(broker.persister, broker.key())
    asker.initialize()
    go_on = load(broker)
    for _ in range(3000):
        asker.summary()
    go_on()
    wait(broker, 100)
    assert len(asker.takes()) == 3001


async def test_a_cluster() -> None:
    """A call reaches the current leader, and written state survives a change of the leader."""
    nodes = Nodes(share_coordinator_state_topic_num_partitions="6")
    cluster = nodes.cluster
    persister = cluster.shared.share_persister.get()
    topic = cluster.topics.create("t", 4, {})
    askers = [
        Asker(persister, SharePartitionKey("g", topic.topic_id, partition))
        for partition in range(4)
    ]
    for asker in askers:
        asker.initialize()
        asker.write()
        assert asker.takes() == [E.NONE, E.NONE]
    leaders = {
        cluster.share_state_topic.partition_of(coordinator_key(asker.key)).leader_id
        for asker in askers
    }
    assert len(leaders) > 1
    for node_id in leaders:
        await cluster.stop_broker(node_id)
        for asker in askers:
            asker.read()
        async with asyncio.timeout(10):
            while not all(asker.answers for asker in askers):
                nodes.advance(100)
        assert [asker.takes() for asker in askers] == [[STATE]] * 4
        await cluster.start_broker(node_id)
    await cluster.stop()
    askers[0].read()
    assert askers[0].takes() == [ShareState(E.COORDINATOR_NOT_AVAILABLE)]


async def test_a_partition_without_a_leader() -> None:
    """Share partitions of an offline partition have no coordinator until its broker is back."""
    nodes = Nodes(None, 2, share_coordinator_state_topic_replication_factor="1")
    cluster = nodes.cluster
    topic = cluster.topics.create("t", 1, {})
    asker = Asker(cluster.shared.share_persister.get(), SharePartitionKey("g", topic.topic_id, 0))
    asker.initialize()
    home = cluster.share_state_topic.partition_of(coordinator_key(asker.key))
    node_id = home.leader_id
    await cluster.stop_broker(node_id)
    asker.write()
    assert asker.takes() == [E.NONE]
    await cluster.start_broker(node_id)
    asker.read()
    async with asyncio.timeout(10):
        while len(asker.answers) < 2:
            nodes.advance(100)
    assert asker.takes() == [E.NONE, STATE]
    await cluster.stop()


def test_it_is_a_share_persister() -> None:
    """The persister has the interface that share partitions and the group coordinator use."""
    broker = ShareStateBroker()
    persister: SharePersister = broker.persister
    assert isinstance(persister, LocalSharePersister)
