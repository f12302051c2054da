"""A consumer in a separate process that writes its events to stdout as lines of JSON.

Group tests need members in different processes, so that one can be stopped, killed or restarted
without affecting the others. `python -m tests.clients.worker SETTINGS` runs one consumer of any of
the three client libraries until SIGTERM, then closes it cleanly. Its loop polls, commits, and only
then reports the records as processed. Records whose commit was refused are dropped, because the
next owner of the partition reads them again. So the whole group must process each record exactly
once.

Events: `assigned`, `revoked`, `lost` (partitions), `processed` (records whose commit was
acknowledged), `poll_failed`, `commit_failed`, `closed`. kafka-python adds the generation, which the
other libraries do not expose.
"""

import asyncio
import json
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

CONFLUENT_KAFKA_CONSUMER = "confluent-kafka/consumer"
Partition = tuple[str, int]
Entry = tuple[str, int, int, str]  # topic, partition, offset, value


@dataclass
class Settings:
    """The settings of one consumer, passed as JSON in the first argument.

    `client` is a library name. With the suffix "/consumer" the consumer uses the consumer protocol
    (KIP-848), `assignor` is a server-side assignor, and the session timeout is a group config. A
    topic that begins with "^" is a regular expression.
    """

    client: str
    bootstrap: str
    group: str
    topics: list[str]
    assignor: str
    session_timeout_ms: int
    instance: str | None = None
    client_id: str | None = None
    max_poll_records: int = 100


class Diary:
    """Writes events, and holds the records that were polled but not committed yet."""

    def __init__(self) -> None:
        self.pending: dict[Partition, list[Entry]] = {}
        self.stopping = False
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, _signal: int, _frame: object) -> None:
        self.stopping = True

    def write(self, event: str, **fields: object) -> None:
        """Write an event; its CLOCK_MONOTONIC time is comparable between processes."""
        line = json.dumps({"event": event, "time": time.monotonic(), **fields})
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def moved(self, event: str, partitions: Iterable[Any], **fields: object) -> None:
        """Write an assignment event, and drop the uncommitted records of lost partitions."""
        moved = sorted((partition.topic, partition.partition) for partition in partitions)
        if event != "assigned":
            for partition in moved:
                self.pending.pop(partition, None)
        self.write(event, partitions=moved, **fields)

    def add(self, entry: Entry) -> None:
        """Remember a polled record."""
        self.pending.setdefault(entry[:2], []).append(entry)

    def batch(self) -> dict[Partition, list[Entry]]:
        """Return the polled records that are not committed yet, by partition."""
        return {partition: list(entries) for partition, entries in self.pending.items()}

    def processed(self, batch: dict[Partition, list[Entry]], **fields: object) -> None:
        """Report the records of `batch` as processed: their commit was acknowledged."""
        for partition, entries in batch.items():
            left = [entry for entry in self.pending.get(partition, []) if entry not in entries]
            if left:
                self.pending[partition] = left
            else:
                self.pending.pop(partition, None)
        records = [entry for entries in batch.values() for entry in entries]
        self.write("processed", records=records, **fields)

    def commit_failed(self, error: Exception) -> None:
        """Report that the commit was refused."""
        self.write("commit_failed", error=type(error).__name__, message=str(error))


def run_kafka_python(settings: Settings, diary: Diary) -> None:
    """Run a kafka-python consumer."""
    import kafka
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    class Listener:
        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            generation = consumer.group_metadata().generation_id
            diary.moved("assigned", assigned, generation=generation)

        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            diary.moved("revoked", revoked)

        def on_partitions_lost(self, lost: Iterable[Any]) -> None:
            diary.moved("lost", lost)

    kafka.ConsumerRebalanceListener.register(Listener)
    assignors = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=settings.bootstrap,
        group_id=settings.group,
        group_instance_id=settings.instance,
        client_id=settings.client_id or f"worker-{settings.instance or 'dynamic'}",
        partition_assignment_strategy=[assignors[settings.assignor]],
        session_timeout_ms=settings.session_timeout_ms,
        heartbeat_interval_ms=250,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_poll_records=settings.max_poll_records,
        fetch_max_wait_ms=200,
        reconnect_backoff_max_ms=500,
    )
    consumer.subscribe(settings.topics, listener=Listener())
    # A copy of the loop in tests.known_topics, which is missing when this file runs in a
    # container.
    while not all(map(consumer.partitions_for_topic, settings.topics)):
        time.sleep(0.05)
    while not diary.stopping:
        try:
            polled = consumer.poll(timeout_ms=500)
        except kafka.errors.RetriableError as error:
            # The broker may be unreachable for a moment.
            diary.write("poll_failed", error=type(error).__name__)
            time.sleep(0.1)
            continue
        for records in polled.values():
            for record in records:
                diary.add((record.topic, record.partition, record.offset, record.value.decode()))
        if batch := diary.batch():
            offsets = {
                kafka.TopicPartition(*partition): kafka.OffsetAndMetadata(entries[-1][2] + 1, "")
                for partition, entries in batch.items()
            }
            try:
                consumer.commit(offsets)
            except kafka.errors.KafkaError as error:
                diary.commit_failed(error)
            else:
                diary.processed(batch, generation=consumer.group_metadata().generation_id)
    consumer.close(timeout_ms=5_000)


