"""What the commits of one consumer have in common: it commits the same partitions again and again.

The answer, and all of a record but the offset and its time, are made once for the same group,
topics and partitions, and kept while they are used. The log knows by the layout that two batches
hold the same keys, so that the first of them is superseded without a look into either.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from protocol.apis.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.schema import frozen

LayoutTopics = tuple[tuple[str, bytes, tuple[int, ...]], ...]
"""Of each topic its name, its id as the request has it, and the partitions, none of them twice."""

LARGEST_KEPT = 256
LAYOUTS_KEPT = 512
"""How many partitions a layout may have to be kept for the next commit, and how many are kept."""


class KeySet:
    """The keys of a layout; two batches have the same ones if they have the same object."""

    __slots__ = ()


class CommitLayout:
    """The partitions of a commit, in its order; `response` says that all of them are stored.

    `record_packers` belongs to the coordinator, which encodes the records.
    """

    __slots__ = ("count", "group_id", "key_set", "record_packers", "response", "topics")

    def __init__(self, group_id: str, topics: LayoutTopics) -> None:
        self.group_id = group_id
        self.topics = topics
        self.count = sum([len(partitions) for _, _, partitions in topics])
        self.key_set = KeySet()
        self.record_packers: Sequence[Any] = ()
        self.response = frozen(
            OffsetCommitResponse(
                topics=[
                    OffsetCommitResponseTopic(
                        name=name,
                        topic_id=topic_id,
                        partitions=[
                            OffsetCommitResponsePartition(partition_index=index)
                            for index in partitions
                        ],
                    )
                    for name, topic_id, partitions in topics
                ]
            )
        )


def layout_of(group_id: str, topics: LayoutTopics) -> CommitLayout | None:
    """The layout of a commit; None of one that names a topic twice."""
    count = sum([len(partitions) for _, _, partitions in topics])
    if len(topics) > 1 and len({name for name, _, _ in topics}) < len(topics):
        return None
    return (_kept if count <= LARGEST_KEPT else CommitLayout)(group_id, topics)


_kept = lru_cache(maxsize=LAYOUTS_KEPT)(CommitLayout)
