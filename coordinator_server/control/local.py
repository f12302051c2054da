"""Requests of the control server to the brokers of this process, without a socket.

A change goes through the handler of Kafka's API, so the broker refuses what it refuses from any
client, writes the same records and wakes the same waiting requests. With a login, the access checks
of the API apply to the user.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from coordinator_server.apis.handlers import handler_of
from coordinator_server.control.errors import ControlError
from coordinator_server.control.pace import in_steps
from coordinator_server.control.request import check_running
from coordinator_server.core.caller import Caller
from coordinator_server.security.client_software import UNKNOWN_SOFTWARE
from coordinator_server.security.rights import UNRESTRICTED, Rights
from protocol.errors import ErrorCode
from protocol.registry import SPEC_BY_NAME
from storage.config_def import INT_MAX

if TYPE_CHECKING:
    from collections.abc import Generator

    from coordinator_server.broker import Broker
    from coordinator_server.control.request import ControlRequest
    from coordinator_server.steps import Steps
    from protocol.registry import ApiSpec
    from protocol.schema import Message

CLIENT_ID = "control-server"
TIMEOUT_SECONDS = 30.0
_WITHOUT_RUNNING_BROKER = frozenset({"DescribeAcls", "DescribeClientQuotas", "DescribeConfigs"})


class LocalConnection:
    """The connection of a local request. `refuse` fails the request."""

    closed = is_unauthenticated = has_token = False
    software = UNKNOWN_SOFTWARE
    remote = CLIENT_ID

    def __init__(self, request: ControlRequest, node_id: int) -> None:
        self.cluster = request.cluster
        listener = self.cluster.servers.addresses(node_id)[0]
        self.principal = request.principal
        self.client_host = request.client_host
        self.listener_name = listener.name
        self.local_address = (listener.host, listener.port)
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def refuse(self, reason: str, api: str | int | None = None, version: int | None = None) -> None:
        """Fail the request, which a client could not have sent."""
        if not self.answer.done():
            self.answer.set_exception(ControlError(400, reason))


class LocalCall:
    """The call of a local request, as handlers use it (`net.call.Call`)."""

    is_metered = False
    is_large = False
    correlation_id = 0

    def __init__(
        self, connection: LocalConnection, spec: ApiSpec, request: Message, version: int
    ) -> None:
        self.connection = connection
        self.request = request
        self.rights: Rights = UNRESTRICTED
        self._spec = spec
        self.caller = Caller(CLIENT_ID, connection.client_host, version)

    @property
    def api_name(self) -> str:
        """Kafka's name of the API."""
        return self._spec.name

    @property
    def api_version(self) -> int:
        """The version of the request."""
        return self.caller.api_version

    @property
    def client_id(self) -> str | None:
        """The client id of the request."""
        return self.caller.client_id

    @property
    def answered(self) -> bool:
        """Whether the response was sent."""
        return self.connection.answer.done()

    def most_fetched_bytes(self) -> int:
        """Return the maximum number of bytes that one fetch may return: no quota applies."""
        return INT_MAX

    def must_throttle_fetch(self, answer_bytes: int) -> bool:
        """Return False: no quota applies."""
        return False

    def may_change_partitions(self, count: int) -> bool:
        """Return True: no quota applies."""
        return True

    def run(self, steps: Steps) -> None:
        """Run the steps of the request, unless the cluster is closed."""
        cluster = self.connection.cluster
        if cluster.is_closed:
            return
        task = asyncio.get_running_loop().create_task(in_steps(steps))
        cluster.local_work.add(task)
        task.add_done_callback(self._on_steps_done)

    def _on_steps_done(self, task: asyncio.Task[None]) -> None:
        self.connection.cluster.local_work.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.answered:
            self.connection.answer.set_exception(error)

    def reply(self, response: Message) -> None:
        """Complete the request."""
        if not self.answered:
            self.connection.answer.set_result(response)

    def fail(self) -> None:
        """Complete the request with UNKNOWN_SERVER_ERROR."""
        self.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)

    def refuse(self, error: ErrorCode, message: str | None = None) -> None:
        """Complete the request with an error in the API's response format."""
        self.reply_with(self.error_response(error, message))

    def error_response(
        self, error: ErrorCode, message: str | None = None
    ) -> Generator[None, None, Message | None]:
        """Return the error in the API's response format, in steps."""
        from coordinator_server.net.error_response import Failure, error_response_steps

        response_type, failure = self._spec.response_type, Failure(error, message)
        return error_response_steps(response_type, self.request, self.api_version, failure)

    def reply_with(self, answer: Generator[None, None, Message | None]) -> None:
        """Complete the request with the response that the steps return."""
        self.run(self._reply_made(answer))

    def _reply_made(self, answer: Generator[None, None, Message | None]) -> Steps:
        response = yield from answer
        if response is None:
            self.connection.refuse("the request failed")
        else:
            self.reply(response)

    def reply_nothing(self) -> None:
        """Complete the request without a response."""
        if not self.answered:
            self.connection.answer.set_result(None)


