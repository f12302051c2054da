"""InitProducerId: ids are unique. The errors are Kafka's."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_server.topics.producer_ids import BLOCK_SIZE
from protocol.apis.init_producer_id import InitProducerIdRequest
from protocol.errors import ErrorCode
from tests.harness.broker import MemoryBroker


def ask(broker: MemoryBroker, version: int = 5, **fields: Any) -> tuple[int, int, int]:
    """Return error, producer id and epoch."""
    request = InitProducerIdRequest(**({"transactional_id": None} | fields))
    response = broker.ask(request, version)
    return response.error_code, response.producer_id, response.producer_epoch


def test_every_request_gets_another_id() -> None:
    """At every version each request gets a new id with epoch 0."""
    broker = MemoryBroker()
    assert [ask(broker, version) for version in range(6)] == [(0, n, 0) for n in range(6)]


def test_ids_are_not_given_again_after_a_crash() -> None:
    """After a kill the next producer id comes from a new block."""
    broker = MemoryBroker()
    assert ask(broker) == (0, 0, 0)
    broker.disk.processes_died()
    again = MemoryBroker(broker.disk)
    assert ask(again) == (0, BLOCK_SIZE, 0)


def test_a_block_costs_one_write() -> None:
    """Only every thousandth producer id needs a write to the disk."""
    broker = MemoryBroker()
    ask(broker)
    written = len(broker.disk.operations)
    for _ in range(BLOCK_SIZE - 1):
        ask(broker)
    assert len(broker.disk.operations) == written
    assert ask(broker) == (0, BLOCK_SIZE, 0)
    assert len(broker.disk.operations) > written


def test_without_a_disk_there_is_no_id() -> None:
    """If no block can be written, clients get the retriable COORDINATOR_LOAD_IN_PROGRESS."""
    broker = MemoryBroker()
    broker.disk.fail_at(0)
    assert ask(broker) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)
    assert ask(broker) == (0, 0, 0)


@pytest.mark.parametrize(
    ("producer_id", "epoch", "error"),
    [(0, 0, 0), (5, 32767, 0), (-5, 3, 0), (-5, -3, 0), (5, -1, 42), (-1, 3, 42)],
)
def test_an_id_that_is_brought_along(producer_id: int, epoch: int, error: int) -> None:
    """Id and epoch must be given together; a request with both also gets a new id."""
    answer = ask(MemoryBroker(), 3, producer_id=producer_id, producer_epoch=epoch)
    assert answer == ((error, -1, -1) if error else (0, 0, 0))


@pytest.mark.parametrize("timeout_ms", [0, -1, 2**31 - 1])
def test_the_transaction_timeout_does_not_matter(timeout_ms: int) -> None:
    """Without a transactional id the transaction timeout is not checked."""
    assert ask(MemoryBroker(), transaction_timeout_ms=timeout_ms) == (0, 0, 0)


def test_a_transactional_id_is_not_empty() -> None:
    """An empty transactional id gets INVALID_REQUEST.

    The tests of transactions cover other ids.
    """
    assert ask(MemoryBroker(), transactional_id="") == (ErrorCode.INVALID_REQUEST, -1, -1)
