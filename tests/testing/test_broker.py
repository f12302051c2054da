"""Broker: a process that comes and goes, with the settings that were asked for."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import confluent_kafka.admin
import kafka
import pytest

from coordinator_server.testing import Broker, BrokerError
from tests.machine import slowness
from tests.support import ROOT, cpu_seconds, wait_for
from tests.testing.support import is_alive, wait_for_end


def setting(broker: Broker, name: str) -> str:
    """The value of a setting of a broker, as a client is told it."""
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    resource = confluent_kafka.admin.ConfigResource("BROKER", "1")
    (future,) = admin.describe_configs([resource]).values()
    return str(future.result(10)[name].value)


def test_a_context_manager_starts_and_stops() -> None:
    """The broker is there inside, and neither it nor its data afterwards."""
    with Broker() as broker:
        pid = broker.pid
        directory = Path(broker.control.call("GET", "/brokers")["data_directory"])
        assert is_alive(pid)
        assert directory.is_dir()
        assert broker.get_bootstrap_server() == broker.bootstrap_servers
        assert broker.bootstrap_servers.startswith("127.0.0.1:")
        with kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("orders", b"1").get(10)
    assert not is_alive(pid)
    assert not directory.exists()
    assert "broker.stopped" in broker.log
    with pytest.raises(BrokerError, match="not started"):
        broker.topics()


async def test_an_async_context_manager_does_the_same() -> None:
    """The loop goes on while the broker starts and stops."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0.001)

    counting = asyncio.create_task(count())
    async with Broker() as broker:
        pid = broker.pid
        await broker.aio.produce("orders", "a")
        assert [one.value for one in await broker.aio.consume("orders")] == [b"a"]
    counting.cancel()
    assert not is_alive(pid)
    assert turns > 10


@pytest.mark.parametrize(
    ("given", "keywords"),
    [
        ({"num.partitions": 3, "auto.create.topics.enable": False}, {}),
        (["num.partitions=3", "auto.create.topics.enable=false"], {}),
        ((), {"num_partitions": 3, "auto_create_topics_enable": False}),
        ("num.partitions=7", {"num_partitions": 3, "auto_create_topics_enable": False}),
    ],
)
def test_settings_have_kafkas_names(given: object, keywords: dict[str, int]) -> None:
    """A mapping, NAME=VALUE, keywords: all the same to the broker."""
    with Broker(given, **keywords) as broker:  # type: ignore[arg-type]  # as users do
        assert setting(broker, "num.partitions") == "3"
        assert setting(broker, "auto.create.topics.enable") == "false"
        assert setting(broker, "group.initial.rebalance.delay.ms") == "0"
        broker.create_topic("made")
        assert broker.topics() == {"made": 3}
        with pytest.raises(BrokerError, match="there is no topic asked, but made"):
            broker.produce("asked", "x")


def test_lists_become_what_kafka_writes() -> None:
    """A list or tuple as a value is joined by commas."""
    with Broker({"log.cleanup.policy": ("compact", "delete")}) as broker:
        assert setting(broker, "log.cleanup.policy") == "compact,delete"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num.partitions": "many"}, "num.partitions: 'many' is not a number"),
        ({"group.max.size": 0}, "group.max.size"),
    ],
)
def test_a_bad_setting_is_named(settings: dict[str, str | int], words: str) -> None:
    """`start` fails with the broker's own line, and nothing is left."""
    broker = Broker(settings)
    with pytest.raises(BrokerError, match=words):
        broker.start()
    assert not broker.is_running
    with pytest.raises(ValueError, match=r"NAME=VALUE, not 'num\.partitions'"):
        Broker(["num.partitions"])


def test_the_environment_of_the_application_is_not_the_brokers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """KAFKA_... variables are for the code under test; the broker does not take them."""
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "5")
    monkeypatch.setenv("KAFKA_LISTENERS", "nonsense")
    with Broker() as broker:
        broker.create_topic("orders")
        assert broker.topics() == {"orders": 1}


