"""Dynamic configs in a real process: certificates, connection limits, kill -9."""

from __future__ import annotations

import signal
import socket
import ssl
from contextlib import ExitStack, suppress
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding

from tests.certificates import Authority
from tests.scripts.player import Outcome, ours
from tests.support import API_VERSIONS_REQUEST, Serve, connect, free_port, wait_for


def alter(bootstrap: str, *arguments: str) -> Outcome:
    """Change configs of broker 1 with kafka-configs.sh."""
    place = ("--bootstrap-server", bootstrap, "--entity-type", "brokers", "--entity-name", "1")
    return ours("kafka-configs", [*place, "--alter", *arguments])


def described(bootstrap: str) -> str:
    """Return the configs of broker 1 from kafka-configs.sh."""
    place = ("--bootstrap-server", bootstrap, "--entity-type", "brokers", "--entity-name", "1")
    return ours("kafka-configs", [*place, "--describe"]).out


def certificate(authority: Authority, port: int) -> bytes | None:
    """Return the broker's certificate in DER."""
    context = ssl.create_default_context(cadata=authority.pem().decode())
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        return secured.getpeercert(binary_form=True)


def test_a_listener_gets_another_key_store(tmp_path: Path) -> None:
    """A new certificate applies to new connections and survives kill -9; a bad one is refused."""
    authority = Authority()
    one, two = (authority.issue("broker") for _ in range(2))
    for name, identity in (("one", one), ("two", two), ("other", authority.issue("other"))):
        identity.write(tmp_path / f"{name}.pem")
    (tmp_path / "bad.pem").write_text("no key")
    plain, secured = free_port(), free_port()
    arguments = (
        "--data-dir",
        str(tmp_path / "data"),
        f"--set=listeners=PLAINTEXT://127.0.0.1:{plain},SSL://127.0.0.1:{secured}",
        "--set=listener.name.ssl.ssl.keystore.type=PEM",
        f"--set=listener.name.ssl.ssl.keystore.location={tmp_path / 'one.pem'}",
    )
    bootstrap = f"127.0.0.1:{plain}"
    setting = "listener.name.ssl.ssl.keystore.location"
    expected = two.chain[0].public_bytes(Encoding.DER)
    with Serve(*arguments, listener=None) as broker:
        first = certificate(authority, secured)
        for name in ("bad", "missing", "other"):
            refused = alter(bootstrap, "--add-config", f"{setting}={tmp_path / name}.pem")
            assert refused.code == 1
            assert "Validation of dynamic config update of SSLFactory failed" in refused.err
            assert certificate(authority, secured) == first
        done = alter(bootstrap, "--add-config", f"{setting}={tmp_path / 'two.pem'}")
        assert done == Outcome(0, "Completed updating config for broker 1.\n", "")
        assert certificate(authority, secured) == expected != first
        broker.signal(signal.SIGKILL)
        broker.wait()
    with Serve(*arguments, listener=None):
        assert certificate(authority, secured) == expected
        assert alter(bootstrap, "--delete-config", setting).code == 0
        assert certificate(authority, secured) == first


def test_limits_of_connections_hold_at_once(tmp_path: Path) -> None:
    """A lower limit per address closes excess connections, a higher one admits clients again."""
    with Serve("--data-dir", str(tmp_path / "data")) as broker:
        bootstrap = broker.bootstrap_servers
        limit = "max.connections.per.ip"
        assert alter(bootstrap, "--add-config", f"{limit}=5,max.connections=500").code == 0
        host, _, port = bootstrap.rpartition(":")
        with ExitStack() as opened:
            clients = []
            for _ in range(8):
                client = socket.create_connection((host, int(port)), timeout=0.5)
                clients.append(opened.enter_context(client))
            wait_for(lambda: sum(map(_is_closed, clients)) == 3, "three are closed")
        wait_for(lambda: f"{limit}=5 " in described(bootstrap), "the limit is shown")
        broker.signal(signal.SIGKILL)
        broker.wait()
    with Serve("--data-dir", str(tmp_path / "data")) as broker:
        assert f"{limit}=5 " in described(broker.bootstrap_servers)
        assert alter(broker.bootstrap_servers, "--delete-config", f"{limit}").code == 0
        assert f"{limit}=" not in described(broker.bootstrap_servers)


