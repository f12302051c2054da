"""A static member (KIP-345) that returns within its session timeout keeps its partitions.

Static members of the consumer protocol are tested in `test_consumer_protocol`.
"""

import signal

import kafka
import pytest

from tests.clients.support import create_topic, feed
from tests.clients.variants import CLASSIC_CLIENTS, StartGroup


@CLASSIC_CLIENTS
@pytest.mark.parametrize("crash", [False, True], ids=["closed", "killed"])
@pytest.mark.real_time
def test_a_static_member_restarts_without_a_rebalance(
    bootstrap: str, name: str, start_group: StartGroup, client: str, assignor: str, crash: bool
) -> None:
    """Members that restart within the session timeout keep their partitions without a rebalance."""
    create_topic(bootstrap, name, 4)
    group = start_group(bootstrap, client, assignor, session_timeout_ms=20_000)
    members = {instance: group.start(instance) for instance in ("one", "two")}
    group.wait_until_shared(list(members.values()), [(name, number) for number in range(4)])
    values = feed(bootstrap, name, 4, 200, "start-")
    group.wait_until_processed(values)

    # One member is the leader, so this loop restarts a leader and a follower.
    for instance, other in (("one", "two"), ("two", "one")):
        leaving, staying = members[instance], members[other]
        owned, moves = leaving.owned(), staying.moves()
        if crash:
            leaving.send_signal(signal.SIGKILL)
            leaving.process.wait(10)
        else:
            leaving.close()
        values += feed(bootstrap, name, 4, 200, f"{instance}-away-")
        back = members[instance] = group.start(instance)
        group.wait_until_shared([back], owned)
        group.wait_until_processed(values)
        assert staying.moves() == moves, group.story()
        if client == "kafka-python":
            assert back.generation() == leaving.generation()

    admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        described = admin.describe_groups([group.settings.group])[group.settings.group]
    finally:
        admin.close()
    assert described["group_state"] == "Stable"
    assert sorted(member["group_instance_id"] for member in described["members"]) == ["one", "two"]
