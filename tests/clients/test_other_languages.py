"""franz-go and kafkajs consume, transform, produce and commit while brokers are killed or move."""

from __future__ import annotations

import random
import subprocess
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import confluent_kafka
import pytest

from coordinator_server.client import Client
from protocol.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.apis.describe_groups import DescribeGroupsRequest
from protocol.hashing import partition_for
from tests.clients.conftest import SETTINGS
from tests.clients.copies import franz_go, kafka_go, kafkajs
from tests.clients.readers import read_with_confluent_kafka
from tests.clients.support import create_topic, set_group_configs
from tests.support import Broker, wait_for
from tests.tls_broker import serving
from tests.tls_conversations import Papers

pytestmark = pytest.mark.nightly

Command = tuple[list[str], dict[str, str]]

COUNT = 1500
KEYS = 20
PARTITIONS = 2
NAME = "copy"
"""Name of the group and transactional id."""
DEEDS = ((150, "broker"), (350, "program"), (600, "broker"), (850, "program"), (1100, "both"))
"""Number of copied records after which the broker or the program is killed."""
TRANSACTION_PARTITIONS = 50
COORDINATORS = ("__transaction_state", "__consumer_offsets")
CANNOT_GO_ON = 3
"""The exit code of a program whose producer has failed fatally."""
SECONDS = 120


class Copy:
    """A copy program that is restarted whenever it ends."""

    def __init__(
        self, command: Command, bootstrap: str, output: Path, names: Sequence[str] = (NAME,)
    ) -> None:
        words, self._environment = command
        self._words = [*words, bootstrap, "source", "target", *names]
        self._output = output
        self._process = self._start()

    def revive(self) -> None:
        """Restart the program if it ended after a fatal error."""
        code = self._process.poll()
        if code is not None:
            assert code == CANNOT_GO_ON, self.output
            self._process = self._start()

    def kill(self) -> None:
        """End the program with SIGKILL."""
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        """Start the program after `kill`."""
        self._process = self._start()

    @property
    def output(self) -> str:
        """Return the end of the program's output."""
        return self._output.read_text()[-3000:]

    def _start(self) -> subprocess.Popen[bytes]:
        with self._output.open("ab") as output:
            return subprocess.Popen(
                self._words, env=self._environment, stdout=output, stderr=output
            )


@pytest.mark.real_time
@pytest.mark.parametrize("build", [franz_go, kafkajs], ids=lambda build: build.__name__)
def test_every_record_is_copied_once(
    start_broker: Callable[..., Broker], tmp_path: Path, build: Callable[[Path], Command]
) -> None:
    """Every record is copied once although broker and program are killed during a transaction.

    The records of each key stay in order, and the group has committed the same number of records.
    """
    command = build(tmp_path)
    broker = start_broker()
    for topic in ("source", "target"):
        create_topic(broker.bootstrap_servers, topic, PARTITIONS)
    written = write(broker.bootstrap_servers)
    copy = Copy(command, broker.bootstrap_servers, tmp_path / "output")
    try:
        for so_far, victim in DEEDS:
            wait(copy, partial(is_open_after, broker, so_far), f"{so_far} are copied")
            if victim != "broker":
                copy.kill()
            if victim != "program":
                broker.kill()
                broker.start()
            if victim != "broker":
                copy.restart()
        wait(copy, lambda: copied(broker) == COUNT, "all are copied")
    finally:
        copy.kill()
    assert read(broker.bootstrap_servers) == expected(written)


