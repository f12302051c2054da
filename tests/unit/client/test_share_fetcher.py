"""Requests of a share group member to partition leaders: share sessions and acknowledgements."""

from __future__ import annotations

from typing import Any, cast

import pytest

from coordinator_server.client import Client, ClientError
from coordinator_server.client.share_fetcher import (
    ACCEPT,
    GAP,
    REJECT,
    AcquiredRecord,
    ShareFetcher,
    ShareFetchSettings,
)
from protocol.apis.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.apis.share_acknowledge import ShareAcknowledgeRequest
from protocol.apis.share_fetch import (
    AcquiredRecords,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    SharePartitionData,
)
from protocol.batch import Record, build_batch
from protocol.errors import ErrorCode

TOPIC = b"t" * 16
FIRST, SECOND = (TOPIC, 0), (TOPIC, 1)
OFFSETS = (0, 1, 3)  # offset 2 is a gap


class Cluster:
    """Two brokers, which lead one partition each and return the responses in `answers`."""

    def __init__(self) -> None:
        self.nodes = {1: None, 2: None}
        self.asked: list[tuple[int, Any]] = []
        self.answers: list[ShareFetchResponse | ClientError] = []

    def metadata(self, _: object) -> MetadataResponse:
        """Return the leaders: broker 1 of partition 0, broker 2 of partition 1."""
        partitions = [
            MetadataResponsePartition(partition_index=index, leader_id=index + 1)
            for index in (0, 1)
        ]
        topic = MetadataResponseTopic(name="topic", topic_id=TOPIC, partitions=partitions)
        return MetadataResponse(topics=[topic])

    def ask(self, request: Any, node_id: int) -> ShareFetchResponse:
        """Return the next response, or an empty one."""
        self.asked.append((node_id, request))
        answer = self.answers.pop(0) if self.answers else ShareFetchResponse()
        if isinstance(answer, ClientError):
            raise answer
        return answer


def records(error_code: int = 0) -> ShareFetchResponse:
    """Return a response with three records of four acquired offsets, or a partition error."""
    batch = build_batch([Record(offset, 0, None, b"v", []) for offset in OFFSETS]).to_bytes()
    data = SharePartitionData(
        partition_index=0,
        error_code=error_code,
        records=b"" if error_code else batch,
        acquired_records=[AcquiredRecords(first_offset=0, last_offset=3, delivery_count=2)],
    )
    topic = ShareFetchableTopicResponse(topic_id=TOPIC, partitions=[data])
    return ShareFetchResponse(responses=[topic])


@pytest.fixture
def cluster() -> Cluster:
    """Return the brokers."""
    return Cluster()


@pytest.fixture
def fetcher(cluster: Cluster) -> ShareFetcher:
    """Return a fetcher of these brokers."""
    return ShareFetcher(cast(Client, cluster), "g", "m", ShareFetchSettings())


def topics(request: ShareFetchRequest | ShareAcknowledgeRequest) -> dict[int, list[Any]]:
    """Return the partitions of a request, each with its acknowledged offsets and types."""
    return {
        partition.partition_index: [
            (batch.first_offset, batch.last_offset, *batch.acknowledge_types)
            for batch in partition.acknowledgement_batches
        ]
        for topic in request.topics
        for partition in topic.partitions
    }


def fetch_three(cluster: Cluster, fetcher: ShareFetcher) -> list[AcquiredRecord]:
    """Acquire and return three records of the first partition."""
    cluster.answers.append(records())
    acquired = fetcher.fetch([FIRST], 0)
    assert [item.fetched.next_offset - 1 for item in acquired] == list(OFFSETS)
    return acquired


def test_each_leader_has_a_session_that_names_only_what_has_changed(
    cluster: Cluster, fetcher: ShareFetcher
) -> None:
    """Each leader has a share session with epochs 0, 1, 2, whose requests name only changes.

    A partition is sent once when it is added and once when it is removed.
    """
    for partitions in ([FIRST, SECOND], [FIRST, SECOND], [FIRST]):
        fetcher.fetch(partitions, 0)
    of_second = [request for node_id, request in cluster.asked if node_id == 2]
    assert [request.share_session_epoch for request in of_second] == [0, 1, 2]
    assert [topics(request) for request in of_second] == [{1: []}, {}, {}]
    (forgotten,) = of_second[2].forgotten_topics_data
    assert (forgotten.topic_id, forgotten.partitions) == (TOPIC, [1])


def test_acknowledgements_go_with_the_next_fetch_in_runs(
    cluster: Cluster, fetcher: ShareFetcher
) -> None:
    """The next fetch carries the acknowledgements: one batch per run of offsets of one type.

    An offset without a record is a gap.
    """
    first, second, third = fetch_three(cluster, fetcher)
    assert first.fetched.delivery_count == 2
    for item, kind in ((first, ACCEPT), (second, ACCEPT), (third, REJECT)):
        fetcher.acknowledge(item, kind)
    fetcher.fetch([FIRST], 0)
    fetcher.fetch([FIRST], 0)
    sent = [topics(request) for _, request in cluster.asked[1:]]
    assert sent == [{0: [(0, 1, ACCEPT), (2, 2, GAP), (3, 3, REJECT)]}, {}]


def test_closing_sends_the_last_acknowledgements(cluster: Cluster, fetcher: ShareFetcher) -> None:
    """The last request of a share session has epoch -1."""
    first, *_ = fetch_three(cluster, fetcher)
    fetcher.acknowledge(first, ACCEPT)
    fetcher.close()
    node_id, request = cluster.asked[-1]
    assert (node_id, request.share_session_epoch) == (1, -1)
    assert topics(request) == {0: [(0, 0, ACCEPT), (2, 2, GAP)]}


@pytest.mark.parametrize(
    "code", [ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH]
)
def test_a_lost_session_is_opened_again_without_acknowledgements(
    cluster: Cluster, fetcher: ShareFetcher, code: ErrorCode
) -> None:
    """A lost share session is opened again without acknowledgements.

    The leader has released the records, so acknowledging them would be an error.
    """
    first, *_ = fetch_three(cluster, fetcher)
    fetcher.acknowledge(first, ACCEPT)
    cluster.answers.append(ShareFetchResponse(error_code=code))
    assert fetcher.fetch([FIRST], 0) == []
    fetcher.acknowledge(first, ACCEPT)
    fetcher.fetch([FIRST], 0)
    _, request = cluster.asked[-1]
    assert (request.share_session_epoch, topics(request)) == (0, {0: []})


def test_a_partition_whose_leader_moved_is_looked_up_again(
    cluster: Cluster, fetcher: ShareFetcher
) -> None:
    """A retriable partition error returns no records and updates the leader without a delay."""
    cluster.answers.append(records(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert fetcher.fetch([FIRST], 0) == []
    assert len(fetch_three(cluster, fetcher)) == 3


def test_errors_that_no_attempt_mends_are_raised(cluster: Cluster, fetcher: ShareFetcher) -> None:
    """Non-retriable errors of a request and authorization errors of a topic are raised."""
    cluster.answers.append(ShareFetchResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    with pytest.raises(ClientError) as raised:
        fetcher.fetch([FIRST], 0)
    assert raised.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    cluster.answers.append(records(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(ClientError, match=r"Not authorized to access topics: \[topic\]"):
        fetcher.fetch([FIRST], 0)
