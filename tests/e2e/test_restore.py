"""A running broker goes back to a snapshot, on the same ports, and its clients carry on."""

from __future__ import annotations

import asyncio
import errno
import gc
import random
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import kafka
import pytest

from coordinator_server import cluster_restore
from coordinator_server.apis import alter_client_quotas
from coordinator_server.clock.broker_clock import SystemClock
from coordinator_server.cluster import Cluster, Handover
from coordinator_server.cluster_reset import reset
from coordinator_server.cluster_restore import NotRestoredError, ServedCluster
from coordinator_server.composition import compose
from coordinator_server.config.config import Config
from coordinator_server.control import snapshots
from coordinator_server.control.local import LocalCall, LocalConnection, ask
from coordinator_server.control.shapes.cluster import SnapshotToRestore
from coordinator_server.net.acceptor import Acceptor, StartError
from coordinator_server.security.principal import ANONYMOUS
from coordinator_server.steps import Steps
from coordinator_server.testing import BrokerError
from coordinator_server.testing.api import ControlApi
from coordinator_server.tools.restore import restore
from coordinator_server.topics.manager import new_topic_id
from protocol.apis.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlteredQuotaEntity,
    AlterQuotaEntry,
    QuotaOperation,
)
from protocol.registry import SPEC_BY_NAME
from storage.local_disk import LocalDisk
from storage.partition_log import PartitionLog
from storage.replacement import REPLACED, STAGED, commit
from storage.security_state import CHANGES_FILE
from tests.support import API_VERSIONS_REQUEST, Broker, wait_for


def values(broker: Broker, topic: str, count: int) -> list[bytes | None]:
    """Return the values of the first records of a topic with one partition."""
    return [record.value for record in broker.consume(topic, count)]


def taken(broker: Broker, directory: Path) -> SnapshotToRestore:
    """Take a snapshot; return the body of the request that restores it."""
    return {"directory": broker.api.snapshot({"directory": str(directory)})["directory"]}


@pytest.mark.parametrize(("count", "is_ephemeral"), [(1, True), (3, False)])
def test_everything_is_as_in_the_snapshot(tmp_path: Path, count: int, is_ephemeral: bool) -> None:
    """Topics, records, groups, configs, quotas and the cluster id; the addresses stay."""
    data = None if is_ephemeral else tmp_path / "data"
    with Broker(broker_count=count, data_dir=data) as broker:
        api, addresses = broker.api, broker.bootstrap_servers
        broker.create_topic("orders", 1)
        broker.create_topic("gone", 1)
        broker.produce("orders", "a", "b")
        place: Any = {"topic": "orders", "partition": 0, "offset": 1}
        api.offsets_set("app", {"offsets": [place]})
        api.settings_alter({"set": {"log.retention.ms": "900000"}})
        api.quotas_alter({"entity": {"user": "bob"}, "set": {"producer_byte_rate": 1e6}})
        before = [api.cluster_show()["cluster_id"], broker.topics(), api.quotas_list()]
        snapshot = taken(broker, tmp_path / "snapshot")
        broker.produce("orders", "c", "d")
        broker.create_topic("later", 2)
        api.topics_delete("gone")
        api.offsets_set("app", {"offsets": [place | {"offset": 3}]})
        api.settings_alter({"set": {"log.retention.ms": "800000"}})
        api.quotas_alter({"entity": {"user": "bob"}, "unset": ["producer_byte_rate"]})
        if count > 1:
            api.brokers_stop(2)
            api.partitions_move("orders", 0, to=3)
        epoch = api.topics_partitions("orders")["partitions"][0]["leader_epoch"]
        for _ in range(2):
            done = api.restore(snapshot)
            assert done["outage_ms"] < 1000
            assert (
                broker.bootstrap_servers
                == addresses
                == ",".join(listener[0].partition("://")[2] for listener in done["listeners"])
            )
            after = [api.cluster_show()["cluster_id"], broker.topics(), api.quotas_list()]
            assert after == before
            assert api.cluster_show()["running"] == count
            assert values(broker, "orders", 2) == [b"a", b"b"]
            (orders,) = api.topics_partitions("orders")["partitions"]
            assert (orders["end_offset"], orders["leader_epoch"] > epoch) == (2, True)
            assert broker.committed("app") == {("orders", 0): 1}
            settings = api.settings_list(filter="log.retention.ms")["configs"]
            assert settings[0]["value"] == "900000"
            broker.produce("orders", "other")
            assert api.topics_show("orders")["partitions"][0]["end_offset"] == 3
        if data is not None:
            broker.restart()
            assert values(broker, "orders", 3) == [b"a", b"b", b"other"]
            assert {
                path.name for path in data.iterdir() if path.name.startswith("restore")
            } == set()


