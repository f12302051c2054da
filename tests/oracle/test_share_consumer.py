"""Java's KafkaShareConsumer gets records again if another consumer dies, stalls or rejects them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from coordinator_server.client import Client
from protocol.apis.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from tests.clients.support import create_topic, set_group_configs
from tests.oracle.share_members import SETTINGS, Got, Member
from tests.support import Broker, wait_for

pytestmark = pytest.mark.nightly

HELD = 10
"""The number of records that a member acquires at a time."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker with a topic of one partition, and a group that starts at the earliest offset."""
    with Broker(SETTINGS, data_dir=tmp_path / "data") as broker:
        create_topic(broker.bootstrap_servers, "jobs")
        set_group_configs(
            broker.bootstrap_servers, "queue", {"share.auto.offset.reset": "earliest"}
        )
        yield broker
        assert not broker.log_lines("[error"), broker.log[-3000:]


@pytest.mark.real_time
def test_records_of_a_killed_member_come_again(broker: Broker, tmp_path: Path) -> None:
    """A killed member's records are redelivered, except the acknowledged records.

    Two members share a partition; one is killed, and later the broker.
    """
    bootstrap = broker.bootstrap_servers
    values = [f"accept {number}" for number in range(35)]
    broker.produce("jobs", *(value.encode() for value in values[:30]))
    with ExitStack() as stack:
        holder = stack.enter_context(Member(bootstrap, tmp_path / "holder", "hold"))
        held = holder.wait_until_got(HELD, "the records to hold")
        assert held == [Got(number, 1, values[number]) for number in range(HELD)]
        other = stack.enter_context(Member(bootstrap, tmp_path / "other", "obey"))
        expected = [Got(number, 1, values[number]) for number in range(HELD, 30)]
        assert other.wait_until_got(20, "the rest") == expected
        # The acquisition locks last for 30 s. Killing the holder closes its connection, which ends
        # its share session at once.
        holder.process.kill()
        expected += [one._replace(delivery_count=2) for one in held]
        assert other.wait_until_got(30, "what was held", 15) == expected
        wait_for(lambda: lag(broker) == 0, "all are acknowledged")
        broker.kill()
        broker.start()
        broker.produce("jobs", *(value.encode() for value in values[30:]))
        expected += [Got(number, 1, values[number]) for number in range(30, 35)]
        assert other.wait_until_got(35, "records after the kill") == expected
        wait_for(lambda: lag(broker) == 0, "all are acknowledged")
        other.close()
        assert other.got() == expected


@pytest.mark.real_time
def test_each_kind_of_acknowledgement(broker: Broker, tmp_path: Path) -> None:
    """Every acknowledgement type has its effect, and locks expire.

    A record that is always released is archived after its fifth delivery, a rejected record at
    once, and a renewed record stays with its member. The records of an inactive member are
    redelivered.
    """
    bootstrap = broker.bootstrap_servers
    set_group_configs(bootstrap, "queue", {"share.record.lock.duration.ms": "1000"})
    broker.produce("jobs", *(b"accept %d" % number for number in range(HELD)))
    with ExitStack() as stack:
        holder = stack.enter_context(Member(bootstrap, tmp_path / "holder", "hold"))
        held = holder.wait_until_got(HELD, "the records to hold")
        other = stack.enter_context(Member(bootstrap, tmp_path / "other", "obey"))
        expected = [one._replace(delivery_count=2) for one in held]
        assert other.wait_until_got(HELD, "what was held") == expected
        # A late acknowledgement, for offsets below the start offset of the share partition, is not
        # an error.
        holder.close()
        broker.produce("jobs", b"release", b"reject", b"renew", b"accept")
        got = sorted(other.wait_until_got(HELD + 9, "all deliveries")[HELD:])
        assert got == [
            *(Got(HELD, count, "release") for count in range(1, 6)),
            Got(HELD + 1, 1, "reject"),
            *(Got(HELD + 2, 1, "renew") for _ in range(2)),
            Got(HELD + 3, 1, "accept"),
        ]
        wait_for(lambda: lag(broker) == 0, "nothing is left")
        other.close()
        assert len(other.got()) == HELD + 9
        assert not [line for line in other.lines if line.startswith("failed")]


def lag(broker: Broker) -> int:
    """Return the group's lag."""
    group = DescribeShareGroupOffsetsRequestGroup(group_id="queue", topics=None)
    request = DescribeShareGroupOffsetsRequest(groups=[group])
    with closing(Client(broker.bootstrap_servers)) as client:
        (described,) = client.ask(request, client.coordinator("queue"), min_version=1).groups
    return int(described.topics[0].partitions[0].lag)
