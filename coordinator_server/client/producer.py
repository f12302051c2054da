"""Writes records in batches per partition, with retries.

Like Java's KafkaProducer with a linger and one request at a time. With acks=all the producer is
idempotent, so that a retried batch is written once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from coordinator_server.client.client import ANY_BROKER, Client
from coordinator_server.client.connection import ClientConnection
from coordinator_server.client.errors import ClientError, check
from protocol.batch import Record, build_batch
from protocol.batch_header import NO_PRODUCER_ID, NO_SEQUENCE, add_to_sequence
from protocol.compression import Compression
from protocol.errors import ErrorCode
from protocol.hashing import partition_for_key

_BATCH_OVERHEAD_BYTES = 61
_RECORD_OVERHEAD_BYTES = 21
_BY_NAME = 12  # the last Produce version with topic names; later versions use topic ids
_NEW_PRODUCER_ID = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)


class ProducerSettings(NamedTuple):
    """Kafka's producer settings of the same names; times in milliseconds."""

    acks: int = -1
    linger_ms: int = 1_000
    batch_size: int = 16_384
    retries: int = 3
    retry_backoff_ms: int = 100
    request_timeout_ms: int = 1_500
    delivery_timeout_ms: int = 120_000
    max_block_ms: int = 60_000
    max_request_size: int = 1_048_576
    compression: Compression = Compression.NONE
    is_idempotent: bool = True


class _Batch:
    """The unsent records of one partition."""

    def __init__(self, records: list[Record] | None = None, since_s: float | None = None) -> None:
        self.records = [] if records is None else records
        self.size = _BATCH_OVERHEAD_BYTES
        self.since_s = time.monotonic() if since_s is None else since_s
        self.sequence = NO_SEQUENCE
        self.attempts = 0
        """The number of times that the batch was sent to a broker."""

    def halves(self) -> tuple[_Batch, _Batch]:
        """Return two batches, each with half of the records."""
        middle = len(self.records) // 2
        return (
            _Batch(self.records[:middle], self.since_s),
            _Batch(self.records[middle:], self.since_s),
        )


