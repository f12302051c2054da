"""Starting, serving and stopping the real process: cost, exit codes, one clear line per mistake."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from benchmarks import load
from protocol.batch import Record, build_batch
from tests.machine import slowness
from tests.support import (
    API_VERSIONS_REQUEST,
    ROOT,
    Serve,
    Wire,
    connect,
    free_port,
    request,
    wait_for,
)

START_CPU_SECONDS = 0.250
IDLE_RESIDENT_MB = 60

DESCRIBE_GROUP = request(15, 0, b"\x00\x00\x00\x01\x00\x01g")


@pytest.mark.alone
def test_the_start_is_cheap() -> None:
    """A start takes at most 250 ms of CPU time, and the idle broker uses little memory.

    The best of several starts counts, because the first one writes byte code.
    """
    costs = []
    for _ in range(5):
        with Serve("--ephemeral", environment={"PYTHONDONTWRITEBYTECODE": ""}) as broker:
            costs.append(broker.cpu_seconds() / slowness())
            resident_mb = broker.resident_mb()
            assert broker.stop() == 0
        if costs[-1] <= START_CPU_SECONDS:
            break
    assert min(costs) <= START_CPU_SECONDS, costs
    assert resident_mb <= IDLE_RESIDENT_MB


def imported(*arguments: str, use: Callable[[Serve], object] = id) -> set[str]:
    """Return the modules that a process imports between start and stop, while it is in use."""
    command = [sys.executable, "-X", "importtime", "-m", "coordinator_server"]
    with Serve("--ephemeral", *arguments, command=command) as broker:
        use(broker)
        assert broker.stop() == 0
        lines = [line for line in broker.log.splitlines() if line.startswith("import time:")]
        return {line.rpartition("|")[2].strip() for line in lines}


def test_the_control_server_costs_nothing_unless_asked_for() -> None:
    """h11, the control server and the counts of requests are only imported with --http.

    Handlers and shapes of the control API are imported with the first request that needs them.
    """
    parts = {
        "h11",
        "coordinator_server.clock.virtual_clock",
        "coordinator_server.control.http",
        "coordinator_server.counting.counts",
        "coordinator_server.counting.connections",
    }
    without = imported()
    assert "coordinator_server.cluster" in without
    assert not parts & without
    with_control = imported("--http", "127.0.0.1:0")
    assert parts <= with_control
    # prometheus_client is imported only by the first scrape.
    assert "prometheus_client" not in without | with_control
    assert "coordinator_server.control.topics" not in with_control
    assert not [one for one in with_control if one.startswith("coordinator_server.control.shapes")]


def use_classic_group(broker: Serve) -> None:
    """Join, heartbeat, commit and fetch offsets as a classic member."""
    with load.client_of(broker) as client:
        load.ensure_topic(client)
        member = load.only_member(client, "group")
    for frame in (load.heartbeat(member), load.commit(member, 1, 5), load.offset_fetch(member, 1)):
        load.asked(broker, frame)


def test_new_kinds_of_groups_cost_nothing_without_a_group_of_them() -> None:
    """The modules of a newer group type are imported with the first group of that type."""
    group = "coordinator_server.core.groups"
    kinds = (f"{group}.consumer", f"{group}.share", f"{group}.streams", f"{group}.modern")
    others = (
        "coordinator_server.core.share_",
        "coordinator_server.coordinator.share_",
        "xxhash",
        "re2",
    )
    modules = imported("--set", "group.initial.rebalance.delay.ms=0", use=use_classic_group)
    assert f"{group}.classic.join_group" in modules
    # These modules belong to other group types, but explaining any rebalance needs them.
    modules -= {f"{group}.modern{name}" for name in ("", ".account", ".snapshot")}
    assert not [one for one in modules if one.startswith((*kinds, *others))]


@pytest.mark.real_start
def test_it_prints_one_line_and_answers() -> None:
    """Standard output is only `listening HOST:PORT`, and the broker answers there."""
    with Serve("--ephemeral") as broker:
        assert broker.output.startswith("listening 127.0.0.1:")
        with broker.connect() as wire:
            assert wire.ask(API_VERSIONS_REQUEST)[:6] == b"\x00\x00\x00\x05\x00\x00"
        assert broker.stop() == 0
        assert broker.output.count("\n") == 1


@pytest.fixture
def _sighup_ends() -> Iterator[None]:
    """Give child processes the default SIGHUP, even if the tests run under nohup."""
    inherited = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, inherited)


@pytest.mark.usefixtures("_sighup_ends")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.real_start
def test_a_signal_stops_cleanly(number: int) -> None:
    """SIGTERM, SIGINT and SIGHUP close the connections and end with exit code 0."""
    with Serve("--ephemeral") as broker, broker.connect() as wire:
        wire.ask(API_VERSIONS_REQUEST)
        broker.signal(number)
        assert wire.is_closed()
        assert broker.wait() == 0
        assert broker.log_lines("broker.stopped")


def test_nohup_keeps_it_running() -> None:
    """A SIGHUP that is ignored when the broker starts stays ignored."""
    shell = ("sh", "-c", 'trap "" HUP; exec "$0" "$@"', sys.executable, "-m", "coordinator_server")
    with Serve("--ephemeral", command=shell) as broker:
        broker.signal(signal.SIGHUP)
        with broker.connect() as wire:
            assert wire.ask(API_VERSIONS_REQUEST)
        assert broker.stop() == 0


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_standard_stream_may_be_closed(closed: str) -> None:
    """With closed standard streams, as a daemon may have, the broker serves and stops cleanly."""
    port = free_port()
    shell = (
        f'exec "$0" -m coordinator_server serve --ephemeral --listener 127.0.0.1:{port} {closed}'
    )
    process = subprocess.Popen(["sh", "-c", shell, sys.executable], cwd=ROOT)
    try:
        wait_for(lambda: is_listening(port), "the broker")
        process.terminate()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()


def test_a_data_directory_that_is_gone_is_named_at_the_stop(tmp_path: Path) -> None:
    """If the data directory is gone, the stop ends with one line and exit code 1."""
    with Serve("--data-dir", str(tmp_path / "data")) as broker:
        shutil.rmtree(tmp_path / "data")
        assert broker.stop() == 1
        assert "Traceback" not in broker.log
        (line,) = broker.log_lines("coordinator-server: the data directory could not be left")
        assert str(tmp_path / "data") in line


@pytest.mark.parametrize("limit", ["-n 64", "-Sn 64"])
def test_few_file_descriptors_are_enough_for_many_partitions(limit: str) -> None:
    """Logs use only part of the available file descriptors, and the soft limit is raised."""
    script = f'ulimit {limit}; exec "$0" "$@"'
    shell = ("bash", "-c", script, sys.executable, "-m", "coordinator_server")
    # Each partition has three files, so 60 partitions need more than 64 descriptors.
    partitions = 60
    with Serve("--ephemeral", "--set", f"num.partitions={partitions}", command=shell) as broker:
        (line,) = [
            line
            for line in Path(f"/proc/{broker.pid}/limits").read_text().splitlines()
            if line.startswith("Max open files")
        ]
        soft, hard = line.split()[3:5]
        assert soft == hard
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
        for partition in range(partitions):
            producer.produce("many", b"x", partition=partition)
        assert producer.flush(30) == 0
        assert not broker.log_lines("log.failed")
        assert broker.stop() == 0


def test_data_stays_without_ephemeral(tmp_path: Path) -> None:
    """With --data-dir the broker can start again on its data."""
    broker = Serve("--data-dir", str(tmp_path / "data"))
    for _ in range(2):
        with broker:
            assert broker.stop() == 0
    assert any((tmp_path / "data").iterdir())


def test_ephemeral_leaves_nothing(tmp_path: Path) -> None:
    """--ephemeral does not use the working directory, and leaves no data."""
    with Serve("--ephemeral", environment={"TMPDIR": str(tmp_path)}) as broker:
        assert broker.stop() == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "environment", "expected"),
    [
        (["--set", "group.max.size=many"], {}, "group.max.size: 'many' is not a number"),
        ([], {"KAFKA_NUM_PARTITIONS": "0"}, "num.partitions: 0 is less than 1"),
        (["--config", "no-such-file"], {}, "--config no-such-file: No such file"),
    ],
)
@pytest.mark.real_start
def test_a_bad_value_ends_with_2(
    arguments: list[str], environment: dict[str, str], expected: str
) -> None:
    """An invalid value ends the start with exit code 2; one line names setting and value."""
    broker = Serve("--ephemeral", *arguments, environment=environment)
    assert broker.run() == 2
    assert expected in broker.log
    assert broker.log.count("\n") == 1
    assert broker.output == ""


def test_a_port_in_use_ends_with_1() -> None:
    """A port in use ends the start with exit code 1 and a line with the address."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        broker = Serve("--ephemeral", listener=address)
        assert broker.run() == 1
    assert f"cannot listen on PLAINTEXT://{address}" in broker.log
    assert broker.log.count("\n") == 1


