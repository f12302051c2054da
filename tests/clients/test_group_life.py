"""A group of consumers in separate processes: members join, leave, stop and continue."""

import signal
import time

import pytest

from tests.clients.support import Feed, create_topic, feed
from tests.clients.variants import (
    CLIENTS,
    LIBRARIES,
    StartGroup,
)


@CLIENTS
@pytest.mark.real_time
def test_all_records_arrive_once_while_members_come_and_go(
    bootstrap: str, name: str, start_group: StartGroup, client: str, assignor: str
) -> None:
    """10 000 records reach a group exactly once while a member joins and another member closes."""
    create_topic(bootstrap, name, 6)
    partitions = [(name, number) for number in range(6)]
    group = start_group(bootstrap, client, assignor)
    members = [group.start() for _ in range(3)]
    group.wait_until_shared(members, partitions)
    with Feed(bootstrap, name, 6, 7_000, per_second=3_000) as sending:
        group.wait_until(lambda: len(group.processed()) > 1_000, "the first records")
        members.append(group.start())
        group.wait_until_shared(members, partitions)
        members.pop(0).close()
        group.wait_until_shared(members, partitions)
        values = sending.join()
    values += feed(bootstrap, name, 6, 3_000, "last-")
    assert len(values) == 10_000
    group.wait_until_processed(values)
    assert all(member.processed() for member in group.members)


@pytest.mark.nightly
@CLIENTS
@pytest.mark.real_time
def test_a_stopped_member_loses_its_partitions_and_rejoins(
    bootstrap: str, name: str, start_group: StartGroup, client: str, assignor: str
) -> None:
    """A stopped member loses its partitions at its session timeout and rejoins after SIGCONT."""
    create_topic(bootstrap, name, 6)
    partitions = [(name, number) for number in range(6)]
    group = start_group(bootstrap, client, assignor, session_timeout_ms=2_500)
    members = [group.start() for _ in range(3)]
    group.wait_until_shared(members, partitions)
    values = feed(bootstrap, name, 6, 600, "before-")
    group.wait_until_processed(values)

    stopped, others = members[0], members[1:]
    stopped.send_signal(signal.SIGSTOP)
    stopped_at = time.monotonic()
    try:
        values += feed(bootstrap, name, 6, 600, "during-")
        group.wait_until_shared(others, partitions)
        # The member's last heartbeat may have been sent one interval before the stop.
        assert time.monotonic() - stopped_at > 2.0
        group.wait_until_processed(values)
    finally:
        stopped.send_signal(signal.SIGCONT)

    group.wait_until_shared(members, partitions)
    values += feed(bootstrap, name, 6, 600, "after-")
    group.wait_until_processed(values)
    assert stopped.processed()[-1][3].startswith("after-")


@pytest.mark.real_time
def test_three_client_libraries_share_one_group(
    bootstrap: str, name: str, start_group: StartGroup
) -> None:
    """Members of different libraries agree on the range assignor and share the work."""
    create_topic(bootstrap, name, 6)
    partitions = [(name, number) for number in range(6)]
    group = start_group(bootstrap, "kafka-python", "range")
    members = [group.start(client=client) for client in LIBRARIES]
    group.wait_until_shared(members, partitions)
    values = feed(bootstrap, name, 6, 600, "all-")
    group.wait_until_processed(values)
    # After each departure of the leader, a member of another library leads.
    for _ in range(2):
        members.pop(0).close()
        group.wait_until_shared(members, partitions)
        values += feed(bootstrap, name, 6, 600, f"{len(members)}-")
        group.wait_until_processed(values)
