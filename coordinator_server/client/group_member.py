"""A member of a classic consumer group: joins, sends heartbeats in its own thread, leaves.

Like Java's ConsumerCoordinator with the range assignor. The thread has its own client, so that a
rebalance that waits for other members does not block the caller.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from coordinator_server.client.client import Client
from coordinator_server.client.connection import ClientConnection
from coordinator_server.client.errors import ClientError, check
from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import ErrorCode, ProtocolError

PROTOCOL_TYPE, ASSIGNOR = "consumer", "range"
_JOIN_GRACE_MS = 5_000
_PAUSE_S = 0.1
_LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
_AGAIN = (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS, *_LOST)

Partition = tuple[str, int]


class MemberSettings(NamedTuple):
    """Kafka's consumer settings of a membership; times in milliseconds."""

    group_id: str
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000


class Membership(NamedTuple):
    """A member's generation, member id and assigned partitions."""

    generation: int
    member_id: str
    partitions: list[Partition]


class GroupMember:
    """A group member. `connect` creates the client of its thread.

    `join` starts joining and `wait` returns the membership. When the group rebalances,
    `must_rejoin` returns True; the caller finishes its partitions and calls `join` again.
    """

    def __init__(self, connect: Callable[[], Client], settings: MemberSettings) -> None:
        self._connect = connect
        self._settings = settings
        self._changed = threading.Condition()
        self._topics: list[str] | None = None
        """The topics to join with; None if no join is pending."""
        self._membership: Membership | None = None
        self._is_lost = False
        self._error: ClientError | None = None
        self._is_closed = False
        self._member_id = ""
        self._connection: ClientConnection | None = None
        self._thread: threading.Thread | None = None

    def join(self, topics: Sequence[str]) -> None:
        """Join or rejoin the group with this subscription. Raises the errors of `connect`."""
        with self._changed:
            self._membership = None
            self._topics = list(topics)
            self._changed.notify_all()
        if self._thread is None and not self._is_closed:
            arguments = (self._connect(),)
            self._thread = threading.Thread(target=self._run, args=arguments, daemon=True)
            self._thread.start()

    def wait(self, timeout_s: float) -> Membership | None:
        """Wait for the membership and return it; None on timeout.

        Raises ClientError.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._membership is not None or self._error is not None, timeout_s
            )
            if self._error is not None:
                raise self._error
            return self._membership

    def must_rejoin(self) -> bool:
        """Return whether the group is rebalancing.

        Raises ClientError if the membership has failed.
        """
        with self._changed:
            if self._error is not None:
                raise self._error
            return self._is_lost

    def close(self, client: Client) -> None:
        """Leave the group, through the caller's client. Static members do not leave (KIP-345)."""
        from protocol.apis.leave_group import LeaveGroupRequest, MemberIdentity

        with self._changed:
            self._is_closed = True
            member_id = self._member_id
            self._changed.notify_all()
        if not member_id or self._settings.group_instance_id is not None:
            return
        request = LeaveGroupRequest(
            group_id=self._settings.group_id,
            member_id=member_id,
            members=[MemberIdentity(member_id=member_id, reason="the consumer is being closed")],
        )
        try:
            client.ask(request, client.coordinator(self._settings.group_id))
        except ClientError:
            return  # the broker removes the member at its session timeout

    def _run(self, client: Client) -> None:
        try:
            while True:
                with self._changed:
                    wait_s = self._settings.heartbeat_interval_ms / 1000
                    self._changed.wait_for(
                        lambda: self._is_closed or self._topics is not None, wait_s
                    )
                    if self._is_closed:
                        return
                    topics, member = self._topics, self._membership
                if topics is not None:
                    self._attempt(partial(self._join, client, topics), client)
                elif member is not None and not self._is_lost:
                    self._attempt(partial(self._heartbeat, client, member), client)
        finally:
            if self._connection is not None:
                self._connection.close()
            client.close()

    def _attempt(self, step: Callable[[], None], client: Client) -> None:
        """Run one step; after a retriable error, pause before the next step."""
        try:
            step()
        except ClientError as error:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            if not error.code.retriable:
                self._fail(error)
                return
            time.sleep(_PAUSE_S)
        except ProtocolError as error:  # the subscription or assignment is malformed
            message = f"group {self._settings.group_id} cannot be read: {error}"
            self._fail(ClientError(ErrorCode.UNKNOWN_SERVER_ERROR, message))

    def _fail(self, error: ClientError) -> None:
        """End the membership with an error, which `wait` and `must_rejoin` then raise."""
        with self._changed:
            self._error, self._topics = error, None
            self._changed.notify_all()

    def _coordinator(self, client: Client) -> ClientConnection:
        """Return the member's own connection.

        The coordinator delays JoinGroup responses, which would block other requests.
        """
        if self._connection is None or not self._connection.is_open:
            node_id = client.coordinator(self._settings.group_id)
            self._connection = client.open_connection(node_id)
        return self._connection

    def _join(self, client: Client, topics: list[str]) -> None:
        from protocol.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol

        settings = self._settings
        subscription = ConsumerProtocolSubscription(topics=sorted(topics))
        request = JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            member_id=self._member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(name=ASSIGNOR, metadata=encode_subscription(subscription))
            ],
        )
        answer = self._coordinator(client).ask(
            request, timeout_ms=settings.max_poll_interval_ms + _JOIN_GRACE_MS
        )
        if answer.error_code in _AGAIN:
            if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._member_id = answer.member_id
            elif answer.error_code in _LOST:
                self._member_id = ""
            return
        check(answer.error_code)
        self._member_id = answer.member_id
        assignments: dict[str, list[Partition]] = {}
        if answer.leader == answer.member_id and not answer.skip_assignment:
            assignments = range_assignments(client, answer.members)
        self._sync(client, answer, assignments)

    def _sync(self, client: Client, joined: Any, assignments: dict[str, list[Partition]]) -> None:
        from protocol.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

        request = SyncGroupRequest(
            group_id=self._settings.group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=self._settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=ASSIGNOR,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=_encoded(partitions))
                for member_id, partitions in assignments.items()
            ],
        )
        wait_ms = self._settings.max_poll_interval_ms + _JOIN_GRACE_MS
        answer = self._coordinator(client).ask(request, timeout_ms=wait_ms)
        if answer.error_code in _AGAIN:
            if answer.error_code in _LOST:
                self._member_id = ""
            return
        check(answer.error_code)
        partitions = []
        if answer.assignment:
            for topic in decode_assignment(answer.assignment).assigned_partitions:
                partitions += [(topic.topic, index) for index in topic.partitions]
        with self._changed:
            self._membership = Membership(
                joined.generation_id, joined.member_id, sorted(partitions)
            )
            self._topics, self._is_lost = None, False
            self._changed.notify_all()

    def _heartbeat(self, client: Client, member: Membership) -> None:
        from protocol.apis.heartbeat import HeartbeatRequest

        request = HeartbeatRequest(
            group_id=self._settings.group_id,
            generation_id=member.generation,
            member_id=member.member_id,
            group_instance_id=self._settings.group_instance_id,
        )
        answer = self._coordinator(client).ask(request)
        if answer.error_code in _AGAIN:
            if answer.error_code in _LOST:
                self._member_id = ""
            with self._changed:
                self._is_lost = True
            return
        check(answer.error_code)


