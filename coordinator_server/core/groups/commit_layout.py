"""Cached response and keys for commits that repeat the same partitions.

A consumer commits the same partitions again and again. The response and every part of a record
except the offset and its timestamp are built once per group, topics and partitions, and cached. If
two batches have the same layout, the log knows that they have the same keys, and that the second
supersedes the first, without decoding either.
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
"""For each topic: name, id from the request, and partitions without duplicates."""

LARGEST_KEPT = 256
LAYOUTS_KEPT = 512
"""The largest number of partitions of a cached layout, and the number of cached layouts."""


class KeySet:
    """The identity of a layout's keys: batches with the same KeySet object have the same keys."""

    __slots__ = ()


class CommitLayout:
    """The partitions of a commit, in request order; `response` reports success for all of them.

    `record_packers` is set by the coordinator, which encodes the records.
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
    """Return the layout of a commit, or None if the commit names a topic twice."""
    count = sum([len(partitions) for _, _, partitions in topics])
    if len(topics) > 1 and len({name for name, _, _ in topics}) < len(topics):
        return None
    return (_kept if count <= LARGEST_KEPT else CommitLayout)(group_id, topics)


_kept = lru_cache(maxsize=LAYOUTS_KEPT)(CommitLayout)
