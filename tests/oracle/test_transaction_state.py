"""`__transaction_state` and its partitions are interchangeable between our broker and Kafka.

The same requests to our broker and to a Kafka write the same transaction log. Kafka's dump tool
reads our log. A Kafka with our files continues with our transactional ids, and our broker with
Kafka's files continues with Kafka's ids.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from protocol.apis.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from protocol.apis.describe_transactions import DescribeTransactionsRequest
from protocol.apis.end_txn import EndTxnRequest
from protocol.apis.find_coordinator import FindCoordinatorRequest
from protocol.apis.init_producer_id import InitProducerIdRequest
from protocol.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.batch import Record, build_batch, iterate_records
from protocol.batch_header import iterate_batches
from protocol.errors import ErrorCode
from protocol.transaction_log import decode_transaction_key, decode_transaction_value
from tests.clients.readers import Records, read_with_confluent_kafka
from tests.faults.client import Client
from tests.oracle.kafka_process import Kafka, dump_log_segments
from tests.support import Broker, address_of, wait_for

pytestmark = pytest.mark.nightly

SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "auto.create.topics.enable": "false",
}
RETRIED = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
}
TIMEOUT_SECONDS = 20
V1, V2 = 4, 5
"""EndTxn versions of producers with transactions v1 and v2."""


class Producer:
    """A raw transactional producer that remembers its id, epoch and sequence numbers."""

    def __init__(self, bootstrap: str, transactional_id: str, version: int) -> None:
        self.transactional_id = transactional_id
        self.version = version
        self.producer_id = self.producer_epoch = -1
        self._sequence = 0
        self._client = Client(address_of(bootstrap))

    def _ask(self, error_of: Callable[[Any], int], request: Any, version: int) -> Any:
        end = time.monotonic() + TIMEOUT_SECONDS
        while True:
            response = self._client.ask(request, version)
            if error_of(response) not in RETRIED or time.monotonic() > end:
                assert error_of(response) == 0, ErrorCode(error_of(response)).name
                return response
            time.sleep(0.02)

    def init(self) -> None:
        """Send InitProducerId, like a new instance of the producer."""
        self._ask(
            lambda response: int(response.error_code),
            FindCoordinatorRequest(key=self.transactional_id, key_type=1),
            2,
        )
        response = self._ask(
            lambda response: int(response.error_code),
            InitProducerIdRequest(
                transactional_id=self.transactional_id, transaction_timeout_ms=60_000
            ),
            4 if self.version == V1 else 5,
        )
        self.producer_id, self.producer_epoch = response.producer_id, response.producer_epoch
        self._sequence = 0

    def send(self, *partitions: int) -> None:
        """Send a record to partitions of "t"."""
        if self.version == V1:
            topic = AddPartitionsToTxnTopic(name="t", partitions=list(partitions))
            self._ask(
                lambda response: int(
                    response.results_by_topic_v3_and_below[0]
                    .results_by_partition[0]
                    .partition_error_code
                ),
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=self.transactional_id,
                    v3_and_below_producer_id=self.producer_id,
                    v3_and_below_producer_epoch=self.producer_epoch,
                    v3_and_below_topics=[topic],
                ),
                3,
            )
        for partition in partitions:
            batch = build_batch(
                [Record(0, int(time.time() * 1000), b"k", b"%d" % self.producer_epoch)],
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                base_sequence=0,
                transactional=True,
            )
            data = PartitionProduceData(index=partition, records=batch.to_bytes())
            self._ask(
                lambda response: int(response.responses[0].partition_responses[0].error_code),
                ProduceRequest(
                    transactional_id=self.transactional_id,
                    acks=-1,
                    timeout_ms=10_000,
                    topic_data=[TopicProduceData(name="t", partition_data=[data])],
                ),
                11 if self.version == V1 else 12,
            )

    def end(self, *, commits: bool) -> None:
        """Commit or abort the transaction."""
        response = self._ask(
            lambda response: int(response.error_code),
            EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                committed=commits,
            ),
            self.version,
        )
        if self.version == V2:
            self.producer_id, self.producer_epoch = response.producer_id, response.producer_epoch
        self.settle()

    def settle(self) -> str:
        """Wait until no commit or abort is in progress, and return the state.

        Kafka answers before it writes the markers.
        """
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])

        def state() -> str:
            return str(self._client.ask(request, 0).transaction_states[0].transaction_state)

        wait_for(lambda: not state().startswith("Prepare"), "the markers are written")
        return state()


def use(bootstrap: str) -> None:
    """Commit, abort and fence; leave a transaction of each version open."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for made in admin.create_topics([NewTopic("t", 3, 1)]).values():
        made.result(TIMEOUT_SECONDS)
    for name, version in (("v1", V1), ("v2", V2)):
        producer = Producer(bootstrap, name, version)
        producer.init()
        producer.send(0, 1)
        producer.end(commits=True)
        producer.send(0)
        producer.end(commits=False)
        producer.send(2)
        fencing = Producer(bootstrap, name, version)
        fencing.init()
        fencing.send(0, 2)
        fencing.end(commits=True)
        if version == V2:
            fencing.end(commits=False)  # an abort without records only raises the epoch
        left_open = Producer(bootstrap, f"{name}-open", version)
        left_open.init()
        left_open.send(1)


