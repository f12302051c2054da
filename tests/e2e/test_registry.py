"""Records decoded with a schema registry, by a real process, also with a hostile registry."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer

from coordinator_server.registry import client, decoder, worker
from coordinator_server.registry.address import RegistryAddress
from coordinator_server.registry.framed import Framed
from coordinator_server.testing.api import ControlApi
from tests.registry import (
    RECORDED,
    RegistryServer,
    control_of,
    framed,
    produce,
    send,
    serve_with,
)
from tests.support import ROOT, Serve, wait_for

_NULLS = json.dumps({"type": "array", "items": "null"})
_ENDLESS_ID = 900
_PATHS = os.environ.get("PYTHONPATH", "").split(os.pathsep)


def _zigzag(number: int) -> bytes:
    """Return a length as Avro writes lengths."""
    rest, data = number * 2, bytearray()
    while rest >= 0x80:
        data.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*data, rest])


_ENDLESS = _zigzag((1 << 62) - 1) + b"\0"
"""An array with 2^62 nulls: they take no bytes."""


@pytest.fixture(name="registry")
def _registry() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


def decoded(api: ControlApi, topic: str = "t", **query: Any) -> list[Any]:
    """Return the decoded values of all records."""
    return [one["value"].get("decoded") for one in api.records_list(topic, **query)["records"]]


def test_records_of_confluents_serializers(registry: RegistryServer) -> None:
    """Values that confluent-kafka wrote are shown decoded; each schema is requested once."""
    with serve_with(registry) as serve:
        api = control_of(serve)
        values = [bytes.fromhex(value["hex"]) for value in RECORDED["values"]]
        producer = KafkaProducer(bootstrap_servers=serve.bootstrap_servers)
        for value in values:
            producer.send("t", value, key=value, headers=[("h", value)], partition=0)
        producer.close()
        for _ in range(2):
            for record, expected in zip(
                api.records_list("t")["records"], RECORDED["values"], strict=True
            ):
                for content in (record["key"], record["value"], record["headers"][0]["value"]):
                    shown = content["decoded"]
                    assert (
                        shown["schema_type"],
                        shown["name"],
                        shown["error"],
                        shown["is_cut"],
                    ) == (
                        expected["kind"],
                        expected["name"],
                        None,
                        False,
                    )
                    assert json.loads(shown["text"] or "") == expected["json"]
        assert api.records_show("t", 0, 0)["value"]["decoded"]["name"] == "shop.Order"
        ids = [path for path in registry.requests if path.startswith("/schemas/ids/")]
        assert sorted(ids) == ["/schemas/ids/2", "/schemas/ids/3", "/schemas/ids/5"]
        (record,) = api.records_list("t", limit=1, max_bytes=9)["records"]
        shown = record["value"]["decoded"]
        assert (shown["text"], shown["is_cut"]) == ('{"id": 90', True)
        for how in ("text", "hex", "base64"):
            assert decoded(api, format=how) == [None] * len(values)
        assert serve.stop() == 0


def test_contents_without_schema_and_without_registry(registry: RegistryServer) -> None:
    """Null, text and short contents are not decoded. Without --http-registry nothing is."""
    value = bytes.fromhex(RECORDED["values"][0]["hex"])
    with serve_with(registry) as serve:
        api = control_of(serve)
        api.records_produce("t", {"records": [{"value": None}]})
        produce(api, b"text", b"\0\0\0\0", b"")
        assert decoded(api) == [None] * 4
        assert registry.requests == []
        assert serve.stop() == 0
    with Serve("--ephemeral", "--http", "127.0.0.1:0") as serve:
        api = control_of(serve)
        produce(api, value)
        (record,) = api.records_list("t")["records"]
        assert record["value"]["schema_id"] == 2
        assert "decoded" not in record["value"]
        assert serve.stop() == 0


def test_login(tmp_path: Path) -> None:
    """The user and password of --http-registry-login-file are sent; without them the reason is."""
    file = tmp_path / "login"
    file.write_text("eve:pass word\n", encoding="utf-8")
    value = bytes.fromhex(RECORDED["values"][0]["hex"])
    with RegistryServer("eve:pass word") as registry:
        with serve_with(registry, "--http-registry-login-file", str(file)) as serve:
            api = control_of(serve)
            produce(api, value)
            assert [one["name"] for one in decoded(api)] == ["shop.Order"]
            assert serve.stop() == 0
        with serve_with(registry) as serve:
            api = control_of(serve)
            produce(api, value)
            reason = "the registry answers /schemas/ids/2 with HTTP status 401: Unauthorized"
            assert [one["error"] for one in decoded(api)] == [reason]
            assert serve.stop() == 0


def _drip(handler: BaseHTTPRequestHandler) -> None:
    """Send one byte every 50 ms."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    for _ in range(100):
        handler.wfile.write(b"[")
        time.sleep(0.05)


