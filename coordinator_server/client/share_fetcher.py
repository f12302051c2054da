"""Acquires and acknowledges records for a member of a share group (KIP-932).

Like Java's ShareConsumeRequestManager and ShareSessionHandler, with one request per leader at a
time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from coordinator_server.client.client import Client
from coordinator_server.client.errors import ClientError, check
from coordinator_server.client.fetcher import Fetched
from coordinator_server.client.share_member import SharePartition
from protocol.batch import iterate_records
from protocol.batch_header import iterate_batches
from protocol.errors import ErrorCode, ProtocolError

GAP, ACCEPT, RELEASE, REJECT = 0, 1, 2, 3
"""The acknowledge types; a gap is an offset without a record."""

_CLOSE, _OPEN = -1, 0
_LAST_EPOCH = 2**31 - 1
_RETRY_S = 0.1
_LOST_SESSION = (
    ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH,
)

Acknowledged = dict[SharePartition, dict[int, int]]
"""The acknowledge types by partition and offset."""


class ShareFetchSettings(NamedTuple):
    """Kafka's consumer settings of the same names; times in milliseconds."""

    fetch_max_wait_ms: int = 500
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    max_poll_records: int = 500
    is_record_limit: bool = False
    """Whether `share.acquire.mode` is record_limit."""


class AcquiredRecord(NamedTuple):
    """An acquired record, the leader it came from, and its share partition."""

    fetched: Fetched
    leader: int
    partition: SharePartition


class _Session:
    """The share session with one leader."""

    def __init__(self) -> None:
        self.epoch = _OPEN
        self.partitions: set[SharePartition] = set()
        self.acknowledged: Acknowledged = {}

    def advance(self) -> None:
        """Advance the epoch after a request that the leader answered without an error."""
        self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1

    def reset(self) -> None:
        """Start a new session; the leader has released the acquired records."""
        self.epoch = _OPEN
        self.partitions.clear()
        self.acknowledged.clear()


