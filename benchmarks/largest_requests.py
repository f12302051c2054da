"""How long the largest requests delay the heartbeats of other connections.

    python -m benchmarks.largest_requests [COUNT]
    python -m benchmarks.largest_requests issue [DIRECTORY]

For every API, the benchmark sends requests with COUNT elements (100 000) in one of their arrays,
and small requests with a large amount of work or a large response. Another process sends heartbeats
meanwhile; its longest wait is the most important figure. `issue` measures requests that were once
very slow, by default on this broker, or on the broker of the checkout in DIRECTORY.
"""

from __future__ import annotations

import gzip
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import load
from benchmarks.largest_groups import group_cases
from benchmarks.load import Member
from benchmarks.probe import Probe
from coordinator_server.config.client_metrics import DEFAULT_INTERVAL_MS
from coordinator_server.telemetry.instances import subscription_id
from protocol.apis.alter_configs import AlterConfigsRequest, AlterConfigsResource
from protocol.apis.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.apis.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.apis.delete_records import DeleteRecordsRequest
from protocol.apis.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.apis.describe_groups import DescribeGroupsRequest
from protocol.apis.describe_log_dirs import DescribeLogDirsRequest
from protocol.apis.describe_topic_partitions import DescribeTopicPartitionsRequest
from protocol.apis.fetch import FetchRequest
from protocol.apis.join_group import JoinGroupRequest
from protocol.apis.list_groups import ListGroupsRequest
from protocol.apis.list_offsets import ListOffsetsRequest
from protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from protocol.apis.offset_commit import OffsetCommitRequest
from protocol.apis.offset_fetch import OffsetFetchRequest
from protocol.apis.produce import ProduceRequest
from protocol.apis.push_telemetry import PushTelemetryRequest
from protocol.codec import encoder
from protocol.compression import Compression
from protocol.registry import SPEC_BY_NAME, SPECS, ApiSpec
from protocol.schema import ARRAY, BYTES, INT8, RECORDS, STRING, UUID, Message
from tests.support import ROOT, Broker, Serve, request

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "num.partitions": "1",
    "group.streams.initial.rebalance.delay.ms": "0",
    **{
        f"group.{kind}.{name}": value
        for kind in ("consumer", "share", "streams")
        for name, value in (
            ("max.size", "1000"),
            ("assignment.interval.ms", "0"),
            ("session.timeout.ms", "3600000"),
            ("max.session.timeout.ms", "3600000"),
        )
    },
}
TOPICS_PER_REQUEST = 4_900
"""Topics in one request: Kafka's limit is 10 000 records, two per topic."""

_LENGTH = struct.Struct(">i")


class Case(NamedTuple):
    """One request; `what` names its large part."""

    api: str
    what: str
    request: Message
    version: int
    before: Sequence[Message] = ()
    """Requests that are sent before and not measured."""


class Figure(NamedTuple):
    """The measured sizes and times of a request."""

    api: str
    what: str
    request_bytes: int
    answer_bytes: int
    seconds: float
    worst_ms: float

    def __str__(self) -> str:
        return (
            f"| {self.api} | {self.what} | {self.request_bytes / 1e6:.1f} | "
            f"{self.answer_bytes / 1e6:.1f} | {self.seconds:.1f} | {self.worst_ms:.0f} |"
        )


HEAD = (
    "| API | large | request MB | answer MB | seconds | worst heartbeat ms |\n"
    "|---|---|---|---|---|---|"
)


# --- requests -------------------------------------------------------------------------------------


def array_paths(message_type: type[Message], version: int) -> Iterator[tuple[str, ...]]:
    """Yield the path of each array of a message, outer arrays first."""
    for one in message_type.FIELDS:
        if not one.in_version(version):
            continue
        if isinstance(one.type, ARRAY):
            yield (one.name,)
            if isinstance(one.type.element, type):
                for inner in array_paths(one.type.element, version):
                    yield (one.name, *inner)
        elif isinstance(one.type, type):
            for inner in array_paths(one.type, version):
                yield (one.name, *inner)