async def ask(
    request: ControlRequest,
    api: str,
    message: Message,
    *,
    node_id: int | None = None,
    version: int | None = None,
) -> Any:
    """Return the response to a request, by default of the first running broker.

    `version` is the version of the API, by default the newest. APIs that read what the brokers
    share are answered without a running broker. Raises ControlError if no broker runs, or without a
    response in TIMEOUT_SECONDS.
    """
    if api in _WITHOUT_RUNNING_BROKER:
        controller_id = request.cluster.brokers.controller_id
        default_id = request.cluster.node_ids[0] if controller_id < 0 else controller_id
        broker = request.cluster.broker_to_read(default_id if node_id is None else node_id)
    else:
        broker = running_broker(request, node_id)
    spec, security = SPEC_BY_NAME[api], request.cluster.security
    connection = LocalConnection(request, broker.node_id)
    call: Any = LocalCall(connection, spec, message, version or spec.max_version)
    handle = handler_of(spec, None if request.user is None else security.authorizer)
    steps = handle(broker, call, message)
    if steps is not None:
        call.run(steps)
    try:
        return await asyncio.wait_for(connection.answer, TIMEOUT_SECONDS)
    except TimeoutError as error:
        text = f"broker {broker.node_id} has not answered {api} in {TIMEOUT_SECONDS:g} s"
        raise ControlError(504, text) from error


def running_broker(request: ControlRequest, node_id: int | None = None) -> Broker:
    """Return a running broker, by default the first one. Raises ControlError."""
    brokers = request.cluster.brokers
    if node_id is None:
        node_id = brokers.controller_id
    check_running(request.cluster)
    broker = brokers.get(node_id)
    if broker is None:
        raise ControlError(503, f"broker {node_id} is stopped")
    return broker


def check(error_code: int, message: str | None, what: str) -> None:
    """Raise ControlError if a response has an error, with Kafka's name of the error."""
    if error_code == ErrorCode.NONE:
        return
    raise ControlError(status_of(error_code), f"{what}: {error_text(error_code, message)}")


def status_of(error_code: int) -> int:
    """Return the HTTP status for Kafka's error."""
    return _STATUS.get(error_code, 400)


def error_text(error_code: int, message: str | None = None) -> str:
    """Return Kafka's name of an error with its message, otherwise with what to do, if known."""
    name, message = ErrorCode(error_code).name, message or _ADVICE.get(error_code)
    return f"{name}: {message}" if message else name


_ADVICE: dict[int, str] = {
    ErrorCode.NON_EMPTY_GROUP: "the group has members; stop them first",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has members; stop them first",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "a member is subscribed to the topic; stop it first",
}


_STATUS: dict[int, int] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: 500,
    ErrorCode.KAFKA_STORAGE_ERROR: 500,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.UNKNOWN_TOPIC_ID: 404,
    ErrorCode.GROUP_ID_NOT_FOUND: 404,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: 404,
    ErrorCode.NON_EMPTY_GROUP: 409,
    ErrorCode.UNKNOWN_MEMBER_ID: 409,
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: 409,
    ErrorCode.TOPIC_ALREADY_EXISTS: 409,
    ErrorCode.REBALANCE_IN_PROGRESS: 409,
    ErrorCode.CONCURRENT_TRANSACTIONS: 409,
    ErrorCode.REASSIGNMENT_IN_PROGRESS: 409,
    ErrorCode.UNSTABLE_OFFSET_COMMIT: 409,
    ErrorCode.INCONSISTENT_TOPIC_ID: 409,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: 429,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: 503,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: 503,
    ErrorCode.NOT_COORDINATOR: 503,
    ErrorCode.NOT_CONTROLLER: 503,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: 503,
    ErrorCode.LEADER_NOT_AVAILABLE: 503,
    ErrorCode.BROKER_NOT_AVAILABLE: 503,
    ErrorCode.REPLICA_NOT_AVAILABLE: 503,
    ErrorCode.NOT_ENOUGH_REPLICAS: 503,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: 503,
    ErrorCode.OFFSET_NOT_AVAILABLE: 503,
    ErrorCode.NETWORK_EXCEPTION: 503,
    ErrorCode.LISTENER_NOT_FOUND: 503,
    ErrorCode.FENCED_LEADER_EPOCH: 503,
    ErrorCode.UNKNOWN_LEADER_EPOCH: 503,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: 503,
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: 503,
    ErrorCode.REQUEST_TIMED_OUT: 504,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: 403,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: 403,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: 403,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: 403,
}
"""HTTP status by Kafka's error; 400 for all others, which a repeated request would get again."""
