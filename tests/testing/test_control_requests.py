"""The control server refuses invalid requests with a message that names the mistake."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from coordinator_server.testing import Broker, BrokerError
from coordinator_server.testing.aio_control import AsyncControl
from coordinator_server.testing.control import Control, quoted

TOPIC_RECORDS = "/topics/orders/records"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("GET", "/topics/other", None, 404, "there is no topic other, but orders"),
        ("GET", "/groups/other", None, 404, "there is no group other; there is none at all"),
        ("GET", "/partitions/orders/2/records", None, 404, "has no partition 2, but 2 of them"),
        ("GET", "/partitions/orders/x/records", None, 400, "is not the number of a partition"),
        ("GET", "/partitions/orders/0/records?offset=-1", None, 400, "offset=-1 is not a number"),
        ("GET", "/partitions/orders/0/records?count=all", None, 400, "count=all is not a number"),
        ("POST", "/topics/new", {"partitions": "3"}, 400, "partitions is '3', not an integer"),
        ("POST", "/topics/new", {"partitions": True}, 400, "partitions is True, not an integer"),
        ("POST", "/topics/new", {"partitions": 20_000}, 400, "INVALID_PARTITIONS: a topic has"),
        ("POST", "/topics/orders", {}, 409, "topic orders: TOPIC_ALREADY_EXISTS: Topic 'orders'"),
        ("POST", "/topics/new", {"configs": ["a"]}, 400, "configs is ['a'], not an object"),
        ("POST", "/topics/new", {"configs": {"retention.ms": None}}, 400, "topic new"),
        ("POST", "/topics/new", {"configs": {"no.such": "x"}}, 400, "no.such"),
        ("POST", TOPIC_RECORDS, {}, 400, "records is missing in the body"),
        ("POST", TOPIC_RECORDS, {"records": ["x"]}, 400, "records[0] is 'x', not"),
        ("POST", TOPIC_RECORDS, {"records": [{"value": "%"}]}, 400, "a value is base64 or null"),
        ("POST", TOPIC_RECORDS, {"records": [{"value": 5}]}, 400, "a value is base64 or null"),
        ("POST", TOPIC_RECORDS, {"records": [{"key": "ü"}]}, 400, "a key is base64 or null"),
        ("POST", TOPIC_RECORDS, {"records": [{"headers": ["x"]}]}, 400, "headers[0] is 'x'"),
        ("POST", TOPIC_RECORDS, {"records": [{"headers": 5}]}, 400, "headers is 5, not a"),
        ("POST", TOPIC_RECORDS, {"records": [{"headers": [["\ud800", None]]}]}, 400, "a name and"),
        ("POST", TOPIC_RECORDS, {"records": [{"partition": "0"}]}, 400, "partition is '0'"),
        ("POST", TOPIC_RECORDS, {"records": [{"partition": True}]}, 400, "partition is True, not"),
        ("POST", TOPIC_RECORDS, {"records": [{"partition": 2}]}, 404, "no partition 2, but 2"),
        ("POST", TOPIC_RECORDS, {"records": {}}, 400, "records is {}, not a list"),
        ("POST", TOPIC_RECORDS, {"records": [], "format": "x"}, 400, "format is 'x', not one of"),
        ("POST", TOPIC_RECORDS, {"records": [{"headers": [["x"]]}]}, 400, "a name and a value"),
        ("POST", TOPIC_RECORDS, {"records": [{"timestamp_ms": -1}]}, 400, "no timestamp"),
        ("POST", "/topics/new", {"partitons": 3}, 400, "the names are partitions, configs"),
        ("POST", TOPIC_RECORDS, {"record": []}, 400, "'record' is no field of the body"),
        ("POST", TOPIC_RECORDS, {"records": [{"kye": ""}]}, 400, "'kye' is no field of records[0]"),
        ("POST", "/reset?mvoe=true", None, 400, "'mvoe' is no query parameter: the names are move"),
        ("GET", "/partitions/orders/0/records?ofset=4", None, 400, "the names are offset, count"),
        ("GET", "/brokers?all=1", None, 400, "'all' is no query parameter: there is none"),
        ("POST", "/reset?move=perhaps", None, 400, "move=perhaps is neither true nor false"),
    ],
)
def test_a_mistake_is_named(
    kafka: Broker, method: str, path: str, body: Any, status: int, words: str
) -> None:
    """The response has the status and the words, and nothing is written or created."""
    kafka.create_topic("orders", 2)
    with pytest.raises(BrokerError) as raised:
        kafka.control.call(method, path, body=body)
    assert raised.value.status == status
    assert words in str(raised.value)
    assert kafka.topics() == {"orders": 2}
    assert kafka.consume("orders", None) == []


@pytest.mark.parametrize("sent", [b"{", b"[1]", b"\xff"])
def test_a_body_is_a_json_object(kafka: Broker, sent: bytes) -> None:
    """A body that is not a JSON object is answered with 400."""
    import http.client

    connection = http.client.HTTPConnection(*kafka.control.address, timeout=10)
    connection.request("POST", "/topics/orders", sent)
    response = connection.getresponse()
    assert response.status == 400
    assert b"the body is not" in response.read()
    connection.close()
    assert kafka.topics() == {}


def test_records_before_the_first_offset_are_passed_over(kafka: Broker) -> None:
    """Reading a partition with deleted records starts at its log start offset."""
    import confluent_kafka
    import confluent_kafka.admin

    kafka.produce("orders", *"abcde")
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    (future,) = admin.delete_records([confluent_kafka.TopicPartition("orders", 0, 3)]).values()
    future.result(10)
    assert [one.offset for one in kafka.consume("orders", None)] == [3, 4]


def test_a_broker_that_is_gone_is_an_error() -> None:
    """A request to a stopped broker raises an error with the request and the reason."""
    with Broker() as broker:
        address = broker.control.address
    with pytest.raises(BrokerError, match=r"GET /brokers: the broker cannot be reached") as raised:
        Control(address).call("GET", "/brokers")
    assert raised.value.status == 0


def test_quoting() -> None:
    """Every character is quoted except those that Kafka allows in names."""
    assert quoted("a-B.9_~") == "a-B.9_~"
    assert quoted("a/b ?ü") == "a%2Fb%20%3F%C3%BC"


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\ncontent-length: "
BROKEN = [
    (b"", "without an answer"),
    (HEAD[:20], "without an answer"),
    (HEAD + b'12\r\n\r\n{"a": 1', "after 7 of 12 bytes"),
    (HEAD + b"12\r\n\r\na b c", "after 5 of 12 bytes"),
    (HEAD.replace(b"200 OK", b"404 No") + b'20\r\n\r\n{"error": "x', "after 12 of 20 bytes"),
]


@contextmanager
def answering(response: bytes) -> Iterator[tuple[str, int]]:
    """Answer one request with these bytes, and close the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(response)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()
        thread.join(10)


