"""Broker starts and stops a process with the requested settings."""

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
    """Return the value of a broker setting that DescribeConfigs reports."""
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    resource = confluent_kafka.admin.ConfigResource("BROKER", "1")
    (future,) = admin.describe_configs([resource]).values()
    return str(future.result(10)[name].value)


@pytest.mark.real_start
def test_a_context_manager_starts_and_stops() -> None:
    """The broker runs inside the block; after the block the process and its data are gone."""
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
    """The event loop continues to run while the broker starts and stops."""
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
    """A mapping, NAME=VALUE strings and keywords give the broker the same settings."""
    with Broker(given, **keywords) as broker:  # type: ignore[arg-type]  # wrong on purpose
        assert setting(broker, "num.partitions") == "3"
        assert setting(broker, "auto.create.topics.enable") == "false"
        assert setting(broker, "group.initial.rebalance.delay.ms") == "0"
        broker.create_topic("made")
        assert broker.topics() == {"made": 3}
        with pytest.raises(BrokerError, match="there is no topic asked, but made"):
            broker.produce("asked", "x")


def test_lists_become_what_kafka_writes() -> None:
    """A list or tuple given as a setting is joined with commas."""
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
    """`start` raises the broker's error message and leaves no process."""
    broker = Broker(settings)
    with pytest.raises(BrokerError, match=words):
        broker.start()
    assert not broker.is_running
    with pytest.raises(ValueError, match=r"NAME=VALUE, not 'num\.partitions'"):
        Broker(["num.partitions"])


@pytest.mark.real_start
def test_the_environment_of_the_application_is_not_the_brokers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broker ignores KAFKA_... variables, which belong to the code under test."""
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "5")
    monkeypatch.setenv("KAFKA_LISTENERS", "nonsense")
    with Broker() as broker:
        broker.create_topic("orders")
        assert broker.topics() == {"orders": 1}


@pytest.mark.real_start
def test_a_file_of_the_users_is_not_taken_for_the_brokers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker does not import modules from the working directory of the tests."""
    for name in ("storage", "protocol", "uvloop", "cramjam"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken')")
    monkeypatch.chdir(tmp_path)
    with Broker() as broker:
        broker.produce("orders", "x")


def test_restart_keeps_address_and_data(tmp_path: Path) -> None:
    """With a `data_dir` the broker restarts with its records, on the same port."""
    with Broker(data_dir=tmp_path / "data") as broker:
        address, pid = broker.bootstrap_servers, broker.pid
        broker.produce("orders", "a", "b")
        broker.restart()
        assert (broker.bootstrap_servers, broker.pid != pid) == (address, True)
        assert [one.value for one in broker.consume("orders", 2)] == [b"a", b"b"]
    assert (tmp_path / "data").is_dir()


def test_kill_is_a_crash(tmp_path: Path) -> None:
    """After a kill without a shutdown, `start` brings back the acknowledged records."""
    with Broker(data_dir=tmp_path / "data") as broker:
        broker.produce("orders", "a")
        pid = broker.pid
        broker.kill()
        assert not is_alive(pid)
        assert not broker.is_running
        assert "broker.stopping" not in broker.log
        broker.start()
        assert [one.value for one in broker.consume("orders")] == [b"a"]


@pytest.mark.real_start
def test_kill_without_a_data_dir_leaves_nothing() -> None:
    """A killed broker without a `data_dir` loses its data, and its directory is removed."""
    with Broker() as broker:
        broker.produce("orders", "a")
        directory = Path(broker.control.call("GET", "/brokers")["data_directory"])
        broker.kill()
        assert not directory.exists()
        broker.start()
        assert broker.topics() == {}


def test_several_brokers_in_one_process() -> None:
    """broker.count starts several brokers, and a reset restarts the stopped ones."""
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
    """Starting a running broker and stopping a stopped one have no effect."""
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
    """`log` returns the broker's log as text, and log level debug shows more events."""
    with Broker(log_level="debug") as broker:
        before = broker.log_size
        broker.produce("orders", "a")
        wait_for(lambda: "topic.created" in broker.log_since(before), "the event in the log")
        assert "control.listening" not in broker.log_since(before)
        with kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers):
            pass
        wait_for(lambda: "connection.opened" in broker.log, "the event of level debug")


def test_nothing_is_left_by_a_process_that_does_not_stop_it() -> None:
    """A script that forgets to stop its broker leaves neither a process nor files."""
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
    """--watch-stdin refuses a file, which never ends, at the start with exit code 1."""
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
    """A start and the first helper call take at most 300 ms of CPU time in both processes.

    The best of several starts counts, because the first one writes byte code.
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
    """A test class in the style of unittest."""

    kafka: Broker

    @classmethod
    def setUpClass(cls) -> None:
        cls.kafka = cls.enterClassContext(Broker())

    def setUp(self) -> None:
        self.kafka.reset()

    def test_first(self) -> None:
        """Leave a topic behind for the next test."""
        assert self.kafka.topics() == {}
        self.kafka.produce("orders", "a")

    def test_second(self) -> None:
        """The topic of the previous test is gone."""
        assert self.kafka.topics() == {}
        self.kafka.produce("orders", "a")


@pytest.mark.real_start
def test_a_process_with_many_open_files_may_start_a_broker() -> None:
    """A broker starts in a process with file descriptors above 1023."""
    with contextlib.ExitStack() as files:
        for _ in range(1100):
            files.enter_context(Path(os.devnull).open("rb"))
        with Broker() as broker:
            assert broker.is_running
