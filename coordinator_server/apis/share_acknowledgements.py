"""Validates and authorizes the acknowledgements in ShareAcknowledge and ShareFetch requests.

Each partition has its own outcome. Source: KafkaApis.handleAcknowledgements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from coordinator_server.coordinator.share_request import (
    Acknowledgements,
    AcknowledgeOutcome,
    Outcomes,
)
from coordinator_server.core.share_partitions.record_state import AcknowledgeType
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from coordinator_server.broker import Broker
    from coordinator_server.core.share_partitions.acknowledge import Acknowledgement
    from coordinator_server.core.share_partitions.session import PartitionKey
    from coordinator_server.net.call import Call

MEMBER_ID_MAX_LENGTH = 36
"""The length of a UUID as text."""

TYPES_PER_STEP = 10_000


class AcknowledgedInRequest(Protocol):
    """One partition of a request with its acknowledgements."""

    @property
    def partition_index(self) -> int:
        """The partition index."""

    @property
    def acknowledgement_batches(self) -> Sequence[Acknowledgement]:
        """The acknowledged offset ranges."""


class AcknowledgedTopic(Protocol):
    """One topic of a request."""

    @property
    def topic_id(self) -> bytes:
        """The topic id."""

    @property
    def partitions(self) -> Sequence[AcknowledgedInRequest]:
        """The partitions of the topic in this request."""


def member_id_is_valid(member_id: str | None) -> bool:
    """Return whether the id is a valid share group member id."""
    return member_id is not None and 0 < len(member_id) <= MEMBER_ID_MAX_LENGTH


def leader_of(broker: Broker, key: PartitionKey) -> tuple[int, int]:
    """Return the leader id and epoch of a partition, -1 if unknown."""
    topic_id, index = key
    topic = broker.topics.topic_by_id(topic_id)
    if topic is None:
        return -1, -1
    partition = topic.partitions[index]
    return partition.leader_id, partition.known_epoch


def fails_for_unknown_topic(
    broker: Broker, call: Call, topics: Sequence[AcknowledgedTopic]
) -> Generator[None, None, bool]:
    """Return whether a request fails because of an unknown topic id.

    This happens only with an authorizer: Kafka passes the topic name to its authorizer; for an
    unknown id the name is null, and Kafka throws.
    """
    if not call.rights.is_restricted:
        return False
    for topic in topics:
        if topic.partitions and broker.topics.topic_by_id(topic.topic_id) is None:
            return True
        yield
    return False


def valid_acknowledgements(
    broker: Broker,
    call: Call,
    topics: Sequence[AcknowledgedTopic],
    *,
    knows_renewal: bool,
    renews: bool,
) -> Generator[None, None, Acknowledgements]:
    """Return the acknowledgements that may be applied, and the errors of all other partitions."""
    rights = call.rights
    errors: Outcomes = {}
    valid: dict[PartitionKey, Sequence[Acknowledgement]] = {}
    most = AcknowledgeType.RENEW if knows_renewal else AcknowledgeType.REJECT
    for asked in topics:
        topic = broker.topics.topic_by_id(asked.topic_id)
        for partition in asked.partitions:
            key = (asked.topic_id, partition.partition_index)
            if topic is None:
                errors[key] = AcknowledgeOutcome(ErrorCode.UNKNOWN_TOPIC_ID)
            elif not (yield from _is_valid(partition.acknowledgement_batches, most, renews)):
                errors[key] = AcknowledgeOutcome(ErrorCode.INVALID_REQUEST)
            elif not rights.allows(topic.name):
                errors[key] = AcknowledgeOutcome(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif not 0 <= partition.partition_index < len(topic.partitions):
                errors[key] = AcknowledgeOutcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                valid[key] = partition.acknowledgement_batches
            yield
    if not any(valid.values()):
        # As in Kafka, if no partition has acknowledgements, no partition gets an outcome.
        valid.clear()
    return Acknowledgements(valid, errors)


def _is_valid(
    acknowledgements: Sequence[Acknowledgement], most: int, renews: bool
) -> Generator[None, None, bool]:
    """Return whether offsets ascend, and each range has one valid type, or one type per offset."""
    last_before = -1
    for acknowledgement in acknowledgements:
        first, last, types = (
            acknowledgement.first_offset,
            acknowledgement.last_offset,
            acknowledgement.acknowledge_types,
        )
        if not last_before <= first <= last or not types:
            return False
        if len(types) > 1 and last - first + 1 != len(types):
            return False
        for begin in range(0, len(types), TYPES_PER_STEP):
            some = types[begin : begin + TYPES_PER_STEP]
            if min(some) < AcknowledgeType.GAP or max(some) > most:
                return False
            if max(some) == AcknowledgeType.RENEW and not renews:
                return False
            yield
        last_before = last
    return True
