"""Counts are exact: requests, error codes, bytes, rebalances, removed members, connections."""

from __future__ import annotations

import pytest

from benchmarks import load
from coordinator_server.control.advance import ClockController
from coordinator_server.counting.connections import CountedConnection
from coordinator_server.counting.error_codes import ErrorCodes
from coordinator_server.metrics.collect import collect
from coordinator_server.metrics.lag import CommittedLagReader
from coordinator_server.steps import run_all
from protocol.apis.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlteredQuotaEntity,
    AlterQuotaEntry,
    QuotaOperation,
)
from protocol.apis.leave_group import LeaveGroupResponse, MemberResponse
from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.apis.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from protocol.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.batch import Record, build_batch
from protocol.errors import ErrorCode
from tests.faults.client import frame_of
from tests.harness.clock import START_MS
from tests.unit.metrics.scene import CountingNodes, Wire, total, value


@pytest.fixture
def nodes() -> CountingNodes:
    """Start and return one broker."""
    return CountingNodes(None, 1)


async def asked(wire: Wire, frame: bytes) -> bytes:
    """Return the response frame."""
    before = len(wire.answers)
    wire.send_frame(frame)
    for _ in range(200):
        if len(wire.answers) > before:
            return wire.answers[-1]
        wire.turn()
    raise AssertionError("no response")


async def member_of(wire: Wire, group: str) -> load.Member:
    """Bring a group to Stable with one member; return the member."""
    frame = frame_of(load.join_request(group), load.JOIN_VERSION)
    joined = load.decoded(frame, (await asked(wire, frame))[4:])
    member = load.Member(group, joined.member_id, joined.generation_id)
    sync = load.sync_request(member, [member.member_id])
    await asked(wire, frame_of(sync, load.SYNC_VERSION))
    return member


def committing(group: str, *offsets: tuple[int, int]) -> bytes:
    """Return the frame of a standalone commit of (partition, offset) pairs in topic `t`."""
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=""
        )
        for index, offset in offsets
    ]
    topic = OffsetCommitRequestTopic(name="t", partitions=partitions)
    request = OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=[topic]
    )
    return frame_of(request, load.COMMIT_VERSION)


async def test_ten_heartbeats_are_ten(nodes: CountingNodes) -> None:
    """Ten heartbeats are counted as ten requests with ten latencies and the bytes on the wire."""
    wire = nodes.connect()
    member = await member_of(wire, "group")
    sizes = [0, 0]
    for _ in range(10):
        frame = load.heartbeat(member)
        sizes[0] += len(frame)
        sizes[1] += len(await asked(wire, frame))
    samples = await nodes.samples()
    of = {"broker": 1, "api": "Heartbeat"}
    version = load.HEARTBEAT_VERSION
    assert value(samples, "coordinator_requests_total", **of, version=version) == 10
    assert value(samples, "coordinator_request_seconds_count", **of) == 10
    assert value(samples, "coordinator_request_seconds_bucket", **of, le="+Inf") == 10
    assert value(samples, "coordinator_response_errors_total", **of, error="NONE") == 10
    assert value(samples, "coordinator_request_bytes_total", **of) == sizes[0]
    assert value(samples, "coordinator_response_bytes_total", **of) == sizes[1]
    assert 0 < total(samples, "coordinator_request_seconds_sum", **of) < 10


async def test_error_codes_are_counted_by_name(nodes: CountingNodes) -> None:
    """A refused heartbeat is counted under its error and not under NONE."""
    wire = nodes.connect()
    member = await member_of(wire, "group")
    await asked(wire, load.heartbeat(member._replace(member_id="unknown")))
    await asked(wire, load.heartbeat(member._replace(generation_id=7)))
    samples = await nodes.samples()
    errors = {
        dict(labels)["error"]: count
        for (name, labels), count in samples.items()
        if name == "coordinator_response_errors_total" and dict(labels)["api"] == "Heartbeat"
    }
    assert errors == {"UNKNOWN_MEMBER_ID": 1, "ILLEGAL_GENERATION": 1}


async def test_commits_count_offsets(nodes: CountingNodes) -> None:
    """Each committed partition is counted as a commit, also in shared responses.

    Unknown partitions are counted only as errors.
    """
    wire = nodes.connect()
    for offset in range(3):
        await asked(wire, committing("standalone", (0, offset)))
    await asked(wire, committing("standalone", (0, 5), (7, 5)))
    samples = await nodes.samples()
    assert value(samples, "coordinator_offset_commits_total", broker=1) == 4
    unknown = {"error": "UNKNOWN_TOPIC_OR_PARTITION"}
    assert total(samples, "coordinator_response_errors_total", api="OffsetCommit", **unknown) == 1