def _endless(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
    for _ in range(10_000):
        handler.wfile.write(b"[" * 100_000)


def _redirect(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(
        b"HTTP/1.1 302 Found\r\nLocation: /schemas/ids/2\r\nContent-Length: 0\r\n\r\n"
    )


MISBEHAVIOURS = {
    "slow": (_drip, f"did not answer /schemas/ids/2 within {client.TIMEOUT_SECONDS:g} s"),
    "endless": (_endless, f"with more than {client.MOST_BYTES} bytes"),
    "redirect": (_redirect, "with HTTP status 302"),
    "closes": (lambda _: None, "the registry cannot be read: "),
    "no-http": (
        lambda h: h.wfile.write(b"\x15\x03\x01\0\r\n" * 9),
        "the registry cannot be read: ",
    ),
    "no-json": (lambda h: send(h, 200, b"<html>"), "with something else than a schema"),
    "deep": (lambda h: send(h, 200, b"[" * 200_000), "with something else than a schema"),
    "number": (lambda h: send(h, 200, b'{"schema": 1}'), "with something else than a schema"),
    "references": (
        lambda h: send(h, 200, b'{"schema": "1", "references": [1]}'),
        "with something else than a schema",
    ),
    "message": (
        lambda h: send(h, 500, json.dumps({"message": "\u202e<b>" + "x" * 9_000}).encode()),
        "with HTTP status 500:  <b>xx",
    ),
}


@pytest.mark.parametrize("name", MISBEHAVIOURS)
def test_a_hostile_registry(registry: RegistryServer, name: str) -> None:
    """The page shows the raw value and the reason; the registry is not asked for each record."""
    registry.misbehave, reason = MISBEHAVIOURS[name]
    with serve_with(registry) as serve:
        api = control_of(serve)
        produce(api, *[bytes.fromhex(RECORDED["values"][0]["hex"])] * 5)
        records = api.records_list("t")["records"]
        for record in records:
            shown = record["value"]["decoded"]
            assert reason in (shown["error"] or "")
            assert len(shown["error"] or "") < 500
            assert shown["text"] is None
            assert record["value"]["text"] == RECORDED["values"][0]["hex"]
        assert len(records) == 5
        assert len(registry.requests) == 1
        assert serve.stop() == 0


def test_references_without_end(registry: RegistryServer) -> None:
    """References in a circle end, and a schema with too many references is refused."""
    reference = {"name": "a", "subject": "a/b", "version": 1}
    registry.add("a/b", 50, '"string"', "AVRO", [reference])
    many = [
        {"name": f"n{i}", "subject": "x", "version": 1} for i in range(client.MOST_REFERENCES + 1)
    ]
    registry.add("x", 51, '"string"')
    registry.add("many", 52, '"string"', "AVRO", many)
    with serve_with(registry) as serve:
        api = control_of(serve)
        produce(api, framed(50, b"\x02a"), framed(52, b"\x02a"))
        first, second = decoded(api)
        assert (first["text"], first["error"]) == ('"a"', None)
        assert second["error"] == "the schema references more than 100 schemas"
        assert "/subjects/a%2Fb/versions/1" in registry.requests
        assert serve.stop() == 0


def test_a_registry_that_is_down() -> None:
    """If the registry cannot be reached the page shows the raw values and the reason."""
    with RegistryServer() as registry:
        url = registry.url
    with Serve("--ephemeral", "--http", "127.0.0.1:0", "--http-registry", url) as serve:
        api = control_of(serve)
        produce(api, framed(1, b""))
        (shown,) = decoded(api)
        assert "Connection refused" in shown["error"]
        (line,) = serve.log_lines("registry.failed", f"url={url}")
        assert "Connection refused" in line
        assert serve.stop() == 0


def test_hostile_values_hold_nothing(registry: RegistryServer) -> None:
    """A value that decodes without end ends the worker; the event loop serves others meanwhile.

    Other values of the page are decoded nevertheless, and a page has a limit of time.
    """
    registry.add("endless", _ENDLESS_ID, _NULLS)
    endless = framed(_ENDLESS_ID, _ENDLESS)
    good = bytes.fromhex(RECORDED["values"][0]["hex"])
    with serve_with(registry) as serve:
        api, other = control_of(serve), control_of(serve)
        large = framed(2, b"\0" * (decoder.MOST_VALUE_BYTES + 1))
        api.topics_create("t", {"partitions": 1, "configs": {"max.message.bytes": "9000000"}})
        produce(api, endless, large, good, *[endless] * 4)
        waits: list[float] = []
        is_over = threading.Event()

        def ask() -> None:
            while not is_over.is_set():
                began_s = time.monotonic()
                other.clock_show()
                waits.append(time.monotonic() - began_s)
                time.sleep(0.01)

        thread = threading.Thread(target=ask)
        thread.start()
        began_s = time.monotonic()
        first, second, third, *others = decoded(api)
        took_s = time.monotonic() - began_s
        is_over.set()
        thread.join()
        assert "has ended" in first["error"] or "MemoryError" in first["error"]
        assert second["error"] == "contents of more than 1048576 bytes are not decoded"
        assert (third["name"], third["error"]) == ("shop.Order", None)
        assert all(one["error"] for one in others)
        assert took_s < decoder.PAGE_SECONDS + worker.DECODE_SECONDS + 3
        assert len(waits) > 10
        assert max(waits) < worker.DECODE_SECONDS / 2
        assert serve.stop() == 0


def test_a_killed_worker_is_replaced(registry: RegistryServer) -> None:
    """The worker ends with the broker; if it dies, the next value starts another worker."""
    good = bytes.fromhex(RECORDED["values"][0]["hex"])
    with serve_with(registry) as serve:
        api = control_of(serve)
        produce(api, good)
        for _ in range(2):
            assert [one["name"] for one in decoded(api)] == ["shop.Order"]
            (child,) = children(serve.pid)
            kill(child)
            wait_for(partial(has_ended, child), "the end of the worker")
            wait_for(lambda: decoded(api)[0]["error"] is None, "another worker")
        (child,) = children(serve.pid)
        assert serve.stop() == 0
        wait_for(partial(has_ended, child), "the end of the worker")


def test_the_worker_has_few_variables(registry: RegistryServer, tmp_path: Path) -> None:
    """The worker gets no secrets of the broker, and imports nothing of the working directory."""
    good = bytes.fromhex(RECORDED["values"][0]["hex"])
    (tmp_path / "fastavro.py").write_text("raise SystemExit", encoding="utf-8")
    secrets = {"KAFKA_PASSWORD": "secret"}
    arguments = ("--ephemeral", "--http", "127.0.0.1:0", "--http-registry", registry.url)
    environment = {**secrets, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), *_PATHS)))}
    command = (sys.executable, "-P", "-m", "coordinator_server")
    with Serve(*arguments, command=command, environment=environment, directory=tmp_path) as serve:
        api = control_of(serve)
        produce(api, good)
        assert [one["name"] for one in decoded(api)] == ["shop.Order"]
        (child,) = children(serve.pid)
        variables = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        names = {variable.partition(b"=")[0].decode() for variable in variables if variable}
        assert names <= {*decoder._VARIABLES, "PYTHONPATH"}
        assert serve.stop() == 0


