"""A data directory in Kafka's layout: topics, partition logs and checkpoints.

Logs are opened on first use (after an unclean stop all are opened and recovered), and a partition
gets a directory with its first record, so a data directory with many topics opens fast. Data
directories written by Kafka are adopted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from storage.checkpoints import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_FILE,
    DELETE_SUFFIX,
    HIGH_WATERMARK_FILE,
    LOCK_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    TopicPartition,
    partition_of,
    read_offsets,
    read_partition_metadata,
    take_directory,
    write_offsets,
    write_partition_metadata,
)
from storage.disk import CLOSED, Disk, Lock, write_atomically
from storage.errors import (
    DataDirectoryLockedError,
    StorageError,
    TopicExistsError,
    UnknownPartitionError,
)
from storage.flush import LogFlusher, copy_unsynced
from storage.log_config import LogConfig
from storage.log_loader import LogLoader, RecoveryReport
from storage.open_files import DEFAULT_MAX_OPEN_FILES, OpenFiles
from storage.partition_log import PartitionLog
from storage.replacement import finish
from storage.security_state import SecurityState
from storage.topic_catalogue import TopicCatalogue, TopicRecord
from storage.topic_settings import INTERNAL_TOPIC_CONFIGS
from storage.worker import ON_THE_SPOT

STRAY_SUFFIX = "-stray"
FILE_NAME_BYTES_MAX = 255


class LogManager:
    """The topics and logs of one data directory; use `LogManager.open`."""

    def __init__(
        self, disk: Disk, path: str, defaults: LogConfig, lock: Lock, max_open_files: int
    ) -> None:
        self.disk = disk
        self.path = path
        self.defaults = defaults
        self.defaults_of: Callable[[str, int], LogConfig] = lambda *_: self.defaults
        self.files = OpenFiles(disk, max_open_files)
        self.recovery_reports: list[RecoveryReport] = []
        self.adopted_topics: list[str] = []
        self.clean_start = disk.exists(f"{path}/{CLEAN_SHUTDOWN_FILE}")
        self.cluster_id = ""
        self.cleaner_offsets: dict[TopicPartition, int] = {}
        self.unsynced_since_ms: dict[TopicPartition, int] = {}
        self.being_cleaned: set[TopicPartition] = set()
        self._lock = lock
        self.catalogue = TopicCatalogue(disk, path)
        self.security_state = SecurityState(disk, path)
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._own_logs: dict[TopicPartition, PartitionLog] = {}
        self._recovery_points: dict[TopicPartition, int] = {}
        self._log_starts: dict[TopicPartition, int] = {}
        self._high_watermarks: dict[TopicPartition, int] = {}
        self.stray_directories: list[str] = []
        self.failures: dict[TopicPartition, StorageError] = {}
        self._doomed: list[str] = []
        self._written: dict[str, dict[TopicPartition, int]] = {}
        self.flusher: LogFlusher | None = None
        self._is_closed = False

    @staticmethod
    def open(
        disk: Disk,
        path: str,
        defaults: LogConfig,
        *,
        node_id: int = 1,
        cluster_id: str | None = None,
        now_ms: int = 0,
        max_open_files: int = DEFAULT_MAX_OPEN_FILES,
    ) -> LogManager:
        """Lock and open the data directory `path`, creating it if missing.

        Raises DataDirectoryLockedError if another broker uses the directory, and StorageError if it
        belongs to another node or is unreadable. A new directory gets `cluster_id`, random if None;
        an existing one keeps its id, as with `kafka-storage.sh format --ignore-formatted`.
        """
        try:
            disk.mkdir(path)
            lock = disk.lock(f"{path}/{LOCK_FILE}")
        except OSError as error:
            raise StorageError(f"the data directory {path} cannot be used: {error}") from error
        if lock is None:
            raise DataDirectoryLockedError(
                f"the data directory {path} is in use by another broker; stop that one, or choose "
                "another directory"
            )
        try:
            finish(disk, path)
            manager = LogManager(disk, path, defaults, lock, max_open_files)
            manager._start(node_id, cluster_id, now_ms)
        except OSError as error:
            lock.release()
            raise StorageError(f"the data directory {path} cannot be used: {error}") from error
        except BaseException:
            lock.release()
            raise
        return manager

    # --- start ------------------------------------------------------------------------------------

    def _start(self, node_id: int, cluster_id: str | None, now_ms: int) -> None:
        self.cluster_id = take_directory(self.disk, self.path, node_id, cluster_id)
        self._recovery_points = read_offsets(self.disk, f"{self.path}/{RECOVERY_POINT_FILE}")
        self._log_starts = read_offsets(self.disk, f"{self.path}/{LOG_START_FILE}")
        self._high_watermarks = read_offsets(self.disk, f"{self.path}/{HIGH_WATERMARK_FILE}")
        self.cleaner_offsets = read_offsets(self.disk, f"{self.path}/{CLEANER_FILE}")
        if self.catalogue.is_mostly_dead:
            deque(self.catalogue.compaction_steps(), maxlen=0)
        deque(self.finish_deletions(), maxlen=0)
        directories = self._partition_directories()
        self._adopt(directories)
        if self.clean_start:
            self.disk.unlink(f"{self.path}/{CLEAN_SHUTDOWN_FILE}")
            return
        for name, partition in sorted(directories):
            topic = self.catalogue.topics.get(name)
            if topic is not None and partition < topic.partition_count:
                try:
                    self._open_log(topic, partition, clean=False, now_ms=now_ms)
                except StorageError as error:
                    # A broken log must not prevent the start; its first use opens it again.
                    self.failures[name, partition] = error

    def _partition_directories(self) -> set[TopicPartition]:
        """Return the partitions with a directory; record deleted directories for removal."""
        directories: set[TopicPartition] = set()
        for name in self.disk.listdir(self.path):
            partition = partition_of(name)
            if not name.endswith(DELETE_SUFFIX) and partition is None:
                continue
            if self.disk.is_directory(f"{self.path}/{name}"):
                if partition is None:
                    self._doomed.append(f"{self.path}/{name}")
                else:
                    directories.add(partition)
        return directories

    def _adopt(self, directories: set[TopicPartition]) -> None:
        """Add topics that have directories but no catalogue entry, as written by Kafka."""
        ids: dict[str, bytes] = {}
        counts: dict[str, int] = {}
        for name, partition in directories:
            if name not in self.catalogue.topics:
                topic_id = read_partition_metadata(self.disk, f"{self.path}/{name}-{partition}")
                if topic_id is not None:
                    ids.setdefault(name, topic_id)
                    counts[name] = max(counts.get(name, 0), partition + 1)
        adopted: list[TopicRecord] = []
        for name in sorted(ids):
            configs = dict(INTERNAL_TOPIC_CONFIGS.get(name, {}))
            adopted.append(TopicRecord(name, ids[name], counts[name], configs))
            self.adopted_topics.append(name)
        if adopted:
            self.catalogue.put(adopted)

    # --- topics -----------------------------------------------------------------------------------

    def topics(self) -> dict[str, TopicRecord]:
        """Return the topics by name. The result must not be modified."""
        return self.catalogue.topics

    def create_topic(
        self, name: str, topic_id: bytes, partition_count: int, configs: dict[str, str]
    ) -> TopicRecord:
        """Add one topic, like `create_topics`."""
        record = TopicRecord(name, topic_id, partition_count, dict(configs))
        self.create_topics([record])
        return record

    def create_topics(self, records: Sequence[TopicRecord]) -> None:
        """Add all topics or none. Raises TopicExistsError, TopicConfigError, StorageError."""
        for record in records:
            if record.name in self.catalogue.topics:
                raise TopicExistsError(f"Topic '{record.name}' already exists.")
            self.defaults.overridden(record.configs)
            deleted = self.catalogue.deleting.get(record.name)
            if deleted is not None:  # deletion is in progress or failed
                deque(self._finish_deletion(deleted), maxlen=0)
        self.catalogue.put(records)

    def change_topics(self, records: Sequence[TopicRecord]) -> Iterator[None]:
        """Replace topics with one write: partition counts, configs (must be valid), leadership.

        The first step may raise UnknownPartitionError or StorageError; then nothing is changed.
        Later steps apply the current configs to open logs.
        """
        before = [self._record(record.name) for record in records]
        self.catalogue.put(records)
        for record, old in zip(records, before, strict=True):
            current = self.catalogue.topics.get(record.name)
            if current is not None and record.configs != old.configs:
                self._reconfigure(current, range(current.partition_count))
            yield

    def reconfigure(self) -> Iterator[None]:
        """Apply the current defaults to open logs, in steps."""
        for key in tuple(self._logs):
            self.reconfigure_log(*key)
            yield

    def reconfigure_log(self, name: str, partition: int) -> None:
        """Apply the current defaults to a log, if open."""
        record = self.catalogue.topics.get(name)
        if record is not None:
            self._reconfigure(record, (partition,))

    def _reconfigure(self, record: TopicRecord, partitions: Iterable[int]) -> None:
        """Update the configs of open logs, computed once for logs with the same defaults."""
        configs: dict[int, LogConfig] = {}
        for partition in partitions:
            log = self._logs.get((record.name, partition))
            if log is not None:
                key = id(self.defaults_of(record.name, partition))
                if key not in configs:
                    configs[key] = self._config(record, partition)
                log.config = configs[key]

    def _config(self, record: TopicRecord, partition: int) -> LogConfig:
        return self.defaults_of(record.name, partition).overridden(record.configs, is_known=True)

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics with one write; all or none. Call `finish_deletions` afterwards.

        Raises UnknownPartitionError for an unknown topic, StorageError.
        """
        for name in names:
            self._record(name)
        self.catalogue.begin_deletion(names)

    def finish_deletions(self) -> Iterator[None]:
        """Rename the directories of all deleted topics; `maintenance` removes the directories.

        Raises StorageError; the renaming is then repeated at the next deletion or start, or when a
        topic with the same name is created.
        """
        for record in list(self.catalogue.deleting.values()):
            yield from self._finish_deletion(record)

    def _finish_deletion(self, record: TopicRecord) -> Iterator[None]:
        """Rename a deleted topic's directories, then remove the topic from the catalogue."""
        for partition in range(record.partition_count):
            if self.catalogue.deleting.get(record.name) is not record:
                return  # the creation of a topic with this name has finished the deletion
            try:
                self._abandon(record, partition)
            except OSError as error:
                raise StorageError(f"topic {record.name} cannot be removed: {error}") from error
            yield
        if self.catalogue.deleting.get(record.name) is record:
            self.catalogue.end_deletion(record.name)

    def _abandon(self, record: TopicRecord, partition: int) -> None:
        key = (record.name, partition)
        if (log := self._logs.pop(key, None)) is not None:
            log.abandon()
        for offsets in (
            self._own_logs,
            self._recovery_points,
            self._log_starts,
            self._high_watermarks,
            self.cleaner_offsets,
            self.unsynced_since_ms,
        ):
            offsets.pop(key, None)
        directory = self._directory(*key)
        if self.disk.exists(directory) and (
            read_partition_metadata(self.disk, directory) in (None, record.topic_id)
        ):
            suffix = f"-{partition}.{record.topic_id.hex()}{DELETE_SUFFIX}"
            stem = record.name[: FILE_NAME_BYTES_MAX - len(suffix)]
            self.disk.rename(directory, f"{self.path}/{stem}{suffix}")
            self._doomed.append(f"{self.path}/{stem}{suffix}")

    def _record(self, name: str) -> TopicRecord:
        record = self.catalogue.topics.get(name)
        if record is None:
            raise UnknownPartitionError(f"there is no topic {name}")
        return record

    def next_producer_ids(self, count: int) -> int:
        """Reserve `count` unused producer ids; return the first one. Raises StorageError."""
        return self.catalogue.take_producer_ids(count)

    # --- logs -------------------------------------------------------------------------------------

    def log(self, name: str, partition: int) -> PartitionLog:
        """Return a partition's log, opened if necessary.

        Raises UnknownPartitionError for an unknown partition, and StorageError when the disk fails
        or after `close`.
        """
        log = self._logs.get((name, partition))
        if log is not None and not log.closed:
            return log
        if self._is_closed:
            raise StorageError(f"the logs in {self.path} are closed")
        record = self._record(name)
        if not 0 <= partition < record.partition_count:
            raise UnknownPartitionError(f"there is no partition {partition} of topic {name}")
        was_open = log is not None  # a disk error has closed the log, perhaps during a write
        if log is not None and log.sync_failed:
            copy_unsynced(log)
        log = self._open_log(record, partition, self.clean_start and not was_open, now_ms=0)
        self.failures.pop((name, partition), None)
        return log

    def partitions(self) -> Iterator[TopicPartition]:
        """Yield all partitions of the current topics."""
        for record in tuple(self.catalogue.topics.values()):
            yield from ((record.name, index) for index in range(record.partition_count))

    def is_on_disk(self, name: str, partition: int) -> bool:
        """Return whether a partition was ever written to."""
        return self.disk.exists(self._directory(name, partition))

    def open_logs(self, *, own: bool = False) -> list[PartitionLog]:
        """Return the open logs; with `own` only the logs of internal topics."""
        logs = self._own_logs if own else self._logs
        return [log for log in logs.values() if not log.closed]

    def _open_log(
        self, record: TopicRecord, partition: int, clean: bool, now_ms: int
    ) -> PartitionLog:
        key = (record.name, partition)
        directory = self._directory(*key)
        try:
            self._check_directory(record, directory)
        except OSError as error:
            raise StorageError(f"{record.name}-{partition} cannot be opened: {error}") from error
        loader = LogLoader(
            self.files,
            directory,
            record.name,
            partition,
            self._config(record, partition),
            self._recovery_points.get(key, 0),
            self._log_starts.get(key, 0),
            clean,
            now_ms,
        )
        log = PartitionLog(loader, record.topic_id)
        self.recovery_reports += log.recovery_reports
        self._logs[key] = log
        if record.name.startswith("__"):
            self._own_logs[key] = log
        return log

    def _check_directory(self, record: TopicRecord, directory: str) -> None:
        """Rename the directory if it belongs to another topic; add a missing topic id."""
        if not self.disk.exists(directory):
            return
        topic_id = read_partition_metadata(self.disk, directory)
        if topic_id is None:
            write_partition_metadata(self.disk, directory, record.topic_id)
        elif topic_id != record.topic_id:
            suffix = f".{topic_id.hex()}{STRAY_SUFFIX}"
            name = directory.rpartition("/")[2][: FILE_NAME_BYTES_MAX - len(suffix)]
            self.disk.rename(directory, f"{self.path}/{name}{suffix}")
            self.stray_directories.append(f"{self.path}/{name}{suffix}")

    def _directory(self, name: str, partition: int) -> str:
        return f"{self.path}/{name}-{partition}"

    # --- maintenance ------------------------------------------------------------------------------

    def use(self, flusher: LogFlusher) -> None:
        """Run long work in the flusher's threads; appenders then handle `flush.messages`."""
        self.flusher = flusher
        self.files.worker = flusher
        self.files.flushes_in_thread = True

    def use_threads(self, is_on: bool) -> None:
        """Run long work in threads if available, or inline if not `is_on`."""
        self.files.worker = self.flusher if is_on and self.flusher is not None else ON_THE_SPOT

    def remove_deleted(self) -> Iterator[None]:
        """Delete the files of deleted topics, one per step."""
        while self._doomed:
            directory = self._doomed[-1]
            if self.disk.exists(directory):
                for name in self.disk.listdir(directory):
                    self.disk.unlink(f"{directory}/{name}")
                    yield
                self.disk.rmdir(directory)
            # Do not clear the list: other directories may have been added between the steps.
            self._doomed.remove(directory)

    def volume(self) -> tuple[str, int, int]:
        """Return the data directory, and the total and free bytes of its volume (-1: unknown)."""
        try:
            total_bytes, usable_bytes = self.disk.space(self.path)
        except OSError:
            return self.path, -1, -1
        return self.path, total_bytes, usable_bytes

    def compaction_steps(self) -> Iterator[None]:
        """Compact the topic catalogue if most of it is obsolete. Raises StorageError."""
        try:
            if self.catalogue.is_mostly_dead:
                yield from self.catalogue.compaction_steps()
        except OSError as error:
            raise StorageError(f"the topics of {self.path} cannot be compacted: {error}") from error

    def checkpoint_steps(self) -> Iterator[None]:
        """Write changed recovery points, log start offsets, high watermarks and cleaner offsets.

        Raises StorageError. Outdated checkpoints slow down recovery but lose no data.
        """
        for key, log in tuple(self._logs.items()):
            yield
            if self._logs.get(key) is not log:
                continue  # the log was deleted between the steps
            if log.log_end_offset or log.log_start_offset:
                self._recovery_points[key] = log.recovery_point
                self._high_watermarks[key] = log.high_watermark
                self._note_log_start(key)
        try:
            for name, offsets, sync in (
                (LOG_START_FILE, self._log_starts, True),
                (RECOVERY_POINT_FILE, self._recovery_points, False),
                (HIGH_WATERMARK_FILE, self._high_watermarks, False),
                (CLEANER_FILE, self.cleaner_offsets, False),
            ):
                if self._written.get(name) != offsets:
                    write_offsets(self.disk, f"{self.path}/{name}", offsets, sync=sync)
                    self._written[name] = dict(offsets)
                yield
        except OSError as error:
            raise StorageError(f"checkpoints of {self.path} cannot be written: {error}") from error

    def checkpoint_log_starts(self, keys: Iterable[TopicPartition]) -> Iterator[None]:
        """Write the log start offsets of these partitions. Raises StorageError."""
        for key in keys:
            self._note_log_start(key)
            yield
        try:
            write_offsets(self.disk, f"{self.path}/{LOG_START_FILE}", self._log_starts)
        except OSError as error:
            raise StorageError(f"{LOG_START_FILE} cannot be written: {error}") from error
        self._written[LOG_START_FILE] = dict(self._log_starts)

    def _note_log_start(self, key: TopicPartition) -> None:
        log = self._logs.get(key)
        if log is not None and log.log_start_offset > log.segments[0].base_offset:
            self._log_starts[key] = log.log_start_offset
        else:
            self._log_starts.pop(key, None)

    def close(self) -> None:
        """Close all logs for good, and write the marker of a clean stop. Raises StorageError.

        If a log cannot be closed, no marker is written, and the next start recovers all logs.
        """
        self._is_closed = True
        failure: StorageError | None = None
        for log in self._logs.values():
            try:
                log.close()
            except StorageError as error:
                failure = error
                log.abandon()
        try:
            deque(self.checkpoint_steps(), maxlen=0)
            if failure is None and not self.failures:
                contents = b'{"version":0,"brokerEpoch":-1}'
                write_atomically(self.disk, f"{self.path}/{CLEAN_SHUTDOWN_FILE}", contents)
        except OSError as error:
            failure = StorageError(f"{self.path} cannot be closed: {error}")
        finally:
            self.disk = self.files.disk = CLOSED
            self.catalogue.close()
            self.security_state.close()
            self._lock.release()
            self._logs.clear()
        if failure is not None:
            raise failure