class Producer:
    """Writes to one topic.

    `failed` receives each record that could not be written, and the error. `warn` receives the
    errors while the topic's metadata is not available. `written` receives each written record and
    its partition; the record's offset is set, or -1 with acks=0.
    """

    def __init__(
        self,
        client: Client,
        topic: str,
        settings: ProducerSettings,
        failed: Callable[[Record, ClientError], None],
        warn: Callable[[ErrorCode], None],
        written: Callable[[Record, int], None] | None = None,
    ) -> None:
        self._client = client
        self._written = written
        self._topic = topic
        self._settings = settings
        self._failed = failed
        self._warn = warn
        self._leaders: dict[int, int] = {}
        """The leader of each partition, -1 if there is none at the moment."""
        self._batches: dict[int, _Batch] = {}
        self._sticky: int | None = None
        self._sticky_bytes = 0
        self._producer_id, self._producer_epoch = NO_PRODUCER_ID, -1
        self._sequences: dict[int, int] = {}

    def add(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes | None]],
        timestamp_ms: int | None = None,
    ) -> None:
        """Add a record to a batch. A full batch is sent at once, others by `send_due`."""
        now_ms = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
        record = Record(0, now_ms, key, value, headers)
        try:
            size = self._checked_size(record)
            partition = self._partition(key, size)
        except ClientError as error:
            self._failed(record, error)
            return
        batch = self._batches.setdefault(partition, _Batch())
        if batch.records and batch.size + size > self._settings.batch_size:
            self._send([partition])
            batch = self._batches.setdefault(partition, _Batch())
        batch.records.append(record)
        batch.size += size
        if batch.size >= self._settings.batch_size:
            self._send([partition])

    def wait_s(self) -> float | None:
        """Return the seconds until the next batch is due; None without batches."""
        if not self._batches:
            return None
        since_s = min(batch.since_s for batch in self._batches.values())
        return max(0.0, since_s + self._settings.linger_ms / 1000 - time.monotonic())

    def send_due(self) -> None:
        """Send the batches whose linger time is over."""
        before_s = time.monotonic() - self._settings.linger_ms / 1000
        due = [index for index, batch in self._batches.items() if batch.since_s <= before_s]
        self._send(due)

    def flush(self) -> None:
        """Send all batches."""
        self._send(list(self._batches))

    def _checked_size(self, record: Record) -> int:
        """Return the largest number of bytes that a record can take in a batch.

        Raises ClientError if the record is too large.
        """
        size = _RECORD_OVERHEAD_BYTES + _size(record.key) + _size(record.value) + 1
        for name, value in record.headers:
            size += _size(name.encode()) + _size(value)
        limit = self._settings.max_request_size
        if size + _BATCH_OVERHEAD_BYTES > limit:
            raise ClientError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"The message is {size + _BATCH_OVERHEAD_BYTES} bytes when serialized which is"
                f" larger than {limit}, which is the value of the max.request.size configuration.",
            )
        return size

    def _partition(self, key: bytes | None, size: int) -> int:
        """Return a record's partition: by its key, or sticky for about one batch of records."""
        if not self._leaders:
            self._await_leaders()
        if key is not None:
            return partition_for_key(key, len(self._leaders))
        if self._sticky is None or self._sticky_bytes >= self._settings.batch_size:
            led = [index for index, leader in self._leaders.items() if leader >= 0]
            self._sticky = random.choice(led or list(self._leaders))
            self._sticky_bytes = 0
        self._sticky_bytes += size
        return self._sticky

    def _await_leaders(self) -> None:
        """Request metadata until the topic has leaders, up to `max.block.ms`.

        Raises ClientError.
        """
        deadline_s = time.monotonic() + self._settings.max_block_ms / 1000
        pause_s = self._settings.retry_backoff_ms / 1000
        while True:
            cause: ClientError | None = None
            try:
                self._read_leaders()
            except ClientError as error:
                if not error.code.retriable:
                    raise
                cause = error
            else:
                return
            if time.monotonic() + pause_s > deadline_s:
                wait_ms = self._settings.max_block_ms
                message = f"Topic {self._topic} not present in metadata after {wait_ms} ms."
                timeout = ClientError(ErrorCode.REQUEST_TIMED_OUT, message)
                if cause.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise timeout from cause
                raise timeout
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, self._client.settings.retry_backoff_max_ms / 1000)

    def _read_leaders(self) -> None:
        (topic,) = self._client.metadata([self._topic], create=True).topics
        if topic.error_code:
            self._warn(ErrorCode(topic.error_code))
        if topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION:
            raise ClientError(topic.error_code, f"Invalid topics: [{self._topic}]")
        check(topic.error_code)
        self._leaders = {
            partition.partition_index: partition.leader_id for partition in topic.partitions
        }

    def _send(self, partitions: list[int]) -> None:
        """Send the batches of partitions until each is written or has failed."""
        self._send_batches({index: self._batches.pop(index) for index in partitions})

    def _send_batches(self, waiting: dict[int, _Batch]) -> None:
        """Like `_send`, but unreachable brokers count against the deadline, not the retry limit."""
        delivery_s = self._settings.delivery_timeout_ms / 1000
        pause_s = self._settings.retry_backoff_ms / 1000
        while waiting:
            errors = self._attempt(waiting)
            retried = {}
            for index, error in errors.items():
                batch = waiting[index]
                if error.code is ErrorCode.MESSAGE_TOO_LARGE and len(batch.records) > 1:
                    # The topic refused the batch: its max.message.bytes is below batch.size.
                    for half in batch.halves():
                        self._send_batches({index: half})
                elif not error.code.retriable or batch.attempts > self._settings.retries:
                    self._give_up(batch, error)
                elif (age_s := time.monotonic() - batch.since_s) >= delivery_s:
                    self._give_up(batch, self._expired(index, batch, age_s))
                else:
                    retried[index] = batch
            waiting = retried
            if waiting:
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, self._client.settings.retry_backoff_max_ms / 1000)
                try:
                    self._read_leaders()
                except ClientError:
                    continue  # use the old leaders; the next attempt may fail

    def _give_up(self, batch: _Batch, error: ClientError) -> None:
        # The broker may have written the batch, so its sequence numbers must not be reused.
        self._producer_id = NO_PRODUCER_ID
        for record in batch.records:
            self._failed(record, error)

    def _expired(self, index: int, batch: _Batch, age_s: float) -> ClientError:
        return ClientError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"Expiring {len(batch.records)} record(s) for {self._topic}-{index}:"
            f"{int(age_s * 1000)} ms has passed since batch creation",
        )

    def _attempt(self, batches: dict[int, _Batch]) -> dict[int, ClientError]:
        """Send each batch once and return the errors by partition."""
        by_leader: dict[int, list[int]] = {}
        errors: dict[int, ClientError] = {}
        for index in batches:
            # A recreated topic may have fewer partitions.
            leader = self._leaders.get(index, -1)
            if leader < 0:
                errors[index] = ClientError(ErrorCode.LEADER_NOT_AVAILABLE)
            else:
                by_leader.setdefault(leader, []).append(index)
        for leader, led in by_leader.items():
            try:
                connection = self._client.connection(leader)
                if self._settings.is_idempotent and self._producer_id == NO_PRODUCER_ID:
                    self._begin()
                for index in led:
                    batches[index].attempts += 1
                errors |= self._ask({index: batches[index] for index in led}, connection)
            except ClientError as error:
                errors |= dict.fromkeys(led, error)
        return errors

    def _begin(self) -> None:
        """Get a producer id and restart all sequence numbers at 0."""
        from protocol.apis.init_producer_id import InitProducerIdRequest

        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        answer = self._client.ask(request, ANY_BROKER)
        check(answer.error_code)
        self._producer_id, self._producer_epoch = answer.producer_id, answer.producer_epoch
        self._sequences.clear()

    def _ask(
        self, batches: dict[int, _Batch], connection: ClientConnection
    ) -> dict[int, ClientError]:
        from protocol.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData

        request = ProduceRequest(
            acks=self._settings.acks,
            timeout_ms=self._settings.request_timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=self._topic,
                    partition_data=[
                        PartitionProduceData(index=index, records=self._encoded(index, batch))
                        for index, batch in batches.items()
                    ],
                )
            ],
        )
        if self._settings.acks == 0:
            connection.send(request, max_version=_BY_NAME)
            for index, batch in batches.items():
                self._tell_written(batch, index, -1)
            return {}
        answer = connection.ask(
            request, max_version=_BY_NAME, timeout_ms=self._settings.request_timeout_ms
        )
        errors: dict[int, ClientError] = {}
        for topic in answer.responses:
            for partition in topic.partition_responses:
                error = self._outcome(partition)
                if error is not None:
                    errors[partition.index] = error
                    continue
                batch = batches[partition.index]
                if self._settings.is_idempotent:
                    self._sequences[partition.index] = add_to_sequence(
                        batch.sequence, len(batch.records)
                    )
                self._tell_written(batch, partition.index, partition.base_offset)
        return errors

    def _tell_written(self, batch: _Batch, index: int, base_offset: int) -> None:
        if self._written is not None:
            for number, record in enumerate(batch.records):
                record.offset = base_offset + number if base_offset >= 0 else -1
                self._written(record, index)

    def _outcome(self, partition: Any) -> ClientError | None:
        """Return the error of a partition's batch, or None if the batch was written."""
        code = partition.error_code
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            return None
        if code in _NEW_PRODUCER_ID and self._settings.is_idempotent:
            # The broker no longer knows the producer id, so the retry needs a new id.
            self._producer_id = NO_PRODUCER_ID
            return ClientError(ErrorCode.NETWORK_EXCEPTION, partition.error_message)
        return ClientError(code, partition.error_message)

    def _encoded(self, index: int, batch: _Batch) -> bytes:
        records = batch.records
        for offset, record in enumerate(records):
            record.offset = offset
        if self._settings.is_idempotent:
            batch.sequence = self._sequences.get(index, 0)
        return build_batch(
            records,
            compression=self._settings.compression,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=batch.sequence,
        ).to_bytes()


def _size(data: bytes | None) -> int:
    """Return the size of bytes with their length as a varint."""
    length = 0 if data is None else len(data)
    return length + max(1, ((2 * length).bit_length() + 6) // 7)
