"""Real consumers with a virtual clock: one call advances five minutes.

A client whose session expires by the virtual clock must react like a client whose session really
expires because its process was stopped.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest

from coordinator_server.testing import Broker
from tests.clients.support import Group, Member, feed
from tests.support import wait_for

PARTITIONS = 4
FIVE_MINUTES = 300
SHORT_MS = 1_000
CLIENTS = ("kafka-python", "confluent-kafka", "aiokafka")


@pytest.fixture(scope="module")
def shared() -> Iterator[Broker]:
    """A broker whose clock is advanced."""
    with Broker({"group.min.session.timeout.ms": 100}) as broker:
        yield broker
        assert "Traceback" not in broker.log


@pytest.fixture
def broker(shared: Broker) -> Broker:
    """The shared broker, reset before each test."""
    shared.reset()
    return shared


def moves_from(members: list[Member], start: list[int]) -> list[list[str]]:
    """Return each member's events up to its next assignment: `lost`, `revoked`, `assigned`."""
    told = []
    for member, first in zip(members, start, strict=True):
        kinds = [event["event"] for event in member.moves()[first:]]
        told.append(kinds[: kinds.index("assigned") + 1])
    return told


class Readers:
    """Two members that share a topic and have read all its records."""

    def __init__(self, broker: Broker, group: Group) -> None:
        self.broker = broker
        self.group = group
        self.topic = group.settings.topics[0]
        broker.create_topic(self.topic, PARTITIONS)
        self.partitions = [(self.topic, index) for index in range(PARTITIONS)]
        self.members = [group.start(), group.start()]
        self.share()
        self.sent = feed(broker.bootstrap_servers, self.topic, PARTITIONS, 100, "before-")
        group.wait_until_processed(self.sent)
        self.told = [len(member.moves()) for member in self.members]

    def share(self) -> None:
        """Wait until both members have partitions."""
        self.group.wait_until_shared(self.members, self.partitions)

    def recover(self) -> list[list[str]]:
        """Wait until both members have rejoined and read new records; return their events."""
        self.group.wait_until(
            lambda: all(
                any(event["event"] == "assigned" for event in member.moves()[first:])
                for member, first in zip(self.members, self.told, strict=True)
            ),
            "both members joined again",
        )
        self.broker.wait_for_group(self.group.settings.group, members=2, timeout=30)
        self.share()
        self.sent += feed(self.broker.bootstrap_servers, self.topic, PARTITIONS, 100, "after-")
        self.group.wait_until_processed(self.sent)
        return moves_from(self.members, self.told)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.real_time
def test_a_session_of_five_minutes_expires_in_one_call(
    broker: Broker, start_group: Callable[..., Group], client: str
) -> None:
    """Both members expire, rejoin and continue with the same events as after a real expiry."""
    readers = Readers(
        broker,
        start_group(broker.bootstrap_servers, client, "range", FIVE_MINUTES * 1000),
    )
    group = readers.group.settings.group
    generation = broker.wait_for_group(group, members=2).generation
    log_size = broker.log_size
    broker.clock.advance(FIVE_MINUTES)
    expired = [line for line in broker.log_since(log_size).splitlines() if "member.expired" in line]
    assert len(expired) == 2, broker.log_since(log_size)
    assert all("session_timeout_ms=300000" in line for line in expired)
    told = readers.recover()
    assert broker.wait_for_group(group, members=2).generation > generation
    for member in readers.members:
        member.close()

    broker.reset()
    stopped = Readers(broker, start_group(broker.bootstrap_servers, client, "range", SHORT_MS))
    log_size = broker.log_size
    for member in stopped.members:
        member.send_signal(signal.SIGSTOP)
    wait_for(lambda: broker.log_since(log_size).count("member.expired") == 2, "real expiry")
    for member in stopped.members:
        member.send_signal(signal.SIGCONT)
    assert stopped.recover() == told


@pytest.mark.real_time
def test_a_member_that_does_not_join_is_left_behind_at_the_rebalance_timeout(
    broker: Broker, start_group: Callable[..., Group]
) -> None:
    """The group waits five minutes (max_poll_interval_ms) for a stopped member, then removes it."""
    readers = Readers(
        broker, start_group(broker.bootstrap_servers, "kafka-python", "range", 1_800_000)
    )
    group = readers.group.settings.group
    stays, stopped = readers.members
    stopped.send_signal(signal.SIGSTOP)
    log_size = broker.log_size
    newcomer = readers.group.start()
    broker.wait_for_group(group, state="PreparingRebalance", timeout=30)
    wait_for(lambda: stays.moves()[readers.told[0] :], "the other member joins again")
    broker.clock.advance(FIVE_MINUTES)
    readers.members = [stays, newcomer]
    readers.share()
    broker.wait_for_group(group, members=2)
    told = broker.log_since(log_size)
    assert "reason='not rejoined'" in told, told
    assert "join_ms=300000" in told, told
    stopped.end()


@pytest.mark.real_time
def test_members_of_a_new_group_are_gathered_while_time_stands(
    start_group: Callable[..., Group], name: str
) -> None:
    """With a frozen clock the initial delay lasts until all members of a new group have joined."""
    with Broker(group_initial_rebalance_delay_ms=3_000) as broker:
        broker.clock.freeze()
        broker.create_topic(name, PARTITIONS)
        group = start_group(broker.bootstrap_servers, "kafka-python", "range", 10_000)
        members = [group.start() for _ in range(3)]
        group_id = group.settings.group
        broker.wait_for_group(group_id, state="PreparingRebalance", members=3, timeout=60)
        # Longer than one initial delay, because each new member extends the delay.
        broker.clock.advance(6)
        # kafka-python may get stuck in a rebalance and recover only when its session ends, so the
        # clock must continue.
        broker.clock.resume()
        group.wait_until_shared(members, [(name, index) for index in range(PARTITIONS)])
        first = [line for line in broker.log.splitlines() if "generation=1 " in line]
        assert any("generation.started" in line and "members=3" in line for line in first), first


@pytest.mark.parametrize("client", CLIENTS)
def test_offsets_expire_after_a_week(
    broker: Broker, start_group: Callable[..., Group], client: str
) -> None:
    """Offsets stay while the group has members, and expire a week after the last member left."""
    readers = Readers(broker, start_group(broker.bootstrap_servers, client, "range", 10_000))
    group = readers.group.settings.group
    for member in readers.members:
        member.close()
    assert sum(broker.committed(group).values()) == 100
    broker.clock.advance(7 * 24 * 3600 - 120)
    assert sum(broker.committed(group).values()) == 100
    broker.clock.advance(120 + 600)  # offsets.retention.check.interval.ms is ten minutes
    assert broker.committed(group) == {}
    assert broker.group(group) is None
