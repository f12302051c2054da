"""Arrays decoded by columns have the same elements as arrays decoded one by one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.codec import decoder, encoder
from protocol.errors import ProtocolError
from protocol.schema import ReceivedColumns

VERSIONS = range(OffsetCommitRequest.VERSIONS[0], OffsetCommitRequest.VERSIONS[1] + 1)
COUNT = 20


def request_of(metadata: Sequence[str | None], version: int) -> OffsetCommitRequest:
    """Return a commit with a partition for each metadata, with the fields of the version."""
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=index << 33,
            committed_leader_epoch=index - 5 if version >= 6 else -1,
            committed_metadata=one,
        )
        for index, one in enumerate(metadata)
    ]
    topic_id = bytes(range(16)) if version >= 10 else bytes(16)
    topic = OffsetCommitRequestTopic(topic_id=topic_id, partitions=partitions)
    if version < 10:
        topic.name = "topic"
    return OffsetCommitRequest(group_id="group", member_id="member", topics=[topic, topic])


def by_columns(request: OffsetCommitRequest) -> list[bool]:
    """Return for each topic whether its partitions were decoded by columns."""
    arrays: list[object] = [topic.partitions for topic in request.topics]
    return [isinstance(one, ReceivedColumns) for one in arrays]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("empty", ["", None])
def test_elements_that_are_all_short(version: int, empty: str | None) -> None:
    """Every field of every element is decoded, and so are the fields after the array."""
    request = request_of([empty] * COUNT, version)
    data = encoder(OffsetCommitRequest, version)(request)
    decoded, end = decoder(OffsetCommitRequest, version)(data, 0)
    assert end == len(data)
    assert by_columns(decoded) == [True, True]
    assert decoded == request
    assert encoder(OffsetCommitRequest, version)(decoded) == data


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("odd", ["", None, "a note"])
@pytest.mark.parametrize("at", [0, 7, COUNT - 1])
def test_one_element_that_differs(version: int, odd: str | None, at: int) -> None:
    """If an element's string has another length, the array is decoded one by one."""
    metadata: list[str | None] = [None if odd == "" else ""] * COUNT
    metadata[at] = odd
    request = request_of(metadata, version)
    data = encoder(OffsetCommitRequest, version)(request)
    decoded, end = decoder(OffsetCommitRequest, version)(data, 0)
    assert (end, decoded) == (len(data), request)
    assert by_columns(decoded) == [False, False]


def test_a_tagged_field_in_one_element() -> None:
    """A tagged field in an element is skipped, as when decoding one by one."""
    data = encoder(OffsetCommitRequest, 8)(request_of([""] * COUNT, 8))
    element = (3).to_bytes(4, "big") + (3 << 33).to_bytes(8, "big")
    tags_at = data.index(element) + len(element) + 4 + 1
    assert data[tags_at] == 0
    tagged = data[:tags_at] + b"\x01\x63\x02hi" + data[tags_at + 1 :]
    decoded, end = decoder(OffsetCommitRequest, 8)(tagged, 0)
    assert (end, decoded) == (len(tagged), request_of([""] * COUNT, 8))
    assert by_columns(decoded) == [False, True]


def test_few_elements_are_decoded_one_by_one() -> None:
    """Small arrays are decoded one by one, which is cheaper."""
    data = encoder(OffsetCommitRequest, 8)(request_of([""] * 3, 8))
    decoded, _ = decoder(OffsetCommitRequest, 8)(data, 0)
    assert by_columns(decoded) == [False, False]


@pytest.mark.parametrize("version", [2, 7, 8])
def test_bytes_that_end_early(version: int) -> None:
    """A request whose bytes are truncated anywhere raises ProtocolError."""
    data = encoder(OffsetCommitRequest, version)(request_of([""] * COUNT, version))
    for end in range(len(data)):
        with pytest.raises(ProtocolError):
            decoder(OffsetCommitRequest, version)(data[:end], 0)