def test_users_and_acls_are_those_of_the_snapshot(tmp_path: Path) -> None:
    """An ACL created after the snapshot is gone, clients authenticate as before."""
    with Broker(security="sasl_plaintext") as broker:
        api = broker.api
        before, snapshot = api.acls_list(), taken(broker, tmp_path / "snapshot")
        acl: Any = {
            "principal": "User:late",
            "operation": "READ",
            "resource_type": "TOPIC",
            "resource_name": "t",
        }
        api.acls_create({"acls": [acl]})
        assert api.acls_list() != before
        api.restore(snapshot)
        assert api.acls_list() == before
        client = confluent_kafka.Producer(broker.client_config("confluent", "admin"))
        assert client.list_topics(timeout=10).brokers
        source = f"directory={snapshot['directory']}"
        assert broker.log_lines("cluster.restored", source, "remote=127.0.0.1")
        api.reset()
        assert broker.log_lines("cluster.reset", "remote=127.0.0.1")


class _Clients:
    """Two producers and two consumers of a topic, each in a thread, until `stop`."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._stopping = threading.Event()
        self.seen: dict[str, int] = {}
        self.errors: list[str] = []
        work = (self._kafka_producer, self._kafka, self._confluent_producer, self._confluent)
        self._threads = [threading.Thread(target=one, daemon=True) for one in work]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End all clients."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(30)

    def wait_for_progress(self) -> None:
        """Wait until every client has sent or received some more."""
        self.seen = {}
        wait_for(
            lambda: self.errors or (len(self.seen) == 4 and min(self.seen.values()) > 10),
            "all clients go on",
            40,
        )
        assert self.errors == []

    def _count(self, name: str) -> None:
        self.seen[name] = self.seen.get(name, 0) + 1

    def _kafka_producer(self) -> None:
        producer = kafka.KafkaProducer(
            bootstrap_servers=self._bootstrap, enable_idempotence=False, retries=100
        )
        while not self._stopping.wait(0.02):
            try:
                producer.send("orders", b"k", partition=0).get(30)
                self._count("kafka producer")
            except Exception as error:
                self.errors.append(repr(error))
        producer.close()

    def _kafka(self) -> None:
        consumer = kafka.KafkaConsumer(
            "orders", bootstrap_servers=self._bootstrap, group_id="classic", **_fast("_")
        )
        while not self._stopping.is_set():
            for records in consumer.poll(100).values():
                for _ in records:
                    self._count("kafka")
        consumer.close()

    def _confluent_producer(self) -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": self._bootstrap})

        def done(error: Any, _: Any) -> None:
            self._count("confluent producer")
            if error is not None:
                self.errors.append(str(error))

        while not self._stopping.wait(0.02):
            producer.produce("orders", b"c", partition=0, on_delivery=done)
            producer.poll(0)
        producer.flush(10)

    def _confluent(self) -> None:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "new",
                "group.protocol": "consumer",
                **_fast("."),
            }
        )
        consumer.subscribe(["orders"])
        while not self._stopping.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                self._count("confluent")
        consumer.close()


def _fast(dot: str) -> dict[str, Any]:
    settings = {"auto.offset.reset": "latest", "auto.commit.interval.ms": 100}
    return {name.replace(".", dot): value for name, value in settings.items()}


def test_a_restore_without_a_running_broker(tmp_path: Path) -> None:
    """All brokers start, and the list of closed connections is empty."""
    with Broker() as broker:
        broker.create_topic("orders", 1)
        producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        producer.send("orders", b"a").get(20)
        snapshot = taken(broker, tmp_path / "snapshot")
        producer.close()
        wait_for(lambda: broker.api.connections_list(closed=True)["connections"], "the producer")
        broker.api.brokers_stop(1)
        broker.api.restore(snapshot)
        assert broker.api.cluster_show()["running"] == 1
        assert broker.api.connections_list(closed=True)["connections"] == []
        assert values(broker, "orders", 1) == [b"a"]


@pytest.mark.real_time
def test_clients_carry_on(tmp_path: Path) -> None:
    """Producers and consumers, classic and KIP-848, go on by themselves."""
    with Broker() as broker:
        broker.create_topic("orders", 1)
        clients = _Clients(broker.bootstrap_servers)
        try:
            clients.wait_for_progress()
            snapshot = taken(broker, tmp_path / "snapshot")
            for _ in range(2):
                clients.wait_for_progress()
                broker.api.restore(snapshot)
                clients.wait_for_progress()
        finally:
            clients.stop()


def test_requests_that_wait_end_and_events_end(tmp_path: Path) -> None:
    """A parked fetch ends with its connection; listeners to events get `reset` when they return."""
    with Broker() as broker:
        broker.create_topic("orders", 1)
        snapshot = taken(broker, tmp_path / "snapshot")
        consumer = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
        consumer.assign([kafka.TopicPartition("orders", 0)])
        parked = threading.Thread(target=partial(consumer.poll, 20_000), daemon=True)
        parked.start()
        events: list[str] = []

        def listen() -> None:
            events.extend(event["type"] for event in broker.api.events())

        listening = threading.Thread(target=listen, daemon=True)
        listening.start()
        wait_for(lambda: events, "the first event")
        wait_for(lambda: broker.api.connections_list()["connections"], "the consumer")
        ids = [one["id"] for one in broker.api.connections_list()["connections"]]
        broker.api.restore(snapshot)
        listening.join(10)
        assert not listening.is_alive()
        now = [one["id"] for one in broker.api.connections_list()["connections"]]
        assert not set(ids) & set(now)
        broker.produce("orders", "x")
        parked.join(25)
        assert not parked.is_alive()
        consumer.close()


def test_other_requests_get_503_or_their_answer(tmp_path: Path) -> None:
    """Requests during a restore fail only with 503, a second restore also with 409.

    Changes in progress leave nothing behind.
    """
    with Broker() as broker:
        api = broker.api
        broker.create_topic("orders", 1)
        snapshot = taken(broker, tmp_path / "snapshot")
        stopping, found = threading.Event(), list[tuple[str, int | None, str]]()
        restored: list[Any] = []

        def repeat(name: str, request: Callable[[int], object]) -> None:
            number = 0
            while not stopping.is_set():
                number += 1
                try:
                    request(number)
                except BrokerError as error:
                    found.append((name, error.status, str(error)))

        def limit(number: int) -> None:
            change: Any = {"entity": {"user": f"u{number}"}, "set": {"producer_byte_rate": 1e6}}
            api.quotas_alter(change)

        def create(number: int) -> None:
            api.topics_create(f"t{number}", {"partitions": 50})

        requests: dict[str, Callable[[int], object]] = {
            "topics": lambda _: broker.topics()["orders"],
            "limit": limit,
            "create": create,
            "first": lambda _: restored.append(api.restore(snapshot)),
            "second": lambda _: restored.append(api.restore(snapshot)),
        }
        threads = [
            threading.Thread(target=repeat, args=one, daemon=True) for one in requests.items()
        ]
        for thread in threads:
            thread.start()
        wait_for(lambda: len(restored) >= 4, "some restores", 60)
        stopping.set()
        for thread in threads:
            thread.join(20)
        statuses = {(name in ("first", "second"), status) for name, status, _ in found}
        assert statuses <= {(True, 409), (True, 503), (False, 503)}, found
        assert (True, 409) in statuses
        assert (False, 503) in statuses
        api.restore(snapshot)
        assert broker.topics() == {"orders": 1}
        assert api.quotas_list()["quotas"] == []


def test_a_snapshot_that_cannot_be_restored_changes_nothing(tmp_path: Path) -> None:
    """The broker serves on, and the staged copy is removed."""
    with Broker(data_dir=tmp_path / "data") as broker:
        broker.create_topic("orders", 1)
        broker.produce("orders", "a")
        snapshot = tmp_path / "snapshot"
        body = taken(broker, snapshot)
        with pytest.raises(BrokerError, match="is no snapshot") as error:
            broker.api.restore({"directory": str(tmp_path / "missing")})
        assert error.value.status == 400
        with pytest.raises(BrokerError, match="not an absolute path"):
            broker.api.restore({"directory": "relative"})
        properties = snapshot / "meta.properties"
        text = properties.read_text()
        properties.write_text(text.replace("node.id=1", "node.id=7"))
        with pytest.raises(BrokerError, match="belongs to node 7, not 1"):
            broker.api.restore(body)
        properties.write_text(text)
        (log,) = snapshot.glob("orders-0/*.log")
        log.write_bytes(log.read_bytes()[:-1])
        with pytest.raises(BrokerError):
            broker.api.restore(body)
        broker.produce("orders", "b")
        assert values(broker, "orders", 2) == [b"a", b"b"]
        assert not (tmp_path / "data" / STAGED).exists()


def test_a_start_finishes_a_restore_that_was_killed(tmp_path: Path) -> None:
    """After the commit a start serves the new data; before it, the old. `snapshot` refuses."""
    data, snapshot = tmp_path / "data", tmp_path / "snapshot"
    with Broker(data_dir=data) as broker:
        broker.create_topic("orders", 1)
        broker.produce("orders", "a")
        body = taken(broker, snapshot)
        broker.produce("orders", "b")
        broker.kill()
        restore(snapshot, data / STAGED)
        broker.start()
        assert values(broker, "orders", 2) == [b"a", b"b"]
        broker.kill()
        restore(snapshot, data / STAGED)
        commit(LocalDisk(), str(data))
        broker.start()
        assert values(broker, "orders", 1) == [b"a"]
        assert broker.api.topics_show("orders")["partitions"][0]["end_offset"] == 1
        for _ in range(5):
            broker.produce("orders", "c")
            thread = threading.Thread(target=restore_for_ever, args=(broker.api, body))
            thread.start()
            wait_for(lambda: list(data.glob("restore.*")), "a restore")
            time.sleep(random.random() / 2)
            broker.kill()
            thread.join()
            broker.start()
            end_offset = broker.api.topics_show("orders")["partitions"][0]["end_offset"]
            assert len(broker.consume("orders", end_offset)) == end_offset


def test_a_stop_during_a_restore_leaves_complete_data(tmp_path: Path) -> None:
    """SIGTERM ends a restore or lets it end: the next start serves all of the old or new data."""
    data = tmp_path / "data"
    with Broker(data_dir=data) as broker:
        broker.create_topic("orders", 1)
        broker.produce("orders", "a")
        body = taken(broker, tmp_path / "snapshot")
        for _ in range(4):
            broker.produce("orders", "b")
            thread = threading.Thread(target=restore_for_ever, args=(broker.api, body))
            thread.start()
            wait_for(lambda: list(data.glob("restore.*")), "a restore")
            time.sleep(random.random() / 2)
            broker.stop()
            thread.join()
            assert {path.name for path in data.glob("restore.*")} <= {REPLACED}
            broker.start()
            wait_for(lambda: not list(data.glob("restore.*")), "the end of the replaced data")
            end_offset = broker.api.topics_show("orders")["partitions"][0]["end_offset"]
            assert end_offset in (1, 2)
            assert len(broker.consume("orders", end_offset)) == end_offset
            broker.api.restore(body)


def restore_for_ever(api: ControlApi, body: Any) -> None:
    """Restore a snapshot until the broker is killed."""
    with suppress(BrokerError, OSError):
        while True:
            api.restore(body)


# --- inside the process ---------------------------------------------------------------------------


def served_cluster(
    directory: Path, hosts: Sequence[str] = ("127.0.0.1",), **settings: str
) -> ServedCluster:
    """Return a cluster with its data in a directory, and without topics."""

    def new_cluster(handover: Handover | None) -> Cluster:
        settings.update({"log.dirs": str(directory), "listeners": f"PLAINTEXT://{hosts[0]}:0"})
        return compose(Config(overrides=settings), SystemClock(), handover=handover)

    return ServedCluster(new_cluster)


def stage(directory: Path, listeners: str | None = None, **configs: str) -> None:
    """Stage data with the topic `new` and dynamic configs in a data directory."""
    staged = Config(overrides={"log.dirs": str(directory / STAGED)})
    logs = compose(staged, SystemClock()).shared.logs
    logs.create_topic("new", new_topic_id(), 1, {})
    configs |= {} if listeners is None else {"listeners": listeners}
    if configs:
        logs.catalogue.put_broker_configs({"1": configs})
    logs.close()


@pytest.mark.parametrize("is_stopping", [False, True])
def test_a_restore_whose_request_ends_owns_the_staged_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_stopping: bool
) -> None:
    """The request ends while the restore waits for the cluster; the copy stays until it ends.

    A process that stops does not begin a restore, and removes the copy.
    """

    async def copied(*_: object) -> list[str]:
        stage(tmp_path)
        return []

    async def directory(_: object) -> Path:
        return tmp_path / "snapshot"

    async def run() -> None:
        served = served_cluster(tmp_path)
        await served.listen()
        state = SimpleNamespace(served=served, restoring=None)
        request: Any = SimpleNamespace(state=state, cluster=served.cluster, asker={})
        async with served.cluster.changing:
            asking = asyncio.create_task(snapshots.restore(request))
            while not (tmp_path / STAGED).exists():
                await asyncio.sleep(0.01)
            asking.cancel()
            await asyncio.wait((asking,))
            assert (tmp_path / STAGED / "topics.json").exists()
            served.is_stopping = is_stopping
        former = served.cluster
        while served.cluster is former and not is_stopping:
            await asyncio.sleep(0.01)
        await served.stop()
        assert not (tmp_path / STAGED).exists()

    monkeypatch.setattr(snapshots, "_output_of", copied)
    monkeypatch.setattr(snapshots, "_directory", directory)
    asyncio.run(run())
    assert ('"new"' in (tmp_path / "topics.json").read_text()) != is_stopping


def test_an_error_before_the_commit_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without free descriptors the restore fails, and the broker answers as before."""

    def failing(_: Acceptor) -> socket.socket:
        raise OSError(errno.EMFILE, "too many open files")

    async def run() -> None:
        served = served_cluster(tmp_path)
        (address,) = await served.listen()
        stage(tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(Acceptor, "duplicate", failing)
            with pytest.raises(NotRestoredError, match="too many"):
                await served.restore()
        assert not list(tmp_path.glob("restore.*"))
        with socket.create_connection((address.host, address.port), 5) as client:
            client.sendall(API_VERSIONS_REQUEST)
            assert await asyncio.to_thread(client.recv, 4)
        assert not served.failed.done()
        await served.stop()

    asyncio.run(run())


def test_work_of_the_former_cluster_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host name that resolves late, a long request and a stop of a broker change nothing."""
    may_resolve, steps = threading.Event(), list[None]()

    def resolved(hosts: Any) -> dict[str, str]:
        may_resolve.wait(20)
        return dict.fromkeys(hosts, "127.0.0.1")

    def endless() -> Steps:
        while True:
            steps.append(None)
            yield

    async def run() -> None:
        served = served_cluster(tmp_path)
        await served.listen()
        former = served.cluster
        request: Any = SimpleNamespace(
            cluster=former, principal=ANONYMOUS, client_host="/127.0.0.1", user=None
        )
        entity = AlteredQuotaEntity(entity_type="ip", entity_name="late.example")
        limit = QuotaOperation(key="connection_creation_rate", value=5.0, remove=False)
        message = AlterClientQuotasRequest(
            entries=[AlterQuotaEntry(entity=[entity], ops=[limit])], validate_only=False
        )
        asking = asyncio.create_task(ask(request, "AlterClientQuotas", message))
        call = LocalCall(LocalConnection(request, 1), SPEC_BY_NAME["AlterClientQuotas"], message, 1)
        call.run(endless())
        await asyncio.sleep(0.05)
        stopping = list[asyncio.Task[None]]()

        async def prepare() -> None:
            asking.cancel()
            stopping.append(asyncio.create_task(former.stop_broker(1)))

        served.prepare = prepare
        stage(tmp_path)
        await served.restore()
        may_resolve.set()
        count = len(steps)
        await asyncio.wait_for(stopping[0], 5)
        with pytest.raises(StartError, match="the cluster is closed"):
            await former.start_broker(1)
        with pytest.raises(StartError, match="the cluster is closed"):
            await reset(former)
        await asyncio.sleep(0.1)
        assert len(steps) == count
        assert (former.local_work, list(former.brokers)) == (set(), [1])
        assert not (tmp_path / CHANGES_FILE).exists()
        await served.stop()

    monkeypatch.setattr(alter_client_quotas, "_resolved", resolved)
    asyncio.run(run())


def test_a_taken_port_of_a_stopped_broker_changes_nothing(tmp_path: Path) -> None:
    """The restore fails before the commit; with the port free again all brokers start."""

    async def run() -> None:
        served = served_cluster(tmp_path, **{"broker.count": "2"})
        await served.listen()
        await served.cluster.stop_broker(2)
        (address,) = served.cluster.servers.addresses(2)
        stage(tmp_path)
        with (
            socket.create_server((address.host, address.port)),
            pytest.raises(NotRestoredError, match="cannot listen"),
        ):
            await served.restore()
        assert list(served.cluster.brokers) == [1]
        stage(tmp_path)
        await served.restore()
        assert list(served.cluster.brokers) == [1, 2]
        assert served.cluster.servers.addresses(2) == (address,)
        await served.stop()

    asyncio.run(run())


def test_a_taken_port_of_the_snapshot_changes_nothing(tmp_path: Path) -> None:
    """The restore fails before the commit; with the port free the broker listens there."""

    async def run() -> None:
        served = served_cluster(tmp_path)
        (address,) = await served.listen()
        with socket.create_server(("127.0.0.1", 0)) as taken_socket:
            port = taken_socket.getsockname()[1]
            wanted = f"PLAINTEXT://127.0.0.1:{port}"
            stage(tmp_path, wanted)
            with pytest.raises(NotRestoredError, match="cannot listen"):
                await served.restore()
        assert served.cluster.servers.addresses(1) == (address,)
        stage(tmp_path, wanted)
        await served.restore()
        assert str(served.cluster.servers.addresses(1)[0]) == wanted
        socket.create_connection(("127.0.0.1", port), 5).close()
        await served.stop()

    asyncio.run(run())


def test_a_key_store_that_is_missing_here_changes_nothing(tmp_path: Path) -> None:
    """A snapshot whose TLS settings cannot be used is refused with the reason."""

    async def run() -> None:
        served = served_cluster(
            tmp_path, **{"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL"}
        )
        (address,) = await served.listen()
        stage(
            tmp_path,
            f"{address},TLS://127.0.0.1:0",
            **{"listener.name.tls.ssl.keystore.location": "/none.p12"},
        )
        with pytest.raises(NotRestoredError, match="the key store needs its password"):
            await served.restore()
        assert not list(tmp_path.glob("restore.*"))
        assert not served.failed.done()
        assert served.cluster.servers.addresses(1) == (address,)
        await served.stop()

    asyncio.run(run())


def test_replaced_data_is_kept_until_the_new_data_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the directory of the replaced data; a restore that succeeds removes it."""

    def failing(*_: object) -> None:
        raise RuntimeError("no sockets")

    async def run() -> None:
        served = served_cluster(tmp_path)
        await served.listen()
        served.cluster.topics.create("old", 1, {})
        stage(tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(Cluster, "listen", failing)
            with pytest.raises(RuntimeError):
                await served.restore()
        kept = tmp_path / REPLACED
        assert f"the replaced data is in {kept}" in str(served.failed.exception())
        assert '"old"' in (kept / "topics.json").read_text()
        await served.stop()
        again = served_cluster(tmp_path)
        assert kept.exists()
        await again.listen()
        while kept.exists():
            await asyncio.sleep(0.01)
        assert again.cluster.topics.topic("new") is not None
        await again.stop()

    asyncio.run(run())


def test_leader_epochs_rise_also_without_stored_leadership(tmp_path: Path) -> None:
    """The snapshot is that of a process with one broker, and the cluster has several."""

    async def run() -> None:
        served = served_cluster(tmp_path, **{"broker.count": "2"})
        await served.listen()
        epochs = []
        for _ in range(3):
            stage(tmp_path)
            await served.restore()
            topic = served.cluster.topics.topic("new")
            assert topic is not None
            (partition,) = topic.partitions
            await served.cluster.stop_broker(partition.leader_id)
            epochs.append(partition.epoch)
        assert epochs == sorted(set(epochs))
        await served.stop()

    asyncio.run(run())


def test_a_listener_with_another_host_moves(tmp_path: Path) -> None:
    """The new settings have the same port and another host: the broker listens there only."""

    async def run() -> None:
        hosts = ["127.0.0.1"]
        served = served_cluster(tmp_path, hosts)
        (address,) = await served.listen()
        hosts[0] = "127.0.0.2"
        stage(tmp_path)
        await served.restore()
        (now,) = served.cluster.servers.addresses(1)
        assert now.host == "127.0.0.2"
        socket.create_connection((now.host, now.port), 5).close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((address.host, address.port), 5)
        await served.stop()

    asyncio.run(run())


@pytest.mark.parametrize("step", ["prepare", "close", "use"])
def test_an_error_after_the_commit_ends_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Also a bug: the process must not run on without a cluster."""

    def failing(*_: object) -> None:
        raise RuntimeError(f"a bug in {step}")

    async def run() -> None:
        served = served_cluster(tmp_path)
        await served.listen()
        stage(tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(Cluster if step == "close" else served, step, failing)
            with pytest.raises(RuntimeError):
                await served.restore()
        assert f"a bug in {step}" in str(served.failed.exception())
        await served.stop()

    asyncio.run(run())


def test_closed_clusters_are_freed_and_the_ports_stay_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No closed cluster stays in memory; a client that connects meanwhile is served."""

    async def run() -> None:
        config = Config(
            overrides={"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}
        )
        connected: list[socket.socket] = []

        def new_cluster(handover: Handover | None) -> Cluster:
            if handover is not None:
                connected.append(socket.create_connection((address.host, address.port), 5))
            return compose(config, SystemClock(), handover=handover)

        monkeypatch.setattr(cluster_restore, "_COLLECT_SECONDS", 0.01)
        served = ServedCluster(new_cluster)
        (address,) = await served.listen()
        for _ in range(3):
            staged = Config(overrides={"log.dirs": str(tmp_path / STAGED)})
            compose(staged, SystemClock()).shared.logs.close()
            await served.restore()
            client = connected.pop()
            client.sendall(API_VERSIONS_REQUEST)
            assert await asyncio.to_thread(client.recv, 4)
            client.close()
        await asyncio.sleep(0.1)
        gc.unfreeze()
        gc.collect()
        clusters = [one for one in gc.get_objects() if isinstance(one, Cluster)]
        assert [one.config.data_directory for one in clusters].count(str(tmp_path)) == 1
        await served.stop()

    asyncio.run(run())


def test_partitions_of_a_closed_cluster_are_freed_without_a_collection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory of the former cluster is freed in steps; a large process collects no garbage."""

    def collect() -> int:
        raise AssertionError("a full collection takes too long with many objects")

    async def run() -> None:
        served = served_cluster(tmp_path)
        await served.listen()
        topic = served.cluster.topics.create("old", 100, {})
        assert sum(partition.log.log_end_offset for partition in topic.partitions) == 0
        del topic
        assert open_logs() == 100
        stage(tmp_path)
        gc.disable()
        await served.restore()
        while open_logs():
            await asyncio.sleep(0.1)
        await served.stop()

    def open_logs() -> int:
        logs = (one for one in gc.get_objects() if isinstance(one, PartitionLog))
        return sum(log.topic == "old" for log in logs)

    monkeypatch.setattr(cluster_restore, "_COLLECT_SECONDS", 0.01)
    monkeypatch.setattr(cluster_restore, "_MOST_COLLECTED", 1_000)
    monkeypatch.setattr(gc, "collect", collect)
    monkeypatch.setattr(gc, "get_freeze_count", lambda: 2_000)
    monkeypatch.setattr(gc, "freeze", lambda: None)
    try:
        asyncio.run(run())
    finally:
        gc.enable()


def test_data_that_cannot_be_served_ends_the_process(tmp_path: Path) -> None:
    """The error is in `failed`. An error before the commit changes nothing."""

    async def run() -> None:
        config = Config(
            overrides={"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}
        )
        served = ServedCluster(lambda handover: compose(config, SystemClock(), handover=handover))
        await served.listen()
        with pytest.raises(NotRestoredError):
            await served.restore()  # nothing is staged
        assert not served.failed.done()
        (tmp_path / STAGED).mkdir()
        (tmp_path / STAGED / "meta.properties").write_text("node.id=9\ncluster.id=x\nversion=1\n")
        with pytest.raises(StartError):
            await served.restore()
        assert "belongs to node 9" in str(served.failed.exception())
        await served.stop()

    asyncio.run(run())