class ShareFetcher:
    """Acquires records of partitions. `close` sends the last acknowledgements."""

    def __init__(
        self, client: Client, group: str, member_id: str, settings: ShareFetchSettings
    ) -> None:
        self._client = client
        self._group, self._member_id = group, member_id
        self._settings = settings
        self._sessions: dict[int, _Session] = {}
        self._leaders: dict[SharePartition, int] = {}
        self._names: dict[bytes, str] = {}
        self._turn = 0

    def acknowledge(self, acquired: AcquiredRecord, kind: int) -> None:
        """Acknowledge a record with the next request to its leader."""
        self._note(acquired.leader, acquired.partition, acquired.fetched.next_offset - 1, kind)

    def fetch(self, partitions: Sequence[SharePartition], wait_s: float) -> list[AcquiredRecord]:
        """Send acknowledgements, wait for records, and return the newly acquired ones.

        Raises ClientError for errors that a retry cannot fix.
        """
        self._look_up(partitions)
        wanted: dict[int, set[SharePartition]] = {}
        for partition in partitions:
            if partition in self._leaders:
                wanted.setdefault(self._leaders[partition], set()).add(partition)
        for leader, session in self._sessions.items():
            if session.acknowledged or session.partitions:
                wanted.setdefault(leader, set())
        if not wanted:
            time.sleep(min(wait_s, _RETRY_S))
            return []
        self._turn += 1
        leaders = sorted(wanted)
        leaders = leaders[self._turn % len(leaders) :] + leaders[: self._turn % len(leaders)]
        longest_ms = min(self._settings.fetch_max_wait_ms, int(wait_s * 1000)) // len(leaders)
        acquired: list[AcquiredRecord] = []
        for leader in leaders:
            acquired += self._ask(leader, wanted[leader], 0 if acquired else longest_ms)
        return acquired

    def close(self) -> None:
        """Send all acknowledgements and close all share sessions.

        The leaders then release the records that were not acknowledged.
        """
        from protocol.apis.share_acknowledge import ShareAcknowledgeRequest

        for leader, session in self._sessions.items():
            if session.epoch == _OPEN:
                continue
            request = ShareAcknowledgeRequest(
                group_id=self._group,
                member_id=self._member_id,
                share_session_epoch=_CLOSE,
                topics=_acknowledge_topics(session.acknowledged),
            )
            try:
                self._client.ask(request, leader)
            except ClientError:
                continue  # if the request fails, the acquisition locks expire

    def _note(self, leader: int, partition: SharePartition, offset: int, kind: int) -> None:
        session = self._sessions[leader]
        if partition in session.partitions:
            session.acknowledged.setdefault(partition, {})[offset] = kind

    def _look_up(self, partitions: Sequence[SharePartition]) -> None:
        """Look up unknown leaders of partitions and unknown topic names."""
        if all(partition in self._leaders for partition in partitions):
            return
        try:
            answer = self._client.metadata(sorted({topic for topic, _ in partitions}))
        except ClientError as error:
            if not error.code.retriable:
                raise
            return
        for topic in answer.topics:
            if topic.error_code:
                continue
            self._names[topic.topic_id] = topic.name
            for partition in topic.partitions:
                if partition.leader_id in self._client.nodes:
                    place = (topic.topic_id, partition.partition_index)
                    self._leaders[place] = partition.leader_id

    def _ask(self, leader: int, wanted: set[SharePartition], wait_ms: int) -> list[AcquiredRecord]:
        session = self._sessions.setdefault(leader, _Session())
        request = self._request(session, wanted, wait_ms)
        try:
            answer = self._client.ask(request, leader)
            check(answer.error_code, answer.error_message)
        except ClientError as error:
            if error.code in _LOST_SESSION:
                session.reset()
                return []
            if not error.code.retriable:
                raise
            session.reset()
            for partition in wanted:
                self._leaders.pop(partition, None)
            time.sleep(_RETRY_S)
            return []
        session.advance()
        session.partitions = set(wanted)
        session.acknowledged = {}
        acquired: list[AcquiredRecord] = []
        for topic in answer.responses:
            for data in topic.partitions:
                acquired += self._read(leader, (topic.topic_id, data.partition_index), data)
        return acquired

    def _request(self, session: _Session, wanted: set[SharePartition], wait_ms: int) -> Any:
        from protocol.apis.share_fetch import (
            RECORD_LIMIT,
            FetchAcknowledgementBatch,
            ShareFetchPartition,
            ShareFetchRequest,
            ShareFetchTopic,
            ShareForgottenTopic,
        )

        settings = self._settings
        topics: dict[bytes, ShareFetchTopic] = {}
        for place in sorted((wanted - session.partitions) | session.acknowledged.keys()):
            topic = topics.setdefault(place[0], ShareFetchTopic(topic_id=place[0]))
            batches = [
                FetchAcknowledgementBatch(
                    first_offset=first, last_offset=last, acknowledge_types=[kind]
                )
                for first, last, kind in _runs(session.acknowledged.get(place, {}))
            ]
            topic.partitions.append(
                ShareFetchPartition(partition_index=place[1], acknowledgement_batches=batches)
            )
        forgotten: dict[bytes, ShareForgottenTopic] = {}
        for topic_id, index in sorted(session.partitions - wanted):
            item = forgotten.setdefault(topic_id, ShareForgottenTopic(topic_id=topic_id))
            item.partitions.append(index)
        request = ShareFetchRequest(
            group_id=self._group,
            member_id=self._member_id,
            share_session_epoch=session.epoch,
            max_wait_ms=wait_ms if wanted else 0,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_max_bytes,
            max_records=settings.max_poll_records,
            batch_size=settings.max_poll_records,
            topics=list(topics.values()),
            forgotten_topics_data=list(forgotten.values()),
        )
        if settings.is_record_limit:
            request.share_acquire_mode = RECORD_LIMIT
        return request

    def _read(self, leader: int, place: SharePartition, data: Any) -> Iterator[AcquiredRecord]:
        """Yield the acquired records of a partition.

        Offsets without a record are acknowledged as gaps.
        """
        code = ClientError(data.error_code).code if data.error_code else None
        if code is not None:
            self._leaders.pop(place, None)
            if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                message = f"Not authorized to access topics: [{self._names.get(place[0])}]"
                raise ClientError(code, message)
            return
        counts = {
            offset: acquired.delivery_count
            for acquired in data.acquired_records
            for offset in range(acquired.first_offset, acquired.last_offset + 1)
        }
        name = self._names.get(place[0], "")
        try:
            for header in iterate_batches(data.records):
                if header.is_control:
                    continue
                for record in iterate_records(data.records, header):
                    count = counts.pop(record.offset, None)
                    if count is None:
                        continue
                    fetched = Fetched(
                        (name, place[1]), record, header, record.offset + 1, delivery_count=count
                    )
                    yield AcquiredRecord(fetched, leader, place)
        except ProtocolError as error:
            message = f"Received exception when fetching the next record from {name}-{place[1]}."
            raise ClientError(ErrorCode.CORRUPT_MESSAGE, message) from error
        for offset in counts:
            self._note(leader, place, offset, GAP)


def _runs(kinds: Mapping[int, int]) -> Iterable[tuple[int, int, int]]:
    """Return first offset, last offset and type of each run of equal acknowledge types."""
    runs: list[tuple[int, int, int]] = []
    for offset, kind in sorted(kinds.items()):
        if runs and runs[-1][1] + 1 == offset and runs[-1][2] == kind:
            runs[-1] = (runs[-1][0], offset, kind)
        else:
            runs.append((offset, offset, kind))
    return runs


def _acknowledge_topics(acknowledged: Acknowledged) -> list[Any]:
    from protocol.apis.share_acknowledge import (
        AcknowledgementBatch,
        AcknowledgePartition,
        AcknowledgeTopic,
    )

    topics: dict[bytes, AcknowledgeTopic] = {}
    for (topic_id, index), kinds in acknowledged.items():
        topic = topics.setdefault(topic_id, AcknowledgeTopic(topic_id=topic_id))
        topic.partitions.append(
            AcknowledgePartition(
                partition_index=index,
                acknowledgement_batches=[
                    AcknowledgementBatch(
                        first_offset=first, last_offset=last, acknowledge_types=[kind]
                    )
                    for first, last, kind in _runs(kinds)
                ],
            )
        )
    return list(topics.values())
