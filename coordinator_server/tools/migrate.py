"""`coordinator-server import` and `promote`: copy topics and group state to another cluster.

A partition of the target receives exactly the records of the source in order, so the n-th record
has offset n in the target. This makes a copy resumable: after an interruption the existing records
are compared with the source, one by one, and the missing records follow. While records are copied,
the topic's settings disable retention, compaction and broker timestamps; the topic gets its own
settings after verification. Then group state is copied (`group_copy`).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from coordinator_server.tools.cluster import (
    REQUEST_BYTES,
    ClusterRecord,
    ClusterTopic,
    KafkaCluster,
    MigrationError,
)
from coordinator_server.tools.group_copy import GroupCopy, Places

TIMESTAMP_TYPE = "message.timestamp.type"
# Topic configs during the copy: no retention, no compaction, unchanged timestamps.
HELD = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    TIMESTAMP_TYPE: "CreateTime",
    "max.message.bytes": str(REQUEST_BYTES - (1 << 20)),
}
# Settings that depend on the number of brokers.
_REPLICATION = frozenset(
    (
        "min.insync.replicas",
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
    )
)
FLUSH_RECORDS = 20_000
PROGRESS_SECONDS = 2.0
DEFAULT_BOOTSTRAP = "localhost:9092"


class Totals(NamedTuple):
    """The counts of a run, for its summary."""

    topics: int
    records: int
    already_there: int
    offsets: int
    kept_offsets: int
    configured_groups: int


class Progress:
    """Prints progress lines on standard error."""

    def __init__(self) -> None:
        self._next = 0.0
        self._started = time.monotonic()
        self.records = 0

    def step(self, what: str, done: int, total: int) -> None:
        """Print the progress at most once per PROGRESS_SECONDS."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + PROGRESS_SECONDS
            rate = self.records / max(now - self._started, 0.001)
            self.say(f"{what}: {done} of about {total} records, {rate:.0f} a second")

    def say(self, line: str) -> None:
        """Print one line."""
        print(line, file=sys.stderr, flush=True)


