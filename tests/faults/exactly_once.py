"""Check exactly-once processing while brokers and clients are killed.

    python -m tests.faults.exactly_once --seconds 1200 --seed 1

Four pipelines (`pipeline_worker`) copy a topic in transactions. At random moments a pipeline or the
broker is killed with SIGKILL, or with `--brokers 3` a coordinator moves. At the end a
read_committed consumer must see every input in the output once, in order within each key. The run
uses 127.0.0.1 only and ends by itself.
"""

from __future__ import annotations

import argparse
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests import forked
from tests.support import ROOT, Broker, free_port

FIRST_ID = 1  # the broker id of the first broker
PIPELINES = 4
PARTITIONS = 4
KEYS = 40
RECORDS_PER_SECOND = 150
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
END_SECONDS = 90.0


def free_ports(count: int) -> int:
    """Return the first port of a free range of `count` ports."""
    while True:
        first = free_port()
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            return first


class Fire:
    """A broker, its pipelines, and the number of inputs per key."""

    def __init__(self, directory: str, seed: int, brokers: int) -> None:
        self._random = random.Random(seed)
        self._brokers = brokers
        self._broker = Broker(
            {**SETTINGS, "broker.count": str(brokers)},
            data_dir=directory,
            # Fixed ports, because a killed broker must restart on its port.
            port=free_ports(brokers),
        )

        self._broker.start()
        self.bootstrap = self._broker.bootstrap_servers
        self._log = (Path(directory) / "pipelines.log").open("ab")
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for made in admin.create_topics(
            [NewTopic(name, PARTITIONS, 1) for name in ("input", "output")]
        ).values():
            made.result(20)
        self._feed = confluent_kafka.Producer(
            {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "log_level": 0}
        )
        self.sent: Counter[str] = Counter()
        self.deeds: Counter[str] = Counter()
        self._pipelines = [self._start(number) for number in range(PIPELINES)]

    def burn(self, seconds: float) -> None:
        """Produce input for `seconds`; at random moments kill a process or move a coordinator."""
        end = time.monotonic() + seconds
        next_deed = time.monotonic() + 3.0
        while time.monotonic() < end:
            self._put_in()
            self._revive()
            if time.monotonic() >= next_deed:
                self._harm()
                next_deed = time.monotonic() + self._random.uniform(0.5, 4.0)
            time.sleep(0.1)
        assert self._feed.flush(60) == 0

    def check(self) -> int:
        """Wait for the output, compare it with the input, and return the number of records."""
        wanted = sum(self.sent.values())
        consumer = self._reader()
        per_key: dict[str, list[int]] = {}
        got = 0
        end = time.monotonic() + END_SECONDS
        while got < wanted and time.monotonic() < end:
            self._revive()
            for record in consumer.consume(500, 0.5):
                if record.error() is None:
                    per_key.setdefault(record.key().decode(), []).append(int(record.value()))
                    got += 1
        # All expected records were read, so any further record is a duplicate.
        for record in consumer.consume(500, 3.0):
            assert record.error() is not None, f"one too many: {record.key()} {record.value()}"
        consumer.close()
        for key, count in self.sent.items():
            values = per_key.get(key, [])
            assert values == list(range(count)), (
                f"{key}: {count} went in, {len(values)} came out, first difference at "
                f"{next((n for n, v in enumerate(values) if n != v), len(values))}\n"
                f"{self._broker.log}"
            )
        return wanted

    def close(self) -> None:
        """End the pipelines and the broker."""
        for process in self._pipelines:
            process.kill()
            process.wait()
        self._log.close()
        self._broker.stop()

    def _put_in(self) -> None:
        for _ in range(RECORDS_PER_SECOND // 10):
            key = f"key-{self._random.randrange(KEYS)}"
            self._feed.produce("input", key=key, value=str(self.sent[key]))
            self.sent[key] += 1
        self._feed.poll(0)

    def _harm(self) -> None:
        deeds = ["broker", "pipeline"] + ["move"] * (self._brokers > 1)
        deed = self._random.choice(deeds)
        self.deeds[deed] += 1
        if deed == "broker":
            self._broker.kill()
            self._broker.start()
        elif deed == "pipeline":
            self._random.choice(self._pipelines).kill()
        else:
            topic = self._random.choice(["__transaction_state", "__consumer_offsets", "output"])
            partition = self._random.randrange(PARTITIONS)
            leader = self._random.randrange(self._brokers)
            self._broker.control.call(
                "POST", f"/partitions/{topic}/{partition}/move", {"to": leader + FIRST_ID}
            )

    def _revive(self) -> None:
        for number, process in enumerate(self._pipelines):
            code = process.poll()
            if code is not None:
                assert code in (-9, 3), f"pipeline {number} ended with {code}"
                self.deeds["restarts"] += 1
                self._pipelines[number] = self._start(number)

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.faults.pipeline_worker"]
        return forked.start(
            [*command, self.bootstrap, f"pipeline-{number}"], cwd=ROOT, stderr=self._log
        )

    def _reader(self) -> Any:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "check",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition("output", index, 0) for index in range(PARTITIONS)])
        return consumer


def main() -> None:
    """Run for the given time, then check the output."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--brokers", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        fire = Fire(directory, arguments.seed, arguments.brokers)
        try:
            fire.burn(arguments.seconds)
            count = fire.check()
        finally:
            fire.close()
        deeds = ", ".join(f"{name} {times}" for name, times in sorted(fire.deeds.items()))
        print(f"{count} records, each once and in order; {deeds}")


if __name__ == "__main__":
    main()
