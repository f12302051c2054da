"""The client of our tools with brokers that are old, move or fail."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from coordinator_server.client import (
    Address,
    Client,
    ClientConnection,
    ClientError,
    ClientSettings,
    check,
)
from coordinator_server.kafka_tools.script_names import BY_NAME, run_script
from protocol.apis.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.apis.delete_groups import DeleteGroupsRequest
from protocol.apis.describe_configs import DescribeConfigsResponse, DescribeConfigsResult
from protocol.apis.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from protocol.apis.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.errors import ErrorCode
from protocol.schema import Message
from tests.e2e.fake_broker import fake, metadata
from tests.support import Broker, free_port

QUICK = ClientSettings(request_timeout_ms=2_000, default_api_timeout_ms=2_000, retry_backoff_ms=1)


def test_versions_are_agreed_on_with_an_old_broker() -> None:
    """A broker that refuses the newest ApiVersions gets only versions that it supports."""
    with fake({3: (0, 5), 18: (0, 2)}, lambda *_: MetadataResponse(cluster_id="c")) as broker:
        connection = ClientConnection(broker.address, QUICK)
        answer = connection.ask(MetadataRequest(topics=[]))
        connection.close()
        assert answer.cluster_id == "c"
        assert broker.asked == [("ApiVersions", 5), ("ApiVersions", 2), ("Metadata", 5)]


def test_what_a_broker_does_not_serve_is_said_in_kafkas_words() -> None:
    """Kafka's messages name an unsupported API, or the version range that lacks a needed field."""
    with fake({3: (0, 5), 18: (0, 4)}, lambda *_: MetadataResponse()) as broker:
        connection = ClientConnection(broker.address, QUICK)
        with pytest.raises(ClientError) as raised:
            connection.ask(DeleteGroupsRequest())
        assert str(raised.value) == "The node does not support DELETE_GROUPS"
        assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION
        with pytest.raises(ClientError) as raised:
            connection.ask(MetadataRequest(), min_version=12)
        connection.close()
        assert str(raised.value) == (
            "The node does not support METADATA with version in range [12,13]."
            " The supported range is [0,5]."
        )


def test_a_request_is_sent_again_when_the_connection_breaks() -> None:
    """`call` retries on a new connection; a request outside of `call` raises the error."""
    answers: list[MetadataResponse | None] = [None, None, MetadataResponse(cluster_id="c")]
    with fake({3: (0, 13), 18: (0, 4)}, lambda *_: answers.pop(0)) as broker:
        client = Client("{}:{}".format(*broker.address), QUICK)
        with pytest.raises(ClientError, match="closed the connection") as raised:
            client.metadata([])
        assert raised.value.code is ErrorCode.NETWORK_EXCEPTION
        assert client.call("listTopics", lambda: client.metadata([])).cluster_id == "c"
        client.close()


def test_the_controller_is_looked_up_again_when_it_has_moved() -> None:
    """After NOT_CONTROLLER in a topic's result, the request goes to the controller in Metadata."""
    codes = [ErrorCode.NOT_CONTROLLER, ErrorCode.NONE]

    def answer(name: str, version: int, request: Any) -> Message:
        if name == "Metadata":
            return metadata(broker)
        return CreateTopicsResponse(topics=[CreatableTopicResult(error_code=codes.pop(0))])

    with fake({3: (0, 13), 18: (0, 4), 19: (2, 7)}, answer) as broker:
        client = Client("{}:{}".format(*broker.address), QUICK)
        result = client.ask_controller("createTopics", CreateTopicsRequest())
        assert [topic.error_code for topic in result.topics] == [0]
        client.close()
    assert [name for name, _ in broker.asked].count("CreateTopics") == 2


def test_a_controller_that_is_gone_is_looked_up_again() -> None:
    """If the controller cannot be reached, the client looks it up in Metadata before it retries."""

    def answer(name: str, version: int, request: Any) -> Message:
        if name == "CreateTopics":
            return CreateTopicsResponse(topics=[CreatableTopicResult()])
        cluster = metadata(broker)
        if [name for name, _ in broker.asked].count("Metadata") == 1:
            gone = MetadataResponseBroker(node_id=6, host="127.0.0.1", port=free_port())
            cluster.brokers.append(gone)
            cluster.controller_id = 6
        return cluster

    with fake({3: (0, 13), 18: (0, 4), 19: (2, 7)}, answer) as broker:
        warned: list[int] = []

        client = Client(
            "{}:{}".format(*broker.address), QUICK, lambda node_id, *_: warned.append(node_id)
        )
        client.metadata([])
        result = client.ask_controller("createTopics", CreateTopicsRequest())
        client.close()
    assert len(result.topics) == 1
    assert warned == [6]