def test_a_file_of_the_users_is_not_taken_for_the_brokers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the tests run there may be modules of any name."""
    for name in ("storage", "protocol", "uvloop", "cramjam"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken')")
    monkeypatch.chdir(tmp_path)
    with Broker() as broker:
        broker.produce("orders", "x")


def test_restart_keeps_address_and_data(tmp_path: Path) -> None:
    """With a `data_dir` records and offsets are there again, at the same port."""
    with Broker(data_dir=tmp_path / "data") as broker:
        address, pid = broker.bootstrap_servers, broker.pid
        broker.produce("orders", "a", "b")
        broker.restart()
        assert (broker.bootstrap_servers, broker.pid != pid) == (address, True)
        assert [one.value for one in broker.consume("orders", 2)] == [b"a", b"b"]
    assert (tmp_path / "data").is_dir()


def test_kill_is_a_crash(tmp_path: Path) -> None:
    """The process ends without a word; `start` brings back what had been acknowledged."""
    with Broker(data_dir=tmp_path / "data") as broker:
        broker.produce("orders", "a")
        pid = broker.pid
        broker.kill()
        assert not is_alive(pid)
        assert not broker.is_running
        assert "broker.stopping" not in broker.log
        broker.start()
        assert [one.value for one in broker.consume("orders")] == [b"a"]


def test_kill_without_a_data_dir_leaves_nothing() -> None:
    """The data went with the process, its directory too."""
    with Broker() as broker:
        broker.produce("orders", "a")
        directory = Path(broker.control.call("GET", "/brokers")["data_directory"])
        broker.kill()
        assert not directory.exists()
        broker.start()
        assert broker.topics() == {}


def test_several_brokers_in_one_process() -> None:
    """broker.count: all addresses are told, and a reset brings back those that were stopped."""
    with Broker(broker_count=3) as broker:
        assert len(broker.bootstrap_servers.split(",")) == 3
        broker.control.call("POST", "/brokers/2/stop")
        broker.produce("orders", "a")
        broker.reset()
        states = [one["state"] for one in broker.control.call("GET", "/brokers")["brokers"]]
        assert states == ["running"] * 3
        assert broker.topics() == {}
        broker.restart()
        assert len(broker.bootstrap_servers.split(",")) == 3


def test_stop_and_start_may_be_repeated() -> None:
    """Starting what runs and stopping what does not is nothing."""
    broker = Broker()
    broker.stop()
    broker.kill()
    broker.start()
    pid = broker.pid
    broker.start()
    assert broker.pid == pid
    broker.stop()
    broker.stop()
    assert not is_alive(pid)


def test_the_log_is_there_to_be_read() -> None:
    """What the broker writes, as text; a level of debug shows more."""
    with Broker(log_level="debug") as broker:
        before = broker.log_size
        broker.produce("orders", "a")
        wait_for(lambda: "topic.created" in broker.log_since(before), "the event in the log")
        assert "control.listening" not in broker.log_since(before)
        with kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers):
            pass
        wait_for(lambda: "connection.opened" in broker.log, "the event of level debug")


def test_nothing_is_left_by_a_process_that_does_not_stop_it() -> None:
    """A script that forgets to stop its broker leaves neither process nor files."""
    script = """
from coordinator_server.testing import Broker
broker = Broker()
broker.start()
print(broker.pid, broker.control.call("GET", "/brokers")["data_directory"], flush=True)
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    pid, directory = ended.stdout.split()
    wait_for_end(int(pid))
    assert not Path(directory).exists()
    assert not list(Path(tempfile.gettempdir()).glob("coordinator-server-log-*"))


def test_watch_stdin_needs_something_that_ends() -> None:
    """A file can be watched for nothing; that is said at the start, exit code 1."""
    command = [sys.executable, "-m", "coordinator_server", "serve", "--ephemeral", "--watch-stdin"]
    with Path(__file__).open("rb") as stdin:
        ended = subprocess.run(
            [*command, "--listener", "127.0.0.1:0"],
            cwd=ROOT,
            stdin=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.returncode == 1
    assert "--watch-stdin: standard input has to be a pipe" in ended.stderr


@pytest.mark.alone
def test_a_start_costs_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 300 ms of CPU, on both sides, until the first helper is answered.

    The best of a few starts counts: the first one has to write byte code.
    """
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    costs: list[float] = []
    while len(costs) < 10 and (not costs or costs[-1] > 0.3):
        own = os.times()
        with Broker() as broker:
            broker.topics()
            now = os.times()
            cost = cpu_seconds(broker.pid) + now.user + now.system - own.user - own.system
            costs.append(cost / slowness())
    assert min(costs) <= 0.3, costs


class TestUnittest(unittest.TestCase):
    """The way of those who use unittest."""

    kafka: Broker

    @classmethod
    def setUpClass(cls) -> None:
        cls.kafka = cls.enterClassContext(Broker())

    def setUp(self) -> None:
        self.kafka.reset()

    def test_first(self) -> None:
        """A test that leaves something behind."""
        assert self.kafka.topics() == {}
        self.kafka.produce("orders", "a")

    def test_second(self) -> None:
        """A test that must not see it."""
        assert self.kafka.topics() == {}
        self.kafka.produce("orders", "a")


def test_a_process_with_many_open_files_may_start_a_broker() -> None:
    """Descriptors above 1023, as in tests that hold a thousand connections."""
    with contextlib.ExitStack() as files:
        for _ in range(1100):
            files.enter_context(Path(os.devnull).open("rb"))
        with Broker() as broker:
            assert broker.is_running
