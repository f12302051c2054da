"""The load of the benchmarks: members, request frames, and connections in a closed loop.

The load runs in the benchmark's process, the measured server in another one. Only the server's CPU
time counts, so the speed of the load does not matter.
"""

from __future__ import annotations

import asyncio
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from struct import unpack_from
from typing import Any, NamedTuple, Protocol, cast

from coordinator_server.testing.process import COMMAND
from protocol.apis.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.apis.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.apis.heartbeat import HeartbeatRequest
from protocol.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.apis.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from protocol.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.batch import Record, build_batch
from protocol.codec import decoder
from protocol.errors import ErrorCode
from protocol.registry import SPEC_BY_KEY
from protocol.schema import Message
from tests.faults.client import Client, frame_of
from tests.support import ROOT, Serve, Wire

JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION = 3, 2, 4
COMMIT_VERSION, OFFSET_FETCH_VERSION = 8, 7
PRODUCE_VERSION, FETCH_VERSION, CREATE_TOPICS_VERSION = 9, 12, 7

TOPIC, PARTITIONS = "topic", 100
RECORDS, RECORD_BYTES = 16, 1000
"""Number and value size of the records in a produced batch."""

FETCH_BYTES = 1 << 20
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
FORMING_SETTINGS = {"group.initial.rebalance.delay.ms": "1000"}
"""Settings for groups whose many members join at the same time."""

_SESSION_TIMEOUT_MS = 300_000
_ASK_SECONDS = 120.0


class Server(Protocol):
    """A measured server: a broker or the floor."""

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""

    def cpu_seconds(self) -> float:
        """Return the CPU time that the process has used."""


@contextmanager
def served(
    settings: Mapping[str, str] = SETTINGS,
    command: Sequence[str] = COMMAND,
    more_arguments: Sequence[str] = (),
) -> Iterator[Serve]:
    """Run a broker as users do, with its own data directory; `command` starts it."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        arguments = ["--data-dir", f"{directory}/data", "--log-level", "warning"]
        for name, value in settings.items():
            arguments += ["--set", f"{name}={value}"]
        arguments += more_arguments
        with Serve(*arguments, directory=ROOT, command=command) as broker:
            yield broker
            broker.stop()


class Member(NamedTuple):
    """A member of a stable group."""

    group_id: str
    member_id: str
    generation_id: int


def connect(server: Server) -> Client:
    """Return a connection for one request at a time."""
    return Client(server.address, _ASK_SECONDS)


@contextmanager
def client_of(server: Server) -> Iterator[Client]:
    """Connect like `connect` and close the connection at the end."""
    client = connect(server)
    try:
        yield client
    finally:
        client.close()


def join_request(group: str, member_id: str = "", metadata: bytes = b"") -> JoinGroupRequest:
    """Return a consumer's JoinGroup; changed metadata starts a rebalance."""
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=_SESSION_TIMEOUT_MS,
        rebalance_timeout_ms=_SESSION_TIMEOUT_MS,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


def sync_request(member: Member, assigned: Sequence[str] = ()) -> SyncGroupRequest:
    """Return a SyncGroup; a leader's SyncGroup assigns a partition to each member in `assigned`."""
    return SyncGroupRequest(
        group_id=member.group_id,
        member_id=member.member_id,
        generation_id=member.generation_id,
        assignments=[
            SyncGroupRequestAssignment(member_id=one, assignment=b"assignment") for one in assigned
        ],
    )


def only_member(client: Client, group: str) -> Member:
    """Join and sync as the only member of a new group."""
    joined = client.ask(join_request(group), JOIN_VERSION)
    assert not joined.error_code, joined
    member = Member(group, joined.member_id, joined.generation_id)
    synced = client.ask(sync_request(member, [member.member_id]), SYNC_VERSION)
    assert not synced.error_code, synced
    return member


def ensure_topic(client: Client, name: str = TOPIC, partitions: int = PARTITIONS) -> None:
    """Create a topic unless it exists."""
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=60_000)
    error_code = client.ask(request, CREATE_TOPICS_VERSION).topics[0].error_code
    assert error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), error_code


# --- frames ---------------------------------------------------------------------------------------


def heartbeat(member: Member) -> bytes:
    """Return the frame of a heartbeat."""
    request = HeartbeatRequest(
        group_id=member.group_id, member_id=member.member_id, generation_id=member.generation_id
    )
    return frame_of(request, HEARTBEAT_VERSION)


def commit(member: Member, partitions: int, offset: int) -> bytes:
    """Return the frame of a commit of one offset for each of `partitions` partitions."""
    topic = OffsetCommitRequestTopic(
        name=TOPIC,
        partitions=[
            OffsetCommitRequestPartition(
                partition_index=number, committed_offset=offset, committed_metadata=""
            )
            for number in range(partitions)
        ],
    )
    request = OffsetCommitRequest(
        group_id=member.group_id,
        member_id=member.member_id,
        generation_id_or_member_epoch=member.generation_id,
        topics=[topic],
    )
    return frame_of(request, COMMIT_VERSION)


