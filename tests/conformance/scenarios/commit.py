"""OffsetCommit: the limit of metadata."""

from __future__ import annotations

from tests.conformance.stage import Area, Stage

AREA = Area("commit")


@AREA.scenario
def metadata_unicode(t: Stage) -> None:
    """The limit of metadata counts characters, not bytes."""
    texts = ["\u00fc" * 4096, "\u4e2d\u6587", "\u00fc" * 4097]
    t.commit([(t.t3, index, max(index, 1), text) for index, text in enumerate(texts)])
    answer = t.quiet("OffsetFetch", 7, {"group_id": t.g, "topics": None})
    lengths = [
        (one["partition_index"], len(one["metadata"]))
        for topic in answer["topics"]
        for one in topic["partitions"]
    ]
    t.rec("lengths", sorted(lengths))
