"""Kafka Streams with `exactly_once_v2` counts words once, whichever process is killed.

This holds for a classic group, and for a streams group (KIP-1071) whose tasks the broker assigns to
two programs.
"""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from coordinator_server.client.client import Client
from protocol.apis.streams_group_describe import StreamsGroupDescribeRequest
from tests.clients.readers import read_with_confluent_kafka
from tests.clients.support import create_topic
from tests.oracle.kafka_process import java
from tests.support import Broker, wait_for

pytestmark = pytest.mark.nightly

PROGRAM = Path(__file__).with_name("WordCount.java")
WORDS = ("one", "two", "three", "four", "five")
ROUNDS = ("broker", "program", "broker")
LINES = 60  # the number of input lines per round
SECONDS = 120
BROKER = "broker"
STREAMS_SETTINGS = {
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "1000",
}


@pytest.mark.real_time
def test_words_are_counted_once(tmp_path: Path) -> None:
    """After each round a process is killed, and every count from 1 on appears once and in order."""
    chosen = random.Random(1)
    counted: Counter[str] = Counter()
    with Broker({"group.initial.rebalance.delay.ms": "0"}, data_dir=tmp_path / "data") as broker:
        for topic in ("lines", "counts"):
            create_topic(broker.bootstrap_servers, topic, 1)
        program = start(broker, tmp_path)
        try:
            for victim in (*ROUNDS, ""):
                for _ in range(LINES):
                    words = chosen.choices(WORDS, k=3)
                    counted.update(words)
                    broker.produce("lines", " ".join(words).encode())
                reached = counted.total() - LINES if victim else counted.total()
                wait_for(
                    partial(are_counted, broker, reached),
                    f"{reached} words are counted\n{(tmp_path / 'output').read_text()[-2000:]}",
                    SECONDS,
                    0.2,
                )
                if victim == "broker":
                    broker.kill()
                    broker.start()
                elif victim == "program":
                    program.kill()
                    program.wait()
                    program = start(broker, tmp_path)
        finally:
            program.kill()
            program.wait()
        by_word: dict[str, list[int]] = {}
        for word, count in counts(broker):
            by_word.setdefault(word, []).append(count)
        assert by_word == {word: list(range(1, counted[word] + 1)) for word in counted}


@pytest.mark.real_time
def test_a_streams_group_counts_words_once(tmp_path: Path) -> None:
    """Two programs share four tasks, and survive a killed broker and a killed program."""
    chosen = random.Random(2)
    counted: Counter[str] = Counter()
    with Broker(STREAMS_SETTINGS, data_dir=tmp_path / "data") as broker:
        create_topic(broker.bootstrap_servers, "lines", 4)
        create_topic(broker.bootstrap_servers, "counts", 1)
        programs = {name: start(broker, tmp_path / name, "streams") for name in ("a", "b")}
        try:
            for victim, members in ((BROKER, 2), ("a", 2), (None, 1)):
                wait_for(partial(has_members, broker, members), f"{members} members", SECONDS, 0.2)
                for _ in range(LINES):
                    words = chosen.choices(WORDS, k=3)
                    counted.update(words)
                    broker.produce("lines", " ".join(words).encode(), key=words[0].encode())
                if victim == BROKER:
                    broker.kill()
                    broker.start()
                elif victim is not None:
                    programs[victim].kill()
                    programs[victim].wait()
                wait_for(
                    partial(are_counted, broker, counted.total()),
                    f"{counted.total()} words are counted",
                    SECONDS,
                    0.2,
                )
        finally:
            for program in programs.values():
                program.kill()
                program.wait()
        by_word: dict[str, list[int]] = {}
        for word, count in counts(broker):
            by_word.setdefault(word, []).append(count)
        assert by_word == {word: list(range(1, counted[word] + 1)) for word in counted}


def has_members(broker: Broker, count: int) -> bool:
    """Return whether the group is stable with `count` members that all have tasks."""
    client = Client(broker.bootstrap_servers)
    try:
        described = client.ask(StreamsGroupDescribeRequest(group_ids=["word-count"])).groups[0]
    finally:
        client.close()
    return (
        described.group_state == "Stable"
        and len(described.members) == count
        and all(member.assignment.active_tasks for member in described.members)
    )


def start(broker: Broker, directory: Path, protocol: str = "classic") -> subprocess.Popen[bytes]:
    """Start the Kafka Streams program with its state directory; return the process."""
    directory.mkdir(exist_ok=True)
    command = java(str(PROGRAM), broker.bootstrap_servers, str(directory / "state"), protocol)
    with (directory / "output").open("ab") as output:
        return subprocess.Popen(command, stdout=output, stderr=output)


def counts(broker: Broker) -> list[tuple[str, int]]:
    """Return the words and counts that a read_committed consumer gets."""
    records = read_with_confluent_kafka(broker.bootstrap_servers, "counts")
    return [(key.decode(), int(value)) for _, key, value in records if key and value]


def are_counted(broker: Broker, count: int) -> bool:
    """Return whether the application has written at least `count` results."""
    return len(counts(broker)) >= count