def offset_fetch(member: Member, partitions: int) -> bytes:
    """Return the frame that requests the committed offsets of `partitions` partitions."""
    topic = OffsetFetchRequestTopic(name=TOPIC, partition_indexes=list(range(partitions)))
    request = OffsetFetchRequest(group_id=member.group_id, topics=[topic])
    return frame_of(request, OFFSET_FETCH_VERSION)


def produce(partition: int, now_ms: int | None = None) -> bytes:
    """Return the frame of a Produce with records of the current time, or of `now_ms`."""
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    records = [Record(one, now_ms, None, bytes(RECORD_BYTES)) for one in range(RECORDS)]
    data = PartitionProduceData(index=partition, records=build_batch(records).to_bytes())
    request = ProduceRequest(
        acks=1, timeout_ms=5000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])]
    )
    return frame_of(request, PRODUCE_VERSION)


def fetch(partition: int) -> bytes:
    """Return the frame that fetches FETCH_BYTES from a partition's start, without a session."""
    wanted = FetchPartition(partition=partition, partition_max_bytes=FETCH_BYTES)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        session_epoch=-1,
        topics=[FetchTopic(topic=TOPIC, partitions=[wanted])],
    )
    return frame_of(request, FETCH_VERSION)


def asked(server: Server, frame: bytes) -> bytes:
    """Send a frame and return the complete response frame. Asserts that it contains no error."""
    with Wire(socket.create_connection(server.address, _ASK_SECONDS)) as wire:
        answer = wire.ask(frame)
    decoded(frame, answer)
    return len(answer).to_bytes(4, "big") + answer


def decoded(frame: bytes, answer: bytes) -> Any:
    """Decode the response to a frame, without its length. Asserts that it contains no error."""
    api_key, version = unpack_from(">hh", frame, 4)
    spec = SPEC_BY_KEY[api_key]
    position = 4 + (spec.response_header_version(version) == 1)
    response = decoder(spec.response_type, version)(answer, position)[0]
    errors = errors_in(response)
    assert not errors, f"{spec.name} is answered with errors {errors}"
    return response


def errors_in(message: Message) -> list[int]:
    """Return all error codes in a response except NONE."""
    errors: list[int] = []
    for field in message.FIELDS:
        value: Any = getattr(message, field.name)
        if field.name == "error_code" and value:
            errors.append(value)
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, Message):
                errors += errors_in(inner)
    return errors


# --- connections ----------------------------------------------------------------------------------


class ClosedLoop(asyncio.Protocol):
    """Sends its frames in turn, each after the response to an earlier frame, while `runs` is set.

    Every response must equal `expected`, or only have the same size if `varies`.
    """

    def __init__(
        self, frames: Sequence[bytes], expected: bytes, *, in_flight: int = 1, varies: bool = False
    ) -> None:
        self._frames = frames
        self._expected = expected
        self._in_flight = in_flight
        self._varies = varies
        self._received = bytearray()
        self._sent = 0
        self.answers = 0
        self.runs = False

    def itself(self) -> ClosedLoop:
        """Return this protocol, as the factory for an event loop."""
        return self

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport; nothing is sent before `start`."""
        self._transport = cast("asyncio.Transport", transport)

    def start(self) -> None:
        """Start sending."""
        self.runs = True
        while self._sent - self.answers < self._in_flight:
            self._send()

    @property
    def is_idle(self) -> bool:
        """Whether all requests are answered."""
        return self._sent == self.answers

    def data_received(self, data: bytes) -> None:
        """Check the responses and send the next frames."""
        size = len(self._expected)
        if self._received or len(data) != size:
            self._received += data
            if len(self._received) < size:
                return
            data = bytes(self._received[:size])
            del self._received[:size]
        assert data[:4] == self._expected[:4], "an answer of another size"
        assert self._varies or data == self._expected, "another answer"
        self.answers += 1
        if self.runs:
            self._send()
        if len(self._received) >= size:
            self.data_received(b"")

    def _send(self) -> None:
        self._transport.write(self._frames[self._sent % len(self._frames)])
        self._sent += 1

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()


async def connected(server: Server, loops: Sequence[ClosedLoop]) -> list[ClosedLoop]:
    """Connect all loops and return them."""
    loop = asyncio.get_running_loop()
    for one in loops:
        await loop.create_connection(one.itself, *server.address)
    return list(loops)


async def window(server: Server, loops: Sequence[ClosedLoop], seconds: float) -> tuple[int, float]:
    """Let the loops run; return the number of responses and the server's CPU in seconds."""
    count, cpu = sum(one.answers for one in loops), server.cpu_seconds()
    for one in loops:
        one.start()
    await asyncio.sleep(seconds)
    for one in loops:
        one.runs = False
    async with asyncio.timeout(_ASK_SECONDS):
        while not all(one.is_idle for one in loops):
            await asyncio.sleep(0.002)
    return sum(one.answers for one in loops) - count, server.cpu_seconds() - cpu
