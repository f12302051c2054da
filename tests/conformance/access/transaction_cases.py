"""Cases of transactions and producer ids."""

from __future__ import annotations

from collections.abc import Sequence

from tests.conformance.access.case import Case, Cell, Fields
from tests.conformance.access.world import (
    TIMEOUT_MS,
    WRITTEN,
    World,
    own_producers,
    own_transactions,
)

_MIXED = (*WRITTEN, "absent-1")


def _init_producer_id(cell: Cell, world: World) -> Fields:
    return {
        "transactionalId": cell.transactional_ids[0],
        "transactionTimeoutMs": TIMEOUT_MS,
    }


def _init_idempotent(cell: Cell, world: World) -> Fields:
    return {"transactionalId": None, "transactionTimeoutMs": 0}


def _init_unnamed(cell: Cell, world: World) -> Fields:
    return {"transactionalId": "", "transactionTimeoutMs": TIMEOUT_MS}


def _add_partitions(cell: Cell, world: World) -> Fields:
    topics = [{"name": one, "partitions": [0]} for one in cell.topics]
    one_id = cell.transactional_ids[0]
    producer = world.producer(one_id)
    return {
        "v3AndBelowTransactionalId": one_id,
        "v3AndBelowProducerId": producer["producerId"],
        "v3AndBelowProducerEpoch": producer["producerEpoch"],
        "v3AndBelowTopics": topics,
        "transactions": [
            {"transactionalId": one_id, "verifyOnly": False, "topics": topics, **producer}
        ],
    }


def _verify_partitions(cell: Cell, world: World) -> Fields:
    fields = _add_partitions(cell, world)
    for one in fields["transactions"]:
        one["verifyOnly"] = True
    return fields


def _of_transaction(cell: Cell, world: World) -> Fields:
    one_id = cell.transactional_ids[0]
    group = cell.groups[0] if cell.groups else None
    return {
        "transactionalId": one_id,
        "groupId": group,
        "committed": True,
        **world.producer(one_id),
    }


def _add_offsets(cell: Cell, world: World) -> Fields:
    return _of_transaction(cell, world)


def _end(cell: Cell, world: World) -> Fields:
    fields = _of_transaction(cell, world)
    del fields["groupId"]
    return fields


def _commit(cell: Cell, world: World) -> Fields:
    partition = {"partitionIndex": 0, "committedOffset": 3, "committedMetadata": "m"}
    topics = [
        {"name": one, "topicId": world.topic_id(one), "partitions": [partition]}
        for one in cell.topics
    ]
    fields = _of_transaction(cell, world)
    del fields["committed"]
    return fields | {"topics": topics}


def _own_offsets_in_transactions(world: World, cells: Sequence[Cell]) -> None:
    own_producers(world, cells)
    for cell in cells:
        world.add_offsets(cell.transactional_ids[0], cell.groups[0])


def _markers(cell: Cell, world: World) -> Fields:
    topics = [{"name": one, "partitionIndexes": [0]} for one in ("written-1", "absent-1")]
    marker = {
        "producerId": 987_654,
        "producerEpoch": 0,
        "transactionResult": True,
        "topics": topics,
        "coordinatorEpoch": 0,
    }
    return {"markers": [marker]}


def _describe(cell: Cell, world: World) -> Fields:
    return {"transactionalIds": cell.transactional_ids}


def _list(cell: Cell, world: World) -> Fields:
    return {"stateFilters": [], "producerIdFilters": [], "durationFilter": -1}


def _list_ongoing(cell: Cell, world: World) -> Fields:
    return {
        "stateFilters": ["Ongoing", "NoSuchState"],
        "producerIdFilters": [],
        "durationFilter": 0,
    }


_OWN = ("@-1", "@-2", "@-3")

CASES = [
    Case("InitProducerId", _init_producer_id, transactional_ids=("@",)),
    Case("InitProducerId.idempotent", _init_idempotent, topics=("topic-1",)),
    Case("InitProducerId.unnamed", _init_unnamed, transactional_ids=("@",), versions=(0, 5)),
    Case(
        "AddPartitionsToTxn",
        _add_partitions,
        topics=_MIXED,
        transactional_ids=("@",),
        prepare=(own_producers,),
    ),
    Case(
        "AddPartitionsToTxn.known",
        _add_partitions,
        topics=WRITTEN,
        transactional_ids=("@",),
        prepare=(own_producers,),
    ),
    Case(
        "AddPartitionsToTxn.verified",
        _verify_partitions,
        topics=WRITTEN,
        transactional_ids=("@",),
        prepare=(own_transactions,),
        versions=(4, 5),
    ),
    Case(
        "AddOffsetsToTxn",
        _add_offsets,
        groups=("simple-1",),
        transactional_ids=("@",),
        prepare=(own_producers,),
    ),
    Case("EndTxn", _end, transactional_ids=("@",), prepare=(own_transactions,)),
    Case("EndTxn.unknown", _end, transactional_ids=("absent",), versions=(0, 5)),
    Case("WriteTxnMarkers", _markers, topics=("written-1",)),
    Case(
        "TxnOffsetCommit",
        _commit,
        topics=_MIXED,
        groups=("@",),
        transactional_ids=("@",),
        prepare=(_own_offsets_in_transactions,),
    ),
    Case(
        "DescribeTransactions",
        _describe,
        topics=WRITTEN,
        transactional_ids=(*_OWN, "absent"),
        prepare=(own_transactions,),
    ),
    Case(
        "ListTransactions",
        _list,
        transactional_ids=_OWN,
        prepare=(own_producers,),
        shown=(("transactionStates", "transactionalId"),),
    ),
    Case(
        "ListTransactions.ongoing",
        _list_ongoing,
        transactional_ids=_OWN,
        prepare=(own_transactions,),
        shown=(("transactionStates", "transactionalId"),),
    ),
]
