"""Transactional producers that commit offsets, and record whole answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Self

from tests.conformance import timing
from tests.conformance.calls import commit_topics
from tests.conformance.stage import Stage

_BUSY = (14, 15, 16, 51)
_CONCURRENT_TRANSACTIONS = 51
_UNSTABLE_OFFSET_COMMIT = 88


class OffsetProducer:
    """A producer with the last id and epoch that it got."""

    def __init__(self, t: Stage, name: str = "P") -> None:
        self.t = t
        self.name = name
        self.transactional_id = f"{t.g}-{name}"
        t.name_it(self.transactional_id, f"<tid:{name}>")
        self.id = -1
        self.epoch = -1

    def start(self, v: int = 1) -> None:
        """Get an id and an epoch, unrecorded."""
        answer = self._init(v)
        if not isinstance(answer, dict) or answer["error_code"]:
            self._record("InitProducerId", v, answer)

    def init(self, v: int = 1) -> None:
        """Get an id and an epoch, and record the answer."""
        self._record("InitProducerId", v, self._init(v))

    def _init(self, version: int) -> Any:
        body = {"transactional_id": self.transactional_id, "transaction_timeout_ms": 60_000}
        answer = self._retried("InitProducerId", version, body, _BUSY)
        if isinstance(answer, dict) and not answer["error_code"]:
            self.id, self.epoch = answer["producer_id"], answer["producer_epoch"]
        return answer

    def add(self, v: int = 1, note: str = "", **fields: Any) -> Any:
        """Send AddOffsetsToTxn; record and return the answer.

        The request is repeated until the markers of the last transaction are written.
        """
        body = self._body({"group_id": self.t.g, **fields})
        answer = self._retried("AddOffsetsToTxn", v, body, (_CONCURRENT_TRANSACTIONS,))
        return self._record("AddOffsetsToTxn", v, answer, note)

    def commit(
        self, offsets: Sequence[tuple[Any, ...]], v: int = 2, note: str = "", **fields: Any
    ) -> Any:
        """Send TxnOffsetCommit; record and return the answer."""
        body = self._body({"group_id": self.t.g, "topics": commit_topics(offsets), **fields})
        return self.t.ask("TxnOffsetCommit", v, body, self._label("TxnOffsetCommit", v, note))

    def end(self, committed: bool = True, v: int = 1, note: str = "", **fields: Any) -> Any:
        """Send EndTxn; record and return the answer."""
        body = self._body({"committed": committed, **fields})
        word = "commit" if committed else "abort"
        return self.t.ask("EndTxn", v, body, self._label("EndTxn", v, f"{word} {note}".strip()))

    def begin(self) -> Self:
        """Return this producer with a transaction that has the group, unrecorded."""
        self.start()
        self.t.setup(self.add)
        return self

    def _body(self, fields: dict[str, Any]) -> dict[str, Any]:
        identity = {"producer_id": self.id, "producer_epoch": self.epoch}
        return {"transactional_id": self.transactional_id, **identity, **fields}

    def _retried(self, api: str, version: int, body: dict[str, Any], codes: Sequence[int]) -> Any:
        end = timing.deadline(timing.ANSWER_SECONDS)
        while True:
            answer = self.t.quiet(api, version, body)
            is_busy = isinstance(answer, dict) and answer.get("error_code") in codes
            if not is_busy or time.monotonic() > end:
                return answer
            self.t.nap(0.05)

    def _record(self, api: str, version: int, answer: Any, note: str = "") -> Any:
        shown = self.t.norm(answer) if isinstance(answer, dict) else answer
        return self.t.rec(self._label(api, version, note), shown)

    def _label(self, api: str, version: int, note: str) -> str:
        return f"{self.name} {api} v{version} {note}".strip()


def settle(t: Stage) -> None:
    """Wait, unrecorded, until the group has no pending offsets.

    EndTxn is answered before its marker reaches the group.
    """
    asked = [
        {"name": t.t1, "partition_indexes": [0]},
        {"name": t.t3, "partition_indexes": [0, 1, 2]},
    ]
    body = {"group_id": t.g, "require_stable": True, "topics": asked}
    end = timing.deadline(timing.ANSWER_SECONDS)
    while time.monotonic() < end:
        answer = t.quiet("OffsetFetch", 7, body)
        if not isinstance(answer, dict) or not any(
            one["error_code"] == _UNSTABLE_OFFSET_COMMIT
            for topic in answer.get("topics", [])
            for one in topic["partitions"]
        ):
            return
        t.nap(0.05)
    t.rec("settle", "offsets stay pending")
