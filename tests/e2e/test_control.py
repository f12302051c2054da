"""The control server of the real process: its answers, its actions and its refusals."""

from __future__ import annotations

import re
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.commands import explain
from tests.e2e.controls import Control
from tests.support import API_VERSIONS_REQUEST, Broker, Serve, address_of, connect, wait_for


@contextmanager
def started(count: int) -> Iterator[tuple[Broker, Control]]:
    """Run a process with `count` brokers and a control server."""
    with Broker(broker_count=count) as broker:
        yield broker, Control(broker.control.address)


def listener(broker: dict[str, Any]) -> str:
    """Return HOST:PORT from an entry of GET /brokers."""
    return str(broker["listeners"][0].removeprefix("PLAINTEXT://"))


def test_there_is_no_control_server_unless_asked_for() -> None:
    """Without --http the process listens only on the broker's port."""
    with Serve("--ephemeral") as broker:
        assert broker.stop() == 0
        assert not broker.log_lines("control.listening")


def test_only_the_first_broker_is_printed() -> None:
    """Standard output has only `listening HOST:PORT` of broker 1; the others are in the log."""
    arguments = ("--http", "127.0.0.1:0", "--set", "broker.count=3")
    with Serve("--ephemeral", *arguments) as broker:
        wait_for(lambda: len(broker.log_lines("broker.listening")) == 2, "the other two")
        assert broker.log_lines("control.listening")
        assert broker.output == f"listening {broker.bootstrap_servers}\n"
        assert broker.stop() == 0


def test_it_shows_the_brokers() -> None:
    """GET /brokers lists every broker; the first broker has the address on standard output."""
    with started(3) as (broker, control):
        brokers = control.brokers()
        assert list(brokers) == [1, 2, 3]
        listeners = [listener(one) for one in brokers.values()]
        assert ",".join(listeners) == broker.bootstrap_servers
        assert len(set(listeners)) == 3
        for one in brokers.values():
            with connect(listener(one)) as wire:
                wire.ask(API_VERSIONS_REQUEST)


def test_a_broker_stops_and_starts() -> None:
    """A stopped broker closes its connections and its port; a start opens the same port again."""
    with started(2) as (_, control):
        second = control.brokers()[2]
        with connect(listener(second)) as wire:
            wire.ask(API_VERSIONS_REQUEST)
            assert control.brokers()[2]["connections"] == 1
            for _ in range(2):  # repeating the request has no effect
                status, answer = control.ask("POST", "/brokers/2/stop")
                assert (status, answer["brokers"][1]["state"]) == (200, "stopped")
            assert wire.is_closed()
        with pytest.raises(ConnectionRefusedError):
            connect(listener(second))
        assert control.ask("POST", "/brokers/2/start")[0] == 200
        assert control.brokers()[2]["listeners"] == second["listeners"]
        with connect(listener(second)) as wire:
            wire.ask(API_VERSIONS_REQUEST)


def test_a_port_that_was_taken_meanwhile_is_named() -> None:
    """If its port is taken, a broker's start fails with the address, and can be repeated."""
    with started(2) as (_, control):
        address = listener(control.brokers()[2])
        control.ask("POST", "/brokers/2/stop")
        with socket.create_server(address_of(address)):
            status, answer = control.ask("POST", "/brokers/2/start")
            assert status == 500
            assert address in answer["error"]
            assert control.brokers()[2]["state"] == "stopped"
        assert control.ask("POST", "/brokers/2/start")[0] == 200


def test_the_whole_cluster_may_be_stopped() -> None:
    """The control server works while all brokers are stopped, and the process ends cleanly."""
    with started(2) as (_, control):
        for node_id in (1, 2):
            assert control.ask("POST", f"/brokers/{node_id}/stop")[0] == 200
        assert {one["state"] for one in control.brokers().values()} == {"stopped"}
        # Requests that need a running broker must fail, not return an empty result.
        for method, path in (
            ("GET", "/groups"),
            ("GET", "/groups/g"),
            ("GET", "/groups/g/lag"),
            ("GET", "/transactions"),
            ("POST", "/topics/t"),
            ("POST", "/topics/t/records"),
            ("PUT", "/groups/g/offsets"),
            ("POST", "/acls"),
            ("PATCH", "/settings"),
        ):
            status, answer = control.ask(method, path)
            assert (status, "no broker runs: start one" in answer["error"]) == (503, True), path
        status, answer = control.ask("GET", "/cluster")
        assert (status, answer["running"], answer["counts"]["groups"]) == (200, 0, None)
        assert control.ask("GET", "/clock")[0] == 200
        # What the brokers share is read as while they run.
        for path in ("/quotas", "/settings?filter=num.partitions", "/settings?broker=2"):
            status, answer = control.ask("GET", path)
            assert status == 200, answer
        assert control.ask("GET", "/settings?filter=num.partitions")[1]["configs"][0]["value"]
        status, answer = control.ask("GET", "/acls")
        assert (status, "SECURITY_DISABLED" in answer["error"]) == (400, True)
        assert control.ask("POST", "/brokers/1/start")[0] == 200
        assert control.ask("GET", "/groups")[1]["groups"] == []
        assert control.ask("GET", "/cluster")[1]["counts"]["groups"] == 0


