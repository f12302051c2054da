"""kafka-transactions.sh prints the same as Kafka's tool for the same broker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from coordinator_server.kafka_tools.script_names import BY_NAME, run_script
from protocol.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.batch import Record, build_batch
from tests.clients.readers import read_with_confluent_kafka
from tests.clients.support import create_topic
from tests.faults.client import Client
from tests.support import Broker, free_port

SECONDS = 20
PARTITION = ("--topic", "t", "--partition", "0")
PRODUCER = ("--producer-id", "7", "--producer-epoch", "0", "--coordinator-epoch", "0")
SETTINGS = {"transaction.partition.verification.enable": "false"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with an open and a committed transaction in t-0."""
    with Broker(SETTINGS) as broker:
        create_topic(broker.bootstrap_servers, "t", 2)
        for name in ("open", "done"):
            producer = confluent_kafka.Producer(
                {
                    "bootstrap.servers": broker.bootstrap_servers,
                    "transactional.id": name,
                    "log_level": 0,
                }
            )
            producer.init_transactions(SECONDS)
            producer.begin_transaction()
            producer.produce("t", name, partition=0)
            assert producer.flush(SECONDS) == 0
            if name == "done":
                producer.commit_transaction(SECONDS)
        yield broker
        # Kill the broker, because during a clean stop the producer could still end its transaction.
        broker.kill()


def run(
    broker: Broker, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, list[str], str]:
    """Return exit code, output lines with timestamps replaced by T, and standard error."""
    code = run_script(
        BY_NAME["kafka-transactions"],
        ["--bootstrap-server", broker.bootstrap_servers, *arguments],
    )
    shown = capsys.readouterr()
    return code, re.sub(r"\b\d{13}\b", "T", shown.out).splitlines(), shown.err


def cells(lines: list[str]) -> list[list[str]]:
    """Return the cells of a table without its header."""
    return [[cell.strip() for cell in line.split("\t")[:-1]] for line in lines[1:]]