def with_large_array(message: Message, path: tuple[str, ...], count: int) -> None:
    """Fill the array at `path` with `count` distinct elements; outer arrays get one element."""
    name, *inner = path
    field = next(one for one in message.FIELDS if one.name == name)
    if not isinstance(field.type, ARRAY):
        assert isinstance(field.type, type)
        nested = getattr(message, name) or field.type()
        setattr(message, name, nested)
        with_large_array(nested, tuple(inner), count)
        return
    if inner:
        items = getattr(message, name) or [_element(field.type.element, 0)]
        with_large_array(items[0], tuple(inner), count)
    else:
        items = [_element(field.type.element, number) for number in range(count)]
    setattr(message, name, items)


def _element(kind: Any, number: int) -> Any:
    """Return a value that depends on `number`."""
    if kind is STRING:
        return f"n{number}"
    if kind is UUID:
        return (number + 1).to_bytes(16, "big")
    if kind is INT8:
        return 2  # config resource type 2 is a topic
    if not isinstance(kind, type):
        return number % 30_000
    element = kind()
    numbered, same = _fields(kind)
    for name, field_kind in numbered:
        setattr(element, name, _element(field_kind, number))
    for name, value in same:
        setattr(element, name, value)
    return element


@cache
def _fields(kind: type[Message]) -> tuple[list[tuple[str, Any]], list[tuple[str, object]]]:
    """Return an element's numbered fields with their types, and its other fields with a value."""
    numbered: list[tuple[str, Any]] = []
    same: list[tuple[str, object]] = []
    for one in kind.FIELDS:
        if one.type in (BYTES, RECORDS):
            same.append((one.name, b"x" * 61))
        elif one.default is False and one.tag is None:
            same.append((one.name, True))
        elif not isinstance(one.type, ARRAY | type) and one.tag is None:
            numbered.append((one.name, one.type))
    return numbered, same


def large_arrays(spec: ApiSpec, count: int, *, oldest: bool = True) -> Iterator[Case]:
    """Yield a request for each array of an API, in the newest and optionally the oldest version."""
    versions = {spec.min_version, spec.max_version} if oldest else {spec.max_version}
    for version in sorted(versions):
        for path in array_paths(spec.request_type, version):
            made = spec.request_type()
            prepare = PREPARED.get(spec.name)
            if prepare is not None:
                prepare(made)
            with_large_array(made, path, count)
            for name, value in ENTRY_VALUES.get(spec.name, {}).items():
                for entry in getattr(made, path[0]):
                    setattr(entry, name, value)
            yield Case(spec.name, f"{count} {'.'.join(path)} v{version}", made, version)


def _prepare_join(join: Any) -> None:
    join.group_id, join.protocol_type = "large", "consumer"
    join.session_timeout_ms = join.rebalance_timeout_ms = 30_000


def _prepare_group(call: Any) -> None:
    call.group_id = "large"


def _prepare_fetch(fetch: Any) -> None:
    fetch.replica_id, fetch.session_epoch, fetch.max_bytes = -1, 0, 1 << 20


def _prepare_share(call: Any) -> None:
    call.group_id, call.member_id = "large", "member"


def _prepare_share_member(heartbeat: Any) -> None:
    heartbeat.group_id, heartbeat.member_id = "shared", "member"


def _prepare_consumer_member(heartbeat: Any) -> None:
    heartbeat.group_id, heartbeat.member_id = "consumed", "member"
    heartbeat.rebalance_timeout_ms, heartbeat.topic_partitions = 300_000, []
    heartbeat.subscribed_topic_names = []


def _prepare_share_group(call: Any) -> None:
    call.group_id = "empty-shared"


def _prepare_produce(produce: Any) -> None:
    produce.acks, produce.timeout_ms = 1, 1000