def test_a_second_broker_on_the_same_data_is_refused(tmp_path: Path) -> None:
    """A second process on the same data directory ends with one line and exit code 1."""
    with Serve("--data-dir", str(tmp_path)):
        second = Serve("--data-dir", str(tmp_path))
        assert second.run() == 1
        assert second.log.count("\n") == 1
        assert str(tmp_path) in second.log


def test_a_server_properties_of_kafka_is_accepted(tmp_path: Path) -> None:
    """Supported settings of a server.properties are used; one warning names all others."""
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\ncontroller.quorum.voters=1@localhost:1\n"
        "num.io.threads=8\n"
        "listeners=PLAINTEXT://:1,CONTROLLER://:2\ncontroller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
    )
    with Serve("--ephemeral", "--config", str(file), "--log-format", "json") as broker:
        wait_for(lambda: broker.log_lines("settings.ignored"), "the warning")
        (line,) = broker.log_lines("settings.ignored")
        ignored = json.loads(line)["settings"]
        assert ignored == "process.roles, controller.quorum.voters, num.io.threads"
        assert broker.stop() == 0


def test_settings_that_were_hardly_meant_so_are_named() -> None:
    """Suspicious settings cause one warning, and the broker serves."""
    with Serve("--ephemeral", "--set", "super.users=User:a,User:b") as broker:
        wait_for(lambda: broker.log_lines("settings.doubted"), "the warning")
        (line,) = broker.log_lines("settings.doubted")
        assert "super.users: no effect without authorizer.class.name" in line
        assert "User:a,User:b is one name, several are separated by ;" in line
        assert broker.stop() == 0


