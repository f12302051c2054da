"""A member of a share group (KIP-932): joins, sends heartbeats in its own thread, leaves.

Like Java's ShareMembershipManager and ShareHeartbeatRequestManager. The thread has its own client.
"""

from __future__ import annotations

import threading
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from uuid import uuid4

from coordinator_server.client.client import Client
from coordinator_server.client.errors import ClientError, check
from protocol.errors import ErrorCode

_JOIN, _LEAVE = 0, -1
_PAUSE_S = 0.1
_LONGEST_WAIT_S = 1.0
"""The longest wait before the next heartbeat of a member without partitions."""
_LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)

SharePartition = tuple[bytes, int]
"""A topic id and a partition number."""


class ShareMember:
    """A share group member subscribed to `topics`. `connect` creates the client of its thread."""

    def __init__(self, connect: Callable[[], Client], group: str, topics: Sequence[str]) -> None:
        self._connect = connect
        self._group = group
        self._topics = list(topics)
        self.member_id = _random_id()
        self._epoch = _JOIN
        self._interval_s = _LONGEST_WAIT_S
        self._changed = threading.Condition()
        self._partitions: list[SharePartition] = []
        self._error: ClientError | None = None
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start joining. Raises the errors of `connect`."""
        arguments = (self._connect(),)
        self._thread = threading.Thread(target=self._run, args=arguments, daemon=True)
        self._thread.start()

    def partitions(self, wait_s: float) -> list[SharePartition]:
        """Wait for assigned partitions and return them. Raises ClientError."""
        with self._changed:
            self._changed.wait_for(
                lambda: bool(self._partitions) or self._error is not None, wait_s
            )
            if self._error is not None:
                raise self._error
            return self._partitions

    def close(self, client: Client) -> None:
        """Leave the group; the request goes through the caller's client."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is None:
            return
        self._thread.join(_LONGEST_WAIT_S)
        if self._epoch == _JOIN:
            return
        self._epoch = _LEAVE
        try:
            self._beat(client)
        except ClientError:
            return  # the broker removes the member at its session timeout

    def _run(self, client: Client) -> None:
        try:
            while True:
                pause_s = self._attempt(client)
                with self._changed:
                    if self._changed.wait_for(lambda: self._is_closed, pause_s):
                        return
                    if self._error is not None:
                        return
        finally:
            client.close()

    def _attempt(self, client: Client) -> float:
        """Send one heartbeat; return the seconds until the next."""
        try:
            self._beat(client)
        except ClientError as error:
            if error.code in _LOST:
                self._epoch = _JOIN
                self._assign([])
            elif not error.code.retriable:
                with self._changed:
                    self._error = error
                    self._changed.notify_all()
            return _PAUSE_S
        return self._interval_s if self._partitions else min(self._interval_s, _LONGEST_WAIT_S)

    def _beat(self, client: Client) -> None:
        from protocol.apis.share_group_heartbeat import ShareGroupHeartbeatRequest

        request = ShareGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self.member_id,
            member_epoch=self._epoch,
            subscribed_topic_names=self._topics if self._epoch == _JOIN else None,
        )
        answer = client.ask(request, client.coordinator(self._group))
        check(answer.error_code, answer.error_message)
        if self._epoch == _LEAVE:
            return
        self._epoch = answer.member_epoch
        self._interval_s = answer.heartbeat_interval_ms / 1000
        if answer.assignment is not None:
            self._assign(
                [
                    (topic.topic_id, index)
                    for topic in answer.assignment.topic_partitions
                    for index in topic.partitions
                ]
            )

    def _assign(self, partitions: list[SharePartition]) -> None:
        with self._changed:
            self._partitions = partitions
            self._changed.notify_all()


def _random_id() -> str:
    """Return a random id in the format of Java's Uuid, never starting with a hyphen."""
    while (text := urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text