async def test_a_worker_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A content has the reason if the worker cannot be started."""
    monkeypatch.setattr("coordinator_server.registry.decoder.sys.executable", "/none")
    values = decoder.RegistryDecoder(RegistryAddress("http://127.0.0.1:1"), print)
    content = Framed({}, 1, b"")
    await values.decode([content], 9, 9)
    reason = "the process that decodes cannot be started: No such file or directory"
    assert content.shown["decoded"]["error"] == reason


@pytest.mark.parametrize("end", ["wait", "exit"])
async def test_processes_of_the_worker_end_with_it(
    end: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A protoc that runs when the worker takes too long, or has ended, is ended."""
    program, pid = tmp_path / "worker", tmp_path / "pid"
    program.write_text(
        f"#!/bin/sh\nsleep 30 <&- >&- 2>&- &\necho $! >{pid}.new\nmv {pid}.new {pid}\n{end}\n"
    )
    program.chmod(0o700)
    monkeypatch.setattr("coordinator_server.registry.decoder.sys.executable", str(program))
    monkeypatch.setattr(decoder, "_MOST_SECONDS", 2.0)
    values = decoder.RegistryDecoder(RegistryAddress("http://127.0.0.1:1"), print)
    began_s = time.monotonic()
    processes: list[asyncio.subprocess.Process] = []
    start = values._started

    async def started() -> asyncio.subprocess.Process:
        processes.append(await start())
        return processes[0]

    monkeypatch.setattr(values, "_started", started)
    content = Framed({}, 1, b"")
    await values.decode([content], 9, 9)
    assert content.shown["decoded"]["error"]
    await processes[0].wait()
    child = int(pid.read_text())
    wait_for(partial(has_ended, child), "the end of the child")
    assert time.monotonic() - began_s < 20  # the child would end by itself only after 30 s


