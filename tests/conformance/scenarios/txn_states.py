"""Every transactional request in every state of a transactional id, in both protocols.

Each request is first sent with wrong identities (an older epoch, a newer one, another producer id,
an unknown and an empty transactional id), then with the right one.

Kafka verifies Produce and TxnOffsetCommit with its coordinator in batches with at most one request
per transactional id, so only one scenario sends them with an empty id.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.conformance.producers import Producer
from tests.conformance.stage import Area, Stage

AREA = Area("txn_states")

STATES = ("none", "empty", "ongoing", "committed", "aborted", "fenced")


def reach(t: Stage, state: str, protocol: int) -> Producer:
    """Return a producer whose transactional id is in `state`, unrecorded; its epoch is at least 1.

    "none": the transactional id is unknown, and the producer has id and epoch of an idempotent
    producer. "fenced": the transaction was ongoing when another instance started, which has the
    later epoch.
    """
    p = Producer(t, "P", protocol)
    if state == "none":
        t.setup(p.init, transactional_id=None)
        return p
    t.setup(p.init)
    t.setup(p.init)
    if state == "empty":
        return p
    t.setup(p.begin)
    if state == "ongoing":
        return p
    if state == "fenced":
        t.setup(p.fence)
        return p
    t.setup(p.commit if state == "committed" else p.abort)
    return p


def _init_again(p: Producer, note: str, **identity: Any) -> None:
    p.init_again(note, adopt=False, **identity)


def _add_partitions(p: Producer, note: str, **identity: Any) -> None:
    p.add([(p.t.t3, 1)], note, **identity)


def _verify(p: Producer, note: str, **identity: Any) -> None:
    p.add([(p.t.t3, 0), (p.t.t3, 1)], note, version=5, verify_only=True, **identity)


def _add_offsets(p: Producer, note: str, **identity: Any) -> None:
    p.add_offsets(note, **identity)


def _produce(p: Producer, note: str, **identity: Any) -> None:
    # Use the expected sequence, because Kafka remembers the lowest sequence even of a refused
    # batch.
    sequence = p.next_sequence(p.t.t3, 0)
    p.produce([(p.t.t3, 0)], note, sequence=sequence, **identity)


def _produce_elsewhere(p: Producer, note: str, **identity: Any) -> None:
    p.produce([(p.t.t3, 2)], note, **identity)


def _commit_offsets(p: Producer, note: str, **identity: Any) -> None:
    p.commit_offsets([(p.t.t1, 0, 7)], note, **identity)


def _commit(p: Producer, note: str, **identity: Any) -> None:
    p.end(True, note, adopt=False, **identity)


def _abort(p: Producer, note: str, **identity: Any) -> None:
    p.end(False, note, adopt=False, **identity)


REQUESTS: dict[str, Callable[..., None]] = {
    "init_again": _init_again,
    "add_partitions": _add_partitions,
    "verify": _verify,
    "add_offsets": _add_offsets,
    "produce": _produce,
    "produce_elsewhere": _produce_elsewhere,
    "commit_offsets": _commit_offsets,
    "commit": _commit,
    "abort": _abort,
}


def wrong_identities(t: Stage, p: Producer) -> dict[str, dict[str, Any]]:
    """Return the changes that make a request invalid, by the note of its step."""
    other = Producer(t, "other").started()
    unknown = f"{t.g}-unknown"
    t.name_it(unknown, "<unknown>")
    return {
        "older epoch": {"producer_epoch": p.epoch - 1},
        "newer epoch": {"producer_epoch": p.epoch + 1},
        "other producer id": {"producer_id": other.producer_id},
        "unknown transactional id": {"transactional_id": unknown},
        "empty transactional id": {"transactional_id": ""},
    }


_ASK_THE_COORDINATOR = ("produce", "produce_elsewhere", "commit_offsets")


@AREA.each(request=list(REQUESTS), state=STATES, v=[1, 2])
def answers_to(t: Stage, request: str, state: str, v: int) -> None:
    """{request} (v{v}) is sent in state {state} with wrong identities, then the right identity."""
    p = reach(t, state, v)
    wrong = wrong_identities(t, p)
    if request in _ASK_THE_COORDINATOR:
        del wrong["empty transactional id"]
    p.look("before")
    send = REQUESTS[request]
    for note, identity in wrong.items():
        send(p, note, **identity)
        p.settle()
    p.look("after the wrong ones")
    send(p, "")
    p.settle()
    p.look()


@AREA.scenario
def empty_transactional_id(t: Stage) -> None:
    """Produce and TxnOffsetCommit have an empty transactional id, in both protocols."""
    for protocol in (1, 2):
        p = Producer(t, f"P{protocol}", protocol).begun()
        for name in _ASK_THE_COORDINATOR:
            REQUESTS[name](p, "", transactional_id="")
        p.look()
