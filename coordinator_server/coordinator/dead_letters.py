"""Writes the dead letters of share groups to dead letter queue (DLQ) topics (KIP-1191).

A job writes the dead letters of one state change of a share partition, in steps: check the topic,
create the topic if auto-creation is allowed, then append record batches. While the DLQ partition
has no leader, the job retries with backoff. If the DLQ cannot be written, the job reports the
reason and the share partition still archives the records. No ACLs are checked, because the broker
itself writes, as an inter-broker request does in Kafka. Source: ShareGroupDLQStateManager.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from coordinator_server.core.share_partitions.dead_letters import (
    Copies,
    Headers,
    QueueOutcome,
    header_parts,
    read_copies,
    with_offset,
)
from coordinator_server.core.share_partitions.settings import DEAD_LETTER_TOPIC
from coordinator_server.events.log import LOG
from protocol.batch import batch_of_section, record_bytes
from protocol.batch_header import HEADER_BYTES
from protocol.errors import ErrorCode, ProtocolError
from storage.errors import StorageError
from storage.record_check import LongCheckError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from coordinator_server.clock.broker_clock import BrokerClock, Timer
    from coordinator_server.clock.step_runner import StepRunner
    from coordinator_server.config.config import Config
    from coordinator_server.core.share_partitions.dead_letters import Done
    from coordinator_server.core.share_partitions.in_flight import DeadLetters
    from coordinator_server.steps import Computation, Steps
    from coordinator_server.topics.manager import TopicManager
    from coordinator_server.topics.topic import BatchCheck, Partition, Topic

MOST_ATTEMPTS = 5
FIRST_BACKOFF_MS = 1_000
"""The delay doubles with each attempt."""
RECORDS_PER_BATCH = 512
BATCH_BYTES = 256 << 10
"""Size limit of a batch; a batch with a single record may be larger."""
_READ_BYTES = 1 << 20
_COPIES_RECORDS = "errors.deadletterqueue.copy.record.enable"
_MAY_CREATE = "errors.deadletterqueue.auto.create.topics.enable"
_PREFIX = "errors.deadletterqueue.topic.name.prefix"
_IS_QUEUE = "errors.deadletterqueue.group.enable"
_CONFIGS_OF_NEW = {_IS_QUEUE: "true", "message.timestamp.type": "CreateTime"}
_RETRIABLE = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.TOPIC_ALREADY_EXISTS)


class _RefusedError(Exception):
    """The dead letter queue cannot be written; the message gives the reason."""


class _BusyError(Exception):
    """The dead letter queue cannot be written yet; the message gives the reason."""


class _Job:
    """The progress of one job: next offset, encoded batch, errors by run."""

    def __init__(
        self, group_id: str, source: Partition, letters: Sequence[DeadLetters], done: Done
    ) -> None:
        self.group_id = group_id
        self.source = source
        self.letters = letters
        self.done = done
        self.queue = ""
        self.index, self.offset = 0, letters[0].first
        self.batch = b""
        """The encoded batch that is not appended yet; empty if there is none."""
        self.batch_indexes: set[int] = set()
        self.errors: dict[int, str] = {}
        self.attempts = 0
        self.copies: Copies = {}
        self.copied_from, self.copied_to = 0, -1
        """First and last source offset that `copies` covers."""
        self.parts: Headers = ()

    @property
    def is_encoded(self) -> bool:
        """Return whether every dead letter has been encoded into a batch."""
        return self.index == len(self.letters)

    def advance(self) -> None:
        """Move to the next offset."""
        self.offset += 1
        if self.offset > self.letters[self.index].last:
            self.index += 1
            self.parts = ()
            if not self.is_encoded:
                self.offset = self.letters[self.index].first

    def headers(self) -> Headers:
        """Return the headers of the current dead letter."""
        if not self.parts:
            source = self.source
            self.parts = header_parts(
                source.topic_name, source.index, self.group_id, self.letters[self.index]
            )
        return with_offset(self.parts, self.offset)

    def outcomes(self) -> list[QueueOutcome]:
        """Return the outcome of each entry of `letters`."""
        errors = self.errors
        return [
            QueueOutcome(letters, self.queue, errors.get(index))
            for index, letters in enumerate(self.letters)
        ]


class DeadLetterQueues:
    """Writes the dead letters of one broker until `stop`; then the next leader writes them."""

    def __init__(
        self,
        config: Config,
        clock: BrokerClock,
        step_runner: StepRunner,
        topics: TopicManager,
        configs_of: Callable[[str], Mapping[str, str]],
    ) -> None:
        self._config = config
        self._clock = clock
        self._step_runner = step_runner
        self._topics = topics
        self._configs_of = configs_of
        self._timers: dict[_Job, Timer] = {}
        self._is_stopped = False

    def stop(self) -> None:
        """Cancel all retries and stop writing dead letters."""
        self._is_stopped = True
        self.forget()

    def forget(self) -> None:
        """Cancel the retries of all jobs."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def write(
        self, group_id: str, source: Partition, letters: Sequence[DeadLetters], done: Done
    ) -> None:
        """Start a job that writes dead letters of a partition.

        The steps of `done(outcomes)` run when the job is complete.
        """
        self._step_runner.run(self._run(_Job(group_id, source, letters, done)))

    def _run(self, job: _Job, check: BatchCheck | None = None) -> Steps:
        """Write the remaining dead letters of a job.

        `check`, if any, is the finished check of its current batch.
        """
        try:
            partition = yield from self._open(job)
            while job.batch or not job.is_encoded:
                if self._is_stopped:
                    return
                if not job.batch:
                    yield from self._encode(job, partition)
                try:
                    self._append(job, partition, check)
                except LongCheckError:
                    done = partial(self._checked, job)
                    partition.check_in_thread(job.batch, self._clock.now_ms(), done)
                    return
                check = None
                yield
        except _BusyError as error:
            if self._try_again(job):
                return
            self._fail_rest(job, str(error))
        except _RefusedError as error:
            self._fail_rest(job, str(error))
        else:
            if partition.flush_is_due:
                partition.when_flushed(partial(self._flushed, job))
                return
        yield from self._finish(job)

    def _checked(self, job: _Job, check: BatchCheck) -> None:
        self._step_runner.run(self._run(job, check))

    def _flushed(self, job: _Job, error: StorageError | None) -> None:
        if error is not None:
            job.errors = dict.fromkeys(range(len(job.letters)), error.message)
        self._step_runner.run(self._finish(job))

    def _try_again(self, job: _Job) -> bool:
        """Schedule another attempt; return False after the last attempt."""
        job.attempts += 1
        if self._is_stopped:
            return True
        if job.attempts == MOST_ATTEMPTS:
            return False
        delay_ms = FIRST_BACKOFF_MS << (job.attempts - 1)
        self._timers[job] = self._clock.call_later(delay_ms / 1000, partial(self._again, job))
        return True

    def _again(self, job: _Job) -> None:
        del self._timers[job]
        self._step_runner.run(self._run(job))

    def _fail_rest(self, job: _Job, reason: str) -> None:
        """Set the error of the current batch and of all dead letters that are not encoded."""
        for index in (*job.batch_indexes, *range(job.index, len(job.letters))):
            job.errors.setdefault(index, reason)

    def _finish(self, job: _Job) -> Steps:
        if self._is_stopped:
            return
        outcomes = job.outcomes()
        for letters, queue, error in outcomes:
            if error is not None:
                LOG.emit(
                    "letters.failed",
                    group=job.group_id,
                    topic=job.source.topic_name,
                    partition=job.source.index,
                    offset=letters.first,
                    last_offset=letters.last,
                    queue=queue,
                    reason=error,
                )
                yield
        yield from job.done(outcomes)

    # --- dead letter topic ------------------------------------------------------------------------

    def _open(self, job: _Job) -> Computation[Partition]:
        """Return the DLQ partition to write to. Raises _RefusedError or _BusyError."""
        name = job.queue = self._configs_of(job.group_id).get(DEAD_LETTER_TOPIC, "")
        topic = self._topics.topic(name)
        refusal = self._refusal(job.group_id, name, topic)
        if refusal is not None:
            raise _RefusedError(refusal)
        if topic is None:
            topic = yield from self._create(name)
        partition = topic.partitions[job.source.index % len(topic.partitions)]
        if partition.leader_id < 0:
            raise _BusyError(f"{name}-{partition.index} has no leader")
        return partition

    def _refusal(self, group_id: str, name: str, topic: Topic | None) -> str | None:
        """Return the reason why the group cannot use this topic as its DLQ, in Kafka's words."""
        prefix = self._config.text(_PREFIX)
        if not name:
            return f"Configured DLQ topic name in share group: {group_id} is empty."
        if name.startswith("__"):
            return (
                f"Configured DLQ topic name in share group: {group_id} cannot start with __, "
                f"topic: {name}."
            )
        if topic is None:
            if not self._config.boolean(_MAY_CREATE):
                return (
                    "DLQ topic does not exist and auto create is disabled on cluster for share "
                    f"group: {group_id}, topic: {name}."
                )
        elif topic.configs.get(_IS_QUEUE, "false").strip().lower() != "true":
            return (
                f"DLQ is not enabled on configured DLQ topic for share group: {group_id}, "
                f"topic: {name}."
            )
        if not name.startswith(prefix):
            return (
                "Configured DLQ topic name does not comply with the DLQ topic prefix in share "
                f"group: {group_id}, topic: {name}, prefix: {prefix}."
            )
        return None

    def _create(self, name: str) -> Computation[Topic]:
        """Create a DLQ topic. Raises _RefusedError or _BusyError."""
        error = self._topics.creation_error(name)
        if error is None:
            count = self._config.integer("num.partitions")
            topic = self._topics.new_topic(name, count, _CONFIGS_OF_NEW)
            try:
                errors = yield from self._topics.add([topic])
            except StorageError as failure:
                raise _RefusedError(failure.message) from failure
            if not errors:
                return topic
            error = errors[name]
        raise (_BusyError if error[0] in _RETRIABLE else _RefusedError)(error[1])

    # --- records ----------------------------------------------------------------------------------

    def _encode(self, job: _Job, partition: Partition) -> Steps:
        """Encode the next batch. Raises _RefusedError if the DLQ log cannot be opened."""
        try:
            most_bytes = partition.log.config.max_message_bytes
        except StorageError as error:
            raise _RefusedError(error.message) from error
        copies = self._configs_of(job.group_id).get(_COPIES_RECORDS, "false").strip().lower()
        limit = min(most_bytes, BATCH_BYTES)
        records: list[bytes] = []
        size = HEADER_BYTES
        while not job.is_encoded and len(records) < RECORDS_PER_BATCH:
            key = value = None
            if copies == "true":
                if not job.copied_from <= job.offset <= job.copied_to:
                    yield from self._copy(job, most_bytes)
                key, value = job.copies.get(job.offset, (None, None))
            record = record_bytes(0, len(records), key, value, job.headers())
            size += len(record)
            if size > limit and records:
                break
            records.append(record)
            job.batch_indexes.add(job.index)
            job.advance()
        section = b"".join(records)
        job.batch = batch_of_section(section, len(records), self._clock.now_ms()).to_bytes()

    def _copy(self, job: _Job, most_bytes: int) -> Steps:
        """Read the keys and values of source records from the current offset on.

        Dead letters whose source record cannot be read are written with headers only.
        """
        first, last = job.offset, job.letters[job.index].last
        job.copies = {}
        job.copied_from, job.copied_to = first, last
        end = max(letters.last for letters in job.letters)
        try:
            log = job.source.log
            # DeleteRecords may have moved the log start offset in the meantime.
            begin = max(first, log.log_start_offset)
            data = log.read(begin, _READ_BYTES, up_to=log.high_watermark)
            yield
            if data:
                job.copied_to = yield from read_copies(data, begin, end, most_bytes, job.copies)
        except (ProtocolError, StorageError) as error:
            LOG.emit(
                "letters.uncopied",
                group=job.group_id,
                topic=job.source.topic_name,
                partition=job.source.index,
                offset=first,
                last_offset=last,
                reason=str(error),
            )

    def _append(self, job: _Job, partition: Partition, check: BatchCheck | None) -> None:
        """Append the batch. Raises _BusyError or LongCheckError.

        Any other error fails the records of this batch; later batches may still be written.
        """
        now_ms = self._clock.now_ms()
        try:
            if check is None or check.partition is not partition:
                partition.append(job.batch, now_ms, may_block=not partition.has_threads)
            else:
                partition.append_checked(check, now_ms)
        except StorageError as error:
            if error.code in _RETRIABLE:
                raise _BusyError(error.message) from error
            for index in job.batch_indexes:
                job.errors[index] = f"{error.code.name}: {error.message}"
        else:
            job.attempts = 0
        job.batch = b""
        job.batch_indexes.clear()