def test_lower_limits_of_memory_are_kept() -> None:
    """A process with a lower hard limit of memory keeps it, and decodes."""
    code = (
        "import resource as r; from coordinator_server.registry import worker;"
        "r.setrlimit(r.RLIMIT_AS, (1 << 29, 1 << 29)); worker._limit_memory();"
        "print(r.getrlimit(r.RLIMIT_AS))"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert output == f"({1 << 29}, {1 << 29})\n"


def children(pid: int) -> list[int]:
    """Return the children of a process."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def has_ended(pid: int) -> bool:
    """Return whether a process has ended."""
    try:
        return ") Z" in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True


def kill(pid: int) -> None:
    """Kill a process."""
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--http-registry", "http://r"), "--http-registry needs --http HOST:PORT"),
        (("--http", "127.0.0.1:0", "--http-registry", "r"), "r is not a URL such as"),
        (
            ("--http", "127.0.0.1:0", "--http-registry-login-file", "f"),
            "--http-registry is missing",
        ),
    ],
    ids=range(3),
)
def test_wrong_options(arguments: tuple[str, ...], reason: str) -> None:
    """Wrong options are one line on standard error, and exit code 2."""
    serve = Serve("--ephemeral", *arguments)
    assert serve.run() == 2
    assert reason in serve.log
    assert len(serve.log.splitlines()) == 1


async def test_the_event_loop_is_never_held(registry: RegistryServer) -> None:
    """Decoding endless and large values takes no 100 ms of CPU between two turns of the loop."""
    registry.add("endless", _ENDLESS_ID, _NULLS)
    registry.add("text", 901, '"string"')
    size = decoder.MOST_VALUE_BYTES - 4
    large = _zigzag(size) + b"x" * size
    contents = [Framed({}, _ENDLESS_ID, _ENDLESS), *[Framed({}, 901, large) for _ in range(3)]]
    values = decoder.RegistryDecoder(RegistryAddress(registry.url), print)
    decoding = asyncio.ensure_future(values.decode(contents, 1 << 24, 1 << 24))
    longest_s = 0.0
    while not decoding.done():
        began_s = time.thread_time()
        await asyncio.sleep(0)
        longest_s = max(longest_s, time.thread_time() - began_s)
    await decoding
    process = values._process
    assert process is not None
    values.stop()
    await process.wait()
    assert [bool(one.shown["decoded"]["error"]) for one in contents] == [True, False, False, False]
    assert len(contents[1].shown["decoded"]["text"]) == size + 2
    assert longest_s < 0.1