async def test_a_request_without_response_is_counted(nodes: CountingNodes) -> None:
    """Produce with acks=0 counts as a request, without error codes and response bytes."""
    batch = build_batch([Record(0, START_MS, None, b"value")]).to_bytes()
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])
    wire = nodes.connect()
    wire.send(ProduceRequest(acks=0, timeout_ms=100, topic_data=[data]), load.PRODUCE_VERSION)
    nodes.turn()
    samples = await nodes.samples()
    assert total(samples, "coordinator_requests_total", api="Produce") == 1
    assert total(samples, "coordinator_response_bytes_total", api="Produce") == 0
    assert total(samples, "coordinator_response_errors_total", api="Produce") == 0


async def test_large_requests_are_counted(nodes: CountingNodes) -> None:
    """A request that is decoded, served and answered in steps is counted once, with its codes."""
    nodes.cluster.topics.create("wide", 10_000, {})
    wire = nodes.connect()
    topic = OffsetFetchRequestTopic(name="wide", partition_indexes=list(range(40_000)))
    frame = frame_of(OffsetFetchRequest(group_id="group", topics=[topic]), 7)
    answer = b""
    wire.send_frame(frame)
    for _ in range(5000):
        nodes.turn()
        if wire.answers:
            answer = wire.answers[-1]
            break
    samples = await nodes.samples()
    of = {"broker": 1, "api": "OffsetFetch"}
    assert value(samples, "coordinator_requests_total", **of, version=7) == 1
    assert value(samples, "coordinator_request_bytes_total", **of) == len(frame)
    assert value(samples, "coordinator_response_bytes_total", **of) == len(answer) > 400_000
    assert value(samples, "coordinator_response_errors_total", **of, error="NONE") == 40_001


async def test_quotas_and_metrics_count_the_same_requests(nodes: CountingNodes) -> None:
    """A request quota does not change the counts of requests."""
    wire = nodes.connect()
    member = await member_of(wire, "group")
    await asked(wire, load.heartbeat(member))
    entry = AlterQuotaEntry(
        entity=[AlteredQuotaEntity(entity_type="user", entity_name=None)],
        ops=[QuotaOperation(key="request_percentage", value=1e9, remove=False)],
    )
    await asked(wire, frame_of(AlterClientQuotasRequest(entries=[entry]), 1))
    for _ in range(3):
        await asked(wire, load.heartbeat(member))
    assert total(await nodes.samples(), "coordinator_requests_total", api="Heartbeat") == 4


async def test_a_connection_counts_its_error_codes(nodes: CountingNodes) -> None:
    """A connection counts each error code of its own responses, including codes of partitions.

    Other connections do not count these codes. Reading the counts of connections does not change
    the metrics.
    """
    wire, silent = nodes.connect(), nodes.connect()
    member = await member_of(wire, "group")
    await asked(wire, committing("standalone", (0, 5), (7, 5), (8, 5)))
    await asked(wire, committing("standalone", (0, 6)))
    await asked(wire, load.heartbeat(member._replace(member_id="unknown")))
    await asked(wire, load.heartbeat(member._replace(generation_id=7)))
    for _ in range(2):
        assert isinstance(wire.connection, CountedConnection)
        wire.connection.settle()
        uses = {use.traffic.spec.name: use for use in wire.connection.uses.values()}
        counted = {
            name: (use.requests, use.error_count, ErrorCode(use.last_error).name)
            for name, use in uses.items()
        }
        assert counted == {
            "JoinGroup": (1, 0, "NONE"),
            "SyncGroup": (1, 0, "NONE"),
            "OffsetCommit": (2, 2, "UNKNOWN_TOPIC_OR_PARTITION"),
            "Heartbeat": (2, 2, "ILLEGAL_GENERATION"),
        }
        samples = await nodes.samples()
        assert total(samples, "coordinator_requests_total") == 6
        assert total(samples, "coordinator_offset_commits_total") == 2
    assert sum(use.received_bytes for use in uses.values()) == wire.sent_bytes
    assert sum(use.sent_bytes for use in uses.values()) == sum(map(len, wire.answers))
    assert isinstance(silent.connection, CountedConnection)
    assert not silent.connection.uses


async def test_requests_of_ended_connections_stay_counted(nodes: CountingNodes) -> None:
    """Requests are counted after their connection has ended, also if they are answered later."""
    wire, ending = nodes.connect(), nodes.connect()
    member = await member_of(wire, "group")
    joining = frame_of(load.join_request("group"), load.JOIN_VERSION)
    await asked(ending, load.heartbeat(member))
    ending.send_frame(joining)
    nodes.turn()
    assert total(await nodes.samples(), "coordinator_requests_total", api="JoinGroup") == 1
    assert isinstance(ending.connection, CountedConnection)
    waiting = ending.connection.use_in_progress
    assert waiting is not None
    assert (waiting.traffic.spec.name, waiting.requests) == ("JoinGroup", 0)
    ending.close()
    assert ending.connection.use_in_progress is None
    samples = await nodes.samples()
    assert total(samples, "coordinator_requests_total", api="Heartbeat") == 1
    rejoining = load.join_request("group", member.member_id)
    await asked(wire, frame_of(rejoining, load.JOIN_VERSION))
    samples = await nodes.samples()
    assert total(samples, "coordinator_requests_total", api="JoinGroup") == 3
    assert total(samples, "coordinator_request_bytes_total", api="JoinGroup") > 2 * len(joining)


