"""Topologies of streams groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from protocol.apis.streams_group_heartbeat import (
    CopartitionGroup,
    StreamsKeyValue,
    StreamsSubtopology,
    StreamsTopicInfo,
    StreamsTopology,
)


def internal(
    name: str, partitions: int = 0, replicas: int = 0, configs: Mapping[str, str] | None = None
) -> StreamsTopicInfo:
    """Return an internal topic of a topology."""
    return StreamsTopicInfo(
        name=name,
        partitions=partitions,
        replication_factor=replicas,
        topic_configs=[StreamsKeyValue(key=key, value=one) for key, one in (configs or {}).items()],
    )


def subtopology(
    subtopology_id: str,
    *sources: str,
    changelogs: Sequence[str | StreamsTopicInfo] = (),
    sinks: Sequence[str] = (),
    repartitions: Sequence[str | StreamsTopicInfo] = (),
    joined: Sequence[tuple[list[int], list[int]]] = (),
) -> StreamsSubtopology:
    """Return a subtopology; `joined` has indexes of source topics and of repartition topics."""
    return StreamsSubtopology(
        subtopology_id=subtopology_id,
        source_topics=list(sources),
        state_changelog_topics=[_internal(one) for one in changelogs],
        repartition_sink_topics=list(sinks),
        repartition_source_topics=[_internal(one) for one in repartitions],
        copartition_groups=[
            CopartitionGroup(source_topics=places, repartition_source_topics=internal_places)
            for places, internal_places in joined
        ],
    )


def _internal(topic: str | StreamsTopicInfo) -> StreamsTopicInfo:
    return internal(topic) if isinstance(topic, str) else topic


def topology(*subtopologies: StreamsSubtopology, epoch: int = 0) -> StreamsTopology:
    """Return a topology."""
    return StreamsTopology(epoch=epoch, subtopologies=list(subtopologies))