class Migration:
    """One run from `source` to `target`, for the named topics or for all."""

    def __init__(
        self,
        source: KafkaCluster,
        target: KafkaCluster,
        topics: Sequence[str],
        replication_factor: int,
    ) -> None:
        self.source = source
        self.target = target
        self.only = set(topics)
        self.replication_factor = replication_factor
        self.progress = Progress()
        self.copied = 0
        self.already_there = 0
        # The target offset of each committed offset of the source.
        self._places: Places = {}

    def run(self) -> Totals:
        """Copy, verify and commit. Raises MigrationError if a topic or group cannot be moved."""
        topics = self.source.topics()
        missing = self.only - set(topics)
        if missing:
            raise MigrationError(f"{self.source.bootstrap} has no topic {', '.join(missing)}")
        chosen = [topics[name] for name in sorted(topics) if not self.only or name in self.only]
        groups = GroupCopy(self.source, self.target, self.progress.say)
        wanted = groups.places()
        existing = self.target.topics()
        for topic in chosen:
            self._check(topic, existing.get(topic.name))
        for topic in chosen:
            self._topic(topic, existing.get(topic.name), wanted)
        committed, kept = groups.commit(self._places, {topic.name for topic in chosen})
        configured = groups.configure()
        return Totals(len(chosen), self.copied, self.already_there, committed, kept, configured)

    def _check(self, topic: ClusterTopic, existing: ClusterTopic | None) -> None:
        if existing is not None and existing.partition_count != topic.partition_count:
            raise MigrationError(
                f"{topic.name} has {topic.partition_count} partitions, and "
                f"{existing.partition_count} on {self.target.bootstrap}"
            )

    # --- topics -----------------------------------------------------------------------------------

    def _topic(
        self,
        topic: ClusterTopic,
        existing: ClusterTopic | None,
        wanted: dict[TopicPartition, set[int]],
    ) -> None:
        target = self.target
        if existing is None:
            configs = dict(HELD) if target.can_alter else self._settings_for_good(topic)
            target.create(topic, configs, self.replication_factor)
            existing = ClusterTopic(topic.name, topic.partition_count, configs)
        # The target's own compaction and retention apply after the copy.
        is_held = target.can_alter and HELD.items() <= existing.configs.items()
        places = [TopicPartition(topic.name, index) for index in range(topic.partition_count)]
        bounds = {place: self.source.ends(place) for place in places}
        for place in places:
            self._copy(place, *bounds[place], topic=existing, is_held=is_held)
        for place in places:
            self._verify(place, *bounds[place], is_held, sorted(wanted.get(place, ())))
        if target.can_alter:
            self._finish(topic)

    def _settings_for_good(self, topic: ClusterTopic) -> dict[str, str]:
        """Return the topic's settings for a cluster that cannot change them after the copy."""
        configs = without_replication(topic.configs)
        if configs.pop(TIMESTAMP_TYPE, "CreateTime") != "CreateTime":
            self.progress.say(f"{topic.name}: {TIMESTAMP_TYPE} is left out, to keep the times")
        return configs

    def _finish(self, topic: ClusterTopic) -> None:
        """Apply the topic's own settings, except those that the target does not know."""
        known = self.target.known_configs(topic.name)
        configs = without_replication(topic.configs)
        unknown = set(configs) - known
        if unknown:
            self.progress.say(f"{topic.name}: not known there: {', '.join(sorted(unknown))}")
        wanted = {name: value for name, value in configs.items() if name in known}
        self.target.set_configs(topic.name, self.target.configs(topic.name), wanted)

    def _copy(
        self, place: TopicPartition, start: int, end: int, *, topic: ClusterTopic, is_held: bool
    ) -> None:
        """Compare the records that the target has and append the missing ones."""
        first, target_end = self.target.ends(place)
        existing = self.target.records(place, first, target_end) if target_end else iter(())
        comparison = Comparison(place, existing, is_held)
        producer = None
        number = 0
        try:
            for record in self.source.records(place, start, end):
                if number < target_end:
                    comparison.check(number, record)
                    self.already_there += 1
                else:
                    if producer is None:
                        self._hold(topic, is_held)
                        producer = self.target.producer()
                    producer.send(place, record)
                    self.copied += 1
                    if self.copied % FLUSH_RECORDS == 0:
                        producer.flush()
                number += 1
                self.progress.records += 1
                self.progress.step(f"{place.topic}-{place.partition}", number, end - start)
            if number < target_end:
                raise MigrationError(
                    f"{place.topic}-{place.partition} has {target_end - number} records more on "
                    f"{self.target.bootstrap}: others write there, or the source has removed some "
                    "since they were copied"
                )
            if producer is not None:
                producer.flush()
        finally:
            if producer is not None:
                producer.close()

    def _hold(self, topic: ClusterTopic, is_held: bool) -> None:
        """Disable retention and broker timestamps before adding records to a finished copy."""
        if not is_held and self.target.can_alter:
            now = self.target.configs(topic.name)
            self.target.set_configs(topic.name, now, {**now, **HELD})

    def _verify(
        self, place: TopicPartition, start: int, end: int, is_held: bool, wanted: list[int]
    ) -> None:
        """Compare the whole partition on both sides and record the new committed offsets."""
        first, target_end = self.target.ends(place)
        comparison = Comparison(place, self.target.records(place, first, target_end), is_held)
        number = 0
        waiting = iter(wanted)
        offset = next(waiting, None)
        for record in self.source.records(place, start, end):
            while offset is not None and offset <= record.offset:
                self._places[place, offset] = number
                offset = next(waiting, None)
            comparison.check(number, record)
            number += 1
            self.progress.records += 1
            self.progress.step(f"{place.topic}-{place.partition} verified", number, end - start)
        if number != target_end:
            raise MigrationError(
                f"{place.topic}-{place.partition} ends at {target_end} on "
                f"{self.target.bootstrap}, {number} records are on {self.source.bootstrap}"
            )
        while offset is not None:
            self._places[place, offset] = number
            offset = next(waiting, None)


