"""Group logs written by the same script on Kafka and on our broker, which then swap their logs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from protocol.batch import Record, iterate_records
from protocol.batch_header import iterate_batches
from protocol.offsets_log import (
    UnknownKey,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    group_of,
)
from tests.oracle.kafka_process import Kafka
from tests.support import Broker

OFFSETS = "__consumer_offsets-0"

Described = dict[str, Any]
Written = tuple[Any, int | None, Any]
"""Key, value version and value of a record; the last two are None for a tombstone."""


class Used(NamedTuple):
    """A stopped Kafka, and our data directory, both after the same script, and their groups."""

    kafka: Kafka
    ours: Path
    their_groups: Described
    our_groups: Described


class Script(NamedTuple):
    """A script: `prepare` runs on Kafka before its topics are copied, `use` runs on both."""

    topics: tuple[str, ...]
    prepare: Callable[[str], None]
    use: Callable[[str], Described]


def use_both(
    theirs: Path, ours: Path, settings: Mapping[str, str], script: Script
) -> Iterator[Used]:
    """Run a script on both brokers; our topics are copies of Kafka's, with the same ids."""
    kafka = Kafka(theirs, settings)
    try:
        kafka.start()
        script.prepare(kafka.bootstrap_servers)
        copy_topics(kafka.data, ours, script.topics)
        their_groups = script.use(kafka.bootstrap_servers)
        kafka.stop()
        with Broker(settings, data_dir=ours) as broker:
            our_groups = script.use(broker.bootstrap_servers)
        yield Used(kafka, ours, their_groups, our_groups)
    finally:
        kafka.end()


def copy_topics(source: Path, target: Path, topics: tuple[str, ...]) -> None:
    """Copy the partition directories of topics."""
    for name in topics:
        for directory in source.glob(f"{name}-*"):
            shutil.copytree(directory, target / directory.name)


def give_our_logs(used: Used, *directories: str) -> None:
    """Replace the logs of internal topics of a stopped Kafka by ours."""
    for name in directories:
        directory = used.kafka.data / name
        for path in directory.iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        for log in (used.ours / name).glob("*.log"):
            shutil.copy(log, directory)
    for path in (*used.kafka.data.glob("*checkpoint"), used.kafka.data / ".kafka_cleanshutdown"):
        path.unlink(missing_ok=True)


def log_records(data: Path, directory: str) -> Iterator[Record]:
    """Yield the records of a partition; check that no producer or transaction wrote them."""
    for path in sorted((data / directory).glob("*.log")):
        contents = path.read_bytes()
        for header in iterate_batches(contents):
            assert (header.producer_id, header.is_transactional) == (-1, False)
            yield from iterate_records(contents, header)


def group_records(data: Path) -> dict[str, list[Written]]:
    """Return the records of each group in log order; check that our codec encodes them alike."""
    found: dict[str, list[Written]] = {}
    for record in log_records(data, OFFSETS):
        assert record.key is not None
        key = decode_key(record.key)
        assert not isinstance(key, UnknownKey)
        assert encode_key(key) == record.key
        value, version = decode_value(key, record.value), None
        if record.value is not None:
            version = int.from_bytes(record.value[:2])
            assert value is not None
            assert encode_value(value, version) == record.value
        written = found.setdefault(group_of(key), [])
        written.append((key, version, value))
    return found


def with_sorted_runs(written: list[Written], key_type: type[Any]) -> list[Written]:
    """Sort each run of consecutive records of `key_type`, which names members, by key.

    Kafka writes these records in the order of its hash table.
    """
    result: list[Written] = []
    for run in map(list, map(itemgetter(1), groupby(written, lambda one: type(one[0])))):
        if isinstance(run[0][0], key_type):
            run.sort(key=lambda one: str(one[0].member_id))
        result += run
    return result
