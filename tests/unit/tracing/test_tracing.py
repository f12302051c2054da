"""Finding trace contexts in produced batches, and the requests that cause rebalances."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from time import time_ns
from types import SimpleNamespace
from typing import Any, cast

import pytest
from opentelemetry.trace import SpanContext

from coordinator_server.cli import main
from coordinator_server.clock.broker_clock import SystemClock
from coordinator_server.core.caller import Caller
from coordinator_server.core.groups.explain import Cause, Trigger
from coordinator_server.counting.error_codes import ErrorCodes
from coordinator_server.events.vocabulary import INFO
from coordinator_server.tracing import members
from coordinator_server.tracing.export import Export
from coordinator_server.tracing.members import ALIVE, JOIN, LEAVE, Members, kind_of, member_ids
from coordinator_server.tracing.options import TracingOptions, missing_packages, read_options
from coordinator_server.tracing.traceparents import (
    MOST_BYTES,
    MOST_HEADERS,
    MOST_LINKS,
    MOST_PARTITIONS,
    traceparents,
)
from coordinator_server.tracing.tracing import Tracing
from protocol.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.apis.heartbeat import HeartbeatRequest
from protocol.apis.join_group import JoinGroupRequest
from protocol.apis.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.batch import Record, build_batch, read_record_headers
from protocol.codec import encoder
from protocol.compression import Compression
from protocol.registry import SPEC_BY_NAME, ApiSpec
from protocol.schema import Message


def produce(*batches: bytes) -> ProduceRequest:
    """Return a request with these batches, each for a partition of its own."""
    partitions = [
        PartitionProduceData(index=index, records=memoryview(data))
        for index, data in enumerate(batches)
    ]
    topic = TopicProduceData(name="t", partition_data=partitions)
    return ProduceRequest(topic_data=[topic])


def batch(*values: bytes, size: int = 1, codec: Compression = Compression.NONE) -> bytes:
    """Return a batch with a record for each value of the header traceparent."""
    records = [
        Record(offset, 0, None, b"v" * size, [("a", None), ("traceparent", value)])
        for offset, value in enumerate(values)
    ]
    return build_batch(records, compression=codec).to_bytes()


@pytest.mark.parametrize("codec", list(Compression))
def test_traceparents_of_all_compressions(codec: Compression) -> None:
    """Trace contexts are found in batches of each compression, each trace context once."""
    request = produce(batch(b"1", b"2", b"1", codec=codec), batch(b"3", codec=codec))
    assert traceparents(request) == ["1", "2", "3"]


def test_limits_of_traceparents() -> None:
    """Large batches, decompression bombs and damaged batches are skipped; links are limited."""
    large = batch(b"1", size=MOST_BYTES)
    bomb = batch(b"1", size=MOST_BYTES * 4, codec=Compression.ZSTD)
    assert len(bomb) < 10_000
    assert traceparents(produce(large)) == []
    assert traceparents(produce(bomb)) == []
    assert traceparents(produce(large, batch(b"2"))) == ["2"]
    many = [b"%d" % number for number in range(99)]
    assert len(traceparents(produce(batch(*many)))) == MOST_LINKS
    assert traceparents(produce(batch(b"x" * 101))) == []
    whole = batch(b"1", b"2")
    for end in range(len(whole)):
        assert traceparents(produce(whole[:end])) in ([], ["1"])
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0xFF
        traceparents(produce(bytes(damaged)))
    assert traceparents(ProduceRequest(topic_data=[])) == []


class Read(list[Any]):
    """A list that counts the elements that are read."""

    def __init__(self, elements: Iterable[Any]) -> None:
        super().__init__(elements)
        self.number = 0

    def __iter__(self) -> Iterator[Any]:
        for element in super().__iter__():
            self.number += 1
            yield element


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_work_for_traceparents_is_bounded(codec: Compression) -> None:
    """If a request has very many batches, partitions or topics, only the first ones are read."""
    small = batch(b"1", codec=codec)
    request = produce(*[small] * 1000)
    partitions = request.topic_data[0].partition_data = Read(request.topic_data[0].partition_data)
    assert traceparents(request) == ["1"]
    assert partitions.number == MOST_PARTITIONS
    topics = Read([TopicProduceData(name="t", partition_data=[])] * 1000)
    assert traceparents(ProduceRequest(topic_data=topics)) == []
    assert topics.number == MOST_PARTITIONS
    assert traceparents(produce(small + batch(b"2", codec=codec))) == ["1"]


def test_headers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 5 000 headers per request are read; records with 64 or more headers are skipped."""
    read: list[int] = []

    def counted(data: memoryview, position: int) -> Any:
        headers = read_record_headers(data, position)
        read.append(len(headers))
        return headers

    monkeypatch.setattr("coordinator_server.tracing.traceparents.read_record_headers", counted)
    header = ("traceparent", b"1")
    few, many = [header, *[("", None)] * 62], [header, *[("", None)] * 63]
    assert traceparents(produce(build_batch([Record(0, 0, None, b"", many)]).to_bytes())) == []
    assert read == []
    full = build_batch([Record(offset, 0, None, b"", few) for offset in range(60)]).to_bytes()
    assert traceparents(produce(*[full] * 9)) == ["1"]
    assert MOST_HEADERS - 63 < sum(read) <= MOST_HEADERS


