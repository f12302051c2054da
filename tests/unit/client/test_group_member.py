"""The assignments that a leader makes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from coordinator_server.client import Client
from coordinator_server.client.group_member import range_assignments
from protocol.consumer_protocol import ConsumerProtocolSubscription, encode_subscription


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


def test_a_topic_goes_to_its_readers_and_one_that_is_not_there_to_nobody() -> None:
    """Members without partitions get an empty assignment."""
    given = assign(Topics(t=2), ("a", None, ["t"]), ("b", None, ["missing"]))
    assert given == {"a": [("t", 0), ("t", 1)], "b": []}