async def test_rebalances_are_counted_by_cause(nodes: CountingNodes) -> None:
    """Rebalances are counted by type, cause and outcome, and their phases in histograms."""
    wire = nodes.connect()
    member = await member_of(wire, "group")
    frame = load.join_request("group", member.member_id, b"changed")
    await asked(wire, frame_of(frame, load.JOIN_VERSION))
    sync = load.sync_request(member._replace(generation_id=2), [member.member_id])
    await asked(wire, frame_of(sync, load.SYNC_VERSION))
    samples = await nodes.samples()
    of = {"broker": 1, "type": "classic"}
    stable = {**of, "outcome": "stable"}
    for cause in ("member joined", "leader rejoined"):
        assert value(samples, "coordinator_rebalances_total", **stable, cause=cause) == 1
    assert total(samples, "coordinator_rebalances_total") == 2
    phases = dict.fromkeys(("join", "sync"), "coordinator_rebalance_phase_seconds_count")
    assert {phase: value(samples, name, **of, phase=phase) for phase, name in phases.items()} == {
        "join": 2,
        "sync": 2,
    }
    assert value(samples, "coordinator_groups", **of, state="Stable") == 1
    assert value(samples, "coordinator_members", **of) == 1


async def test_expired_members_are_counted() -> None:
    """An expired member is counted once as removed, and the group is empty afterwards."""
    nodes = CountingNodes(None, 1, has_virtual_clock=True)
    await member_of(nodes.connect(), "group")
    await ClockController(nodes.cluster).advance(600_000)
    nodes.turn()
    samples = await nodes.samples()
    of = {"broker": 1, "type": "classic"}
    assert value(samples, "coordinator_members_removed_total", **of, reason="session expired") == 1
    assert total(samples, "coordinator_members_removed_total") == 1
    assert not total(samples, "coordinator_members", broker=1)


async def test_connections_are_counted_by_listener(nodes: CountingNodes) -> None:
    """Accepted connections are the sum of open and closed connections of a listener."""
    wires = [nodes.connect() for _ in range(3)] + [nodes.connect(listener="OTHER")]
    wires[0].close()
    samples = await nodes.samples()
    found = {
        listener: [
            value(samples, f"coordinator_connections{suffix}", broker=1, listener=listener)
            for suffix in ("", "_accepted_total", "_closed_total")
        ]
        for listener in ("PLAINTEXT", "OTHER")
    }
    assert found == {"PLAINTEXT": [2, 3, 1], "OTHER": [1, 1, 0]}


def test_error_codes_are_found_in_every_shape() -> None:
    """Error codes of a response and its nested arrays are counted, at once or in steps."""
    leave = LeaveGroupResponse(
        error_code=0,
        members=[MemberResponse(error_code=code) for code in (0, 25, 25)],
    )
    partitions = [OffsetFetchResponsePartition(error_code=code) for code in (3, 0)]
    fetched = OffsetFetchResponse(
        error_code=16, topics=[OffsetFetchResponseTopic(name="t", partitions=partitions)]
    )
    for message, version, expected in (
        (leave, 4, (4, {25: 2})),
        (leave, 0, (1, {})),
        (fetched, 7, (3, {16: 1, 3: 1})),
        (fetched, 1, (2, {3: 1})),
    ):
        places = ErrorCodes(type(message), version)
        errors: dict[int, int] = {}
        assert (places.count(message, errors), errors) == expected
        errors = {}
        assert (run_all(places.count_in_steps(message, errors)), errors) == expected
    assert ErrorCode(25).name == "UNKNOWN_MEMBER_ID"


async def test_a_connection_that_ends_during_a_scrape_is_counted_once(nodes: CountingNodes) -> None:
    """The number of accepted connections does not fall if a connection ends during a scrape."""
    wires = [nodes.connect() for _ in range(3)]
    counts = nodes.cluster.shared.counts
    assert counts is not None
    steps = collect(nodes.cluster, counts, CommittedLagReader(nodes.cluster))
    accepted: list[float] = []
    for metric in steps:
        if metric is None:
            if wires:
                wires.pop().close()
        elif metric.name == "coordinator_connections_accepted":
            accepted += [sample.value for sample in metric.samples]
    assert not wires
    after = await nodes.samples()
    labels = {"broker": 1, "listener": "PLAINTEXT"}
    assert accepted == [3] == [value(after, "coordinator_connections_accepted_total", **labels)]


async def test_a_stop_does_not_lower_the_accepted_connections(nodes: CountingNodes) -> None:
    """Connections that outlive the server of a stopping broker remain counted."""
    wires = [nodes.connect() for _ in range(3)]
    wires.pop().close()
    await nodes.samples()
    del nodes.cluster.servers.by_id[1]
    labels = {"broker": 1, "listener": "PLAINTEXT"}
    for _ in range(2):
        samples = await nodes.samples()
        assert value(samples, "coordinator_connections_accepted_total", **labels) == 3
        while wires:
            wires.pop().close()