def test_a_listener_is_added_and_removed_while_clients_go_on(tmp_path: Path) -> None:
    """An added TLS listener survives kill -9; removing it closes only its own connections."""
    authority = Authority()
    authority.issue("broker").write(tmp_path / "one.pem")
    plain, secured = free_port(), free_port()
    base = f"PLAINTEXT://127.0.0.1:{plain}"
    arguments = ("--data-dir", str(tmp_path / "data"), f"--set=listeners={base}")
    bootstrap = f"127.0.0.1:{plain}"
    store = f"listener.name.x.ssl.keystore.location={tmp_path / 'one.pem'}"
    added = f"listeners=[{base},X://127.0.0.1:{secured}]"
    protocols = "listener.security.protocol.map=[PLAINTEXT:PLAINTEXT,X:SSL]"
    with Serve(*arguments, listener=None) as broker, connect(bootstrap) as stays:
        given = f"{store},listener.name.x.ssl.keystore.type=PEM,{added},{protocols}"
        assert alter(bootstrap, "--add-config", given).code == 0
        wait_for(lambda: certificate(authority, secured) is not None, "the listener is there")
        done = ours("kafka-topics", ["--bootstrap-server", bootstrap, "--create", "--topic", "t"])
        assert done.code == 0
        assert stays.ask(API_VERSIONS_REQUEST)
        broker.signal(signal.SIGKILL)
        broker.wait()
    with Serve(*arguments, listener=None), connect(bootstrap) as stays:
        assert certificate(authority, secured) is not None
        assert "t" in ours("kafka-topics", ["--bootstrap-server", bootstrap, "--list"]).out
        context = ssl.create_default_context(cadata=authority.pem().decode())
        with (
            socket.create_connection(("127.0.0.1", secured), timeout=10) as raw,
            context.wrap_socket(raw, server_hostname="localhost") as goes,
            socket.create_connection(("127.0.0.1", secured), timeout=10) as handshakes,
        ):
            goes.sendall(API_VERSIONS_REQUEST)
            assert goes.recv(4)
            assert alter(bootstrap, "--delete-config", "listeners").code == 0
            wait_for(lambda: _refuses(secured), "the listener is gone")
            goes.settimeout(10)
            while goes.recv(4096):
                pass
            handshakes.settimeout(10)
            with suppress(OSError), context.wrap_socket(handshakes, server_hostname="localhost"):
                handshakes.sendall(API_VERSIONS_REQUEST)
                assert not handshakes.recv(4)
        assert stays.ask(API_VERSIONS_REQUEST)


def test_a_listener_whose_port_is_taken_does_not_prevent_a_start(tmp_path: Path) -> None:
    """If the port of a listener is taken, the broker logs this and serves its other listeners."""
    plain, taken = free_port(), free_port()
    base = f"PLAINTEXT://127.0.0.1:{plain}"
    arguments = ("--data-dir", str(tmp_path / "data"), f"--set=listeners={base}")
    added = f"listeners=[{base},X://127.0.0.1:{taken}]"
    protocols = "listener.security.protocol.map=[PLAINTEXT:PLAINTEXT,X:PLAINTEXT]"
    with Serve(*arguments, listener=None):
        assert alter(f"127.0.0.1:{plain}", "--add-config", f"{added},{protocols}").code == 0
    with (
        socket.create_server(("127.0.0.1", taken)),
        Serve(*arguments, listener=None) as broker,
        connect(f"127.0.0.1:{plain}") as client,
    ):
        assert client.ask(API_VERSIONS_REQUEST)
        wait_for(lambda: "listener.failed" in broker.log, "the log says so")
        assert broker.output.count("listening ") == 1


def _refuses(port: int) -> bool:
    """Return whether nothing listens at a port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
    except ConnectionRefusedError:
        return True
    return False


def _is_closed(client: socket.socket) -> bool:
    """Return whether the broker has closed a connection."""
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