def test_several_voters_are_explained_in_one_line() -> None:
    """Several voters cause one warning about broker.count, unless broker.count is set."""
    voters = "controller.quorum.voters=1@a:1,2@b:1,3@c:1"
    with Serve("--ephemeral", "--set", voters) as broker:
        wait_for(lambda: broker.log_lines("settings.doubted"), "the warning")
        (line,) = broker.log_lines("settings.doubted")
        assert "KAFKA_BROKER_COUNT=3" in line
        assert "network aliases" in line
        assert broker.stop() == 0
    with Serve("--ephemeral", "--set", voters, "--set", "broker.count=3") as broker:
        assert broker.stop() == 0
        assert not broker.log_lines("settings.doubted")


@pytest.mark.parametrize(
    ("listener", "name"), [("PLAINTEXT://", "PLAINTEXT"), ("a://", "A"), ("PLAINTEXT://", None)]
)
def test_a_listener_may_have_its_name(listener: str, name: str | None) -> None:
    """--listener accepts NAME://HOST:PORT like the setting `listeners`, separated by commas."""
    address = f"{listener}127.0.0.1:0"
    if name is None:
        address += ",B://127.0.0.1:0"
    protocols = "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT,PLAINTEXT:PLAINTEXT"
    with Serve("--ephemeral", "--set", protocols, listener=address) as broker:
        count = 2 if name is None else 1
        wait_for(lambda: broker.output.count("listening 127.0.0.1:") == count, "all listen")
        assert broker.stop() == 0


