"""A group member: the assignments of a leader, and errors in its thread."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator_server.client import Client, ClientError
from coordinator_server.client.group_member import (
    GroupMember,
    MemberSettings,
    range_assignments,
)
from protocol.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from protocol.errors import ErrorCode


class Topics:
    """A client that knows the partition counts of topics."""

    def __init__(self, **counts: int) -> None:
        self._counts = counts

    def metadata(self, names: list[str]) -> Any:
        """Return the known topics, and an error for every other topic."""
        return SimpleNamespace(
            topics=[
                SimpleNamespace(
                    name=name,
                    error_code=0 if name in self._counts else 3,
                    partitions=[None] * self._counts.get(name, 0),
                )
                for name in names
            ]
        )


def assign(topics: Topics, *members: tuple[str, str | None, list[str]]) -> dict[str, Any]:
    """Return the assignments of members, each given by its id, instance id and topics."""
    joined = [
        SimpleNamespace(
            member_id=member_id,
            group_instance_id=instance,
            metadata=encode_subscription(ConsumerProtocolSubscription(topics=names)),
        )
        for member_id, instance, names in members
    ]
    return range_assignments(cast(Client, topics), joined)


def test_the_first_members_get_one_partition_more() -> None:
    """Each topic is split into ranges by member id; the first members get one partition more."""
    given = assign(Topics(t=5, u=1), ("b", None, ["t", "u"]), ("a", None, ["u", "t"]))
    assert given == {
        "a": [("t", 0), ("t", 1), ("t", 2), ("u", 0)],
        "b": [("t", 3), ("t", 4)],
    }


def test_static_members_come_first_in_the_order_of_their_instances() -> None:
    """Static members come first in the assignment, ordered by instance id.

    A restart with another member id then moves no partition (KIP-345).
    """
    given = assign(
        Topics(t=3), ("a", None, ["t"]), ("b", "instance-2", ["t"]), ("c", "instance-1", ["t"])
    )
    assert given == {"c": [("t", 0)], "b": [("t", 1)], "a": [("t", 2)]}


def test_a_topic_goes_to_its_readers_and_a_missing_one_to_no_member() -> None:
    """A topic is assigned to its subscribers; members without partitions get an empty assignment.

    A missing topic is assigned to no member.
    """
    given = assign(Topics(t=2), ("a", None, ["t"]), ("b", None, ["missing"]))
    assert given == {"a": [("t", 0), ("t", 1)], "b": []}


class Coordinator:
    """A client whose coordinator makes each member the leader of a group with `metadata`."""

    def __init__(self, metadata: bytes) -> None:
        self._metadata = metadata
        self.is_open = True
        self.closed = threading.Event()

    def coordinator(self, _: str) -> int:
        """Return a node."""
        return 1

    def open_connection(self, _: int) -> Coordinator:
        """Return this object as the connection."""
        return self

    def ask(self, request: Any, **_: Any) -> Any:
        """Return a JoinGroup response."""
        member = SimpleNamespace(member_id="m", group_instance_id=None, metadata=self._metadata)
        return SimpleNamespace(
            error_code=0, member_id="m", leader="m", skip_assignment=False, members=[member]
        )

    def close(self) -> None:
        """Record that the thread has ended."""
        self.closed.set()


def test_a_subscription_that_cannot_be_read_ends_the_membership() -> None:
    """An unreadable subscription of a member raises an error and ends the membership.

    Without the error the caller would wait for an assignment for ever.
    """
    coordinator = Coordinator(metadata=b"\xff")
    member = GroupMember(lambda: cast(Client, coordinator), MemberSettings("g"))
    member.join(["t"])
    with pytest.raises(ClientError, match="group g cannot be read"):
        member.wait(10)


def test_no_client_for_the_thread_is_an_error_of_join() -> None:
    """If the thread's client cannot be created, `join` raises the error.

    For example, the bootstrap servers may no longer resolve.
    """

    def connect() -> Client:
        raise ClientError(ErrorCode.INVALID_CONFIG)

    with pytest.raises(ClientError):
        GroupMember(connect, MemberSettings("g")).join(["t"])
