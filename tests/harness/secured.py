"""Brokers with an authorizer, and clients that send frames to them without sockets."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

from coordinator_server.security.acl import (
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from coordinator_server.security.principal import user
from coordinator_server.steps import run_all
from protocol.registry import SPEC_BY_NAME
from protocol.schema import Message
from tests.harness.broker import MemoryBroker
from tests.harness.client import Client

CLASS = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class Secured:
    """A broker with an authorizer.

    `longest_turn_s` is the CPU time in seconds of the longest event loop iteration of the last
    request.
    """

    def __init__(self, **settings: Any) -> None:
        secured: dict[str, Any] = {
            "authorizer_class_name": CLASS,
            "super_users": "User:root",
            **settings,
        }
        self._nodes = MemoryBroker(has_real_steps=True, **secured)
        self.longest_turn_s = 0.0

    async def start(self) -> Secured:
        """Start the broker and return it; exclude existing objects from garbage collection."""
        gc.freeze()
        self.cluster = self._nodes.cluster
        self.broker = self._nodes.broker
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
        """Send a request as a user; return the response, or the reason for a closed connection."""
        client = Client(user(who))
        spec = SPEC_BY_NAME[type(request).__name__.removesuffix("Request")]
        version = spec.max_version if version is None else version
        sent, frame = client.frame(request, version, "c")
        began_s = time.thread_time()
        self._nodes.dispatch(client, frame)
        self.longest_turn_s = time.thread_time() - began_s
        while not (sent.answered or client.refusals) or self.cluster.step_runner:
            began_s = time.thread_time()
            await asyncio.sleep(0)
            self.longest_turn_s = max(self.longest_turn_s, time.thread_time() - began_s)
        return client.refusals[0] if client.refusals else sent.response


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
