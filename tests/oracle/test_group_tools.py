"""Kafka's group tools print the same with Kafka and with our broker.

The calls of `group_tools.txt` run first while the groups have members, then after the members have
left.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from coordinator_server.testing.broker import DEFAULTS
from tests.oracle.consumers import polled
from tests.oracle.kafka_process import Kafka, java
from tests.scripts.player import OfficialTools, Outcome
from tests.support import Broker, wait_for

HERE = Path(__file__).parent
CALLS = HERE / "group_tools.txt"
SETTINGS = {
    # Set the defaults of the test helper on both brokers, so that `--describe --all` prints the
    # same configs.
    **{name: str(value) for name, value in DEFAULTS.items()},
    "auto.create.topics.enable": "false",
    "log.retention.ms": "-1",
    # Short session timeouts remove static members and killed programs quickly.
    **{
        f"group.{kind}.{name}": str(value)
        for kind in ("consumer", "share", "streams")
        for name, value in (("min.session.timeout.ms", 1000), ("session.timeout.ms", 6000))
    },
}
OF_KAFKA = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
TOOLS = {
    "groups": "org.apache.kafka.tools.GroupsCommand",
    "consumer": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "share": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "streams": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "configs": "org.apache.kafka.tools.ConfigCommand",
}
CONSUMER = {"group_protocol": "consumer"}
# Members are started in this order, each when all earlier members have their assignments.
MEMBERS: tuple[tuple[str, dict[str, str]], ...] = (
    ("new", CONSUMER),
    ("new", {**CONSUMER, "group_instance_id": "s"}),
    ("mixed", CONSUMER),
    ("mixed", {"partition_assignment_strategy": "range"}),
    ("old", {}),
)
PARTITIONS = {"orders": 6, "bills": 1, "lines": 2, "counts": 1}
FIRST_TIMESTAMP_MS = 1_600_000_000_000  # 2020-09-13T12:26:40Z
_FRAMES = re.compile(r"\n\s+(at |\.\.\. \d).*")
_USAGE = re.compile(r"(?s)\nOption .*")
_TIME = re.compile(r"(?m)^\[[^\]]*\] ")
_MEMBER_ID = re.compile(r"(?<![\w/+-])[\w/+-]{22}(?=\s)")
_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
# The end offsets and lags of this topic are not compared, because the streams client deletes
# consumed records at any time.
_REPARTITION = re.compile(r"(\S+-repartition\s+\d\s).*")


class Side:
    """One broker of the comparison, with the same groups as the other broker."""

    def __init__(self, bootstrap: str, directory: Path, tools: OfficialTools) -> None:
        self.bootstrap = bootstrap
        self._directory = directory
        self._tools = tools
        directory.mkdir()

    def play(self, line: str) -> Outcome:
        """Run the call in `line`; return its sorted output without values that vary by run."""
        name, *arguments = line.split()
        done = self._tools(TOOLS[name], [*arguments, "--bootstrap-server", self.bootstrap])
        return done._replace(out=self._plain(done.out), err=self._plain(done.err))

    def _plain(self, text: str) -> str:
        text = _USAGE.sub("", _TIME.sub("", _FRAMES.sub("", "\n" + text)))
        text = text.replace(self.bootstrap, "{broker}")
        text = text.replace(self.bootstrap.rpartition(":")[2], "{port}")
        text = _REPARTITION.sub(r"\1...", _UUID.sub("{uuid}", _MEMBER_ID.sub("{member}", text)))
        return "\n".join(sorted(line.rstrip() for line in text.splitlines() if line.strip()))

    def outcomes(self) -> dict[str, Outcome]:
        """Return the outcomes of all calls by line number and call."""
        said: dict[str, Outcome] = {}
        with_members, without_members = sections()
        with self.prepared():
            said |= {f"{number}: {line}": self.play(line) for number, line in with_members}
        for line in (
            *(f"consumer --describe --group {group} --state" for group in ("new", "mixed", "old")),
            "share --describe --group queue --state",
            "streams --describe --group word-count --state",
        ):
            self._wait(line, "Empty")
        return said | {f"{number}: {line}": self.play(line) for number, line in without_members}

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Keep the groups' members running."""
        self._write()
        self.play(
            "configs --alter --entity-type groups --entity-name queue "
            "--add-config share.auto.offset.reset=earliest"
        )
        with ExitStack() as stack:
            for program in (
                ("ShareMember.java", self.bootstrap, "queue", "bills", "obey"),
                ("WordCount.java", self.bootstrap, str(self._directory / "state"), "streams"),
            ):
                stack.enter_context(running(*program, log=self._directory / program[0]))
            with polled([ended := self._joined("ended", CONSUMER)]):
                self._wait_until_read("ended")
            ended.close()
            sizes: Counter[str] = Counter()
            for group, settings in MEMBERS:
                consumer = self._joined(group, settings)
                stack.callback(consumer.close)
                stack.enter_context(polled([consumer]))
                sizes[group] += 1
                self._wait_until_shared(group, sizes[group])
                self._wait_until_read(group)
            self._wait("share --describe --group queue", r"bills\s+0\s+\d+\s+0\b")
            self._wait("streams --describe --group word-count", r"(?s)(lines +\d +0\b.*?){2}")
            self._wait("streams --describe --group word-count --state", "Stable")
            yield

    def _write(self) -> None:
        """Create the topics with records whose timestamps are one second apart."""
        server = {"bootstrap.servers": self.bootstrap}
        topics = [NewTopic(name, count, 1) for name, count in PARTITIONS.items()]
        admin = AdminClient(server)
        for created in admin.create_topics(topics).values():
            created.result(30)
        producer = confluent_kafka.Producer(server)
        for number in range(15):
            when = FIRST_TIMESTAMP_MS + 1000 * number
            producer.produce("orders", b"accept", partition=number % 5, timestamp=when)
            producer.produce("bills", b"accept", timestamp=when)
            producer.produce("lines", b"one two", partition=number % 2, timestamp=when)
        assert not producer.flush(30)

    def _joined(self, group: str, settings: dict[str, str]) -> confluent_kafka.Consumer:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 100,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        consumer.subscribe(["orders"])
        return consumer

    def _wait_until_shared(self, group: str, size: int) -> None:
        row = rf"(rdkafka +{PARTITIONS['orders'] // size}\b.*)"
        line = f"consumer --describe --group {group}"
        self._wait(f"{line} --members", f"(?s){row}{{{size}}}")
        self._wait(f"{line} --state", "Stable")

    def _wait_until_read(self, group: str) -> None:
        self._wait(f"consumer --describe --group {group}", r"(?s)(orders\s+\d\s+3\s+3.*){5}")

    def _wait(self, line: str, pattern: str) -> None:
        seen: list[Outcome] = []

        def is_there() -> bool:
            seen[:] = [self.play(line)]
            return re.search(pattern, seen[0].out) is not None

        try:
            wait_for(is_there, line, 60, 0.2)
        except AssertionError as error:
            raise AssertionError(f"{error}: {seen}") from None


