"""Shared parts of the client tests: waiting on conditions, members in processes, a feed of records.

A member is a subprocess that runs `tests.clients.worker` and writes its stdout to a file; because
the test reads that file, a stopped or killed member never blocks the test. A feed is a kafka-python
producer in a thread that remembers the acknowledged records.
"""

import itertools
import json
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import kafka

from coordinator_server.client import Client
from protocol.apis.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests import forked
from tests.clients.worker import Entry, Partition, Settings
from tests.support import ROOT, wait_for

T = TypeVar("T")


def create_topic(
    bootstrap: str, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> None:
    """Create one topic and wait until each partition has a leader."""
    admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        spec = {
            "num_partitions": partitions,
            "replication_factor": 1,
            "configs": dict(configs or {}),
        }
        admin.create_topics({topic: spec}, wait_for_metadata=True)
    finally:
        admin.close()


def set_group_configs(bootstrap: str, group: str, configs: Mapping[str, str]) -> None:
    """Set configs of a group, which need not exist."""
    set_configs(bootstrap, 32, group, configs)


def subscribe_to_metrics(bootstrap: str, name: str, **configs: str) -> None:
    """Set configs of a client metrics subscription, given with `_` for `.`."""
    named = {one.replace("_", "."): value for one, value in configs.items()}
    set_configs(bootstrap, 16, name, named)


def set_configs(bootstrap: str, resource_type: int, name: str, configs: Mapping[str, str]) -> None:
    """Set configs of a resource."""
    changes = [AlterableConfig(name=one, value=value) for one, value in configs.items()]
    resource = AlterConfigsResource(
        resource_type=resource_type, resource_name=name, configs=changes
    )
    with closing(Client(bootstrap)) as client:
        (answer,) = client.ask(IncrementalAlterConfigsRequest(resources=[resource])).responses
    assert not answer.error_code, answer.error_message


class ConsumerEvents:
    """The events that a worker (`tests.clients.worker`) reports, wherever it runs."""

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """Return all events so far, or only events of the given kinds."""
        raise NotImplementedError

    def owned(self) -> set[Partition]:
        """Return the partitions that the consumer believes it owns."""
        owned: set[Partition] = set()
        for move in self.events("assigned", "revoked", "lost"):
            partitions = {(topic, partition) for topic, partition in move["partitions"]}
            owned = owned | partitions if move["event"] == "assigned" else owned - partitions
        return owned

    def processed(self) -> list[Entry]:
        """Return the records whose commit was acknowledged to this member."""
        return [tuple(record) for event in self.events("processed") for record in event["records"]]


def share_all(members: Sequence[ConsumerEvents], partitions: Iterable[Partition]) -> bool:
    """Return whether each partition has exactly one owner and every member owns a partition."""
    owned = [member.owned() for member in members]
    return all(owned) and sum(map(Counter, owned), Counter[Partition]()) == Counter(partitions)


class Member(ConsumerEvents):
    """A consumer process of a group."""

    def __init__(self, settings: Settings, output: Path) -> None:
        self.settings = settings
        self.output = output
        self._events: list[dict[str, Any]] = []
        self._read_bytes = 0
        with output.open("wb") as stdout, output.with_suffix(".err").open("wb") as stderr:
            self.process = forked.start(self.command(), cwd=ROOT, stdout=stdout, stderr=stderr)

    def command(self) -> list[str]:
        """Return the command that starts the process."""
        settings = json.dumps(asdict(self.settings))
        return [sys.executable, "-m", "tests.clients.worker", settings]

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """Return all events so far, or only events of the given kinds."""
        with self.output.open("rb") as file:
            file.seek(self._read_bytes)
            fresh = file.read()
        whole = fresh[: fresh.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        self._events += [json.loads(line) for line in whole.splitlines()]
        return [event for event in self._events if not kinds or event["event"] in kinds]

    def moves(self) -> list[dict[str, Any]]:
        """Return the assignment events in order, including events without partitions."""
        return self.events("assigned", "revoked", "lost")

    def generation(self) -> int:
        """Return the generation of the last event; only kafka-python reports generations."""
        return int(self.events("assigned", "processed")[-1]["generation"])

    def send_signal(self, number: signal.Signals) -> None:
        """Send SIGSTOP, SIGCONT or SIGKILL to this process alone."""
        self.process.send_signal(number)

    def close(self) -> None:
        """Let the consumer close cleanly, and wait until its process ends."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0, self.story()

    def end(self) -> None:
        """End the process immediately, in any state."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)

    def story(self) -> str:
        """Return the last events and the last lines of stderr, for the message of a failed test."""
        lines = []
        for event in self.events():
            told = {name: value for name, value in event.items() if name != "records"}
            if event["event"] == "processed":
                told["count"] = len(event["records"])
            lines.append(json.dumps(told))
        error = self.output.with_suffix(".err").read_text(errors="replace")
        title = f"-- {self.output.name}, pid {self.process.pid}"
        return "\n".join([title, *lines[-25:], *error.splitlines()[-12:]])


class Group:
    """The members of one consumer group, including members that have ended."""

    def __init__(self, directory: Path, settings: Settings) -> None:
        self.directory = directory
        self.settings = settings
        self.members: list[Member] = []
        self.member_classes: dict[str, type[Member]] = {}
        """Of libraries that the worker does not know."""

    def start(self, instance: str | None = None, client: str | None = None) -> Member:
        """Start one more member; with an instance id it is static."""
        settings = replace(self.settings, instance=instance, client=client or self.settings.client)
        number = len(self.members)
        kind = self.member_classes.get(settings.client.partition("/")[0], Member)
        member = kind(settings, self.directory / f"{settings.group}-{number}.jsonl")
        self.members.append(member)
        return member

    def end(self) -> None:
        """End all processes."""
        for member in self.members:
            member.end()

    def story(self) -> str:
        """Return the stories of the members, for the message of a failed test."""
        return "\n".join(member.story() for member in self.members)

    def wait_until(self, condition: Callable[[], T], what: str, seconds: float = 60.0) -> T:
        """Wait for a condition. On a timeout, or if a member dies, fail with the group's story."""

        def check() -> T:
            for member in self.members:
                ended = member.process.poll()
                assert ended is None or ended <= 0, f"exit status {ended}"
            return condition()

        try:
            return wait_for(check, what, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.story()}") from None

    def wait_until_shared(
        self, members: list[Member], partitions: Iterable[Partition], seconds: float = 60.0
    ) -> None:
        """Wait until each partition has exactly one owner and every member owns a partition."""
        wanted = list(partitions)
        self.wait_until(
            lambda: share_all(members, wanted),
            f"{len(wanted)} partitions over {len(members)}",
            seconds,
        )

    def processed(self) -> list[Entry]:
        """Return all records that any member processed."""
        return [record for member in self.members for record in member.processed()]

    def wait_until_processed(self, values: Iterable[str], seconds: float = 60.0) -> None:
        """Wait until all these values are processed, and check that each was processed once."""
        wanted = Counter(values)
        self.wait_until(
            lambda: len(self.processed()) >= len(wanted), f"{len(wanted)} processed", seconds
        )
        got = Counter(value for _, _, _, value in self.processed())
        missing, surplus = wanted - got, got - wanted
        assert not missing, f"{len(missing)} lost: {sorted(missing)[:9]}\n{self.story()}"
        assert not surplus, f"{len(surplus)} too often: {sorted(surplus)[:9]}\n{self.story()}"


@dataclass(frozen=True)
class Acknowledged:
    """A record that the broker acknowledged."""

    partition: int
    offset: int
    value: str


class Feed:
    """Sends `count` numbered records round robin from a thread, at a limited rate.

    If `count` is None, records are sent until `finish` is called.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        count: int | None,
        *,
        per_second: float = float("inf"),
        prefix: str = "",
    ) -> None:
        self.acknowledged: list[Acknowledged] = []
        self.failed: list[BaseException] = []
        self._sent = 0
        self._is_over = threading.Event()
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap, linger_ms=5, reconnect_backoff_max_ms=500
        )
        self._plan = (topic, partitions, count, per_second, prefix)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Feed":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._plan[2] is None:
            self._is_over.set()
        self._thread.join(60)
        self._producer.close(timeout=5)

    def _run(self) -> None:
        topic, partitions, count, per_second, prefix = self._plan
        started = time.monotonic()
        for number in itertools.count() if count is None else range(count):
            while (time.monotonic() - started) * per_second < number:
                time.sleep(0.005)
            if self._is_over.is_set():
                break
            value = f"{prefix}{number}"
            self._sent += 1
            future = self._producer.send(topic, value=value.encode(), partition=number % partitions)
            future.add_callback(self._acknowledge, value)
            future.add_errback(self.failed.append)
        self._producer.flush(timeout=60)

    def _acknowledge(self, value: str, metadata: Any) -> None:
        self.acknowledged.append(Acknowledged(metadata.partition, metadata.offset, value))

    def finish(self) -> list[str]:
        """Stop sending; return the values once all records are acknowledged."""
        self._is_over.set()
        return self.join()

    def join(self) -> list[str]:
        """Wait until all records are sent and acknowledged, and return their values."""
        self._thread.join(60)
        assert not self._thread.is_alive(), f"{len(self.acknowledged)} acknowledged in a minute"
        assert not self.failed, f"{len(self.failed)} failed, the first: {self.failed[0]!r}"
        assert len(self.acknowledged) == self._sent
        return [record.value for record in self.acknowledged]


def feed(bootstrap: str, topic: str, partitions: int, count: int, prefix: str = "") -> list[str]:
    """Send records at full speed, wait for their acknowledgement, and return the values."""
    with Feed(bootstrap, topic, partitions, count, prefix=prefix) as sending:
        return sending.join()
