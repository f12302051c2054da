"""The broker without uvloop: on asyncio's own loop, and with only the features of Windows."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import kafka
import pytest

from coordinator_server.testing import process
from coordinator_server.testing.process import BrokerProcess
from tests.e2e.commands import COMMANDS, LIKE_WINDOWS
from tests.support import API_VERSIONS_REQUEST, ROOT, Broker, Serve, wait_for

IMPORTS_ALL = """
import importlib, pkgutil, sys
sys.path[:0] = [{root!r}, {root!r} + "/tests"]
from windows import become_windows
become_windows()
import coordinator_server, protocol, storage
names = [
    module.name
    for package in (coordinator_server, protocol, storage)
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    if not module.name.endswith("posix_disk")
]
for name in names:
    importlib.import_module(name)
print(len(names))
"""


@pytest.fixture(params=COMMANDS)
def broker(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Broker]:
    """A broker with a data directory, run by one of COMMANDS."""
    monkeypatch.setattr(process, "HAS_SIGNALS", request.param != "windows")
    started_by = partial(BrokerProcess, COMMANDS[request.param])
    monkeypatch.setattr("coordinator_server.testing.broker.BrokerProcess", started_by)
    with Broker(data_dir=tmp_path / "data") as started:
        yield started


def consumer_of(broker: Broker) -> kafka.KafkaConsumer:
    """Return a member of the group."""
    return kafka.KafkaConsumer(
        "orders",
        bootstrap_servers=broker.bootstrap_servers,
        group_id="app",
        auto_offset_reset="earliest",
        reconnect_backoff_max_ms=100,
    )


def produce(broker: Broker, *values: bytes) -> None:
    """Produce records with a client."""
    with kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for value in values:
            producer.send("orders", value).get(30)


def consume(consumer: kafka.KafkaConsumer, count: int) -> list[bytes]:
    """Return the next records, and commit their offsets."""
    values = [next(consumer).value for _ in range(count)]
    consumer.commit()
    return values


def test_a_group_and_its_client_outlive_restarts(broker: Broker) -> None:
    """Records and offsets survive a stop and a kill, and clients reconnect."""
    produce(broker, b"first", b"second")
    consumer = consumer_of(broker)
    assert consume(consumer, 2) == [b"first", b"second"]
    for end, value in ((broker.stop, b"after a stop"), (broker.kill, b"after a kill")):
        end()
        broker.start()
        produce(broker, value)
        assert consume(consumer, 1) == [value]
    consumer.close()
    assert broker.committed("app") == {("orders", 0): 4}


def test_topics_are_deleted_compacted_and_reset(broker: Broker) -> None:
    """Files can be renamed and removed while clients use the broker."""
    configs = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0.01"}
    broker.create_topic("latest", configs=configs)
    for number in range(100):
        broker.produce("latest", b"x" * 1000, key=b"%d" % (number % 10))
    broker.clock.advance(1)
    broker.produce("latest", "rolls", key="rolls")
    with kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        for _ in range(3):
            produce(broker, b"first")
            admin.delete_topics(["orders"])
    before = len(broker.consume("latest", None))
    broker.clock.advance(60)
    wait_for(lambda: len(broker.consume("latest", None)) < before, "a compaction")
    broker.reset()
    assert broker.topics() == {}
    broker.produce("orders", "first")
    broker.stop()
    assert not broker.log_lines("[error"), broker.log


def test_it_ends_with_the_process_that_started_it(broker: Broker) -> None:
    """The end of standard input stops the broker cleanly."""
    assert broker._process._process is not None
    stdin = broker._process._process.stdin
    assert stdin is not None
    stdin.write(b"what comes before is of no use")
    stdin.close()
    assert broker._process.wait(30) == 0
    assert "end of standard input" in broker.log


def test_many_connections_at_once(broker: Broker) -> None:
    """Many simultaneous connections are accepted and served, even while others close."""
    for _ in range(2):
        wires = [broker.connect() for _ in range(150)]
        for wire in wires:
            wire.send(API_VERSIONS_REQUEST)
        assert all(wire.receive() for wire in wires)
        for wire in wires:
            wire.socket.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_where_the_loop_takes_none(number: int) -> None:
    """Signals stop the broker cleanly on a loop without signal handlers, like that of Windows."""
    with Serve("--ephemeral", command=LIKE_WINDOWS) as broker:
        broker.signal(number)
        assert broker.wait() == 0


def test_a_directory_in_use_is_refused_by_the_locks_of_windows(tmp_path: Path) -> None:
    """A second process on the same directory prints one line and ends with exit code 1."""
    with Serve("--data-dir", str(tmp_path), command=LIKE_WINDOWS):
        second = Serve("--data-dir", str(tmp_path), command=LIKE_WINDOWS)
        assert second.run() == 1
        assert second.log.count("\n") == 1
        assert "is in use by another broker" in second.log


def test_nothing_is_left_of_an_ephemeral_broker(tmp_path: Path) -> None:
    """An ephemeral broker has no file open when its directory is removed."""
    environment = {"TMPDIR": str(tmp_path)}
    with Serve("--ephemeral", environment=environment, command=LIKE_WINDOWS) as broker:
        with broker.connect() as wire:
            assert wire.ask(API_VERSIONS_REQUEST)
        assert broker.stop() == 0
    assert list(tmp_path.iterdir()) == []


def test_every_module_can_be_imported_on_windows() -> None:
    """No module imports a module that Windows lacks."""
    script = IMPORTS_ALL.format(root=str(ROOT))
    command = [sys.executable, "-P", "-c", script]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) > 200
