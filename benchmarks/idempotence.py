"""CPU per produced batch: plain, with an idempotent producer, and in an open transaction.

    python -m benchmarks.idempotence

The first table measures only the append to a log, the second a complete Produce in a broker
process. The kinds alternate. Each line has a kind's minimum, its median, and its median ratio to
the preceding plain turn. "plain again" shows the difference between two measurements of the same
kind.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from benchmarks.appending import open_log
from protocol.apis.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.batch import Record, build_batch
from protocol.codec import decoder
from tests.faults.client import frame_of
from tests.support import Broker, Wire

RECORDS = (1, 100)
ROUNDS = 100
APPENDS = 300
REQUESTS = 300
VALUE = b"x" * 100
CREATE_VERSION, INIT_VERSION, PRODUCE_VERSION = 5, 4, 12

PLAIN, AGAIN, IDEMPOTENT, TRANSACTIONAL = "plain", "plain again", "idempotent", "in a transaction"
KINDS = (PLAIN, IDEMPOTENT, AGAIN, TRANSACTIONAL)


def main() -> int:
    """Print the tables."""
    for records in RECORDS:
        _print(f"append to a log, {records} record(s)", _appends(records))
    for records in RECORDS:
        _print(f"produce to a broker, {records} record(s)", _produces(records))
    return 0


def _print(title: str, costs: dict[str, list[float]]) -> None:
    print(f"\n{title:<36}{'least us':>10}{'median':>10}{'ratio':>8}")
    for kind, taken in costs.items():
        ratio = median(cost / plain for cost, plain in zip(taken, costs[PLAIN], strict=True))
        print(f"  {kind:<34}{min(taken):10.2f}{median(taken):10.2f}{ratio:8.3f}")


def _in_turn(turns: dict[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Measure all kinds alternately and return the costs of each."""
    costs: dict[str, list[float]] = {kind: [] for kind in turns}
    for _ in range(ROUNDS):
        for kind, turn in turns.items():
            costs[kind].append(turn())
    return costs


def _batch(kind: str, producer_id: int, sequence: int, records: int) -> bytes:
    """Return a batch with the given sequence."""
    now_ms = time.time_ns() // 1_000_000
    written = [Record(offset, now_ms, None, VALUE) for offset in range(records)]
    if kind in (PLAIN, AGAIN):
        return build_batch(written).to_bytes()
    return build_batch(
        written,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=kind == TRANSACTIONAL,
    ).to_bytes()


def _appends(records: int) -> dict[str, list[float]]:
    """Return microseconds of CPU per append, by kind."""
    with tempfile.TemporaryDirectory() as directory:

        def turn_of(number: int, kind: str) -> Callable[[], float]:
            log = open_log(Path(directory), number)
            sequence = 0

            def turn() -> float:
                nonlocal sequence
                sent = [
                    _batch(kind, 7, sequence + one * records, records) for one in range(APPENDS)
                ]
                sequence += APPENDS * records
                now_ms = time.time_ns() // 1_000_000
                started = time.thread_time()
                for batch in sent:
                    log.append(batch, now_ms)
                return (time.thread_time() - started) / APPENDS * 1e6

            return turn

        return _in_turn({kind: turn_of(number, kind) for number, kind in enumerate(KINDS)})


def _produces(records: int) -> dict[str, list[float]]:
    """Return microseconds of the broker's CPU per Produce, by kind."""
    with Broker({}) as broker, broker.connect() as wire:
        topic = CreatableTopic(name="t", num_partitions=len(KINDS), replication_factor=1)
        wire.ask(frame_of(CreateTopicsRequest(topics=[topic], timeout_ms=5000), CREATE_VERSION))
        costs = _in_turn(
            {
                kind: _turn_of(broker, wire, number, kind, records)
                for number, kind in enumerate(KINDS)
            }
        )
        broker.stop()
    return costs


def _turn_of(
    broker: Broker, wire: Wire, partition: int, kind: str, records: int
) -> Callable[[], float]:
    transactional_id = "benchmark" if kind == TRANSACTIONAL else None
    producer_id = _producer_id(wire, transactional_id)
    sequence = 0

    def turn() -> float:
        nonlocal sequence
        frames = []
        for _ in range(REQUESTS):
            data = PartitionProduceData(
                index=partition, records=_batch(kind, producer_id, sequence, records)
            )
            request = ProduceRequest(
                transactional_id=transactional_id,
                acks=-1,
                timeout_ms=5000,
                topic_data=[TopicProduceData(name="t", partition_data=[data])],
            )
            frames.append(frame_of(request, PRODUCE_VERSION))
            sequence += records
        started = broker.cpu_seconds()
        for frame in frames:
            wire.ask(frame)
        return (broker.cpu_seconds() - started) / REQUESTS * 1e6

    return turn


def _producer_id(wire: Wire, transactional_id: str | None) -> int:
    """Return a new producer id, retried until a coordinator is available."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=900_000
    )
    while True:
        answer = wire.ask(frame_of(request, INIT_VERSION))
        found = decoder(InitProducerIdResponse, INIT_VERSION)(answer, 5)[0]
        if not found.error_code:
            return int(found.producer_id)
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