def state_records(data: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return the `__transaction_state` records by transactional id, without ids and times."""
    records: dict[str, list[tuple[Any, ...]]] = {}
    for path in sorted((data / "__transaction_state-0").glob("*.log")):
        contents = path.read_bytes()
        for header in iterate_batches(contents):
            for record in iterate_records(contents, header):
                assert record.key is not None
                assert record.value is not None
                name = decode_transaction_key(record.key).transactional_id
                value, version = decode_transaction_value(record.value)
                partitions = value.transaction_partitions
                fields = (
                    version,
                    value.producer_epoch,
                    value.transaction_status,
                    value.transaction_timeout_ms,
                    value.client_transaction_version,
                    value.previous_producer_id,
                    value.next_producer_id,
                    value.transaction_start_timestamp_ms == -1,
                    None
                    if partitions is None
                    else sorted((one.topic, sorted(one.partition_ids)) for one in partitions),
                    header.producer_id,
                    header.base_sequence,
                )
                records.setdefault(name, []).append(fields)
    return records


def markers(data: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return the batches of the partitions of "t": kinds, epochs, control records."""
    batches: dict[str, list[tuple[Any, ...]]] = {}
    for index in range(3):
        for path in sorted((data / f"t-{index}").glob("*.log")):
            contents = path.read_bytes()
            batches[f"t-{index}"] = [
                (
                    header.is_control,
                    header.is_transactional,
                    header.producer_epoch,
                    header.base_sequence,
                    [(record.key, record.value) for record in iterate_records(contents, header)],
                )
                for header in iterate_batches(contents)
            ]
    return batches


class Used(NamedTuple):
    """A stopped Kafka, and our data directory, both after the same requests."""

    kafka: Kafka
    ours: Path
    read: Records


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Used]:
    """Yield both brokers after they have run the script.

    Ours is killed before it is stopped, so that a restart must find the written markers.
    """
    ours = tmp_path_factory.mktemp("ours") / "data"
    with Broker(SETTINGS, data_dir=ours) as broker:
        use(broker.bootstrap_servers)
        broker.kill()
        broker.start()
        read = read_with_confluent_kafka(broker.bootstrap_servers, "t")
        broker.stop()
    kafka = Kafka(tmp_path_factory.mktemp("theirs"), SETTINGS)
    try:
        kafka.start()
        use(kafka.bootstrap_servers)
        assert len(read_with_confluent_kafka(kafka.bootstrap_servers, "t")) == len(read)
        kafka.stop()
        yield Used(kafka, ours, read)
    finally:
        kafka.end()


def test_the_records_are_kafkas(used: Used) -> None:
    """Each state record has the same version, epoch, partitions and batch form."""
    ours, theirs = state_records(used.ours), state_records(used.kafka.data)
    assert theirs.keys() == ours.keys() == {"v1", "v2", "v1-open", "v2-open"}
    for name, records in theirs.items():
        assert ours[name] == records, name


def test_the_markers_are_kafkas(used: Used) -> None:
    """The control batches are equal except for ids and times."""
    assert markers(used.ours) == markers(used.kafka.data)


def test_kafkas_dump_tool_reads_ours(used: Used) -> None:
    """The tool decodes the transaction log, logs with markers, indexes and producer snapshots."""
    logs = sorted((used.ours / "__transaction_state-0").glob("*.log"))
    shown = dump_log_segments(logs, "--transaction-log-decoder")
    assert shown.count("transactionLastUpdateTimestampMs") == 36
    suffixes = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    files = [
        path
        for path in sorted(used.ours.glob("t-*/*"))
        if path.suffix in suffixes and path.stat().st_size
    ]
    assert {path.suffix for path in files} >= {".log", ".txnindex", ".snapshot"}
    shown = dump_log_segments(files, "--deep-iteration")
    assert "endTxnMarker: COMMIT" in shown
    assert "endTxnMarker: ABORT" in shown


def take_over(source: Path, target: Path) -> None:
    """Replace the logs of the partitions in `target` by the logs in `source`."""
    for directory in (*target.glob("t-*"), target / "__transaction_state-0"):
        for path in directory.iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        for log in (source / directory.name).glob("*.log"):
            shutil.copy(log, directory)
    for path in (*target.glob("*checkpoint"), target / ".kafka_cleanshutdown"):
        path.unlink(missing_ok=True)


def go_on(bootstrap: str, read: Records) -> None:
    """Check that records are unchanged, open transactions end, and all ids can be used."""
    assert read_with_confluent_kafka(bootstrap, "t") == read
    for name in ("v1", "v2", "v1-open", "v2-open"):
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0}
        )
        producer.init_transactions(TIMEOUT_SECONDS)
        producer.begin_transaction()
        producer.produce("t", key=b"on", value=name, partition=0)
        producer.commit_transaction(TIMEOUT_SECONDS)
    after = read_with_confluent_kafka(bootstrap, "t")
    gone_on = [value for _, key, value in after if key == b"on"]
    assert set(gone_on) == {b"v1", b"v1-open", b"v2", b"v2-open"}
    assert len(gone_on) == 4
    assert [one for one in after if one[1] != b"on"] == read


def test_we_go_on_with_kafkas_ids(used: Used, tmp_path: Path) -> None:
    """Our broker takes over all transactions, also open ones, from a copy of Kafka's directory."""
    data = tmp_path / "data"
    for name in ("t-0", "t-1", "t-2", "__transaction_state-0"):
        shutil.copytree(used.kafka.data / name, data / name)
    with Broker(SETTINGS, data_dir=data) as broker:
        read = read_with_confluent_kafka(broker.bootstrap_servers, "t")
        assert len(read) == len(used.read)
        go_on(broker.bootstrap_servers, read)


def test_kafka_goes_on_with_our_ids(used: Used) -> None:
    """Kafka takes over the transactions from our logs."""
    take_over(used.ours, used.kafka.data)
    used.kafka.start()
    go_on(used.kafka.bootstrap_servers, used.read)
    used.kafka.stop()