@pytest.mark.real_time
@pytest.mark.parametrize(
    ("build", "topics"),
    [(franz_go, (*COORDINATORS, "target")), (kafkajs, COORDINATORS)],
    ids=["franz_go", "kafkajs"],
)
def test_coordinators_and_leaders_move(
    start_broker: Callable[..., Broker],
    tmp_path: Path,
    build: Callable[[Path], Command],
    topics: tuple[str, ...],
) -> None:
    """Every record is copied once, in order by key, while coordinators and leaders move.

    The coordinators of the transaction and of the group, then the leaders of the target, move to
    another of three brokers while a transaction is open. With kafkajs the leaders do not move: when
    kafkajs retries after an error of a former leader, it leaves out the brokers that have already
    answered (`sendMessages`), and with them the moved partitions. It loses the same records with
    Apache Kafka.
    """
    command = build(tmp_path)
    state_partition = partition_for(NAME, TRANSACTION_PARTITIONS)
    broker = start_broker(broker_count="3", offsets_topic_num_partitions="1")
    broker.control.call("POST", f"/groups/{NAME}/move?to=1")
    for topic in ("source", "target"):
        create_topic(broker.bootstrap_servers, topic, PARTITIONS)
    written = write(broker.bootstrap_servers)
    copy = Copy(command, broker.bootstrap_servers, tmp_path / "output")
    try:
        moves = [(topic, node_id) for node_id in (2, 3, 1) for topic in topics]
        for number, (topic, node_id) in enumerate(moves, 1):
            so_far = 140 * number
            wait(copy, partial(is_open_after, broker, so_far), f"{so_far} are copied")
            partition = state_partition if topic == "__transaction_state" else 0
            broker.control.call("POST", f"/partitions/{topic}/{partition}/move?to={node_id}")
        wait(copy, lambda: copied(broker) == COUNT, "all are copied")
    finally:
        copy.kill()
    assert read(broker.bootstrap_servers) == expected(written)


@pytest.mark.real_time
def test_two_members_of_the_consumer_protocol(
    start_broker: Callable[..., Broker], tmp_path: Path
) -> None:
    """Two franz-go members share the partitions as the broker assigns them (KIP-848).

    One member is killed while its transaction is open; the other copies the remaining records,
    every record once and in order by key.
    """
    command = franz_go(tmp_path)
    # No other producer uses the killed member's transactional id. Only the timeout can end its
    # transaction, so check timeouts often.
    broker = start_broker(transaction_abort_timed_out_transaction_cleanup_interval_ms="500")
    set_group_configs(broker.bootstrap_servers, NAME, {"consumer.session.timeout.ms": "3000"})
    for topic in ("source", "target"):
        create_topic(broker.bootstrap_servers, topic, PARTITIONS)
    with ExitStack() as stack:
        copies = []
        for member in ("one", "two"):
            copy = Copy(command, broker.bootstrap_servers, tmp_path / member, (member, NAME))
            stack.callback(copy.kill)
            copies.append(copy)
        killed, copy = copies
        wait(copy, lambda: shares(broker) == [1, 1], "each has a partition")
        written = write(broker.bootstrap_servers)
        wait(copy, lambda: state_of(broker, "one") == "Ongoing", "a transaction is open")
        killed.kill()
        wait(copy, lambda: shares(broker) == [PARTITIONS], "the other one has all of them")
        wait(copy, lambda: copied(broker) == COUNT, "all are copied")
        # Until the killed member's transaction ends, the records after it cannot be read.
        done = ("CompleteAbort", "CompleteCommit")
        wait(copy, lambda: state_of(broker, "one") in done, "no transaction is open")
    assert read(broker.bootstrap_servers) == expected(written)


def shares(broker: Broker) -> list[int]:
    """Return the number of partitions of each member, from ConsumerGroupDescribe."""
    request = ConsumerGroupDescribeRequest(group_ids=[NAME])
    with closing(Client(broker.bootstrap_servers)) as client:
        (group,) = client.ask(request, client.coordinator(NAME)).groups
    return [
        sum(len(topic.partitions) for topic in member.assignment.topic_partitions)
        for member in group.members
    ]


def state_of(broker: Broker, transactional_id: str) -> str:
    """Return the state of a transactional id; empty if the id is unknown."""
    transactions = broker.control.call("GET", "/transactions")["transactions"]
    return next(
        (one["state"] for one in transactions if one["transactional_id"] == transactional_id), ""
    )


