"""OpenTelemetry: spans and logs of a real process at a receiver, and a receiver that is down."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer

from coordinator_server.client import Client
from coordinator_server.testing.api import ControlApi
from protocol.apis.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlteredQuotaEntity,
    AlterQuotaEntry,
    QuotaOperation,
)
from tests.e2e.control_api import CheckedControl, http_address
from tests.otlp import OtlpReceiver, Received
from tests.support import Serve, wait_for

_FAST = ("--set", "group.initial.rebalance.delay.ms=0", "--set", "group.min.session.timeout.ms=100")
_TOPIC = ("--set", "create.topics=t:1:1")
TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
READER = """
import sys
from kafka import KafkaConsumer

reader = KafkaConsumer(
    "t",
    bootstrap_servers=sys.argv[1],
    group_id="g",
    client_id="second",
    session_timeout_ms=3000,
    heartbeat_interval_ms=200,
)
while True:
    reader.poll(100)
"""


@pytest.fixture(name="receiver")
def _receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


def consumer(serve: Serve, client_id: str, **settings: Any) -> KafkaConsumer:
    """Return a consumer of the topic t that has an assignment."""
    reader = KafkaConsumer(
        "t",
        bootstrap_servers=serve.bootstrap_servers,
        group_id="g",
        client_id=client_id,
        session_timeout_ms=3000,
        heartbeat_interval_ms=200,
        **settings,
    )
    wait_for(lambda: reader.poll(1000) or reader.assignment(), "an assignment")
    return reader


def rebalances(receiver: OtlpReceiver, trigger: str) -> list[Received]:
    """Return the spans of rebalances with a trigger."""
    return receiver.named("rebalance", kafka__rebalance__trigger=trigger)


def linked(receiver: OtlpReceiver, rebalance: Received) -> list[Received]:
    """Return the spans that a rebalance links to."""
    by_id = {span.span_id: span for span in list(receiver.spans)}
    return [by_id[span_id] for span_id, _ in rebalance.links if span_id in by_id]


@pytest.mark.parametrize("with_http", [False, True], ids=["alone", "counted"])
def test_rebalances_link_to_their_requests(receiver: OtlpReceiver, with_http: bool) -> None:
    """A join, a leave and an expired session each link to the request that caused the rebalance."""
    http = ("--http", "127.0.0.1:0") if with_http else ()
    with Serve("--ephemeral", "--otel", receiver.url, *_FAST, *_TOPIC, *http) as serve:
        first = consumer(serve, "first")
        wait_for(lambda: rebalances(receiver, "member joined"), "the span of the first rebalance")
        (joined,) = rebalances(receiver, "member joined")
        (cause,) = linked(receiver, joined)
        assert cause.name == "JoinGroup"
        assert cause.attributes["messaging.client.id"] == "first"
        assert cause.attributes["messaging.consumer.group.name"] == "g"
        assert cause.attributes["kafka.api.version"] >= 5
        assert joined.attributes["kafka.rebalance.outcome"] == "stable"
        assert joined.attributes["kafka.group.generation"] == 1
        assert joined.start_ns <= cause.end_ns
        assert 0 <= joined.end_ns - joined.start_ns < 60e9

        first.close()
        wait_for(lambda: rebalances(receiver, "member left"), "the span of the leave")
        (left,) = rebalances(receiver, "member left")
        (cause,) = linked(receiver, left)
        assert (cause.name, cause.attributes["messaging.client.id"]) == ("LeaveGroup", "first")

        with subprocess.Popen([sys.executable, "-c", READER, serve.bootstrap_servers]) as process:
            wait_for(lambda: receiver.named("Heartbeat", messaging__client__id="second"), "a beat")
            process.kill()
        wait_for(lambda: rebalances(receiver, "member expired"), "the span of the expiry")
        (expired,) = rebalances(receiver, "member expired")
        (cause,) = linked(receiver, expired)
        assert (cause.name, cause.attributes["messaging.client.id"]) == ("Heartbeat", "second")

        refused = receiver.named("JoinGroup", error__type="MEMBER_ID_REQUIRED")
        assert refused
        assert {span.status for span in refused} == {0}
        assert {one["service.name"] for one in receiver.resources} == {"coordinator-server"}
        wait_for(lambda: [one for one in receiver.logs if one.name == "group.rebalanced"], "a log")
        if with_http:
            api = ControlApi(CheckedControl(http_address(serve)))
            assert api.groups_rebalances("g")["rebalances"]
        assert serve.stop() == 0
    assert [one for one in receiver.logs if one.name == "broker.stopped"]


@pytest.mark.parametrize("compression", [None, "gzip", "zstd"])
def test_trace_contexts_of_records(receiver: OtlpReceiver, compression: str | None) -> None:
    """The span of Produce links to the contexts in the header traceparent, each once."""
    with Serve("--ephemeral", "--otel", receiver.url) as serve:
        producer = KafkaProducer(
            bootstrap_servers=serve.bootstrap_servers, linger_ms=200, compression_type=compression
        )
        good = f"00-{TRACE}-{SPAN}-01".encode()
        for value in (good, good, b"00-zz", b"", b"\xff" * 55):
            producer.send("t", b"v" * 100, headers=[("traceparent", value), ("other", good)])
        producer.send("t", b"without")
        producer.flush()
        # A request of more than 64 KiB is served and answered in steps.
        producer.send("t", os.urandom(100_000), headers=[("traceparent", good)])
        producer.close()
        wait_for(lambda: len(receiver.named("Produce")) == 2, "the spans")
        for span in receiver.named("Produce"):
            assert [span_id for span_id, _ in span.links] == [SPAN]
        assert serve.stop() == 0


def test_only_some_requests_are_sampled(receiver: OtlpReceiver) -> None:
    """With ratio 0 only the requests of membership and the rebalances are sent."""
    with Serve(
        "--ephemeral", "--otel", receiver.url, "--otel-ratio", "0", *_FAST, *_TOPIC
    ) as serve:
        consumer(serve, "c").close()
        wait_for(lambda: rebalances(receiver, "member left"), "the span of the leave")
        names = {span.name for span in receiver.spans}
        assert names == {"JoinGroup", "SyncGroup", "LeaveGroup", "rebalance"}
        (joined,) = rebalances(receiver, "member joined")
        assert [span.name for span in linked(receiver, joined)] == ["JoinGroup"]
        assert serve.stop() == 0


def test_the_variables_of_opentelemetry(receiver: OtlpReceiver) -> None:
    """OTEL_EXPORTER_OTLP_ENDPOINT is used by --otel without a URL, and only then."""
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_SERVICE_NAME": "mine"}
    with Serve("--ephemeral", "--otel", environment=variables) as serve:
        KafkaProducer(bootstrap_servers=serve.bootstrap_servers).close()
        wait_for(lambda: receiver.spans, "a span")
        assert serve.stop() == 0
    receiver.spans.clear()
    receiver.logs.clear()
    variables["PYTHONPROFILEIMPORTTIME"] = "1"
    with Serve("--ephemeral", environment=variables) as serve:
        KafkaProducer(bootstrap_servers=serve.bootstrap_servers).close()
        assert "coordinator_server.net.dispatch" in serve.log
        assert not {"opentelemetry", "coordinator_server.tracing"} & set(serve.log.split())
        assert serve.stop() == 0
    assert (receiver.spans, receiver.logs) == ([], [])


@pytest.mark.parametrize("kind", ["down", "silent"])
def test_a_receiver_that_does_not_answer(kind: str) -> None:
    """Clients are served as usual, a line says that the export fails, and the stop is short."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        if kind == "down":
            silent.close()
        url = f"http://127.0.0.1:{port}"
        with Serve("--ephemeral", "--otel", url) as serve:
            producer = KafkaProducer(bootstrap_servers=serve.bootstrap_servers)
            for _ in range(20):
                producer.send("t", b"v").get(10)
            producer.close()
            if kind == "down":
                wait_for(partial(serve.log_lines, "tracing.failed"), "the reason")
                assert len(serve.log_lines("tracing.failed")) <= 2  # one for traces, one for logs
            began_s = time.monotonic()
            assert serve.stop() == 0
            assert time.monotonic() - began_s < 10


