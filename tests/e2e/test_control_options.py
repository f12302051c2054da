"""The control server with logins and read-only, and the checks that the tests' client makes."""

from __future__ import annotations

import socket
import threading

import pytest
from jsonschema import ValidationError
from kafka import KafkaConsumer, KafkaProducer

from coordinator_server.testing.api import ControlApi
from tests.e2e.control_api import CheckedControl, http_address, refused
from tests.support import Broker, Serve, wait_for

HEAD = "HTTP/1.1 {} Status\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n"


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (HEAD.format(404, "application/json", 12), '{"error": 1}'),
        (HEAD.format(404, "application/json", 22), '{"error": "", "is": 1}'),
        (HEAD.format(404, "application/json", 5), "error"),
        (HEAD.format(404, "text/plain", 13), '{"error": "x"}'),
        (HEAD.format(404, "application/json", 99), '{"error": "x"}'),
        (HEAD.format(200, "application/json", 2), "{}"),
        (HEAD.format(200, "text/plain", 14), '{"deleted": []}'),
    ],
    ids=range(7),
)
def test_a_response_with_another_shape_is_noticed(head: str, body: str) -> None:
    """The client of these tests checks the bytes of each response, errors included."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def respond() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall((head + body).encode())

        thread = threading.Thread(target=respond)
        thread.start()
        try:
            with pytest.raises((AssertionError, ValidationError, ValueError)):
                CheckedControl(server.getsockname()).call("DELETE", "/topics/t")
        finally:
            thread.join()


def test_read_only() -> None:
    """With --http-read-only other requests than GET get 403 with the reason."""
    with Serve("--ephemeral", "--http", "127.0.0.1:0", "--http-read-only") as serve:
        api = ControlApi(CheckedControl(http_address(serve)))
        assert api.cluster_show()["security"]["is_read_only"]
        status, message = refused(api.topics_create, "t", {})
        assert (status, "--http-read-only" in message) == (403, True)
        assert api.topics_list()["topics"] == []
        assert serve.stop() == 0


def test_a_new_plain_password_ends_the_sessions() -> None:
    """After a change of a PLAIN password at run time, its sessions and the old password get 401."""
    jaas = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'user_admin="a" user_eve="{}";'
    )
    name = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    arguments = ("--http", "127.0.0.1:0", "--http-login", "--set", "super.users=User:admin")
    listener = ("--listener", "SASL_PLAINTEXT://127.0.0.1:0", "--set", f"{name}={jaas.format('e')}")
    mechanism = ("--set", "sasl.enabled.mechanisms=PLAIN")
    with Serve("--ephemeral", *arguments, *listener, *mechanism) as serve:
        address = http_address(serve)

        def of(user: str, password: str) -> ControlApi:
            login = ControlApi(CheckedControl(address)).login({"user": user, "password": password})
            return ControlApi(CheckedControl(address, login["token"]))

        admin, eve = of("admin", "a"), of("eve", "e")
        eve.cluster_show()
        admin.settings_alter({"set": {name: jaas.format("new")}}, broker=1)
        status, message = refused(eve.cluster_show)
        assert (status, "wrong password, or ended session" in message) == (401, True)
        assert refused(of, "eve", "e")[0] == 401
        of("eve", "new").cluster_show()
        admin.cluster_show()
        assert "user=eve" in serve.log_lines("authentication.failed")[0]
        assert serve.stop() == 0


def test_a_group_without_a_commit_waits_for_a_transaction() -> None:
    """A group whose member has the blocked partition is shown, although it has no offset yet."""
    with Broker() as broker:
        servers = broker.bootstrap_servers
        broker.create_topic("orders", 1)
        producer = KafkaProducer(bootstrap_servers=servers, transactional_id="payments")
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"open").get(10)
        reader = KafkaConsumer(
            "orders", bootstrap_servers=servers, group_id="ledger", enable_auto_commit=False
        )
        wait_for(lambda: reader.poll(100) or reader.assignment(), "an assignment")
        stuck = broker.api.transactions_show("payments")["stuck_groups"]
        assert [(one["group"], one["offset"], one["records_behind"]) for one in stuck] == [
            ("ledger", None, 1)
        ]
        reader.close()
        producer.abort_transaction()
        producer.close()
