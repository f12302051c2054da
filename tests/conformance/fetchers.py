"""Consumers with fetch sessions (KIP-227), by topic name or topic id (KIP-516).

A `Fetcher` has a separate connection and knows its fetch session. A recorded response has `came`,
which is "waited" if the response took the request's maximum wait, and the partitions in the order
of the response.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.conformance import batches, timing
from tests.conformance.connection import Pending
from tests.conformance.producers import by_topic, error
from tests.conformance.shares import Place, shown_topic, topic_id, waited
from tests.conformance.stage import Stage

OPEN, CLOSE = 0, -1
BY_NAME, BY_ID = 12, 17

_FIRST_VERSION_WITH_IDS = 13
_WAIT_MS = 600


class Fetcher:
    """A consumer; `version` is the version of its requests."""

    def __init__(self, t: Stage, version: int, name: str = "A") -> None:
        self.t = t
        self.name = name
        self.version = version
        self.session_id, self.epoch = 0, OPEN
        self._connection = t.conn()

    def fetch(self, *partitions: Place, note: str = "", **options: Any) -> Any:
        """Fetch in the session; record and return the response. See `fetching`."""
        return self.fetched(self.fetching(*partitions, note=note, **options))

    def fetching(
        self,
        *partitions: Place,
        note: str = "",
        offset: int = 0,
        fields: Mapping[str, Any] | None = None,
        forget: Sequence[Place] = (),
        wait_ms: int = _WAIT_MS,
        **changes: Any,
    ) -> Pending:
        """Send a Fetch and return it, without waiting; `fields` change its partitions."""
        one = {"fetch_offset": offset, "partition_max_bytes": 1 << 20, **(fields or {})}
        body = {
            "max_wait_ms": int(wait_ms * timing.scale),
            "min_bytes": 1,
            "session_id": self.session_id,
            "session_epoch": self.epoch,
            "topics": [
                {**self._named(topic), "partitions": [{"partition": i, **one} for i in indexes]}
                for topic, indexes in by_topic(partitions)
            ],
            "forgotten_topics_data": [
                {**self._named(topic), "partitions": indexes} for topic, indexes in by_topic(forget)
            ],
            **changes,
        }
        label = f"{self.name} fetch {note}".strip()
        return self.t.send(self._connection, "Fetch", self.version, body, label)

    def fetched(self, pending: Pending) -> Any:
        """Wait for the response to a Fetch; record and return it."""
        was, self.t.recording = self.t.recording, False
        try:
            self.t.got(pending)
        finally:
            self.t.recording = was
            answer = pending.raw
            self.t.rec(pending.label, self._shown(pending) if isinstance(answer, dict) else answer)
        if isinstance(answer, dict) and not answer["error_code"]:
            epoch = pending.body["session_epoch"]
            self.session_id = answer["session_id"]
            self.epoch = OPEN if epoch == CLOSE or not self.session_id else epoch + 1
        return answer

    def opened(self, *partitions: Place) -> Fetcher:
        """Return this consumer with a session of these partitions, after an unrecorded fetch."""
        was, self.t.recording = self.t.recording, False
        self.fetch(*partitions, wait_ms=0)
        self.t.recording = was
        return self

    def _named(self, topic: str | bytes) -> dict[str, Any]:
        if self.version < _FIRST_VERSION_WITH_IDS:
            return {"topic": topic}
        return {"topic_id": topic_id(self.t, topic)}

    def _shown(self, pending: Pending) -> Any:
        answer, body = pending.raw, pending.body
        shown: dict[str, Any] = {
            "came": waited(pending),
            "session": self._shown_session(answer["session_id"], body["session_id"]),
        }
        if answer["error_code"]:
            shown["error"] = error(answer["error_code"])
        shown["partitions"] = [
            [f"{self._symbol(topic)}-{one['partition_index']}", _shown_partition(one)]
            for topic in answer["responses"]
            for one in topic["partitions"]
        ]
        return shown

    def _symbol(self, topic: Mapping[str, Any]) -> str:
        if self.version < _FIRST_VERSION_WITH_IDS:
            return str(self.t.sub(topic["topic"]))
        return shown_topic(self.t, topic["topic_id"])

    @staticmethod
    def _shown_session(answered: int, asked: int) -> str:
        if not answered:
            return "none"
        return "same" if answered == asked else "new"


def _shown_partition(one: Mapping[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "offsets": [one["log_start_offset"], one["last_stable_offset"], one["high_watermark"]]
    }
    if one["error_code"]:
        shown["error"] = error(one["error_code"])
    if one["records"]:
        shown["records"] = [
            [got.base_offset, got.last_offset] for got in batches.read(one["records"])
        ]
    if one["aborted_transactions"] is not None:
        shown["aborted"] = len(one["aborted_transactions"])
    diverging = one.get("diverging_epoch")
    if diverging and diverging["epoch"] != -1:
        shown["diverging"] = [diverging["epoch"], diverging["end_offset"]]
    leader = one.get("current_leader")
    if leader and leader["leader_id"] != -1:
        shown["leader"] = [leader["leader_id"], leader["leader_epoch"]]
    return shown