def range_assignments(client: Client, members: Sequence[Any]) -> dict[str, list[Partition]]:
    """Return each member's partitions by Kafka's RangeAssignor, without racks.

    For each topic, members get consecutive partitions in order, static members first. If the
    partitions do not divide evenly, the first members get one more.
    """
    readers: dict[str, list[Any]] = {}
    for member in members:
        for topic in decode_subscription(member.metadata).topics:
            readers.setdefault(topic, []).append(member)
    counts = {
        topic.name: len(topic.partitions)
        for topic in client.metadata(sorted(readers)).topics
        if not topic.error_code
    }
    assignments: dict[str, list[Partition]] = {member.member_id: [] for member in members}
    for topic, count in sorted(counts.items()):
        first = 0
        in_order = sorted(readers[topic], key=_order)
        for place, member in enumerate(in_order):
            size = count // len(in_order) + (place < count % len(in_order))
            assignments[member.member_id] += [(topic, first + step) for step in range(size)]
            first += size
    return assignments


def _order(member: Any) -> tuple[bool, str]:
    instance = member.group_instance_id
    return (instance is None, member.member_id if instance is None else instance)


def _encoded(partitions: Sequence[Partition]) -> bytes:
    topics: dict[str, TopicPartition] = {}
    for topic, index in partitions:
        topics.setdefault(topic, TopicPartition(topic=topic)).partitions.append(index)
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=list(topics.values())))