def test_groups_move() -> None:
    """POST /groups/GROUP/move returns the group's new coordinator; group names may have slashes."""
    with started(3) as (_, control):
        for node_id in (1, 2, 3):
            status, answer = control.ask("POST", f"/groups/a%2Fb%20c/move?to={node_id}")
            assert (status, answer["group"], answer["leader"]) == (200, "a/b c", node_id)
            path = f"/partitions/__consumer_offsets/{answer['partition']}/move?to={node_id}"
            assert control.ask("POST", path)[1]["leader_epoch"] == answer["leader_epoch"]


@pytest.mark.parametrize(
    ("method", "path", "status", "expected"),
    [
        ("GET", "/nowhere", 404, "/nowhere: there is nothing here"),
        ("POST", "/brokers/1/explode", 404, "/brokers/1/explode"),
        ("GET", "/brokers/1/stop", 405, "GET is not served, but POST"),
        ("POST", "/brokers/9/stop", 404, "there is no broker 9, but 1, 2"),
        ("POST", "/brokers/x/start", 400, "'x' is not the id of a broker"),
        ("POST", f"/brokers/{'9' * 5000}/start", 400, "is not the id of a broker"),
        ("GET", f"/partitions/__consumer_offsets/{'9' * 5000}/records", 404, "no partition 999"),
        ("GET", f"/partitions/__consumer_offsets/0/records?offset={1 << 63}", 400, "not a number"),
        ("POST", "/partitions/t/0/move?to=1", 404, "there is no topic t"),
        ("POST", "/partitions/__consumer_offsets/50/move?to=1", 404, "no partition 50, but 50"),
        ("POST", "/groups/g/move", 400, "to=ID is missing"),
        ("POST", "/groups/g/move?to=-1", 400, "'-1' is not the id of a broker"),
        ("POST", "/groups/g/move?to=2", 400, "broker 2 is stopped"),
        ("GET", "/topics/__consumer_ofsets", 404, "; did you mean __consumer_offsets?"),
        ("GET", "//topics", 404, "//topics: there is nothing here"),
        ("GET", "//", 404, "//: there is nothing here"),
        ("GET", "/topics//", 404, "/topics//: there is nothing here"),
        ("GET", "/topics/", 400, "TOPIC is empty in /topics/: name of a topic"),
        ("POST", "/topics/", 400, "TOPIC is empty"),
        ("GET", "/groups//lag", 400, "GROUP is empty in /groups//lag: group id"),
        ("GET", "/topics?limit=1&limit=2", 400, "'limit' is given twice: '1' and '2'"),
        ("GET", "/topics?filter=&filter=", 400, "'filter' is given twice"),
        ("GET", "/groups?state=stable", 400, "state=stable is not one of Empty, Preparing"),
        ("GET", "/events?types=group,odd", 400, "types=odd is not one of reset, group"),
        ("GET", "/partitions/__consumer_offsets/x/records", 400, "'x' is not the number of a par"),
        ("GET", "/partitions/__consumer_offsets/0/records/x", 400, "'x' is not an offset"),
    ],
)
def test_a_bad_request_is_named(
    two: Control, method: str, path: str, status: int, expected: str
) -> None:
    """The error text names the mistake and the invalid value."""
    got, answer = two.ask(method, path)
    assert got == status
    assert expected in answer["error"]


@pytest.fixture(scope="module")
def two() -> Iterator[Control]:
    """A cluster of two brokers with an offsets topic; the second broker is stopped."""
    with started(2) as (_, control):
        control.ask("POST", "/groups/g/move?to=1")
        control.ask("POST", "/brokers/2/stop")
        yield control


@pytest.mark.parametrize("origin", ["http://example.org", "null", "http://[", "file://"])
def test_a_page_of_another_origin_is_refused(two: Control, origin: str) -> None:
    """Requests with the Origin of another site are refused."""
    status, answer = two.ask("POST", "/brokers/1/start", {"Origin": origin})
    assert status == 403
    assert origin in answer["error"]
    host = f"{two.address[0]}:{two.address[1]}"
    assert two.ask("POST", "/brokers/1/start", {"Origin": f"http://{host}"})[0] == 200


