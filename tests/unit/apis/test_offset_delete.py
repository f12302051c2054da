"""OffsetDelete: the order of the response, as in Kafka 4.3.1."""

from __future__ import annotations

import pytest

from protocol.apis.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.harness.groups import GroupBroker

Topics = list[tuple[str, list[int]]]
Answer = list[tuple[str, list[tuple[int, int]]]]


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        # Topics with unknown partitions come first, and unknown partitions come first in a topic.
        (
            [("t", [0, 5, 1]), ("zz", [0])],
            [("t", [(5, 3), (0, 0), (1, 0)]), ("zz", [(0, 3)])],
        ),
        ([("t", [1]), ("zz", [0])], [("zz", [(0, 3)]), ("t", [(1, 0)])]),
        # An unknown topic without partitions is listed, a known topic is not.
        ([("zz", []), ("t", [])], [("zz", [])]),
        # A topic named twice is answered once.
        ([("t", [0]), ("t", [9]), ("t", [1])], [("t", [(9, 3), (0, 0), (1, 0)])]),
    ],
)
def test_what_is_unknown_comes_first(asked: Topics, answered: Answer) -> None:
    """In the response nonexistent partitions come before partitions of the group."""
    broker = GroupBroker()
    broker.commit("g", 5)
    request = OffsetDeleteRequest(
        group_id="g",
        topics=[
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[OffsetDeleteRequestPartition(partition_index=one) for one in indexes],
            )
            for name, indexes in asked
        ],
    )
    response = broker.ask(request)
    assert response.error_code == 0
    assert [
        (topic.name, [(one.partition_index, one.error_code) for one in topic.partitions])
        for topic in response.topics
    ] == answered
