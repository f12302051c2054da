"""Java's KafkaShareConsumer gets records again if another consumer dies, stalls or rejects them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple, Self

import pytest

from coordinator_server.client import Client
from protocol.apis.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from tests.clients.support import create_topic, set_group_configs
from tests.oracle.kafka_process import java
from tests.support import Broker, wait_for

pytestmark = pytest.mark.nightly

PROGRAM = Path(__file__).with_name("ShareMember.java")
SETTINGS = {
    "group.share.min.session.timeout.ms": "1000",
    "group.share.session.timeout.ms": "6000",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.assignment.interval.ms": "0",
    "group.share.min.record.lock.duration.ms": "1000",
}
GOT = re.compile(r"got (\d+) (\d+) (.*)")
HELD = 10
"""The number of records that a member acquires at a time."""


class Got(NamedTuple):
    """A record that a member received."""

    offset: int
    delivery_count: int
    value: str


class Member:
    """A process of ShareMember.java."""

    def __init__(self, bootstrap: str, output: Path, how: str) -> None:
        self._output = output
        command = java(str(PROGRAM), bootstrap, "queue", "jobs", how)
        with output.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    @property
    def lines(self) -> list[str]:
        """Return the member's output lines."""
        return self._output.read_text().splitlines()

    def got(self) -> list[Got]:
        """Return the received records in order."""
        found = [GOT.fullmatch(line) for line in self.lines]
        return [Got(int(one[1]), int(one[2]), one[3]) for one in found if one]

    def wait_until_got(self, count: int, what: str, seconds: float = 60) -> list[Got]:
        """Wait until `count` records are received, and return them."""
        try:
            wait_for(lambda: len(self.got()) >= count, what, seconds, 0.05)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._output.read_text()[-3000:]}") from None
        return self.got()

    def close(self) -> None:
        """Let the process close its consumer."""
        self.process.communicate(b"end\n", 30)
        assert self.lines[-1] == "closed", self._output.read_text()[-3000:]


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
    """A killed member's records are redelivered, and acknowledged ones are not.

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
        # The locks would last for half a minute, but the session ends with the connection.
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

    A record that is always released is archived after its fifth delivery, a rejected one at once,
    and a renewed one stays with its member. The records of an inactive member are redelivered.
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
        # The late acknowledgements are below the share-partition start offset, which is no error.
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
