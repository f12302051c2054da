"""The broker ends during consumption or a rebalance and restarts on the same data directory."""

from collections.abc import Callable

import pytest

from tests.clients.support import Feed, create_topic, feed
from tests.clients.variants import CLIENTS, StartGroup, committed_offsets
from tests.support import Broker, wait_for

StartBroker = Callable[..., Broker]


@CLIENTS
@pytest.mark.real_time
def test_a_group_goes_on_after_kill_9(
    start_broker: StartBroker, name: str, start_group: StartGroup, client: str, assignor: str
) -> None:
    """After kill -9 the members do not rebalance, and no acknowledged record is missing."""
    broker = start_broker()
    create_topic(broker.bootstrap_servers, name, 6)
    partitions = [(name, number) for number in range(6)]
    group = start_group(broker.bootstrap_servers, client, assignor, session_timeout_ms=30_000)
    members = [group.start() for _ in range(3)]
    group.wait_until_shared(members, partitions)
    with Feed(broker.bootstrap_servers, name, 6, None, per_second=1_000) as sending:
        group.wait_until(lambda: len(group.processed()) > 1_000, "the first records")
        moves = [member.moves() for member in members]
        broker.kill()
        acknowledged = {record[:2]: record[2] + 1 for record in sorted(group.processed())}
        before = len(group.processed())
        broker.start()
        committed = committed_offsets(broker.bootstrap_servers, group.settings.group)
        assert all(committed[partition] >= offset for partition, offset in acknowledged.items())
        group.wait_until(lambda: len(group.processed()) > before + 1_000, "records afterwards")
        assert [member.moves() for member in members] == moves, group.story()
        # A new member causes a rebalance, after which every member starts from committed offsets.
        members.append(group.start())
        group.wait_until_shared(members, partitions)
        values = sending.finish()
    group.wait_until_processed(values)
    places = {(partition, offset): value for _, partition, offset, value in group.processed()}
    for record in sending.acknowledged:
        assert places[record.partition, record.offset] == record.value


@pytest.mark.nightly
@CLIENTS
@pytest.mark.real_time
def test_a_group_recovers_from_kill_9_amid_a_rebalance(
    start_broker: StartBroker, name: str, start_group: StartGroup, client: str, assignor: str
) -> None:
    """If the broker dies while members join, they then share all partitions and lose no record."""
    broker = start_broker()
    create_topic(broker.bootstrap_servers, name, 6)
    partitions = [(name, number) for number in range(6)]
    group = start_group(broker.bootstrap_servers, client, assignor, session_timeout_ms=6_000)
    members = [group.start() for _ in range(2)]
    group.wait_until_shared(members, partitions)
    values = feed(broker.bootstrap_servers, name, 6, 300, "before-")
    group.wait_until_processed(values)
    rebalances, moves = len(broker.log_lines("group.rebalancing")), members[0].moves()
    members.append(group.start())
    # The consumer protocol has no rebalance phase that a test could wait for, so wait until a
    # partition moves.
    wait_for(
        lambda: (
            len(broker.log_lines("group.rebalancing")) > rebalances or members[0].moves() != moves
        ),
        "a rebalance",
    )
    broker.kill()
    broker.start()
    group.wait_until_shared(members, partitions, 60)
    values += feed(broker.bootstrap_servers, name, 6, 300, "after-")
    group.wait_until_processed(values)


@pytest.mark.parametrize("times", [3])
@pytest.mark.real_time
def test_a_group_goes_on_after_clean_restarts(
    start_broker: StartBroker, name: str, start_group: StartGroup, times: int
) -> None:
    """SIGTERM ends the broker with status 0; each restart finds the group with its offsets."""
    broker = start_broker()
    create_topic(broker.bootstrap_servers, name, 2)
    group = start_group(
        broker.bootstrap_servers, "kafka-python", "range", session_timeout_ms=30_000
    )
    members = [group.start() for _ in range(2)]
    group.wait_until_shared(members, [(name, number) for number in range(2)])
    moves = [member.moves() for member in members]
    values: list[str] = []
    for number in range(times):
        with Feed(broker.bootstrap_servers, name, 2, 200, prefix=f"{number}-") as sending:
            values += sending.join()
        group.wait_until_processed(values)
        broker.restart()
    assert [member.moves() for member in members] == moves, group.story()