def test_a_broker_that_never_answers_costs_the_request_timeout() -> None:
    """A request without a response fails with REQUEST_TIMED_OUT; its connection is not reused."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = QUICK._replace(request_timeout_ms=50)
        with pytest.raises(ClientError, match="does not answer in time") as raised:
            ClientConnection(Address(*silent.getsockname()), settings)
    assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT


def test_a_call_gives_up_in_kafkas_words() -> None:
    """`call` fails after `default.api.timeout.ms`, with one warning per attempt."""
    warned: list[int] = []
    settings = QUICK._replace(default_api_timeout_ms=40, retry_backoff_ms=10)
    servers = f"127.0.0.1:{free_port()},127.0.0.1:{free_port()}"
    client = Client(servers, settings, lambda node_id, *_: warned.append(node_id))
    with pytest.raises(ClientError) as raised:
        client.call("listTopics", lambda: client.metadata(None))
    assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert str(raised.value) == "Timed out waiting for a node assignment. Call: listTopics"
    assert warned[:4] == [-1, -2, -1, -2]


def test_a_refusal_is_not_repeated() -> None:
    """A non-retriable error ends a call at once."""
    client = Client("127.0.0.1:1", QUICK)
    attempts: list[None] = []

    def attempt() -> None:
        attempts.append(None)
        check(ErrorCode.INVALID_REQUEST, "no")

    with pytest.raises(ClientError, match=r"^no$"):
        client.call("createTopics", attempt)
    assert len(attempts) == 1


def test_leaders_and_coordinators_are_looked_up() -> None:
    """The client finds leaders by partition and coordinators by group; unknown ones are errors."""
    with Broker({"broker.count": "3", "num.partitions": "3"}) as broker:
        broker.create_topic("t")
        client = Client(broker.bootstrap_servers)
        leaders = client.leaders([("t", 0), ("t", 1), ("t", 2)])
        assert sorted(leaders) == [1, 2, 3]
        assert sorted(partition for led in leaders.values() for partition in led) == [
            ("t", 0),
            ("t", 1),
            ("t", 2),
        ]
        node_id = client.call("describeGroup", lambda: client.coordinator("g"))
        assert node_id in client.nodes
        own = client.open_connection(node_id)
        assert own is not client.connection(node_id)
        own.close()
        with pytest.raises(ClientError) as raised:
            client.leaders([("t", 3)])
        assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(ClientError) as raised:
            client.open_connection(77)
        assert raised.value.code is ErrorCode.BROKER_NOT_AVAILABLE
        client.close()


def test_an_old_broker_that_cannot_look_for_an_offset_skips_its_partitions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """kafka-get-offsets.sh names each skipped partition and the unsupported version."""

    def answer(name: str, version: int, request: Any) -> Message:
        cluster = metadata(broker)
        partitions = [MetadataResponsePartition(partition_index=0, leader_id=5)]
        cluster.topics = [MetadataResponseTopic(name="t", partitions=partitions)]
        return cluster

    with fake({2: (0, 6), 3: (0, 9), 18: (0, 3)}, answer) as broker:
        server = "{}:{}".format(*broker.address)
        line = ["--bootstrap-server", server, "--topic", "t", "--time", "max-timestamp"]
        assert run_script(BY_NAME["kafka-get-offsets"], line) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == (
        "Skip getting offsets for topic-partition t-0 due to error: org.apache.kafka.common.errors."
        "UnsupportedVersionException: The node does not support LIST_OFFSETS with version in range"
        " [7,11]. The supported range is [0,6].\n"
    )


def test_the_apis_of_another_release_are_shown_with_what_is_usable(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Too old, too new, unknown and missing APIs are shown as by Kafka's NodeApiVersions."""
    ranges = {0: (14, 15), 1: (0, 3), 3: (0, 13), 4: (0, 5), 18: (0, 4), 99: (2, 2)}
    with fake(ranges, lambda *_: metadata(broker)) as broker:
        line = ["--bootstrap-server", "{}:{}".format(*broker.address)]
        assert run_script(BY_NAME["kafka-broker-api-versions"], line) == 0
        port = broker.address.port
    lines = capsys.readouterr().out.splitlines()
    assert lines[:6] == [
        f"127.0.0.1:{port} (id: 5 rack: null isFenced: false) -> (",
        "\tProduce(0): 14 to 15 [unusable: node too new],",
        "\tFetch(1): 0 to 3 [unusable: node too old],",
        "\tListOffsets(2): UNSUPPORTED,",
        "\tMetadata(3): 0 to 13 [usable: 13],",
        "\tLeaderAndIsr(4): 0 to 5 [unusable: node too new],",
    ]
    assert lines[-2:] == ["\tUNKNOWN(99): 2", ")"]


def test_a_running_reassignment_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Adding replicas do not count as under-replicated; without KIP-966 the ELR is shown as N/A."""

    def answer(name: str, version: int, request: Any) -> Message:
        if name == "ListPartitionReassignments":
            assert [(topic.name, topic.partition_indexes) for topic in request.topics] == [
                ("t", [0])
            ]
            moving = OngoingPartitionReassignment(
                partition_index=0,
                replicas=[5, 6, 7],
                adding_replicas=[6, 7],
                removing_replicas=[5],
            )
            topic = OngoingTopicReassignment(name="t", partitions=[moving])
            return ListPartitionReassignmentsResponse(topics=[topic])
        if name == "DescribeConfigs":
            result = DescribeConfigsResult(resource_type=2, resource_name="t")
            return DescribeConfigsResponse(results=[result])
        cluster = metadata(broker)
        partition = MetadataResponsePartition(leader_id=5, replica_nodes=[5, 6, 7], isr_nodes=[5])
        cluster.topics = [MetadataResponseTopic(name="t", partitions=[partition])]
        return cluster

    ranges = {3: (0, 9), 18: (0, 3), 32: (1, 4), 46: (0, 0)}
    with fake(ranges, answer) as broker:
        line = ["--bootstrap-server", "{}:{}".format(*broker.address), "--describe"]
        assert run_script(BY_NAME["kafka-topics"], [*line, "--topic", "t"]) == 0
        assert run_script(BY_NAME["kafka-topics"], [*line, "--under-replicated-partitions"]) == 0
    assert capsys.readouterr().out == (
        "Topic: t\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: \n"
        "\tTopic: t\tPartition: 0\tLeader: 5\tReplicas: 5,6,7\tIsr: 5"
        "\tAdding Replicas: 6,7\tRemoving Replicas: 5\tElr: N/A\tLastKnownElr: N/A\n"
    )