@pytest.mark.parametrize(("response", "words"), BROKEN)
@pytest.mark.parametrize("method", ["call", "text"])
def test_a_cut_response_is_an_error(response: bytes, words: str, method: str) -> None:
    """A response that ends before its Content-Length is a BrokerError, not a part of the text."""
    with answering(response) as address, pytest.raises(BrokerError, match=words) as raised:
        _ = Control(address).text("/x") if method == "text" else Control(address).call("GET", "/x")
    assert str(raised.value).startswith("GET /x: the broker closed the connection")
    assert raised.value.status == 0


@pytest.mark.parametrize(("response", "words"), BROKEN)
async def test_a_cut_response_is_an_error_for_asyncio(response: bytes, words: str) -> None:
    """The client for asyncio has the same errors."""
    with answering(response) as address, pytest.raises(BrokerError, match=words):
        await AsyncControl(address).call("GET", "/x")


def test_a_response_that_is_no_object_is_an_error() -> None:
    """A whole response that is not a JSON object is a BrokerError with its begin."""
    words = "GET /x: the answer is b'null'"
    with (
        answering(HEAD + b"4\r\n\r\nnull") as address,
        pytest.raises(BrokerError, match=words),
    ):
        Control(address).call("GET", "/x")
    with answering(HEAD + b"3\r\n\r\na b") as address:
        assert Control(address).text("/x") == "a b"