class Comparison:
    """Compares the records of a partition on the target with the source's records, one by one.

    With `is_held` the target's topic has no retention or compaction, so no record can be missing.
    Otherwise compaction and retention of the target may have removed records.
    """

    def __init__(
        self, place: TopicPartition, records: Iterable[ClusterRecord], is_held: bool
    ) -> None:
        self._place = place
        self._records: Iterator[ClusterRecord] = iter(records)
        self._is_held = is_held
        self._next = next(self._records, None)

    def check(self, number: int, record: ClusterRecord) -> None:
        """Check that the target's record at offset `number` equals this source record.

        Raises MigrationError if the records differ.
        """
        next_record = self._next
        if next_record is not None and next_record.offset == number:
            self._next = next(self._records, None)
            if record.same_as(next_record):
                return
        elif not self._is_held:
            return
        raise MigrationError(
            f"{self._place.topic}-{self._place.partition}: offset {number} of the target is not "
            f"the record at {record.offset} of the source: others write there, or the source has "
            "removed some since they were copied; delete the topic there to have it copied again"
        )


def without_replication(configs: Mapping[str, str]) -> dict[str, str]:
    """Return the settings without those that depend on the number of brokers."""
    return {name: value for name, value in configs.items() if name not in _REPLICATION}


def import_main(arguments: Sequence[str]) -> int:
    """Run `import`, which copies into this broker. Returns the exit code."""
    parser = _parser("import", "topics and committed offsets from another cluster into this broker")
    parser.add_argument(
        "--from",
        dest="source",
        metavar="HOST:PORT",
        required=True,
        help="bootstrap server of the other cluster",
    )
    parser.add_argument(
        "--to",
        dest="target",
        metavar="HOST:PORT",
        default=DEFAULT_BOOTSTRAP,
        help="bootstrap server of this broker (default: %(default)s)",
    )
    options = parser.parse_args(arguments)
    return _run(options, source_config=options.client_config, target_config=None)


def promote_main(arguments: Sequence[str]) -> int:
    """Run `promote`, which copies out of this broker. Returns the exit code."""
    parser = _parser(
        "promote", "topics and committed offsets from this broker into another cluster"
    )
    parser.add_argument(
        "--to",
        dest="target",
        metavar="HOST:PORT",
        required=True,
        help="bootstrap server of the other cluster",
    )
    parser.add_argument(
        "--from",
        dest="source",
        metavar="HOST:PORT",
        default=DEFAULT_BOOTSTRAP,
        help="bootstrap server of this broker (default: %(default)s)",
    )
    options = parser.parse_args(arguments)
    return _run(options, source_config=None, target_config=options.client_config)


def _parser(name: str, description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"coordinator-server {name}", description=f"Copy {description}; see docs/migration.md."
    )
    parser.add_argument(
        "--topic",
        metavar="NAME",
        action="append",
        default=[],
        help="copy only this topic (repeatable)",
    )
    parser.add_argument(
        "--replication-factor",
        metavar="N",
        type=int,
        default=-1,
        help="replication factor of created topics (default: that of the cluster)",
    )
    parser.add_argument(
        "--client-config",
        metavar="FILE",
        help=(
            "file with security settings for the other cluster: kafka-python's settings, "
            "one NAME=VALUE per line"
        ),
    )
    return parser


def client_settings(path: str | None) -> dict[str, str]:
    """Return the settings of a properties file, with dots in names replaced by underscores."""
    if path is None:
        return {}
    from coordinator_server.config.properties import parse_properties

    with open(path, encoding="latin-1") as stream:
        return {
            name.replace(".", "_"): value for name, value in parse_properties(stream.read()).items()
        }


def _run(options: argparse.Namespace, source_config: str | None, target_config: str | None) -> int:
    started = time.monotonic()
    opened: list[KafkaCluster] = []
    try:
        for bootstrap, config in (
            (options.source, source_config),
            (options.target, target_config),
        ):
            opened.append(KafkaCluster(bootstrap, client_settings(config)))
        source, target = opened
        totals = Migration(source, target, options.topic, options.replication_factor).run()
    except KeyboardInterrupt:
        print("interrupted; run it again to go on", file=sys.stderr)
        return 130
    except (MigrationError, KafkaError, OSError, ValueError) as error:
        print(f"coordinator-server: {error}", file=sys.stderr)
        return 1
    finally:
        for cluster in opened:
            cluster.close()
    print(
        f"{totals.topics} topics, {totals.records} records copied, {totals.already_there} were "
        f"there, {totals.offsets} committed offsets, {totals.kept_offsets} were further on, "
        f"configs of {totals.configured_groups} groups; "
        f"all verified in {time.monotonic() - started:.1f} s"
    )
    return 0
