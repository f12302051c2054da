"""The topics that streams applications use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


def topology_topics(subtopologies: Iterable[Any]) -> Iterator[str]:
    """Yield all topics of a topology in a StreamsGroupHeartbeat or StreamsGroupDescribe message."""
    for subtopology in subtopologies:
        yield from subtopology.source_topics
        yield from subtopology.repartition_sink_topics
        for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics):
            yield topic.name
