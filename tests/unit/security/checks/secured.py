"""Brokers with an authorizer, and clients that send frames to them without sockets."""

from __future__ import annotations

import asyncio
import gc
import time
from functools import partial
from typing import Any

from coordinator_server.apis.handlers import handler_of
from coordinator_server.core.caller import Caller
from coordinator_server.net.connection import NO_CALLER
from coordinator_server.net.dispatch import Dispatcher
from coordinator_server.security.acl import (
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from coordinator_server.security.principal import Principal, user
from coordinator_server.steps import run_all
from protocol.codec import decoder, encoder
from protocol.headers import RequestHeader, ResponseHeader
from protocol.registry import SPEC_BY_NAME
from protocol.schema import Message
from tests.unit.nodes import Nodes
from tests.unit.topics.fakes import FakeConnection

CLASS = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class SecuredConnection(FakeConnection):
    """The connection of a user; stores the responses."""

    remote = "127.0.0.1:1"

    def __init__(self, principal: Principal) -> None:
        super().__init__()
        self.principal = principal
        self.caller: Caller = NO_CALLER
        self.answers: list[bytes] = []

    def answer(self, prefix: bytes, body: bytes | bytearray | list[bytes]) -> None:
        """Store a response without its length."""
        whole = prefix + (b"".join(body) if isinstance(body, list) else bytes(body))
        self.answers.append(whole[4:])

    def answer_nothing(self) -> None:
        """Do nothing: the request has no response."""


class Secured:
    """A broker with an authorizer. Call `start` first.

    `longest_turn_s` is the CPU time in seconds of the longest event loop iteration of the last
    request.
    """

    def __init__(self, **settings: str) -> None:
        secured = {"authorizer_class_name": CLASS, "super_users": "User:root", **settings}
        self._nodes = Nodes(None, 1, **secured)

    async def start(self) -> Secured:
        """Start the broker; exclude existing objects from garbage collection, as a server does."""
        await self._nodes.start()
        gc.freeze()
        self.cluster = self._nodes.cluster
        self.broker = self.cluster.brokers[1]
        find_handler = partial(handler_of, authorizer=self.cluster.security.authorizer)
        self._dispatcher = Dispatcher(self.broker, self.cluster.step_runner, find_handler)
        return self

    async def stop(self) -> None:
        """Stop the broker."""
        gc.unfreeze()
        await self.cluster.stop()

    def topics(self, *names: str) -> None:
        """Create topics with one partition."""
        for name in names:
            self.broker.topics.create(name, 1, {})

    def allow(self, *acls: Acl) -> None:
        """Add ACLs."""
        run_all(self.cluster.security.change_acls(added=acls))

    async def ask(self, request: Message, version: int | None = None, who: str = "alice") -> Any:
        """Send a request as a user; return the response, or why the connection was closed."""
        spec = SPEC_BY_NAME[type(request).__name__.removesuffix("Request")]
        version = spec.max_version if version is None else version
        header = RequestHeader(
            api_key=spec.key, api_version=version, correlation_id=7, client_id="c"
        )
        frame = b"\0\0\0\0" + encoder(RequestHeader, spec.request_header_version(version))(header)
        frame += encoder(spec.request_type, version)(request)
        connection = SecuredConnection(user(who))
        began_s = time.thread_time()
        self._dispatcher.dispatch(connection, frame)  # type: ignore[arg-type]  # a fake connection
        self.longest_turn_s = time.thread_time() - began_s
        while not (connection.answers or connection.refusals) or self.cluster.step_runner:
            began_s = time.thread_time()
            await asyncio.sleep(0)
            self.longest_turn_s = max(self.longest_turn_s, time.thread_time() - began_s)
        if connection.refusals:
            return connection.refusals[0]
        (answer,) = connection.answers
        position = decoder(ResponseHeader, spec.response_header_version(version))(answer, 0)[1]
        return decoder(spec.response_type, version)(answer, position)[0]


def on(
    resource_type: ResourceType,
    name: str,
    operation: Operation,
    permission: Permission = Permission.ALLOW,
) -> Acl:
    """Return an ACL of alice."""
    return Acl(resource_type, name, PatternType.LITERAL, "User:alice", "*", operation, permission)


def topic(name: str, operation: Operation) -> Acl:
    """Return an ACL of alice for a topic."""
    return on(ResourceType.TOPIC, name, operation)


def group(name: str, operation: Operation) -> Acl:
    """Return an ACL of alice for a group."""
    return on(ResourceType.GROUP, name, operation)


def transactional_id(name: str, operation: Operation) -> Acl:
    """Return an ACL of alice for a transactional id."""
    return on(ResourceType.TRANSACTIONAL_ID, name, operation)


def cluster(operation: Operation) -> Acl:
    """Return an ACL of alice for the cluster."""
    return on(ResourceType.CLUSTER, "kafka-cluster", operation)