def test_list_and_its_filters(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    """`list` prints all ids, and filters by pattern and by duration."""
    code, lines, _ = run(broker, capsys, "list")
    assert code == 0
    assert lines[0].split() == ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"]
    assert sorted(row[0::3] for row in cells(lines)) == [
        ["done", "CompleteCommit"],
        ["open", "Ongoing"],
    ]
    _, lines, _ = run(broker, capsys, "list", "--transactional-id-pattern", "o.*")
    assert [row[0] for row in cells(lines)] == ["open"]
    _, lines, _ = run(broker, capsys, "list", "--duration-filter", "3600000")
    assert cells(lines) == []
    code, lines, error = run(broker, capsys, "list", "--transactional-id-pattern", "(")
    assert (code, lines) == (1, [])
    assert error.endswith(
        "Failed to list transactions: ListTransactions request sent to broker 1 failed with an "
        "unexpected exception. Enable debug logging for additional detail.\n"
    )


def test_describe(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    """`describe` prints state, times and partitions of an id, and fails for an unknown id."""
    _, lines, _ = run(broker, capsys, "describe", "--transactional-id", "open")
    ((coordinator, name, _, epoch, state, timeout, start, _, partitions),) = cells(lines)
    assert (coordinator, name, epoch, state, timeout, start, partitions) == (
        *("1", "open", "0", "Ongoing", "60000", "T", "t-0"),
    )
    code, lines, error = run(broker, capsys, "describe", "--transactional-id", "nope")
    assert (code, lines) == (1, [])
    assert error.startswith("Failed to describe transaction state of transactional-id `nope`: ")


def test_a_transaction_is_aborted_by_hand(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    """After `abort` of an open transaction, read_committed consumers read beyond it."""
    _, lines, _ = run(broker, capsys, "describe-producers", "--topic", "t", "--partition", "0")
    opened = [row[5] for row in cells(lines) if row[5] != "None"]
    assert opened == ["0"]
    assert read_with_confluent_kafka(broker.bootstrap_servers, "t") == []
    where = ("--topic", "t", "--partition", "0", "--start-offset")
    code, _, error = run(broker, capsys, "abort", *where, "77")
    assert code == 1
    assert error == (
        "Could not find any open transactions starting at offset 77 on partition t-0\n"
    )
    # The coordinator knows the open transaction, so this transaction does not count as hanging.
    limits = ("--max-transaction-timeout", "0")
    assert cells(run(broker, capsys, "find-hanging", "--topic", "t", *limits)[1]) == []
    assert run(broker, capsys, "abort", *where, "0") == (0, [], "")
    values = [value for _, _, value in read_with_confluent_kafka(broker.bootstrap_servers, "t")]
    assert values == [b"done"]


def test_a_transaction_is_ended_by_its_id(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    """forceTerminateTransaction aborts an open transaction and fences its producer."""
    name = ("--transactionalId", "open")
    assert run(broker, capsys, "forceTerminateTransaction", *name) == (0, [], "")
    _, lines, _ = run(broker, capsys, "describe", "--transactional-id", "open")
    assert cells(lines)[0][3:5] == ["2", "Empty"]


def test_a_hanging_transaction_is_found_and_aborted(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    """`find-hanging` lists a transaction that no coordinator knows, and `abort` ends it."""
    records = build_batch(
        [Record(0, 1_700_000_000_000, b"k", b"hangs")],
        producer_id=4242,
        producer_epoch=3,
        base_sequence=0,
        transactional=True,
    )
    data = PartitionProduceData(index=1, records=records.to_bytes())
    request = ProduceRequest(
        transactional_id="lost",
        acks=-1,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(name="t", partition_data=[data])],
    )
    client = Client(broker.address)
    answer = client.ask(request, 11).responses[0].partition_responses[0]
    assert answer.error_code == 0
    client.close()
    (held,) = [
        one
        for one in broker.control.call("GET", "/transactions")["held_back"]
        if one["partition"] == 1
    ]
    assert held["reason"] == (
        "a transaction of producer 4242 that no coordinator knows wrote last at "
        "2023-11-14 22:13:20 UTC, holds back t-1 at offset 0"
    )
    _, lines, _ = run(broker, capsys, "find-hanging", "--broker-id", "1")
    assert [row[:6] for row in cells(lines)] == [["t", "1", "4242", "3", "-1", "0"]]
    where = ("--topic", "t", "--partition", "1", "--start-offset", "0")
    assert run(broker, capsys, "abort", *where) == (0, [], "")
    assert cells(run(broker, capsys, "find-hanging", "--broker-id", "1")[1]) == []


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("find-hanging",), "requires either --topic or --broker-id"),
        (("find-hanging", "--broker-id", "1", "--partition", "0"), "requires --topic"),
        (("abort", "--topic", "t", "--partition", "0"), "must be identified either"),
        (
            ("abort", "--topic", "t", "--partition", "0", "--producer-id", "1"),
            "Missing required argument --producer-epoch",
        ),
        (("describe",), "error: argument --transactional-id is required"),
        ((), "error: too few arguments"),
        (("nonsense",), "invalid choice: 'nonsense'"),
    ],
)
def test_mistakes(
    broker: Broker, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], error: str
) -> None:
    """A mistake ends with exit code 1 and a line that names what is missing."""
    code, lines, shown = run(broker, capsys, *arguments)
    assert (code, lines) == (1, [])
    assert error in shown


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        (("list",), "listTransactions(api=METADATA)"),
        (("describe", "--transactional-id", "x"), "describeTransactions(api=FIND_COORDINATOR)"),
        (("describe-producers", *PARTITION), "describeProducers(api=METADATA)"),
        (
            ("describe-producers", *PARTITION, "--broker-id", "1"),
            "describeProducers(api=DESCRIBE_PRODUCERS)",
        ),
        (("abort", *PARTITION, "--start-offset", "0"), "describeProducers(api=METADATA)"),
        (("abort", *PARTITION, *PRODUCER), "abortTransaction(api=METADATA)"),
        (("find-hanging", "--topic", "t"), "listNodes"),
        (("find-hanging", "--broker-id", "1"), "listTopics"),
        (("forceTerminateTransaction", "--transactionalId", "x"), "fenceProducer(api=FIND"),
    ],
)
def test_no_broker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], call: str
) -> None:
    """Without a broker the error is Kafka's TimeoutException with the name of the failed call."""
    config = tmp_path / "hasty.properties"
    config.write_text("default.api.timeout.ms=100\n")
    where = ("--bootstrap-server", f"127.0.0.1:{free_port()}", "--command-config", str(config))
    code = run_script(BY_NAME["kafka-transactions"], [*where, *arguments])
    shown = capsys.readouterr()
    assert (code, shown.out) == (1, "")
    assert f": Timed out waiting for a node assignment. Call: {call}" in shown.err


def test_a_broker_that_does_not_lead(capsys: pytest.CaptureFixture[str]) -> None:
    """describe-producers with --broker-id fails at once if that broker is not the leader."""
    with Broker({"broker.count": "2"}) as brokers:
        create_topic(brokers.bootstrap_servers, "t", 2)
        where = ("describe-producers", "--topic", "t", "--broker-id", "1", "--partition")
        results = [run(brokers, capsys, *where, str(index)) for index in (0, 1)]
    (code, lines, error) = next(result for result in results if result[0])
    assert sorted(result[0] for result in results) == [0, 1]
    assert (code, lines) == (1, [])
    assert "Not leader error in `DescribeProducers` response for partition t-" in error
    assert re.search(
        r"\norg.apache.kafka.common.errors.NotLeaderOrFollowerException: .*\n"
        r"Failed to describe producers for partition (t-.) on broker 1: Failed to describe active"
        r" producers for partition \1 on brokerId 1\. Enable debug",
        error,
    )