def test_decompressed_bytes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compressed and decompressed bytes of all batches count towards one limit."""
    sizes = []

    def decompressed(codec: Compression, data: bytes, limit: int) -> bytes:
        sizes.append(len(data))
        return b""

    monkeypatch.setattr("coordinator_server.tracing.traceparents.decompressed", decompressed)
    large = bytearray(batch(b"1", size=MOST_BYTES // 10))
    large[22] = Compression.GZIP  # set gzip in the low byte of the attributes
    assert traceparents(produce(*[bytes(large)] * 50)) == []
    assert 0 < sum(sizes) <= MOST_BYTES


async def test_a_large_response_is_read_in_steps() -> None:
    """The errors of a response that was encoded in steps are counted in steps."""
    spec = SPEC_BY_NAME["OffsetCommit"]
    tracing = Tracing(TracingOptions("http://127.0.0.1:1", 1))
    new_call, _ = tracing.counter(None, 0).counted(spec, 9, None)
    partitions = [
        OffsetCommitResponsePartition(partition_index=index, error_code=index % 2 * 16)
        for index in range(10_000)
    ]
    topic = OffsetCommitResponseTopic(name="t", partitions=partitions)
    call: Any = new_call(*call_of(spec, OffsetCommitRequest()), True)
    assert len(list(call.sending(OffsetCommitResponse(topics=[topic]), 1))) >= 10
    assert call.span.attributes["kafka.errors"] == ("NOT_COORDINATOR",)
    assert not call.span.is_recording()


def call_of(spec: ApiSpec, request: Message, answered: list[int] | None = None) -> Sequence[Any]:
    """Return the arguments of a call; `answered` gets the times of its responses in ns."""

    def answer(*_: bytes) -> None:
        if answered is not None:
            answered.append(time_ns())

    version = spec.max_version
    connection = SimpleNamespace(client_host="/h", answer=answer)
    binding = SimpleNamespace(
        spec=spec,
        version=version,
        flexible_response=True,
        encode=encoder(spec.response_type, version),
    )
    return None, binding, connection, Caller("c", "/h", version), 1, request


async def test_a_span_ends_before_the_response_is_sent() -> None:
    """A request's span ends before the response is sent."""
    spec = SPEC_BY_NAME["OffsetCommit"]
    tracing = Tracing(TracingOptions("http://127.0.0.1:1", 1))
    new_call, _ = tracing.counter(None, 0).counted(spec, spec.max_version, None)
    answered: list[int] = []
    call: Any = new_call(*call_of(spec, OffsetCommitRequest(), answered), False)
    call.reply(OffsetCommitResponse(topics=[]))
    assert len(answered) == 1
    assert call.span.end_time <= answered[0]