@pytest.mark.parametrize(
    ("listener", "wrong"),
    [
        ("nonsense", "'nonsense' is not HOST:PORT"),
        ("A://nonsense", "'nonsense' is not HOST:PORT"),
        ("://h:1", "'://h:1' is not [NAME://]HOST:PORT"),
        ("h:1,x", "'x' is not HOST:PORT"),
        ("A://h:1,B", "'B' is not HOST:PORT"),
    ],
)
def test_a_listener_that_is_none(listener: str, wrong: str) -> None:
    """An invalid --listener ends with exit code 2 and a line with the flag and the invalid part."""
    broker = Serve("--ephemeral", listener=listener)
    assert broker.run() == 2
    assert broker.log == f"coordinator-server: --listener: {wrong}\n"


def test_the_topics_of_the_settings(tmp_path: Path) -> None:
    """Configured topics are created at the first start, kept, and recreated by a reset."""
    arguments = ("--data-dir", str(tmp_path), "--set")
    with Serve(*arguments, "create.topics=orders:3:1,audit:1:3:compact") as broker:
        assert [line.split()[-2:] for line in broker.log_lines("topic.created")] == [
            ["partitions=3", "topic=orders"],
            ["partitions=1", "topic=audit"],
        ]
        wait_for(lambda: broker.log_lines("settings.doubted"), "the warning")
        assert "create.topics: audit cannot have more replicas" in broker.log
        assert broker.stop() == 0
    with Serve(*arguments, "create.topics=orders:5:1,log:1:1") as broker:
        (line,) = broker.log_lines("topic.created")
        assert line.split()[-2:] == ["partitions=1", "topic=log"]
        assert broker.stop() == 0
    # Topics a.b and a_b would have the same metric name, so the second is refused.
    broker = Serve(*arguments, "create.topics=a.b:1:1,a_b:1:1")
    assert broker.run() == 2
    assert "create.topics: 'a_b:1:1': its name collides with that of a.b\n" in broker.log
    broker = Serve(*arguments, "create.topics=new:1:1,or_ders:1:1,or.ders:1:1")
    assert broker.run() == 2
    assert not broker.log_lines("topic.created")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_clients_are_told_the_address_they_used(host: str) -> None:
    """A broker on all interfaces returns in Metadata the address that the client connected to."""
    with Serve("--ephemeral", listener=":0") as broker:
        port = broker.address[1]
        if host == "::1" and not socket.has_dualstack_ipv6():
            return
        with Wire(socket.create_connection((host, port), 10)) as wire:
            # Metadata v1 without topics returns an array of one broker with id, host and port.
            answer = wire.ask(request(3, 1, b"\x00\x00\x00\x00"))
        told = struct.pack(">h", len(host)) + host.encode() + struct.pack(">i", port)
        assert told in answer
        assert broker.stop() == 0


def test_it_serves_without_uvloop() -> None:
    """Without uvloop the broker serves on asyncio's own loop."""
    code = (
        "import sys; sys.modules['uvloop'] = None;"
        "from coordinator_server.__main__ import run; run()"
    )
    with Serve("--ephemeral", command=[sys.executable, "-c", code]) as broker:
        with broker.connect() as wire:
            wire.send(API_VERSIONS_REQUEST * 3)
            assert all(wire.receive() for _ in range(3))
        assert broker.stop() == 0