@pytest.mark.parametrize(
    "host", ["example.org", "localhost.example.org:80", "[::1", "127.0.0.1x", "127.0.0.1%x"]
)
def test_a_name_that_is_not_the_servers_own_is_refused(two: Control, host: str) -> None:
    """Requests for a foreign host name are refused, because of DNS rebinding."""
    headers = {"Host": host, "Origin": f"http://{host}"}
    status, answer = two.ask("POST", "/brokers/1/start", headers)
    assert status == 403
    assert f"Host: {host}" in answer["error"]
    assert two.ask("GET", "/brokers", {"Host": host})[0] == 403
    for own in ("localhost", "LOCALHOST:80", "127.0.0.1", "[::1]:80"):
        assert two.ask("GET", "/brokers", {"Host": own})[0] == 200


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("nowhere", ""),
        ("127.0.0.1:http", ""),
        ("127.0.0.1:70000", ", the highest port is 65535"),
    ],
)
def test_a_bad_address_ends_with_2(value: str, reason: str) -> None:
    """A value of --http that is not HOST:PORT ends the start with one line and exit code 2."""
    broker = Serve("--ephemeral", "--http", value)
    assert broker.run() == 2
    assert broker.log == f"coordinator-server: --http: {value!r} is not HOST:PORT{reason}\n"


def test_a_port_in_use_ends_with_1() -> None:
    """If the port of --http is in use, the start ends with exit code 1 and one line."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        broker = Serve("--ephemeral", "--http", address)
        assert broker.run() == 1
    assert f"cannot listen on --http {address}" in broker.log
    assert broker.log.count("\n") == 1


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {"listeners": "PLAINTEXT://127.0.0.1:65534", "broker.count": "3"},
            "listeners: PLAINTEXT://127.0.0.1:65534: with broker.count=3 it needs the ports up "
            "to 65536, there is no such port",
        ),
        (
            {
                "listeners": "A://127.0.0.1:9092,B://127.0.0.1:9093",
                "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
                "broker.count": "2",
            },
            "it overlaps A://127.0.0.1:9092",
        ),
    ],
)
def test_ports_that_do_not_fit_end_with_2(settings: dict[str, str], expected: str) -> None:
    """Port ranges of listeners that overlap or exceed 65535 end the start with exit code 2."""
    words = [word for pair in settings.items() for word in ("--set", "=".join(pair))]
    broker = Serve("--ephemeral", *words, listener=None)
    assert broker.run() == 2
    assert expected in broker.log


def test_elsewhere_than_on_loopback_it_wants_a_token() -> None:
    """On an address other than loopback the control server does not start without a token."""
    for address in ("0.0.0.0:0", "[::]:0", "host.example:0", "localhost.localdomain:0"):
        refused = Serve("--ephemeral", "--http", address)
        assert refused.run() == 2
        assert f"--http: {address} is no loopback address" in refused.log


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        (b"secret", "at least 16 characters"),
        (b"secret secret secret", "one word"),
        ("sécret-of-the-house".encode(), "ASCII characters only"),
        (None, "cannot be read: No such file"),
    ],
)
def test_a_token_that_is_none_is_refused(
    tmp_path: Path, contents: bytes | None, reason: str
) -> None:
    """An invalid token file is named in the error, without its contents."""
    file = tmp_path / "token"
    if contents is not None:
        file.write_bytes(contents)
    refused = Serve("--ephemeral", "--http", "127.0.0.1:0", "--http-token-file", str(file))
    assert refused.run() == 2
    assert f"--http-token-file: {file}" in refused.log
    assert reason in refused.log
    assert "secret" not in refused.log


def test_requests_need_the_token(tmp_path: Path) -> None:
    """Requests without the right token get 401, and no token appears in the log."""
    token = secrets.token_hex(16)
    file = tmp_path / "token"
    file.write_text(f"{token}\n")
    arguments = ("--http", "127.0.0.1:0", "--http-token-file", str(file))
    with Serve("--ephemeral", *arguments) as broker:
        (line,) = broker.log_lines("control.listening")
        http = re.findall(r"address=(\S+)", line)[0]
        control = Control(address_of(http))
        given = (None, "", token, f"Bearer {token}x", f"bearer {token}", "Bearer \xe4")
        for authorization in given:
            headers = {} if authorization is None else {"Authorization": authorization}
            status, answer = control.ask("GET", "/brokers", headers)
            assert status == 401
            assert "--http-token-file" in answer["error"]
        right = {"Authorization": f"Bearer {token}"}
        status, answer = control.ask("GET", "/brokers", right)
        assert status == 200
        assert answer["brokers"]
        _, _, refused = explain(broker.bootstrap_servers, "g", "--http", http)
        assert "missing or wrong" in refused
        with_token = ("--http", http, "--http-token-file", str(file))
        _, _, refused = explain(broker.bootstrap_servers, "g", *with_token)
        assert "missing or wrong" not in refused
        assert broker.stop() == 0
        assert token not in broker.log