def run_confluent_kafka(settings: Settings, diary: Diary) -> None:
    """Run a confluent-kafka consumer, with either protocol."""
    import confluent_kafka

    of_the_protocol: dict[str, object] = {
        "partition.assignment.strategy": settings.assignor,
        "session.timeout.ms": settings.session_timeout_ms,
        "heartbeat.interval.ms": 250,
    }
    if settings.client == CONFLUENT_KAFKA_CONSUMER:
        of_the_protocol = {
            "group.protocol": "consumer",
            "group.remote.assignor": settings.assignor,
        }
    configuration = {
        **of_the_protocol,
        "bootstrap.servers": settings.bootstrap,
        "group.id": settings.group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 200,
        "reconnect.backoff.max.ms": 500,
    }
    if settings.instance is not None:
        configuration["group.instance.id"] = settings.instance
    consumer = confluent_kafka.Consumer(configuration)
    consumer.subscribe(
        settings.topics,
        on_assign=lambda _, partitions: diary.moved("assigned", partitions),
        on_revoke=lambda _, partitions: diary.moved("revoked", partitions),
        on_lost=lambda _, partitions: diary.moved("lost", partitions),
    )
    while not diary.stopping:
        for message in consumer.consume(settings.max_poll_records, 0.1):
            if message.error() is None:
                place = message.topic(), message.partition(), message.offset()
                diary.add((*place, message.value().decode()))
            else:
                diary.write("error", message=str(message.error()))
        if batch := diary.batch():
            offsets = [
                confluent_kafka.TopicPartition(*partition, entries[-1][2] + 1)
                for partition, entries in batch.items()
            ]
            try:
                committed = consumer.commit(offsets=offsets, asynchronous=False)
                for partition in committed:
                    if partition.error is not None:
                        raise confluent_kafka.KafkaException(partition.error)
            except confluent_kafka.KafkaException as error:
                diary.commit_failed(error)
            else:
                diary.processed(batch)
    consumer.close()


async def run_aiokafka(settings: Settings, diary: Diary) -> None:
    """Run an aiokafka consumer."""
    import aiokafka
    import aiokafka.errors
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor

    class Listener:
        async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            diary.moved("assigned", assigned)

        async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            diary.moved("revoked", revoked)

    aiokafka.ConsumerRebalanceListener.register(Listener)
    assert settings.assignor == "range", "aiokafka offers eager assignors only"
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=settings.bootstrap,
        group_id=settings.group,
        group_instance_id=settings.instance,
        partition_assignment_strategy=(RangePartitionAssignor,),
        session_timeout_ms=settings.session_timeout_ms,
        heartbeat_interval_ms=250,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=200,
    )
    consumer.subscribe(settings.topics, listener=Listener())
    await consumer.start()
    while not diary.stopping:
        polled = await consumer.getmany(timeout_ms=100, max_records=settings.max_poll_records)
        for records in polled.values():
            for record in records:
                diary.add((record.topic, record.partition, record.offset, record.value.decode()))
        if batch := diary.batch():
            offsets = {
                aiokafka.TopicPartition(*partition): entries[-1][2] + 1
                for partition, entries in batch.items()
            }
            try:
                await consumer.commit(offsets)
            except aiokafka.errors.KafkaError as error:
                diary.commit_failed(error)
            else:
                diary.processed(batch)
    await consumer.stop()


def main() -> None:
    """Run the consumer that the first argument describes."""
    settings = Settings(**json.loads(sys.argv[1]))
    diary = Diary()
    if settings.client == "kafka-python":
        run_kafka_python(settings, diary)
    elif settings.client in ("confluent-kafka", CONFLUENT_KAFKA_CONSUMER):
        run_confluent_kafka(settings, diary)
    else:
        asyncio.run(run_aiokafka(settings, diary))
    diary.write("closed")


if __name__ == "__main__":
    main()