@pytest.mark.parametrize("broken", ["_begin", "_end", "count", "count_in_steps"])
async def test_a_bug_in_tracing_fails_no_request(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request whose span cannot be made is answered, and the log has the bug."""
    spec = SPEC_BY_NAME["OffsetCommit"]
    tracing = Tracing(TracingOptions("http://127.0.0.1:1", 1))

    def fail(*_: object) -> Any:
        raise KeyError("bug")

    owner = ErrorCodes if broken.startswith("count") else Tracing
    monkeypatch.setattr(owner, broken, fail)
    failures: list[str] = []
    monkeypatch.setattr(
        "coordinator_server.tracing.tracing._log_failure", lambda _, reason: failures.append(reason)
    )
    new_call, _ = tracing.counter(None, 0).counted(spec, spec.max_version, None)
    answered: list[int] = []
    call: Any = new_call(*call_of(spec, OffsetCommitRequest(), answered), False)
    call.reply(OffsetCommitResponse(topics=[]))
    large: Any = new_call(*call_of(spec, OffsetCommitRequest()), True)
    list(large.sending(OffsetCommitResponse(topics=[]), 1))
    assert len(answered) == 1
    assert set(failures) == {"KeyError: 'bug'"}


async def test_a_bug_in_tracing_fails_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the span of a rebalance cannot be made, the rebalance is still recorded."""
    tracing = Tracing(TracingOptions("http://127.0.0.1:1", 1))
    monkeypatch.setattr(Tracing, "_rebalanced", lambda *_: [][0])
    explained: list[Any] = []
    explain = tracing.explaining(lambda *words: explained.append(words), 0, SystemClock())
    explain("g", cast("Any", None))
    assert explained == [("g", None)]


def context(number: int) -> SpanContext:
    """Return a span context."""
    return SpanContext(1, number, is_remote=False)


def cause(trigger: Trigger, member: str = "m", instance: str | None = None) -> Cause:
    """Return a cause."""
    return Cause(trigger, member, instance)


def answer(
    requests: Members, member: str, kind: str, number: int, group: str = "g", error: bool = False
) -> None:
    """Begin and end a request of a member."""
    requests.begin(group, member, kind, context(number))
    requests.end(group, member, kind, context(number), is_error=error)


def test_the_request_of_each_cause() -> None:
    """The request behind a rebalance is the member's last join or leave, as its cause requires.

    A member that expired or never rejoined is linked to its last request that kept it alive.
    """
    requests = Members()
    assert requests.cause("g", cause(Trigger.MEMBER_JOINED)) is None
    for number, kind in enumerate((JOIN, ALIVE, LEAVE), start=1):
        answer(requests, "m", kind, number)
    answer(requests, "", JOIN, 9)
    answer(requests, "i", LEAVE, 4)
    for trigger, number in (
        (Trigger.MEMBER_JOINED, 1),
        (Trigger.METADATA_CHANGED, 1),
        (Trigger.MEMBER_EXPIRED, 2),
        (Trigger.NEVER_REJOINED, 2),
        (Trigger.MEMBER_LEFT, 3),
    ):
        assert requests.cause("g", cause(trigger)) == context(number)
    assert requests.cause("g", cause(Trigger.MEMBER_LEFT, "other", "i")) == context(4)
    assert requests.cause("h", cause(Trigger.MEMBER_LEFT)) is None
    assert requests.cause("g", cause(Trigger.TOPICS_CHANGED, "")) is None


def test_members_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """If there are too many members, the members with the oldest last request are forgotten."""
    monkeypatch.setattr(members, "MOST_MEMBERS", 2)
    requests = Members()
    for name in ("a", "b", "a", "c"):
        answer(requests, name, JOIN, 1)
    for member in ("c" * 257, "d"):
        answer(requests, member, JOIN, 1, group="g" * (257 if member == "d" else 1))
    known = [name for name in "abc" if requests.cause("g", cause(Trigger.MEMBER_JOINED, name))]
    assert known == ["a", "c"]


def test_refused_requests_are_forgotten() -> None:
    """A request in progress is a possible cause; a finished request only if it was not refused."""
    requests = Members()
    left = cause(Trigger.MEMBER_LEFT)
    answer(requests, "m", JOIN, 1)
    first, second = context(2), context(3)
    requests.begin("g", "m", LEAVE, first)
    requests.begin("g", "m", LEAVE, second)
    assert requests.cause("g", left) == second
    requests.end("g", "m", LEAVE, first, is_error=True)
    assert requests.cause("g", left) == second
    requests.end("g", "m", LEAVE, second, is_error=True)
    assert requests.cause("g", left) == context(1)
    assert not requests._in_progress
    answer(requests, "other", LEAVE, 4, error=True)
    assert len(requests._answered) == 1


async def test_attributes_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long ids and reasons are truncated, even if OpenTelemetry's variables allow more."""
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "100000")
    export = Export(TracingOptions("http://127.0.0.1:1", 1), "1", lambda *_: None)
    for tracer in (export.requests, export.always):
        span: Any = tracer.start_span("s", attributes={"a": "x" * 999})
        span.set_attribute("b", "x" * 999)
        assert [len(value) for value in span.attributes.values()] == [256, 256]
    logged: list[Any] = []
    monkeypatch.setattr(export, "_logger", SimpleNamespace(emit=logged.append))
    export.log(INFO, "e", {"a": "x" * 9999, "b": 1})
    assert [len(str(value)) for value in logged[0].attributes.values()] == [4096, 1]


