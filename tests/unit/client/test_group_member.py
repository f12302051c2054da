"""A member of a group: the assignments that a leader makes, and errors in its thread."""

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
    """A client that knows how many partitions topics have."""

    def __init__(self, **counts: int) -> None:
        self._counts = counts

    def metadata(self, names: list[str]) -> Any:
        """A response with those topics; an error for others."""
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
    """The assignments of members, each with its id, instance id and topics."""
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
    """Runs of partitions, per topic, in the order of the member ids."""
    given = assign(Topics(t=5, u=1), ("b", None, ["t", "u"]), ("a", None, ["u", "t"]))
    assert given == {
        "a": [("t", 0), ("t", 1), ("t", 2), ("u", 0)],
        "b": [("t", 3), ("t", 4)],
    }


def test_static_members_come_first_in_the_order_of_their_instances() -> None:
    """A restart with another member id moves no partition (KIP-345)."""
    given = assign(
        Topics(t=3), ("a", None, ["t"]), ("b", "instance-2", ["t"]), ("c", "instance-1", ["t"])
    )
    assert given == {"c": [("t", 0)], "b": [("t", 1)], "a": [("t", 2)]}


def test_a_topic_goes_to_its_readers_and_a_missing_one_to_no_member() -> None:
    """Members without partitions get an empty assignment."""
    given = assign(Topics(t=2), ("a", None, ["t"]), ("b", None, ["missing"]))
    assert given == {"a": [("t", 0), ("t", 1)], "b": []}


class Coordinator:
    """A client of a coordinator that makes each member the leader of a group with `metadata`."""

    def __init__(self, metadata: bytes) -> None:
        self._metadata = metadata
        self.is_open = True
        self.closed = threading.Event()

    def coordinator(self, _: str) -> int:
        """A node."""
        return 1

    def open_connection(self, _: int) -> Coordinator:
        """A connection, which is this too."""
        return self

    def ask(self, request: Any, **_: Any) -> Any:
        """The answer to a JoinGroup."""
        member = SimpleNamespace(member_id="m", group_instance_id=None, metadata=self._metadata)
        return SimpleNamespace(
            error_code=0, member_id="m", leader="m", skip_assignment=False, members=[member]
        )

    def close(self) -> None:
        """The thread has ended."""
        self.closed.set()


def test_a_subscription_that_cannot_be_read_ends_the_membership() -> None:
    """The caller gets an error, as it would wait for an assignment for ever."""
    coordinator = Coordinator(metadata=b"\xff")
    member = GroupMember(lambda: cast(Client, coordinator), MemberSettings("g"))
    member.join(["t"])
    with pytest.raises(ClientError, match="group g cannot be read"):
        member.wait(10)


def test_no_client_for_the_thread_is_an_error_of_join() -> None:
    """Its bootstrap servers, for example, have no address any more."""

    def connect() -> Client:
        raise ClientError(ErrorCode.INVALID_CONFIG)

    with pytest.raises(ClientError):
        GroupMember(connect, MemberSettings("g")).join(["t"])
