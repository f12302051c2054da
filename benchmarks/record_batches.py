"""CPU of a Produce by the layout of its batch, compared with the reference Kafka in one run.

    python -m benchmarks.record_batches [ROUNDS]

Uses one raw connection, acks=1 and five requests in flight. Rounds alternate between the brokers,
with the same bytes. ORACLE_JARS=DIR names the directory of Kafka's jars.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from protocol.batch import Record, build_batch
from protocol.compression import Compression
from tests.conformance import wire
from tests.conformance.connection import Conn
from tests.oracle.kafka_process import Kafka
from tests.support import Broker, address_of, wait_for

DEPTH = 5
WARM_UP = 1500
SECONDS = 30


def batch(
    count: int,
    size: Callable[[int], int],
    key: Callable[[int], bytes] | None = None,
    compression: Compression = Compression.NONE,
    spread_ms: int = 0,
) -> bytes:
    """Return a batch of records; `size` returns the size of a value by index."""
    base_ms = int(time.time() * 1000)
    records = [
        Record(
            index,
            base_ms + index * spread_ms // count,
            key(index) if key else None,
            random.randbytes(size(index)),
        )
        for index in range(count)
    ]
    return build_batch(records, compression=compression).to_bytes()


def layouts() -> dict[str, tuple[bytes, int]]:
    """Return the batches, each with the number of batches per round."""
    random.seed(1)
    return {
        "16 records of 1 000 bytes": (batch(16, lambda _: 1000), 400),
        "1 000 records of 16 bytes": (batch(1000, lambda _: 16), 300),
        "1 000 of 16 bytes, 500 ms": (batch(1000, lambda _: 16, spread_ms=500), 300),
        "1 000 of 16 bytes, keys": (batch(1000, lambda _: 16, lambda i: b"key-%d" % i), 300),
        "1 000 of 8 to 24 bytes": (batch(1000, lambda _: random.randrange(8, 24)), 300),
        "100 of 100 to 200 bytes, keys": (
            batch(100, lambda _: random.randrange(100, 200), lambda i: b"key-%d" % i),
            400,
        ),
        "1 000 of 16 bytes, zstd": (
            batch(1000, lambda _: 16, compression=Compression.ZSTD),
            300,
        ),
    }


class Target:
    """A broker and a connection to it."""

    def __init__(self, bootstrap_servers: str, cpu_seconds: Callable[[], float]) -> None:
        self.cpu_seconds = cpu_seconds
        self._connection = Conn(*address_of(bootstrap_servers), timeout=SECONDS)
        topic = {"name": "t", "num_partitions": 1, "replication_factor": 1}
        self._ask("CreateTopics", 7, {"topics": [topic], "timeout_ms": 30_000})
        wait_for(lambda: self._ask("Metadata", 9, {"topics": [{"name": "t"}]}), "the topic")
        time.sleep(2)

    def _ask(self, api: str, version: int, body: dict[str, Any]) -> Any:
        self._connection.send_frame(wire.enc_request(api, version, 1, "bench", body))
        return wire.dec_response(api, version, self._connection.recv_frame(SECONDS) or b"")[1]

    def produce(self, data: bytes, count: int) -> float:
        """Produce a batch repeatedly and return the broker's CPU in seconds per batch."""
        partition = {"index": 0, "records": data}
        body = {
            "acks": 1,
            "timeout_ms": 5000,
            "topic_data": [{"name": "t", "partition_data": [partition]}],
        }
        frame = wire.enc_request("Produce", 9, 1, "bench", body)
        before = self.cpu_seconds()
        for number in range(count + DEPTH):
            if number >= DEPTH:
                answer = self._connection.recv_frame(SECONDS)
                _, decoded = wire.dec_response("Produce", 9, answer or b"")
                assert not decoded["responses"][0]["partition_responses"][0]["error_code"], decoded
            if number < count:
                self._connection.send_frame(frame)
        return (self.cpu_seconds() - before) / count


def main() -> None:
    """Print the table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    with tempfile.TemporaryDirectory() as directory, Broker(ephemeral=False) as broker:
        kafka = Kafka(Path(directory), {}, options=())
        try:
            kafka.start()
            targets = {
                "ours": Target(broker.bootstrap_servers, lambda: cpu_of(broker.pid)),
                "Kafka": Target(kafka.bootstrap_servers, lambda: cpu_of(kafka.pid)),
            }
            table = layouts()
            for data, _ in table.values():
                for target in targets.values():
                    target.produce(data, WARM_UP)
            print(f"{'CPU us per batch':32}{'ours':>10}{'Kafka':>10}{'Kafka / ours':>14}")
            for name, (data, count) in table.items():
                figures = {
                    who: statistics.median(one.produce(data, count) for _ in range(rounds)) * 1e6
                    for who, one in targets.items()
                }
                ratio = figures["Kafka"] / figures["ours"]
                print(f"{name:32}{figures['ours']:10.0f}{figures['Kafka']:10.0f}{ratio:14.2f}")
        finally:
            kafka.end()


def cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process with all its threads, from its CPU clock."""
    return time.clock_gettime(~pid << 3 | 2)


if __name__ == "__main__":
    main()