def _prepare_voter(call: Any) -> None:
    call.voter_id, call.voter_directory_id = 7, bytes(15) + b"\1"


def _prepare_metadata(metadata: Any) -> None:
    metadata.allow_auto_topic_creation = True


PREPARED: dict[str, Callable[[Any], None]] = {
    "JoinGroup": _prepare_join,
    "SyncGroup": _prepare_group,
    "LeaveGroup": _prepare_group,
    "OffsetCommit": _prepare_group,
    "OffsetFetch": _prepare_group,
    "OffsetDelete": _prepare_group,
    "InitializeShareGroupState": _prepare_group,
    "ReadShareGroupState": _prepare_group,
    "WriteShareGroupState": _prepare_group,
    "DeleteShareGroupState": _prepare_group,
    "ReadShareGroupStateSummary": _prepare_group,
    "ConsumerGroupHeartbeat": _prepare_consumer_member,
    "ShareGroupHeartbeat": _prepare_share_member,
    "AlterShareGroupOffsets": _prepare_share_group,
    "DeleteShareGroupOffsets": _prepare_share_group,
    "ShareFetch": _prepare_share,
    "ShareAcknowledge": _prepare_share,
    "Fetch": _prepare_fetch,
    "Produce": _prepare_produce,
    "Metadata": _prepare_metadata,
    "AddRaftVoter": _prepare_voter,
}
"""Fields that a request needs besides the array, so that the broker handles the array."""

ENTRY_VALUES: dict[str, dict[str, int]] = {
    "CreateAcls": {"resource_type": 2, "operation": 3, "permission_type": 3},
    "DeleteAcls": {"resource_type_filter": 1, "operation": 1, "permission_type": 1},
}
"""Field values without which the entries would be invalid."""

WITHOUT_ARRAYS = frozenset(
    (
        "Heartbeat",
        "ApiVersions",
        "InitProducerId",
        "DescribeCluster",
        "AddOffsetsToTxn",
        "EndTxn",
        "DescribeAcls",
        "SaslHandshake",
        "SaslAuthenticate",
        "RenewDelegationToken",
        "ExpireDelegationToken",
        "UnregisterBroker",
        "UnregisterController",
        "RemoveRaftVoter",
        "GetTelemetrySubscriptions",
        "PushTelemetry",
    )
)


def _newest(made: Message, what: str, before: Sequence[Message] = ()) -> Case:
    name = type(made).__name__.removesuffix("Request")
    return Case(name, what, made, SPEC_BY_NAME[name].max_version, before)


def _each(message_type: type[Message], names: list[str], **values: Any) -> Message:
    """Return a request that names partition 0 of each topic."""
    made = message_type()
    prepare = PREPARED.get(message_type.__name__.removesuffix("Request"))
    if prepare is not None:
        prepare(made)
    array = next(one for one in made.FIELDS if one.name in ("topics", "topic_data"))
    assert isinstance(array.type, ARRAY)
    element_type: Any = array.type.element
    for name in names:
        topic = element_type()
        setattr(topic, "topic" if hasattr(topic, "topic") else "name", name)
        inner = next(one for one in topic.FIELDS if one.name.startswith("partition"))
        partition = inner.type.element()
        for field, value in values.items():
            setattr(partition, field, value)
        setattr(topic, inner.name, [partition])
        getattr(made, array.name).append(topic)
    return made