def sections() -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Return the calls with members and the calls without members, each with line numbers."""
    parts: list[list[tuple[int, str]]] = []
    for number, line in enumerate(CALLS.read_text().splitlines(), 1):
        if line.startswith("["):
            parts.append([])
        elif not line.startswith("#"):
            parts[-1].append((number, line))
    with_members, without_members = parts
    return with_members, without_members


@contextmanager
def running(program: str, *arguments: str, log: Path) -> Iterator[None]:
    """Run a program of this directory, and kill it at the end of the block."""
    command = java(str(HERE / program), *arguments)
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output)
    try:
        yield
    finally:
        process.kill()
        process.communicate()


@pytest.mark.nightly
@pytest.mark.real_time
def test_the_tools_say_the_same_of_ours_as_of_kafka(tmp_path: Path) -> None:
    """Each call prints the same and ends with the same exit code."""
    with OfficialTools() as tools:
        kafka = Kafka(tmp_path, {**SETTINGS, **OF_KAFKA})
        try:
            kafka.start()
            expected = Side(kafka.bootstrap_servers, tmp_path / "theirs", tools).outcomes()
        finally:
            kafka.end()
        with Broker(SETTINGS) as broker:
            said = Side(broker.bootstrap_servers, tmp_path / "ours", tools).outcomes()
            assert not broker.log_lines("[error"), broker.log[-3000:]
    differing = [
        f"{line}\n  expected {expected[line]}\n  ours     {outcome}"
        for line, outcome in said.items()
        if outcome != expected[line]
    ]
    assert not differing, "\n".join(differing)
