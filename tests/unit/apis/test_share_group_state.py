"""The five share coordinator APIs: every field as Kafka fills it."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.apis.initialize_share_group_state import InitializeStateData
from protocol.apis.read_share_group_state import ReadPartition
from protocol.errors import ErrorCode as E
from protocol.schema import Message
from tests.harness.share_states import (
    Batch,
    ShareStateBroker,
    delete_request,
    error_of,
    initialize_request,
    read_request,
    summary_request,
    write_request,
)

OK = (E.NONE, None)


class Client(ShareStateBroker):
    """A broker and its client. The internal topic is created with the first request."""

    def initialize(self, *partitions: int, **fields: Any) -> Any:
        """Send InitializeShareGroupState; return the response."""
        request = initialize_request(self.t.topic_id, *partitions, **fields)
        return self.ask(request, 0)

    def write(self, partition: int, *batches: Batch, version: int = 1, **fields: Any) -> Any:
        """Send WriteShareGroupState; return the response."""
        request = write_request(self.t.topic_id, partition, *batches, **fields)
        return self.ask(request, version)

    def read(self, *partitions: int, **fields: Any) -> Any:
        """Send ReadShareGroupState; return the response."""
        request = read_request(self.t.topic_id, *partitions, **fields)
        return self.ask(request, 0)

    def summary(self, *partitions: int, version: int = 1, **fields: Any) -> Any:
        """Send ReadShareGroupStateSummary; return the response."""
        request = summary_request(self.t.topic_id, *partitions, **fields)
        return self.ask(request, version)

    def delete(self, *partitions: int, **fields: Any) -> Any:
        """Send DeleteShareGroupState; return the response."""
        request = delete_request(self.t.topic_id, *partitions, **fields)
        return self.ask(request, 0)


def test_the_state_of_a_share_partition() -> None:
    """The state of a share partition is initialized, written, read and deleted."""
    broker = Client()
    assert error_of(broker.initialize(1, start=3)) == OK
    assert error_of(broker.write(1, (3, 5, 2, 1), (6, 9, 0, 2), start=3, complete=3)) == OK
    (topic,) = broker.read(1, leader_epoch=4).results
    assert topic.topic_id == broker.t.topic_id
    (read,) = topic.partitions
    assert (read.partition, read.error_code, read.error_message) == (1, 0, None)
    assert (read.state_epoch, read.start_offset) == (1, 3)
    batches = [
        (one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
        for one in read.state_batches
    ]
    assert batches == [(3, 5, 2, 1), (6, 9, 0, 2)]
    (summary,) = broker.summary(1).results[0].partitions
    assert (summary.partition, summary.error_code, summary.error_message) == (1, 0, None)
    assert (summary.state_epoch, summary.leader_epoch, summary.start_offset) == (1, 4, 3)
    assert summary.delivery_complete_count == 3
    assert error_of(broker.delete(1)) == OK
    error, message = error_of(broker.read(1))
    assert error is E.INVALID_REQUEST
    assert message == "Read operation on uninitialized share partition not allowed."
    assert broker.is_replayed()


def test_version_0_knows_no_delivery_complete_count() -> None:
    """In version 0 delivery_complete_count is treated as -1 and is not returned."""
    broker = Client()
    broker.initialize(0, start=3)
    broker.write(0, start=4, complete=7, version=0)
    assert broker.summary(0).results[0].partitions[0].delivery_complete_count == -1
    assert broker.summary(0, version=0).results[0].partitions[0].start_offset == 4


def test_an_error_has_no_state_beside_it() -> None:
    """A result with an error has the default value in every other field."""
    broker = Client()
    broker.initialize(0, start=3)
    broker.read(0, leader_epoch=2)
    (read,) = broker.read(0, leader_epoch=1).results[0].partitions
    assert (read.error_code, read.error_message) == (
        E.FENCED_LEADER_EPOCH,
        E.FENCED_LEADER_EPOCH.message,
    )
    assert (read.state_epoch, read.start_offset, read.state_batches) == (0, 0, [])
    (summary,) = broker.summary(9).results[0].partitions
    assert (summary.error_code, summary.error_message) == (
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.UNKNOWN_TOPIC_OR_PARTITION.message,
    )
    assert (summary.state_epoch, summary.leader_epoch, summary.start_offset) == (0, 0, 0)
    assert summary.delivery_complete_count == -1


def test_many_share_partitions() -> None:
    """Each share partition has its own result, under its topic."""
    broker = Client()
    other = broker.topics.create("other", 1, {})
    request = initialize_request(broker.t.topic_id, 0, 3, 4)
    request.topics += initialize_request(other.topic_id, 0).topics
    response = broker.ask(request, 0)
    answered = [
        (topic.topic_id, one.partition, E(one.error_code))
        for topic in response.results
        for one in topic.partitions
    ]
    assert answered == [
        (broker.t.topic_id, 0, E.NONE),
        (broker.t.topic_id, 3, E.NONE),
        (broker.t.topic_id, 4, E.UNKNOWN_TOPIC_OR_PARTITION),
        (other.topic_id, 0, E.NONE),
    ]


def test_a_share_partition_that_is_named_twice() -> None:
    """A share partition named twice is read twice and answered once, with the last result."""
    broker = Client()
    broker.initialize(0)
    request = read_request(broker.t.topic_id, 0, leader_epoch=2)
    request.topics[0].partitions.append(ReadPartition(partition=0, leader_epoch=1))
    request.topics += read_request(broker.t.topic_id, 1).topics
    response = broker.ask(request, 0)
    (topic,) = response.results
    assert [(one.partition, E(one.error_code)) for one in topic.partitions] == [
        (0, E.FENCED_LEADER_EPOCH),
        (1, E.INVALID_REQUEST),
    ]


def test_requests_that_name_nothing() -> None:
    """Without a group, topics or partitions the response has no results."""
    broker = Client()
    for ask in (broker.initialize, broker.read, broker.summary, broker.delete):
        assert ask(0, group="").results == []
        assert ask().results == []
    assert broker.write(0, group="").results == []
    request = initialize_request(broker.t.topic_id, 0)
    request.topics.append(InitializeStateData(topic_id=broker.t.topic_id))
    assert broker.ask(request, 0).results == []
    assert broker.topics.topic("__share_group_state") is None


def test_a_broker_that_keeps_nothing() -> None:
    """If another broker leads the internal topic, each result is NOT_COORDINATOR."""
    broker = Client()
    broker.share_states.ensure_topic()
    broker.share_states.emigrate_all()
    topic_id = broker.t.topic_id
    requests: list[tuple[Message, str]] = [
        (initialize_request(topic_id, 0), "initialize {}"),
        (write_request(topic_id, 0), "write {}"),
        (read_request(topic_id, 0), "read {}"),
        (summary_request(topic_id, 0), "read {} summary"),
        (delete_request(topic_id, 0), "delete {}"),
    ]
    for request, deed in requests:
        deed = deed.format("share group state")
        expected = (E.NOT_COORDINATOR, f"Unable to {deed}: {E.NOT_COORDINATOR.message}")
        assert error_of(broker.ask(request, 0)) == expected


@pytest.mark.parametrize(("step", "count", "error"), [(1, 60_000, OK), (2, 60_000, None)])
def test_very_many_state_batches(step: int, count: int, error: tuple[E, None] | None) -> None:
    """Very many state batches are combined in steps, and refused if they are still too many."""
    broker = Client()
    broker.initialize(0)
    batches = [(step * first, step * first, 2, 1) for first in range(count)]
    refused = (E.UNKNOWN_SERVER_ERROR, E.UNKNOWN_SERVER_ERROR.message)
    assert error_of(broker.write(0, *batches)) == (error or refused)
    assert len(broker.records()) == (1 if error is None else 2)