def large_work(broker: Broker | Serve, topics: int) -> Iterator[Case]:
    """Yield requests that cause much work, on `topics` topics that the first requests create."""
    names: list[str] = []
    for start in range(0, topics, TOPICS_PER_REQUEST):
        part = [f"t{number}" for number in range(start, min(start + TOPICS_PER_REQUEST, topics))]
        names += part
        made = CreateTopicsRequest(
            topics=[
                CreatableTopic(name=one, num_partitions=1, replication_factor=1) for one in part
            ]
        )
        yield _newest(made, f"{len(part)} new topics, {start} there")
    auto = [MetadataRequestTopic(name=f"auto{number}") for number in range(TOPICS_PER_REQUEST)]
    yield _newest(MetadataRequest(topics=auto), f"{len(auto)} new topics")
    wide = CreatableTopic(name="wide", num_partitions=9_990, replication_factor=1)
    yield _newest(CreateTopicsRequest(topics=[wide]), "9990 partitions")
    widened = [CreatePartitionsTopic(name="wide", count=19_990, assignments=None)]
    yield _newest(CreatePartitionsRequest(topics=widened), "10000 partitions")
    yield _newest(MetadataRequest(topics=None), f"all of {topics} topics")
    yield _newest(DescribeTopicPartitionsRequest(response_partition_limit=2000), "all topics")
    resources = [
        DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=None)
        for name in names[: topics // 4]
    ]
    yield _newest(DescribeConfigsRequest(resources=resources), f"{len(resources)} topics")
    empty = _each(ProduceRequest, names, records=b"x" * 61)
    yield Case("Produce", f"{topics} topics", empty, 12)
    fetch = _each(FetchRequest, names, partition_max_bytes=1 << 20)
    yield Case("Fetch", f"{topics} topics", fetch, 12)
    yield _newest(_each(ListOffsetsRequest, names, timestamp=-1), f"{topics} topics")
    yield _newest(_each(DeleteRecordsRequest, names, offset=-1), f"{topics} topics")
    yield _newest(DescribeLogDirsRequest(topics=None), f"all of {topics} topics")
    commit = _each(OffsetCommitRequest, names, committed_offset=1)
    yield Case("OffsetCommit", f"{topics} topics", commit, 9)
    altered = [
        AlterConfigsResource(resource_type=2, resource_name=name, configs=[]) for name in names
    ]
    yield _newest(AlterConfigsRequest(resources=altered), f"{topics} topics")
    with load.client_of(broker) as client:
        for group_case in group_cases(client, names):
            yield _newest(group_case.request, group_case.what, group_case.before)
    deleted = [DeleteTopicState(name=name) for name in names[:10_000]]
    yield _newest(DeleteTopicsRequest(topics=deleted), f"{len(deleted)} topics")
    yield _newest(DeleteTopicsRequest(topics=[DeleteTopicState(name="wide")]), "19990 partitions")
    yield _newest(ListGroupsRequest(), "all groups")
    for number, (what, metrics) in enumerate(
        (
            ("gzip of 100 MB", gzip.compress(bytes(100 << 20), 1)),
            ("50000 members of gzip", gzip.compress(b"") * 50_000),
        ),
        2,
    ):
        instance_id = bytes(15) + bytes([number])
        pushed = PushTelemetryRequest(
            client_instance_id=instance_id,
            subscription_id=subscription_id([], DEFAULT_INTERVAL_MS, instance_id),
            compression_type=Compression.GZIP,
            metrics=metrics,
        )
        yield _newest(pushed, what)


# --- measuring ------------------------------------------------------------------------------------


def frame_of(case: Case) -> bytes:
    """Return the request of a case as a frame."""
    spec = SPEC_BY_NAME[case.api]
    body = encoder(spec.request_type, case.version)(case.request)
    flexible = spec.request_type.is_flexible(case.version)
    return request(spec.key, case.version, bytes(body), flexible=flexible)


def heart(broker: Broker | Serve) -> Probe:
    """Return a process that sends heartbeats all the time; their responses are not checked."""
    return Probe(broker, load.heartbeat(Member("heart", "member", 1)))


def receive(connection: socket.socket) -> int:
    """Read and drop one response; return its size in bytes, or 0 if the connection is closed."""
    head = b""
    while len(head) < _LENGTH.size:
        part = connection.recv(_LENGTH.size - len(head))
        if not part:
            return 0
        head += part
    size: int = _LENGTH.unpack(head)[0]
    left, buffer = size, bytearray(1 << 20)
    while left:
        got = connection.recv_into(buffer, min(left, len(buffer)))
        assert got, "the answer ends early"
        left -= got
    return size


