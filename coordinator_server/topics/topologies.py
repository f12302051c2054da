"""The topics that streams applications use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


def topology_topics(subtopologies: Iterable[Any]) -> Iterator[str]:
    """Yield all topics of a topology in a StreamsGroupHeartbeat or StreamsGroupDescribe message."""
    for one in subtopologies:
        yield from one.source_topics
        yield from one.repartition_sink_topics
        for topic in (*one.repartition_source_topics, *one.state_changelog_topics):
            yield topic.name
