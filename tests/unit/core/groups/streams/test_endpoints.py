"""Endpoints: where the processes of an application answer queries, and their partitions."""

from __future__ import annotations

from typing import Any

from protocol.apis.streams_group_heartbeat import EndpointToPartitions
from protocol.errors import ErrorCode
from tests.harness.one_group import Answer
from tests.harness.topologies import subtopology, topology
from tests.unit.core.groups.streams.context import (
    StreamsContext,
)

JOINS = topology(
    subtopology("0", "one", "three", sinks=["repartition"]),
    subtopology("1", repartitions=["repartition"], changelogs=["changelog"]),
)
COUNTS = {"one": 1, "three": 3, "repartition": 3, "changelog": 3}


def told(answer: Answer) -> dict[tuple[str, int], Any] | None:
    """Return by endpoint: topic -> partitions, active and standby."""
    entries: list[EndpointToPartitions] | None = answer.response.partitions_by_user_endpoint
    if entries is None:
        return None
    return {
        (one.user_endpoint.host, one.user_endpoint.port): tuple(
            {topic.topic: topic.partitions for topic in topics}
            for topics in (one.active_partitions, one.standby_partitions)
        )
        for one in entries
    }


def test_a_new_group_forgets_the_epoch_of_its_endpoints() -> None:
    """The first response has endpoint epoch 0; a request with another epoch gets all endpoints.

    Kafka does the same.
    """
    context = StreamsContext(COUNTS)
    member = context.member("m", JOINS, endpoint=("h", 1))
    answer = member.join()
    all_partitions = {"one": [0], "three": [0, 1, 2], "repartition": [0, 1, 2]}
    assert told(answer) == {("h", 1): (all_partitions, {})}
    assert answer.response.endpoint_information_epoch == 0
    assert told(member.own()) is None
    assert told(member.own(endpoint_information_epoch=7)) == {("h", 1): (all_partitions, {})}


def test_the_epoch_rises_with_tasks_of_who_has_an_endpoint() -> None:
    """The endpoint epoch rises when the tasks of a member with an endpoint change.

    Each member then gets the new endpoints in one response.
    """
    context = StreamsContext(COUNTS)
    first = context.member("a", JOINS, endpoint=("h", 1))
    second = context.member("b", JOINS)
    first.join()
    answer = second.join()
    assert answer.response.endpoint_information_epoch == 0
    assert told(answer) is None
    answer = first.own()
    assert answer.response.endpoint_information_epoch == 1
    entries = told(answer)
    assert entries is not None
    active, _ = entries["h", 1]
    assert sum(map(len, active.values())) < 7
    assert told(second.own()) == entries
    assert told(second.own()) is None
    third = context.member("c", JOINS, endpoint=("i", 2))
    assert list(told(third.join()) or ()) == [("h", 1), ("i", 2)]
    assert third.endpoint_epoch == 2
    context.check()


def test_standby_partitions_are_told_apart() -> None:
    """Partitions of standby tasks are listed separately."""
    context = StreamsContext(COUNTS, streams_num_standby_replicas=1)
    first = context.member("a", JOINS, endpoint=("h", 1))
    second = context.member("b", JOINS, endpoint=("i", 2))
    context.joined(first, second)
    entries = told(first.own(endpoint_information_epoch=-1))
    assert entries is not None
    (active, standby), (other_active, other_standby) = entries["h", 1], entries["i", 2]
    assert standby == {"repartition": other_active["repartition"]}
    assert other_standby == {"repartition": active["repartition"]}


def test_without_topics_there_are_no_partitions() -> None:
    """With missing topics a heartbeat of a member with an endpoint fails, as in Kafka.

    Heartbeats of other members succeed.
    """
    context = StreamsContext({"three": 3})
    asked = topology(subtopology("0", "lost"))
    with_endpoint = context.member("a", asked, endpoint=("h", 1))
    assert with_endpoint.join().error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert context.member("b", asked).join().error is ErrorCode.NONE


def test_a_member_with_tasks_of_topics_that_are_gone() -> None:
    """Heartbeats of a member with an endpoint and tasks of a deleted topic fail, as in Kafka."""
    context = StreamsContext({"three": 3})
    asked = topology(subtopology("0", "three"))
    member = context.member("m", asked, endpoint=("h", 1))
    context.joined(member)
    context.change_topics(three=0)
    assert member.own().error is ErrorCode.UNKNOWN_SERVER_ERROR
    context.change_topics(three=3)
    assert member.own().error is ErrorCode.NONE
    context.check()


def test_the_endpoint_of_a_member_with_tasks_of_an_internal_topic_that_is_gone() -> None:
    """Endpoints that include a deleted internal topic fail until it is recreated, as in Kafka."""
    context = StreamsContext(COUNTS)
    first = context.member("a", JOINS, endpoint=("h", 1))
    second = context.member("b", JOINS)
    context.joined(first, second)
    context.change_topics(repartition=0)
    answer = second.own(endpoint_information_epoch=-1)
    assert answer.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert second.own().error is ErrorCode.NONE
    assert context.broker.topics.counts["repartition"] == 3
    assert second.own(endpoint_information_epoch=-1).error is ErrorCode.NONE