@pytest.mark.real_time
@pytest.mark.parametrize("build", [franz_go, kafkajs], ids=lambda build: build.__name__)
def test_over_tls(tmp_path: Path, build: Callable[[Path], Command]) -> None:
    """Every record is copied once over TLS by a client with the required certificate."""
    words, environment = build(tmp_path)
    papers = Papers(tmp_path)
    papers.add("client")
    command = (words, {**environment, "TLS_DIRECTORY": str(tmp_path)})
    settings = {
        name.replace(".", "_"): SETTINGS[name]
        for name in ("group.initial.rebalance.delay.ms", "group.min.session.timeout.ms")
    }
    with serving(papers, **settings) as broker:
        plain, encrypted = (
            "{}:{}".format(*broker.addresses[name]) for name in ("PLAIN", "REQUIRED")
        )
        for topic in ("source", "target"):
            create_topic(plain, topic, PARTITIONS)
        written = write(plain)
        copy = Copy(command, encrypted, tmp_path / "output")
        try:
            wait(copy, lambda: read(plain) == expected(written), "all are copied")
        finally:
            copy.kill()
        assert broker.serve.log_lines("client.authenticated", "User:CN=client,O=Tests")


def write(bootstrap: str) -> dict[bytes, int]:
    """Fill the source with numbers that count up per key; return the number of records by key."""
    chosen = random.Random(1)
    written: dict[bytes, int] = defaultdict(int)
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for _ in range(COUNT):
        key = b"key-%d" % chosen.randrange(KEYS)
        producer.produce("source", key=key, value=b"%d" % written[key])
        written[key] += 1
    assert producer.flush(30) == 0
    return written


def expected(written: dict[bytes, int]) -> dict[bytes, list[bytes]]:
    """Return the expected values of the target topic by key."""
    return {key: [b"%d!" % number for number in range(count)] for key, count in written.items()}


def wait(copy: Copy, condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition while the program is restarted as needed."""

    def revived() -> bool:
        copy.revive()
        return condition()

    try:
        wait_for(revived, what, SECONDS)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{copy.output}") from None


def is_open_after(broker: Broker, count: int) -> bool:
    """Return whether `count` records are copied and the next transaction is open."""
    (transaction,) = broker.control.call("GET", "/transactions")["transactions"] or [{}]
    return copied(broker) >= count and transaction.get("state") == "Ongoing"


def copied(broker: Broker) -> int:
    """Return the number of records that the group has committed."""
    return sum(broker.committed(NAME).values())


def read(bootstrap: str) -> dict[bytes, list[bytes]]:
    """Return the committed values of the target topic by key."""
    values: dict[bytes, list[bytes]] = defaultdict(list)
    for partition in range(PARTITIONS):
        for _, key, value in read_with_confluent_kafka(bootstrap, "target", partition=partition):
            assert key is not None
            assert value is not None
            values[key].append(value)
    return values


@pytest.mark.real_time
def test_group_readers_of_kafka_go_start_before_their_topics(
    start_broker: Callable[..., Broker], tmp_path: Path
) -> None:
    """Each reader's metadata request creates its topic; then the reader gets a new record."""
    bootstrap = start_broker().bootstrap_servers
    command, environment = kafka_go(tmp_path)
    topics = [f"late-{number}" for number in range(6)]
    readers = [
        subprocess.Popen(
            [*command, bootstrap, topic, str(SECONDS)], env=environment, stdout=subprocess.PIPE
        )
        for topic in topics
    ]
    try:
        with closing(Client(bootstrap)) as client:
            wait_for(
                lambda: all(is_stable(client, topic) for topic in topics),
                "every group has read the metadata of its topic",
            )
        producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
        for topic in topics:
            producer.produce(topic, topic.encode())
        assert producer.flush(SECONDS) == 0
        for topic, reader in zip(topics, readers, strict=True):
            assert reader.communicate(timeout=SECONDS)[0].decode().strip() == topic
    finally:
        for reader in readers:
            reader.kill()
            reader.wait()


def is_stable(client: Client, group: str) -> bool:
    """Return whether the classic group has completed a rebalance."""
    request = DescribeGroupsRequest(groups=[group])
    (described,) = client.ask(request, client.coordinator(group)).groups
    return bool(described.group_state == "Stable")
