"""Control requests about transactions: transactional ids, and partitions with open transactions.

A consumer with `read_committed` stops at the start of the oldest open transaction of a partition.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from heapq import nsmallest
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from coordinator_server.control.errors import ControlError, proposal
from coordinator_server.control.groups import owners_of
from coordinator_server.control.local import TIMEOUT_SECONDS, ask, check
from coordinator_server.control.pace import in_steps
from coordinator_server.control.pages import page_of_names
from coordinator_server.control.request import check_loaded, unloaded
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from coordinator_server.control.request import ControlRequest
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.transactions.metadata import TransactionMetadata
    from coordinator_server.steps import Computation
    from storage.partition_log import PartitionLog

_PAUSE_SECONDS = 0.02


async def transactions(request: ControlRequest) -> dict[str, Any]:
    """GET /transactions: list transactional ids, and partitions that open transactions block."""
    known: dict[str, tuple[int, TransactionMetadata]] = {}
    page, next_name = await in_steps(page_of_names(request, _known(request, known)))
    return {
        "transactions": await in_steps(_transactions(request, (known[name] for name in page))),
        "held_back": await in_steps(_held_back(request)),
        "next": next_name,
        **unloaded(request.cluster, request.cluster.shared.transactions_topic),
    }


def _known(
    request: ControlRequest, known: dict[str, tuple[int, TransactionMetadata]]
) -> Iterator[str | None]:
    """Yield each transactional id that the user may see, and None for each id in between.

    The yielded ids are added to `known` with coordinator and metadata.
    """
    for node_id, broker in tuple(request.cluster.brokers.items()):
        for transactional_id, entry in tuple(broker.transactions.ids.items()):
            if _sees(request, transactional_id):
                known[transactional_id] = node_id, entry.metadata
                yield transactional_id
            else:
                yield None


def _transactions(
    request: ControlRequest,
    known: Iterable[tuple[int, TransactionMetadata]],
) -> Computation[list[dict[str, Any]]]:
    described = []
    for node_id, metadata in known:
        described.append(_transaction(request, node_id, metadata))
        yield
    return described


def _sees(request: ControlRequest, transactional_id: str) -> bool:
    return request.allows("DESCRIBE", "TRANSACTIONAL_ID", transactional_id)


async def transaction(request: ControlRequest) -> dict[str, Any]:
    """GET /transactions/TRANSACTION: describe a transaction and what waits for its end.

    Raises ControlError.
    """
    node_id, metadata = _transaction_of(request)
    held = [
        partition
        for partition in await in_steps(_held_back(request))
        if partition["transactional_id"] == metadata.transactional_id
    ]
    stuck = await in_steps(_stuck_groups(request, held))
    return {
        "transaction": _transaction(request, node_id, metadata),
        "held_back": held,
        "stuck_groups": stuck,
    }


def _transaction_of(request: ControlRequest) -> tuple[int, TransactionMetadata]:
    name = request.parameters["TRANSACTION"]
    for node_id, broker in request.cluster.brokers.items():
        entry = broker.transactions.ids.get(name)
        if entry is not None and _sees(request, name):
            return node_id, entry.metadata
    topic = request.cluster.shared.transactions_topic
    check_loaded(request.cluster, topic, name, f"transactional id {name}")
    known = list(filter(None, _known(request, {})))
    names = ", ".join(nsmallest(20, known))
    others = f"there are {names}" if names else "there is none at all"
    text = f"there is no transactional id {name}; {others}{proposal(name, known)}"
    raise ControlError(404, text)


def _stuck_groups(
    request: ControlRequest, held: list[dict[str, Any]]
) -> Computation[list[dict[str, Any]]]:
    """Return the groups that have read up to the last stable offset of a blocked partition."""
    stuck: list[dict[str, Any]] = []
    for broker in tuple(request.cluster.brokers.values()):
        for task in tuple(broker.groups.tasks.values()):
            group = task.group
            if not group.is_dead and request.sees_group(group.group_id):
                stuck += _stuck(request, group, held)
            yield
    return sorted(stuck, key=lambda entry: (entry["group"], entry["topic"], entry["partition"]))


def _stuck(
    request: ControlRequest, group: Group, held: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    owners: Container[tuple[str, int]] | None = None
    for partition in held:
        topic, index = partition["topic"], partition["partition"]
        commit = group.offsets.by_topic.get(topic, {}).get(index)
        if commit is None:
            owners = owners_of(request, group) if owners is None else owners
            is_stuck = (topic, index) in owners
        else:
            is_stuck = commit.offset >= partition["last_stable_offset"]
        if is_stuck:
            yield {
                "group": group.group_id,
                "topic": topic,
                "partition": index,
                "offset": None if commit is None else commit.offset,
                "records_behind": partition["log_end_offset"] - partition["last_stable_offset"],
            }


async def abort(request: ControlRequest) -> dict[str, Any]:
    """POST /transactions/TRANSACTION/abort: abort an open transaction. Raises ControlError.

    InitProducerId fences the producer and aborts its transaction, as a restarted producer does.
    """
    from protocol.apis.init_producer_id import InitProducerIdRequest

    node_id, metadata = _transaction_of(request)
    name = metadata.transactional_id
    if metadata.state.is_idle:
        raise ControlError(409, f"transactional id {name} has no open transaction")
    message = InitProducerIdRequest(
        transactional_id=name,
        transaction_timeout_ms=metadata.timeout_ms,
        producer_id=-1,
        producer_epoch=-1,
    )
    give_up_s = time.monotonic() + TIMEOUT_SECONDS
    while True:
        response = await ask(request, "InitProducerId", message, node_id=node_id)
        # The first request begins the abort; clients repeat it until the markers are written.
        if response.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
            break
        if time.monotonic() > give_up_s:
            break
        await asyncio.sleep(_PAUSE_SECONDS)
    check(response.error_code, None, f"transactional id {name}")
    _, metadata = _transaction_of(request)
    return {"transactional_id": name, "state": metadata.state.label}


def _transaction(
    request: ControlRequest, node_id: int, metadata: TransactionMetadata
) -> dict[str, Any]:
    """Describe a transaction, with the topics that the user may see."""
    is_open = not metadata.state.is_idle
    return {
        "transactional_id": metadata.transactional_id,
        "coordinator": node_id,
        "state": metadata.state.label,
        "producer_id": metadata.producer_id,
        "producer_epoch": metadata.producer_epoch,
        "timeout_ms": metadata.timeout_ms,
        "open_since_ms": metadata.start_ms if is_open else None,
        "partitions": [
            f"{topic}-{index}"
            for topic, index in sorted(metadata.partitions)
            if request.sees_topic(topic)
        ],
    }


def _held_back(request: ControlRequest) -> Computation[list[dict[str, Any]]]:
    """Return the partitions where open transactions block `read_committed` consumers, and why.

    In steps. The transactional ids that the user may not see are left out of the reasons.
    """
    owners: dict[tuple[tuple[str, int], int], TransactionMetadata] = {}
    for broker in tuple(request.cluster.brokers.values()):
        for entry in tuple(broker.transactions.ids.values()):
            for place in entry.metadata.partitions:
                owners[place, entry.metadata.producer_id] = entry.metadata
            yield
    held: list[dict[str, Any]] = []
    for log in tuple(request.cluster.topics.open_logs()):
        if log.producers.transactions and request.sees_topic(log.topic):
            producer_id, offset = min(log.producers.transactions.items(), key=itemgetter(1))
            owner = owners.get(((log.topic, log.partition), producer_id))
            held.append(_held(request, log, producer_id, offset, owner))
        yield
    return sorted(held, key=itemgetter("topic", "partition"))


def _held(
    request: ControlRequest,
    log: PartitionLog,
    producer_id: int,
    offset: int,
    owner: TransactionMetadata | None,
) -> dict[str, Any]:
    name = None
    if owner is not None and _sees(request, owner.transactional_id):
        name = owner.transactional_id
    since_ms = log.producers.entries[producer_id].last_timestamp
    if owner is not None:
        since_ms = owner.start_ms
    since = datetime.fromtimestamp(since_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    place = f"{log.topic}-{log.partition}"
    transaction = "a transaction" if name is None else f"transaction {name}"
    what = (
        f"{transaction} of producer {producer_id} is open since {since} UTC"
        if owner is not None
        else f"a transaction of producer {producer_id} that no coordinator knows wrote last at "
        f"{since} UTC"
    )
    return {
        "topic": log.topic,
        "partition": log.partition,
        "last_stable_offset": log.last_stable_offset,
        "log_end_offset": log.log_end_offset,
        "producer_id": producer_id,
        "transactional_id": name,
        "since_ms": since_ms,
        "reason": f"{what}, holds back {place} at offset {offset}",
    }
