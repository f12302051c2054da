"""Java consumers of both protocols in one group: upgrade, server-side assignors, kill -9."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.support import Feed, Group, Member, create_topic, feed, set_group_configs
from tests.clients.worker import Settings
from tests.oracle.kafka_process import java
from tests.support import Broker

pytestmark = pytest.mark.nightly

PROGRAM = Path(__file__).with_name("GroupMember.java")
TOPIC, PARTITIONS = "t", 6
ALL = [(TOPIC, number) for number in range(PARTITIONS)]
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "250",
    "group.consumer.assignment.interval.ms": "100",
}
ASSIGNOR = "partition.assignment.strategy=org.apache.kafka.clients.consumer.{}Assignor"


class JavaMember(Member):
    """A process of GroupMember.java; the client is "java" or "java/consumer"."""

    def command(self) -> list[str]:
        """Return the command that starts the process."""
        asked = self.settings
        settings = [f"bootstrap.servers={asked.bootstrap}", f"group.id={asked.group}"]
        if asked.client == "java/consumer":
            settings += ["group.protocol=consumer", f"group.remote.assignor={asked.assignor}"]
        else:
            settings += [
                ASSIGNOR.format("CooperativeSticky"),
                f"session.timeout.ms={asked.session_timeout_ms}",
                "heartbeat.interval.ms=250",
            ]
        return java(str(PROGRAM), *settings, *asked.topics, heap="128M")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker with a topic."""
    with Broker(SETTINGS, data_dir=tmp_path / "data") as broker:
        create_topic(broker.bootstrap_servers, TOPIC, PARTITIONS)
        yield broker
        assert not broker.log_lines("[error"), broker.log[-3000:]


@pytest.mark.real_time
@pytest.mark.parametrize("assignor", ["uniform", pytest.param("range", marks=pytest.mark.nightly)])
def test_a_group_is_upgraded_and_goes_on_after_kill_9(
    broker: Broker, tmp_path: Path, assignor: str
) -> None:
    """Every record is processed once through an upgrade, a killed broker and a killed member."""
    bootstrap = broker.bootstrap_servers
    set_group_configs(bootstrap, "g", {"consumer.session.timeout.ms": "4000"})
    group = Group(tmp_path, Settings("java", bootstrap, "g", [TOPIC], assignor, 10_000))
    group.member_classes["java"] = JavaMember
    try:
        members = [group.start(client="java")]
        group.wait_until_shared(members, ALL)
        with Feed(bootstrap, TOPIC, PARTITIONS, None, per_second=200) as sending:
            for _ in range(2):
                members.append(group.start(client="java/consumer"))
                group.wait_until_shared(members, ALL)
            members.pop(0).close()
            group.wait_until_shared(members, ALL)
            if assignor == "range":
                runs = {tuple(sorted(number for _, number in one.owned())) for one in members}
                assert runs == {(0, 1, 2), (3, 4, 5)}
            broker.kill()
            broker.start()
            before = len(group.processed())
            group.wait_until(lambda: len(group.processed()) > before + 200, "records afterwards")
            group.wait_until_shared(members, ALL)
            values = sending.finish()
        group.wait_until_processed(values)
        killed = members.pop(0)
        killed.send_signal(signal.SIGKILL)
        killed.process.wait(10)
        group.wait_until_shared(members, ALL)
        values += feed(bootstrap, TOPIC, PARTITIONS, 300, "last-")
        group.wait_until_processed(values)
    finally:
        group.end()