@pytest.mark.parametrize(
    ("api", "request_", "kind", "ids"),
    [
        ("JoinGroup", JoinGroupRequest(group_id="g", member_id="m"), JOIN, ["m"]),
        ("Heartbeat", HeartbeatRequest(group_id="g", member_id="m"), ALIVE, ["m"]),
        ("LeaveGroup", LeaveGroupRequest(group_id="g", member_id="m"), LEAVE, ["m"]),
        (
            "ConsumerGroupHeartbeat",
            ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0),
            JOIN,
            ["m"],
        ),
        (
            "ConsumerGroupHeartbeat",
            ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=3),
            ALIVE,
            ["m"],
        ),
        (
            "ConsumerGroupHeartbeat",
            ConsumerGroupHeartbeatRequest(
                group_id="g", member_id="m", member_epoch=3, subscribed_topic_names=["t"]
            ),
            JOIN,
            ["m"],
        ),
        (
            "ConsumerGroupHeartbeat",
            ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=-1),
            LEAVE,
            ["m"],
        ),
        ("Produce", ProduceRequest(topic_data=[]), None, [""]),
    ],
    ids=range(8),
)
def test_kinds_of_requests(api: str, request_: Any, kind: str | None, ids: list[str]) -> None:
    """A member's request is a join, a leave, or a sign of life; a Produce is none of these."""
    assert kind_of(api, request_) == kind
    assert member_ids(request_) == ids


def test_members_of_leave_group() -> None:
    """LeaveGroup from version 3 on has several members, by id or instance id."""
    identities = [
        MemberIdentity(member_id="m", group_instance_id=None),
        MemberIdentity(member_id="", group_instance_id="i"),
    ]
    assert member_ids(LeaveGroupRequest(group_id="g", members=identities)) == ["m", "i"]
    many = Read(identities * 1000)
    assert len(member_ids(LeaveGroupRequest(group_id="g", members=many))) == many.number == 100


def test_options(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the tracing packages the start fails with one line that names what to install."""
    assert missing_packages() == []
    assert read_options("http://h:4318/", 0.5) == ("http://h:4318", 0.5)
    assert read_options("", 1) == (None, 1)
    for url in (
        "h",
        "ftp://h",
        "http://",
        "http://h?x",
        "http://h#x",
        "http://h:99999",
        "http://h x",
    ):
        with pytest.raises(ValueError):
            read_options(url, 1)
    for end in ("h:99999", "[h", "h?x", "h x", "h:sec"):
        for start in ("http://eve:secret@", "ftp://eve:secret@", "http://eve:secret/@"):
            with pytest.raises(ValueError) as raised:
                read_options(start + end, 1)
            assert "secret" not in str(raised.value)
    for ratio in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError):
            read_options("http://h", ratio)
    monkeypatch.setattr("coordinator_server.config.extras.find_spec", lambda _: None)
    assert main(["serve", "--ephemeral", "--otel"]) == 2
    text = "opentelemetry-exporter-otlp-proto-http: pip install 'coordinator-server[otel]'\n"
    assert capsys.readouterr().err.endswith(text)
