"""Runs the steps of `doctor` in the order in which a client takes them."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from coordinator_server.client import (
    Address,
    ClientConnection,
    ClientError,
    ClientSettings,
    SaslError,
    TlsError,
)
from coordinator_server.client.security import SecuritySettings, TlsSettings
from coordinator_server.tools.doctor_group import live_as_member
from coordinator_server.tools.doctor_network import (
    Peer,
    ResolvedAddress,
    change_of_advertised,
    connect,
    identify,
    is_clients_own,
    not_a_broker,
    resolve,
    speaks_http,
)
from coordinator_server.tools.doctor_step import (
    RefusedClientError,
    Step,
    StepFailedError,
    shown,
)
from protocol.codec import decoder, encoder
from protocol.errors import ErrorCode
from protocol.registry import SPEC_BY_NAME

_RELEASES = (
    (78, 2, "4.2 or newer"),
    (76, 1, "4.1"),
    (68, 1, "4.0"),
    (1, 17, "3.9"),
    (75, 0, "3.8"),
    (1, 16, "3.7"),
    (1, 15, "3.5 or 3.6"),
    (1, 13, "3.1 to 3.4"),
    (60, 0, "2.8 or 3.0"),
    (1, 12, "2.7"),
)
"""API, its newest version, and the Kafka release that introduced this version."""


class _Cluster(NamedTuple):
    """The cluster as described by Metadata."""

    cluster_id: str | None
    controller_id: int
    nodes: dict[int, Address]


class Walk:
    """One run of all steps. `show` receives each step when the step has ended."""

    def __init__(
        self,
        address: Address,
        settings: ClientSettings,
        timeout_s: float,
        group: str,
        show: Callable[[Step], None],
    ) -> None:
        self._address = address
        self._settings = settings
        self._security = settings.security or SecuritySettings("PLAINTEXT", None, None)
        self._timeout_s = timeout_s
        self._group = group
        self._show = show
        self._targets: list[ResolvedAddress] = []
        self._reached: Address | None = None
        """The address that accepted the connection."""
        self._connections: list[ClientConnection] = []
        self._handshake: Step | None = None
        """The TLS step, held back until the first response shows that the client is accepted."""
        self._unreached: set[Address] = set()
        self._is_well = True

    def run(self) -> bool:
        """Run all steps and return whether none has failed."""
        spec = SPEC_BY_NAME["ApiVersions"]
        for make, message in ((encoder, spec.request_type), (decoder, spec.response_type)):
            make(message, spec.max_version)  # generate the codecs before time is measured
        try:
            self._walk()
        finally:
            for connection in self._connections:
                connection.close()
        return self._is_well

    def _walk(self) -> None:
        if not self._take("resolve", self._resolve):
            return
        connected = self._take("connect", lambda step: connect(step, self._targets, self._address))
        if connected is None:
            return
        self._reached = Address(*connected.getpeername()[:2])
        if self._security.tls is not None:
            connected = self._take("tls", lambda step: self._encrypt(step, connected))
            if connected is None:
                return
        # Like Java's clients, ask for the API versions first and authenticate afterwards.
        connection = self._open(connected, self._address)
        if not self._take("versions", lambda step: self._versions(step, connection)):
            return
        if self._security.sasl is not None and not self._take(
            "sasl", lambda step: self._authenticate(step, connection)
        ):
            return
        cluster = self._take("metadata", lambda step: self._metadata(step, connection))
        if cluster is None:
            return
        self._take("advertised", lambda step: self._dial_all(step, cluster))
        coordinator = self._take("coordinator", lambda step: self._coordinator(step, connection))
        if coordinator is not None:
            self._take("group", lambda step: self._join(step, coordinator))

    def _take(self, name: str, work: Callable[[Step], Any]) -> Any:
        """Run one step and return the result of `work`, or None if the step fails."""
        step = Step(name, self._timeout_s)
        result = None
        try:
            result = work(step)
        except RefusedClientError as error:
            step = self._handshake or step
            step.fail(error)
        except StepFailedError as error:
            step.fail(error)
        step.end()
        if self._handshake is not None and step is not self._handshake:
            self._show(self._handshake)
        self._handshake = None
        self._is_well = self._is_well and step.is_ok
        if name == "tls" and step.is_ok:
            self._handshake = step
        else:
            self._show(step)
        return result if step.is_ok else None

    def _open(self, ready: socket.socket, address: Address) -> ClientConnection:
        connection = ClientConnection(address, self._settings, ready)
        self._connections.append(connection)
        return connection

    def _resolve(self, step: Step) -> bool:
        self._targets = resolve(step, self._address)
        return True

    def _encrypt(self, step: Step, plain: socket.socket) -> socket.socket:
        from coordinator_server.tools.doctor_tls import shake_hands

        assert self._security.tls is not None
        return shake_hands(step, plain, self._address, self._security.tls, self._security.protocol)

    def _versions(self, step: Step, connection: ClientConnection) -> bool:
        # Keep half of the timeout for the diagnosis in `_unanswered`.
        connection.deadline_s = step.deadline_s - self._timeout_s / 2
        try:
            connection.negotiate()
        except ClientError as error:
            raise self._unanswered(step, error) from error
        versions = connection.api_versions
        release = next(
            (name for key, newest, name in _RELEASES if versions.get(key, (0, -1))[1] >= newest),
            "older than 2.7",
        )
        step.found = f"{len(versions)} APIs, looks like Kafka {release}"
        return True

    def _unanswered(self, step: Step, error: ClientError) -> StepFailedError:
        """Return the error that explains why the first request got no response."""
        if isinstance(error, TlsError):
            import ssl

            from coordinator_server.tools.doctor_tls import refused_client

            assert self._security.tls is not None
            if isinstance(error.__cause__, ssl.SSLError):
                return refused_client(error.__cause__, self._security.tls)
        assert self._reached is not None
        if self._security.tls is None:
            peer = identify(self._reached, step.deadline_s)
            if peer is not Peer.KAFKA:
                return not_a_broker(peer, self._security.protocol)
        elif self._is_web_server(step):
            return not_a_broker(Peer.HTTP, self._security.protocol)
        return StepFailedError(f"no answer to ApiVersions: {error}", ["broker: its log"])

    def _authenticate(self, step: Step, connection: ClientConnection) -> bool:
        from coordinator_server.tools.doctor_sasl import authenticate

        assert self._security.sasl is not None
        connection.deadline_s = step.deadline_s
        authenticate(step, connection, self._security.sasl, self._security.protocol)
        return True

    def _metadata(self, step: Step, connection: ClientConnection) -> _Cluster:
        from protocol.apis.metadata import MetadataRequest

        connection.deadline_s = step.deadline_s - self._timeout_s / 2
        try:
            answer = connection.ask(
                MetadataRequest(topics=[], allow_auto_topic_creation=False), min_version=1
            )
        except ClientError as error:
            raise self._no_metadata(step, error) from error
        nodes = {node.node_id: Address(node.host, node.port) for node in answer.brokers}
        if not nodes:
            raise StepFailedError(
                "the broker knows of no broker that is alive, not even itself",
                ["broker: its log; it has not registered with its controller"],
            )
        cluster = _Cluster(answer.cluster_id, answer.controller_id, nodes)
        count = len(nodes)
        step.found = (
            f"cluster {cluster.cluster_id}, controller {cluster.controller_id},"
            f" {count} broker{'s' if count > 1 else ''}"
        )
        step.details += [f"broker {node_id}: {shown(node)}" for node_id, node in nodes.items()]
        return cluster

    def _no_metadata(self, step: Step, error: ClientError) -> StepFailedError:
        if self._security.sasl is None and error.code == ErrorCode.NETWORK_EXCEPTION:
            from coordinator_server.tools.doctor_sasl import offered_mechanisms, wants_sasl

            settings = self._settings._replace(request_timeout_ms=int(step.left_s() * 500))
            mechanisms = offered_mechanisms(
                self._address, settings, lambda: self._second_socket(step)
            )
            if mechanisms:
                return wants_sasl(mechanisms, self._security.protocol)
        return StepFailedError(f"no answer to Metadata: {error}", ["broker: its log"])

    def _is_web_server(self, step: Step) -> bool:
        try:
            return speaks_http(self._second_socket(step), step.left_s() / 2)
        except OSError:
            return False

    def _second_socket(self, step: Step) -> socket.socket:
        """Return another connection to the address that was reached, encrypted like the first."""
        assert self._reached is not None
        plain = socket.create_connection(self._reached, step.left_s() / 2)
        if self._security.tls is None:
            return plain
        from coordinator_server.client.tls import context_of, handshake

        context = context_of(self._security.tls)
        return handshake(plain, self._address, context, step.left_s() / 2)

    def _dial_all(self, step: Step, cluster: _Cluster) -> bool:
        """Connect to each broker at its advertised address, as clients do."""
        changes: list[str] = []
        failed = 0
        for place, (node_id, node) in enumerate(cluster.nodes.items()):
            timeout_s = step.left_s() / (len(cluster.nodes) - place)
            begin_s = time.monotonic()
            try:
                self._dial(node, timeout_s).close()
            except StepFailedError as error:
                failed += 1
                self._unreached.add(node)
                step.details.append(f"broker {node_id} at {shown(node)}: {error}")
                changes += [change for change in error.changes if change not in changes]
            else:
                took_ms = (time.monotonic() - begin_s) * 1000
                step.details.append(f"broker {node_id} at {shown(node)}: {took_ms:.1f} ms")
            if is_clients_own(node.host) and not is_clients_own(self._address.host):
                step.details.append(
                    f"broker {node_id} names {node.host}, which is each client's own machine"
                )
        if failed:
            raise StepFailedError(
                f"{failed} of {len(cluster.nodes)} brokers cannot be reached where they say that"
                " they are; clients go there for their partitions and groups",
                changes,
            )
        step.found = f"{len(cluster.nodes)} reached"
        return True

    def _dial(self, node: Address, timeout_s: float) -> ClientConnection:
        """Return a connection to an advertised address. Raises StepFailedError."""
        inner = Step("dial", timeout_s)
        try:
            ready = connect(inner, resolve(inner, node), node)
        except StepFailedError as error:
            raise StepFailedError(str(error), change_of_advertised(self._address, node)) from error
        try:
            if self._security.tls is not None:
                ready = _encrypted(ready, node, self._security.tls, inner.left_s())
            connection = self._open(ready, node)
            connection.deadline_s = inner.deadline_s
            connection.negotiate()
            connection.authenticate()
        except TlsError as error:
            change = (
                f"broker: advertised.listeners, a name that its certificate has, or a certificate"
                f" with {node.host} among its names (doctor {shown(node)} tells more)"
            )
            raise StepFailedError(str(error), [change]) from error
        except SaslError as error:
            change = "broker: every broker needs the same users (sasl.jaas.config of its listeners)"
            raise StepFailedError(str(error), [change]) from error
        except ClientError as error:
            raise StepFailedError(
                f"it is reached, and does not answer as a broker: {error}",
                change_of_advertised(self._address, node),
            ) from error
        return connection

    def _coordinator(self, step: Step, connection: ClientConnection) -> ClientConnection:
        from protocol.apis.find_coordinator import FindCoordinatorRequest

        request = FindCoordinatorRequest(key=self._group, coordinator_keys=[self._group])
        connection.deadline_s = step.deadline_s
        while True:
            try:
                answer = connection.ask(request)
            except ClientError as error:
                raise StepFailedError(f"no answer to FindCoordinator: {error}") from error
            coordinator = answer.coordinators[0] if answer.coordinators else answer
            retriable = coordinator.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            if not retriable or not step.may_try_again():
                break
        if coordinator.error_code:
            raise _no_coordinator(coordinator.error_code, coordinator.error_message, self._group)
        node = Address(coordinator.host, coordinator.port)
        step.found = f"of group {self._group}: broker {coordinator.node_id} at {shown(node)}"
        if node in self._unreached:
            raise StepFailedError("this broker is not reached there, see the step `advertised`")
        return self._dial(node, step.left_s())

    def _join(self, step: Step, coordinator: ClientConnection) -> bool:
        coordinator.deadline_s = step.deadline_s
        live_as_member(step, coordinator, self._group)
        return True


def _encrypted(
    plain: socket.socket, node: Address, settings: TlsSettings, timeout_s: float
) -> socket.socket:
    """Return the connection after the TLS handshake. Raises ClientError."""
    from coordinator_server.client.tls import context_of, failure, handshake

    try:
        return handshake(plain, node, context_of(settings), timeout_s)
    except OSError as error:
        raise failure(error, shown(node)) from error


def _no_coordinator(code: int, message: str | None, group: str) -> StepFailedError:
    reason = str(ClientError(code, message or None))  # when Kafka refuses, its message is empty
    if code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
        return StepFailedError(
            f"there is no coordinator: {reason}",
            [
                "broker: offsets.topic.replication.factor, no more than there are brokers (1 for"
                " one): __consumer_offsets cannot be made",
                "broker: its log, if __consumer_offsets is there and its partitions have no leader",
            ],
        )
    if code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
        return StepFailedError(
            f"the user may not see group {group}: {reason}",
            [
                "broker: an ACL, operation Describe or Read on the group (kafka-acls --add)",
                "doctor: --group-prefix, the begin of a group that the user may use",
            ],
        )
    return StepFailedError(f"the broker names no coordinator: {reason}")