def measured(broker: Broker | Serve, heart: Probe, case: Case) -> Figure:
    """Send a request and watch heartbeats until the response arrives and its memory is freed."""
    frame = frame_of(case)
    if case.before:
        with load.client_of(broker) as client:
            for message in case.before:
                client.ask(message)
    host, port = broker.address
    with socket.create_connection((host, port)) as connection:
        connection.settimeout(600)
        heart.waits_ms()
        started = time.perf_counter()
        connection.sendall(frame)
        answer_bytes = receive(connection)
        seconds = time.perf_counter() - started
        cpu = broker.cpu_seconds()
        while True:  # wait until the broker is idle, so that freeing the request is included
            time.sleep(0.04)
            before, cpu = cpu, broker.cpu_seconds()
            if cpu - before < 0.03:
                break
    return Figure(case.api, case.what, len(frame), answer_bytes, seconds, heart.waits_ms()[-1])


def array_cases(
    count: int, specs: Iterable[ApiSpec] = SPECS, *, oldest: bool = True
) -> Iterator[Case]:
    """Yield cases for every array of the APIs."""
    for spec in specs:
        yield from large_arrays(spec, count, oldest=oldest)


def issue_cases() -> Iterator[Case]:
    """Yield requests that once blocked the broker for seconds."""
    new = [
        CreatableTopic(name=f"c{one}", num_partitions=1, replication_factor=1)
        for one in range(2000)
    ]
    yield _newest(CreateTopicsRequest(topics=new), "2000 new topics")
    asked = [MetadataRequestTopic(name=f"m{one}") for one in range(2000)]
    yield _newest(MetadataRequest(topics=asked), "2000 new topics")
    offsets = OffsetFetchRequest()
    with_large_array(offsets, ("groups", "topics", "partition_indexes"), 3_000_000)
    offsets.groups[0].group_id = "g"
    yield Case("OffsetFetch", "3 million partitions", offsets, 9)
    groups = [f"g{one}" for one in range(1_000_000)]
    yield _newest(DescribeGroupsRequest(groups=groups), "a million")
    commit = _each(OffsetCommitRequest, ["c1"])
    with_large_array(commit, ("topics", "partitions"), 1_000_000)
    yield Case("OffsetCommit", "a million partitions", commit, 9)
    listed = _each(ListOffsetsRequest, ["c1"])
    with_large_array(listed, ("topics", "partitions"), 2_000_000)
    yield Case("ListOffsets", "2 million partitions", listed, 10)
    join = JoinGroupRequest()
    _prepare_join(join)
    with_large_array(join, ("protocols",), 1_000_000)
    for protocol in join.protocols:
        protocol.metadata = b""
    yield _newest(join, "a million protocols")
    for may_create, what in ((False, "a million unknown names"), (True, "with auto-creation on")):
        names = [MetadataRequestTopic(name=f"u{one}") for one in range(1_000_000)]
        made = MetadataRequest(topics=names, allow_auto_topic_creation=may_create)
        yield Case("Metadata", what, made, 9)


def main(arguments: list[str]) -> int:
    """Print the table."""
    is_issue = arguments[:1] == ["issue"]
    directory = Path(arguments[1]) if is_issue and len(arguments) > 1 else ROOT
    python = directory / ".venv" / "bin" / "python"
    command = (str(python), "-m", "coordinator_server")
    settings = [part for name, value in SETTINGS.items() for part in ("--set", f"{name}={value}")]
    broker = Serve("--ephemeral", *settings, command=command, directory=directory)
    print(HEAD)
    with broker, heart(broker) as probe:
        count = int(arguments[0]) if arguments and not is_issue else 100_000
        everything = chain(array_cases(count), large_work(broker, count))
        for case in issue_cases() if is_issue else everything:
            print(measured(broker, probe, case), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
