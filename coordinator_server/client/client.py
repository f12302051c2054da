"""A client of a whole cluster: finds the broker for a request and retries while brokers change.

Implements what Java's clients do below an Admin call: bootstrap servers in turn, one connection per
broker, leader and coordinator lookup, and retries with backoff until `default.api.timeout.ms`
(org.apache.kafka.clients.admin.KafkaAdminClient).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from coordinator_server.client.connection import ClientConnection
from coordinator_server.client.errors import ClientError, check
from coordinator_server.client.settings import Address, ClientSettings, parse_addresses
from protocol.errors import ErrorCode
from protocol.schema import ZERO_UUID, Message

T = TypeVar("T")

GROUP_COORDINATOR, TRANSACTION_COORDINATOR, SHARE_COORDINATOR = 0, 1, 2
ANY_BROKER = None


class _NotInClusterError(ClientError):
    """The broker is not in the cluster at the moment, but may join it."""


class Lookup(NamedTuple):
    """Finds the node id of the broker to ask; `api` is the API of the lookup, named as in Java."""

    api: str
    find: Callable[[], int]


class Client:
    """A client of one cluster; see the package's docstring.

    `warn` receives each failed connection.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        settings: ClientSettings | None = None,
        warn: Callable[[int, Address, ClientError], None] | None = None,
    ) -> None:
        self.settings = settings or ClientSettings()
        self.nodes: dict[int, Address] = {}
        """The brokers by node id, from the latest Metadata response."""
        self.controller_id = -1
        self.cluster_id: str | None = None
        self._bootstrap = parse_addresses(bootstrap_servers)
        self._warn = warn
        self._turn = 0
        self._connections: dict[int, ClientConnection] = {}
        """By node id; bootstrap servers have the ids -1, -2, ..., as in Java's clients."""

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def call(self, name: str, attempt: Callable[[], T], timeout_ms: int | None = None) -> T:
        """Return the result of `attempt`, called again while it raises a retriable ClientError.

        `name` is the method name of Java's Admin. After `timeout_ms` (default:
        `default.api.timeout.ms`), raises ClientError (REQUEST_TIMED_OUT) with the message of
        Kafka's TimeoutException.
        """
        return self._call(lambda: name, attempt, timeout_ms)

    def call_on(self, name: str, lookup: Lookup, api: str, ask: Callable[[int], T]) -> T:
        """Like `call`, in two steps: find the broker, then ask the broker (Java's AdminApiDriver).

        `api` names the second step. A timeout error names the step that was not completed.
        """
        step = lookup.api

        def attempt() -> T:
            nonlocal step
            step = lookup.api
            node_id = lookup.find()
            step = api
            return ask(node_id)

        return self._call(lambda: f"{name}(api={step})", attempt)

    def _call(
        self, name: Callable[[], str], attempt: Callable[[], T], timeout_ms: int | None = None
    ) -> T:
        if timeout_ms is None:
            timeout_ms = self.settings.default_api_timeout_ms
        deadline_s = time.monotonic() + timeout_ms / 1000
        pause_ms = self.settings.retry_backoff_ms
        while True:
            try:
                return attempt()
            except ClientError as error:
                if not error.code.retriable:
                    raise
                pause_s = pause_ms / 1000
                if time.monotonic() + pause_s > deadline_s:
                    raise ClientError(
                        ErrorCode.REQUEST_TIMED_OUT,
                        f"Timed out waiting for a node assignment. Call: {name()}",
                    ) from error
            time.sleep(pause_s)
            pause_ms = min(pause_ms * 2, self.settings.retry_backoff_max_ms)

    def ask(self, request: Message, node_id: int | None = ANY_BROKER, **options: Any) -> Any:
        """Send one request to a broker and return the response. One attempt; raises ClientError.

        `options` are those of `ClientConnection.ask`. An unknown node id is looked up.
        """
        return self.connection(node_id).ask(request, **options)

    def connection(self, node_id: int | None = ANY_BROKER) -> ClientConnection:
        """Return the connection to a broker, opening one if needed. Raises ClientError."""
        if node_id is ANY_BROKER:
            return self._any_connection()
        connection = self._connections.get(node_id)
        if connection is None or not connection.is_open:
            connection = self._connections[node_id] = self.open_connection(node_id)
        return connection

    def open_connection(self, node_id: int) -> ClientConnection:
        """Open another connection to a broker, for requests that wait long.

        The caller closes it.
        """
        if node_id not in self.nodes:
            self.metadata([])
        if node_id not in self.nodes:
            raise ClientError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"Node {node_id} is not in the cluster"
            )
        return self._open(node_id, self.nodes[node_id])

    def metadata(self, topics: Iterable[str | bytes] | None, *, create: bool = False) -> Any:
        """Return a MetadataResponse for topics, by name or 16-byte id; None means all. One attempt.

        With `create`, a broker with auto.create.topics.enable creates missing topics. Raises
        ClientError; errors of topics are left in the response.
        """
        from protocol.apis.metadata import MetadataRequest, MetadataRequestTopic

        asked, by_id = None, False
        if topics is not None:
            asked = []
            for topic in topics:
                by_id = by_id or isinstance(topic, bytes)
                asked.append(
                    MetadataRequestTopic(name=None, topic_id=topic)
                    if isinstance(topic, bytes)
                    else MetadataRequestTopic(name=topic, topic_id=ZERO_UUID)
                )
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=create)
        # Metadata 0 cannot request an empty topic list; Metadata 4 is the first version that can
        # prevent auto-creation.
        answer = self.ask(request, min_version=12 if by_id else 4)
        check(answer.error_code)
        self.nodes = {node.node_id: Address(node.host, node.port) for node in answer.brokers}
        self.controller_id, self.cluster_id = answer.controller_id, answer.cluster_id
        return answer

    def controller(self) -> int:
        """Return the node id of the broker that receives changes to topics and configs.

        One attempt.
        """
        if self.controller_id not in self.nodes:
            self.metadata([])
        if self.controller_id not in self.nodes:
            raise ClientError(ErrorCode.BROKER_NOT_AVAILABLE, "there is no controller")
        return self.controller_id

    def ask_controller(self, name: str, request: Message, **options: Any) -> Any:
        """Send `request` to the controller and retry while it moves; errors stay in the response.

        NOT_CONTROLLER in any topic or resource of the response also leads to a retry.
        """

        def attempt() -> Any:
            answer = self.ask(request, self.controller(), **options)
            if ErrorCode.NOT_CONTROLLER in _error_codes(answer):
                self.controller_id = -1
                raise ClientError(ErrorCode.NOT_CONTROLLER)
            return answer

        return self.call(name, attempt)

    def ask_node(self, name: str, request: Message, node_id: int | None) -> Any:
        """Send `request` to a broker and retry while it is unreachable or not in the cluster.

        Errors in the response are left there.
        """

        def attempt() -> Any:
            try:
                return self.ask(request, node_id)
            except ClientError as error:
                if error.code is ErrorCode.BROKER_NOT_AVAILABLE:
                    raise _NotInClusterError(ErrorCode.NETWORK_EXCEPTION, str(error)) from None
                raise

        try:
            return self.call(name, attempt)
        except ClientError as error:
            if isinstance(error.__cause__, _NotInClusterError):
                error.__cause__ = None
            raise

    def leaders(self, partitions: Iterable[tuple[str, int]]) -> dict[int, list[tuple[str, int]]]:
        """Group partitions by the node id of their leader. One attempt.

        Raises ClientError: a topic's error, UNKNOWN_TOPIC_OR_PARTITION for a missing partition, or
        LEADER_NOT_AVAILABLE.
        """
        leaders, errors = self.find_leaders(partitions)
        for error in errors.values():
            raise error
        return leaders

    def find_leaders(
        self, partitions: Iterable[tuple[str, int]]
    ) -> tuple[dict[int, list[tuple[str, int]]], dict[tuple[str, int], ClientError]]:
        """Like `leaders`, but also return the errors of partitions without a leader."""
        wanted = list(dict.fromkeys(partitions))
        answer = self.metadata(sorted({topic for topic, _ in wanted}))
        known = {topic.name: topic for topic in answer.topics}
        leaders: dict[int, list[tuple[str, int]]] = {}
        errors: dict[tuple[str, int], ClientError] = {}
        for name, index in wanted:
            topic = known[name]
            leader_ids = {item.partition_index: item.leader_id for item in topic.partitions}
            if topic.error_code:
                errors[name, index] = ClientError(topic.error_code)
            elif index not in leader_ids:
                errors[name, index] = ClientError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif leader_ids[index] not in self.nodes:
                errors[name, index] = ClientError(ErrorCode.LEADER_NOT_AVAILABLE)
            else:
                leaders.setdefault(leader_ids[index], []).append((name, index))
        return leaders, errors

    def coordinator(self, key: str, key_type: int = GROUP_COORDINATOR) -> int:
        """Return the node id of the coordinator of a group, a transactional id or a share key.

        One attempt. Raises ClientError: COORDINATOR_NOT_AVAILABLE and the like.
        """
        from protocol.apis.find_coordinator import FindCoordinatorRequest

        request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
        answer = self.ask(request, min_version=1)
        coordinator = answer.coordinators[0] if answer.coordinators else answer
        check(coordinator.error_code, coordinator.error_message)
        self.nodes[coordinator.node_id] = Address(coordinator.host, coordinator.port)
        return int(coordinator.node_id)

    def _any_connection(self) -> ClientConnection:
        """Return an open connection, or a new one to the next known broker."""
        for connection in self._connections.values():
            if connection.is_open:
                return connection
        candidates = dict(self.nodes) or {
            -1 - index: address for index, address in enumerate(self._bootstrap)
        }
        node_ids = list(candidates)
        failure: ClientError | None = None
        for _ in node_ids:
            node_id = node_ids[self._turn % len(node_ids)]
            self._turn += 1
            try:
                connection = self._open(node_id, candidates[node_id])
            except ClientError as error:
                failure = error
            else:
                self._connections[node_id] = connection
                return connection
        self.nodes = {}  # no known broker is reachable: use the bootstrap servers again
        assert failure is not None
        raise failure

    def _open(self, node_id: int, address: Address) -> ClientConnection:
        try:
            return ClientConnection(address, self.settings)
        except ClientError as error:
            # Forget the address, because the broker may have a new one.
            self.nodes.pop(node_id, None)
            if self._warn is not None:
                self._warn(node_id, address, error)
            raise


def _error_codes(answer: Any) -> Iterable[int]:
    """Yield the error codes of a response and of its topics or resources."""
    yield getattr(answer, "error_code", 0)
    for field in ("topics", "results", "responses"):
        for item in getattr(answer, field, ()):
            yield getattr(item, "error_code", 0)