def test_a_failed_start_is_exported(receiver: OtlpReceiver) -> None:
    """If the start fails, the events of the log until then are sent before the process ends."""
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        http = f"127.0.0.1:{occupied.getsockname()[1]}"
        serve = Serve("--ephemeral", "--otel", receiver.url, "--http", http, *_TOPIC)
        assert serve.run() == 1
    assert receiver.logs


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--otel", "host:1"), "--otel: host:1 is not a URL such as"),
        (
            ("--otel", "http://h", "--otel-ratio", "2"),
            "--otel: the ratio 2.0 is not between 0 and 1",
        ),
    ],
    ids=range(2),
)
def test_wrong_options(arguments: tuple[str, ...], reason: str) -> None:
    """Wrong options are one line on standard error, and exit code 2."""
    serve = Serve("--ephemeral", *arguments)
    assert serve.run() == 2
    assert reason in serve.log
    assert len(serve.log.splitlines()) == 1


@pytest.mark.parametrize("with_http", [False, True], ids=["alone", "counted"])
def test_requests_with_a_quota(receiver: OtlpReceiver, with_http: bool) -> None:
    """Requests that a quota meters have spans, with and without the counts of the metrics."""
    http = ("--http", "127.0.0.1:0") if with_http else ()
    with Serve("--ephemeral", "--otel", receiver.url, *http) as serve:
        client = Client(serve.bootstrap_servers)
        entity = [AlteredQuotaEntity(entity_type="client-id", entity_name="metered")]
        operations = [QuotaOperation(key="request_percentage", value=1e4, remove=False)]
        entry = AlterQuotaEntry(entity=entity, ops=operations)
        answer = client.ask_controller("quotas", AlterClientQuotasRequest(entries=[entry]))
        assert [one.error_message for one in answer.entries] == [None]
        client.close()
        producer = KafkaProducer(bootstrap_servers=serve.bootstrap_servers, client_id="metered")
        producer.send("t", b"v").get(10)
        producer.close()
        wait_for(lambda: receiver.named("Produce", messaging__client__id="metered"), "the span")
        assert serve.stop() == 0