def test_a_parked_request_does_not_keep_the_broker() -> None:
    """At a stop a waiting JoinGroup is answered or closed, and the stop is clean."""
    delay = ("--set", "group.initial.rebalance.delay.ms=60000")
    with Serve("--ephemeral", *delay) as broker, broker.connect() as wire:
        # JoinGroup v0 has group, session timeout, no member id, protocol type and one protocol.
        protocol = b"\x00\x01p" + b"\x00\x00\x00\x00"
        wire.send(
            request(
                11,
                0,
                b"\x00\x01g\x00\x00\x27\x10\x00\x00\x00\x01c\x00\x00\x00\x01" + protocol,
            )
        )
        with broker.connect() as other:
            wait_for(lambda: b"Preparing" in other.ask(DESCRIBE_GROUP), "the parked member")
        broker.signal(signal.SIGTERM)
        answer = wire.receive()
        assert answer is None or wire.is_closed()
        assert broker.wait() == 0


@pytest.mark.real_start
def test_a_second_signal_ends_it_at_once() -> None:
    """A second signal ends the process even if the clean stop is not complete."""
    with Serve("--ephemeral") as broker:
        # Suspend the process until both signals are pending, so that it receives both at once.
        for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
            broker.signal(number)
        assert broker.wait() in (128 + signal.SIGTERM, 128 + signal.SIGINT)
        assert broker.log_lines("stopped at once by a second signal")
        assert not broker.log_lines("broker.stopped")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_that_cannot_be_written_stops_nothing(stream: str) -> None:
    """The broker serves although its output goes to a full disk."""
    port = free_port()
    command = [sys.executable, "-m", "coordinator_server", "serve", "--ephemeral"]
    command += ["--listener", f"127.0.0.1:{port}", "--set", "broker.rack=a", "--watch-stdin"]
    with open("/dev/full", "w") as full:
        streams: dict[str, Any] = {
            "stdout": subprocess.DEVNULL,
            "stderr": subprocess.DEVNULL,
            stream: full,
        }
        process = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=ROOT, **streams)
    try:
        wait_for(lambda: is_listening(port), "the broker")
        with connect(f"127.0.0.1:{port}") as wire:
            assert wire.ask(API_VERSIONS_REQUEST)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()


def is_listening(port: int) -> bool:
    """Return whether this loopback port accepts connections."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


TOOLS_THAT_PRINT = (
    "settings",
    "protocol show Metadata",
    "dump-log SEGMENT",
    "dump-log --json SEGMENT",
)


@pytest.mark.parametrize("command", TOOLS_THAT_PRINT)
def test_a_closed_pipe_ends_a_tool_silently(command: str, tmp_path: Path) -> None:
    """With a closed pipe, as with `head -1`, a tool ends with exit code 1 and no message."""
    process = subprocess.Popen(
        tool(command, tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 1


@pytest.mark.parametrize("command", TOOLS_THAT_PRINT)
def test_output_of_a_tool_that_cannot_be_written_is_one_line(command: str, tmp_path: Path) -> None:
    """If the output disk is full, the error names the output, not the file that was read."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            tool(command, tmp_path),
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            timeout=60,
            check=False,
        )
    message = (
        "coordinator-server: the output cannot be written: [Errno 28] No space left on device\n"
    )
    assert (done.returncode, done.stderr.decode()) == (1, message)


def tool(command: str, directory: Path) -> list[str]:
    """Return a command line; SEGMENT becomes a file with more records than a pipe holds."""
    segment = directory / "00000000000000000000.log"
    batches = (build_batch([Record(0, 1, b"k", bytes(10))] * 100).to_bytes() for _ in range(20))
    segment.write_bytes(b"".join(batches))
    words = command.replace("SEGMENT", str(segment)).split()
    return [sys.executable, "-m", "coordinator_server", *words]
