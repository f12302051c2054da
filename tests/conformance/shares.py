"""Members of share groups (KIP-932), and records for them.

A `ShareMember` has a separate connection, and knows its member epoch and share session epoch.
Answers are recorded in short form: names of errors, and `first-last xN` for a batch acquired for
the N-th time.
"""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

from tests.conformance import batches, timing
from tests.conformance.connection import Pending, Setup
from tests.conformance.producers import by_topic, error
from tests.conformance.stage import Stage

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
BATCH_OPTIMIZED, RECORD_LIMIT = range(2)
LEAVE, OPEN, CLOSE = -1, 0, -1

Place = tuple[str | bytes, int]
"""A topic, by name or id, and a partition."""
Range = tuple[int, int, int | Sequence[int]]
"""First offset, last offset, and the acknowledgement type, or one type per offset."""
Acknowledgements = Sequence[Range] | Mapping[Place, Sequence[Range]]
"""Ranges of the member's first partition, or of each partition."""

# A response after this part of the maximum wait counts as delayed, because the clocks of client and
# broker differ.
_NEARLY = 0.95
# Error codes of a coordinator that is loading, not available or on another broker.
_BUSY = (14, 15, 16)
_WORDS = ("gap", "accept", "release", "reject", "renew")


class ShareMember:
    """A member of the scenario's group; `home` is the default partition to acknowledge.

    With `shows_waits`, the transcript shows whether the response to a ShareFetch waited.
    """

    shows_waits = False

    def __init__(
        self, t: Stage, name: str = "A", home: Place | None = None, *, group: str | None = None
    ) -> None:
        _prepare(t)
        self.t = t
        self.name = name
        self.group = t.g if group is None else group
        self.home = home
        self.id = str(uuid.uuid4())
        t.name_it(self.id, name)
        self.epoch, self.session = 0, OPEN
        self._connection = t.conn()

    def twin(self, name: str) -> Self:
        """Return a member with the same id and epochs on another connection."""
        other = type(self)(self.t, name, self.home, group=self.group)
        other.id, other.epoch, other.session = self.id, self.epoch, self.session
        return other

    def share_connection(self, other: ShareMember) -> None:
        """Send the next requests over another member's connection."""
        self._connection = other._connection

    def disconnect(self) -> None:
        """Close the connection and wait a moment; the next request opens a new one."""
        self._connection.close()
        self._connection = self.t.conn()
        self.t.sleep(0.2)

    # ---- group

    def heartbeat(self, note: str = "", *topics: str, version: int = 1, **changes: Any) -> Any:
        """Send ShareGroupHeartbeat; return the answer. Topics are optional.

        The step is recorded as [error, epoch, assignment].
        """
        body = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "subscribed_topic_names": list(topics) or None,
            **changes,
        }
        label = f"{self.name} heartbeat {note}".strip()
        answer = self._ask("ShareGroupHeartbeat", version, body, label, self._of_heartbeat)
        if isinstance(answer, dict) and not answer["error_code"]:
            self.epoch = answer["member_epoch"]
        return answer

    def joined(self, *topics: str, partitions: int | None = None) -> Self:
        """Send unrecorded heartbeats until this member has partitions; return the member.

        The number of partitions must be `partitions`; with None any number is enough.
        """
        was, self.t.recording = self.t.recording, False
        answer = self.heartbeat("", *topics)
        for _ in range(200):
            assigned = sum(len(ps) for ps in _assignment(self.t, answer["assignment"]).values())
            if assigned == partitions or (assigned and partitions is None):
                break
            self.t.nap(0.02)
            again = self.heartbeat()
            answer = again if again["assignment"] is not None else answer
        else:
            raise Setup(f"{self.name} is not assigned: {answer}")
        self.t.recording = was
        return self

    def leave(self, note: str = "") -> Any:
        """Send a heartbeat with epoch -1; return the answer."""
        return self.heartbeat(f"leaves {note}".strip(), member_epoch=LEAVE)

    # ---- records

    def fetch(
        self,
        *partitions: Place,
        note: str = "",
        acks: Acknowledgements = (),
        forget: Sequence[Place] = (),
        version: int = 2,
        wait_ms: int = 2000,
        **changes: Any,
    ) -> Any:
        """Send a ShareFetch that adds these partitions to the session; return the answer.

        The answer is recorded.
        """
        pending = self.fetching(
            *partitions,
            note=note,
            acks=acks,
            forget=forget,
            version=version,
            wait_ms=wait_ms,
            **changes,
        )
        return self.fetched(pending)

    def fetching(
        self,
        *partitions: Place,
        note: str = "",
        acks: Acknowledgements = (),
        forget: Sequence[Place] = (),
        version: int = 2,
        wait_ms: int = 2000,
        **changes: Any,
    ) -> Pending:
        """Send a ShareFetch and return it, without waiting for the answer."""
        acked = self._by_partition(acks)
        if self.home is None and partitions:
            self.home = partitions[0]
        wanted = list(dict.fromkeys([*partitions, *acked]))
        body = {
            "group_id": self.group,
            "member_id": self.id,
            "share_session_epoch": self.session,
            "max_wait_ms": int(wait_ms * timing.scale),
            "min_bytes": 1,
            "max_records": 500,
            "batch_size": 500,
            "topics": self._topics(wanted, acked),
            "forgotten_topics_data": [
                {"topic_id": topic_id(self.t, name), "partitions": ps}
                for name, ps in by_topic(forget)
            ],
            **changes,
        }
        said = f"with {self._described(acked)}" if acked else ""
        words = [self.name, "fetch", note, said]
        label = " ".join(filter(None, words))
        return self.t.send(self._connection, "ShareFetch", version, body, label)

    def fetched(self, pending: Pending) -> Any:
        """Wait for the answer to a ShareFetch; record and return it."""
        if not self.shows_waits:
            return self._finish(pending, self._of_fetch)
        return self._finish(pending, lambda answer: [waited(pending), self._of_fetch(answer)])

    def nothing(self, *partitions: Place, note: str = "", **options: Any) -> Any:
        """Send a ShareFetch with a short wait that is expected to return nothing.

        The first fetch of a session waits longer, so that Kafka can read the state of the
        partitions.
        """
        wait_ms = 250 if self.session == OPEN else 50
        return self.fetch(*partitions, note=note, wait_ms=wait_ms, **options)

    def acknowledge(
        self,
        acks: Acknowledgements,
        note: str = "",
        *,
        version: int = 2,
        renew: bool = False,
        **changes: Any,
    ) -> Any:
        """Send ShareAcknowledge; record an error per partition and return the answer."""
        return self.acknowledged(
            self.acknowledging(acks, note, version=version, renew=renew, **changes)
        )

    def acknowledging(
        self,
        acks: Acknowledgements,
        note: str = "",
        *,
        version: int = 2,
        renew: bool = False,
        **changes: Any,
    ) -> Pending:
        """Send a ShareAcknowledge and return it, without waiting for the answer."""
        acked = self._by_partition(acks)
        body = {
            "group_id": self.group,
            "member_id": self.id,
            "share_session_epoch": self.session,
            "topics": self._topics(list(acked), acked),
            **changes,
        }
        if version >= 2:
            body["is_renew_ack"] = renew
        label = " ".join(filter(None, [self.name, "acknowledge", self._described(acked), note]))
        return self.t.send(self._connection, "ShareAcknowledge", version, body, label)

    def acknowledged(self, pending: Pending) -> Any:
        """Wait for the answer to a ShareAcknowledge; record and return it."""
        return self._finish(pending, self._of_acknowledge)

    def close(self, acks: Acknowledgements = (), note: str = "") -> Any:
        """End the session with a ShareAcknowledge of epoch -1; return the answer."""
        note = f"closes {note}".strip()
        return self.acknowledge(acks, note, share_session_epoch=CLOSE)

    def opened(self, *partitions: Place) -> Self:
        """Return this member with an open session of these partitions, unrecorded.

        No records are read.
        """
        was, self.t.recording = self.t.recording, False
        self.fetch(*partitions, wait_ms=0, max_records=0)
        self.t.recording = was
        return self

    # ---- helpers

    def _by_partition(self, acks: Acknowledgements) -> dict[Place, Sequence[Range]]:
        if isinstance(acks, Mapping):
            return dict(acks)
        if not acks:
            return {}
        assert self.home is not None
        return {self.home: acks}

    def _described(self, acked: Mapping[Place, Sequence[Range]]) -> str:
        parts = []
        for place, ranges in acked.items():
            where = "" if place == self.home else f"{shown_partition(self.t, place)} "
            parts.append(where + ", ".join(_described(one) for one in ranges))
        return "; ".join(parts)

    def _topics(
        self, wanted: Sequence[Place], acked: Mapping[Place, Sequence[Range]]
    ) -> list[dict[str, Any]]:
        return [
            {
                "topic_id": topic_id(self.t, name),
                "partitions": [
                    {
                        "partition_index": index,
                        "acknowledgement_batches": [
                            _batch(one) for one in acked.get((name, index), ())
                        ],
                    }
                    for index in indexes
                ],
            }
            for name, indexes in by_topic(wanted)
        ]

    def _ask(
        self, api: str, version: int, body: dict[str, Any], label: str, show: Callable[[Any], Any]
    ) -> Any:
        answer = self.t.quiet(api, version, body, self._connection)
        self.t.rec(label, show(answer) if isinstance(answer, dict) else answer)
        if not isinstance(answer, dict):
            self._connection = self.t.conn()
        return answer

    def _finish(self, pending: Pending, show: Callable[[Any], Any]) -> Any:
        was, self.t.recording = self.t.recording, False
        try:
            self.t.got(pending)
        finally:
            self.t.recording = was
            answer = pending.raw
            self.t.rec(pending.label, show(answer) if isinstance(answer, dict) else answer)
        if not isinstance(answer, dict):
            self._connection = self.t.conn()
        elif not answer["error_code"]:
            sent = pending.body["share_session_epoch"]
            self.session = OPEN if sent == CLOSE else sent + 1
            if sent == CLOSE:
                # Kafka answers before it has released the session's acquired records.
                self.t.sleep(0.1)
        return answer

    def _of_heartbeat(self, answer: Any) -> list[Any]:
        if answer["error_code"]:
            return [error(answer["error_code"]), answer["member_epoch"]]
        assignment = answer["assignment"]
        shown = "unchanged" if assignment is None else _assignment(self.t, assignment)
        return ["NONE", answer["member_epoch"], shown]

    def _of_fetch(self, answer: Any) -> Any:
        if answer["error_code"]:
            return error(answer["error_code"])
        shown = {}
        for place, one in partitions_of(self.t, answer["responses"]):
            what = {
                "error": one["error_code"] and error(one["error_code"]),
                "acknowledged": one["acknowledge_error_code"]
                and error(one["acknowledge_error_code"]),
                "acquired": [
                    f"{_span(got['first_offset'], got['last_offset'])} x{got['delivery_count']}"
                    for got in one["acquired_records"] or ()
                ],
                "records": [
                    _span(got.base_offset, got.last_offset)
                    for got in batches.read(one["records"] or b"")
                ],
            }
            shown[place] = {key: value for key, value in what.items() if value}
        return dict(sorted(shown.items()))

    def _of_acknowledge(self, answer: Any) -> Any:
        if answer["error_code"]:
            return error(answer["error_code"])
        places = partitions_of(self.t, answer["responses"])
        return dict(sorted((place, error(one["error_code"])) for place, one in places))


def waited(pending: Pending) -> str:
    """Return "waited" if the response to a fetch took the request's maximum wait."""
    longest_ms = pending.body["max_wait_ms"]
    elapsed_ms = (time.monotonic() - pending.sent_s) * 1000
    return "waited" if 0 < longest_ms * _NEARLY <= elapsed_ms else "at once"


def produce(t: Stage, place: Place, *sizes: int) -> None:
    """Append batches with these numbers of records, unrecorded."""
    for records in sizes:
        batch = batches.build(-1, -1, -1, records, transactional=False)
        data = [{"index": place[1], "records": batch}]
        body = {
            "transactional_id": None,
            "acks": -1,
            "timeout_ms": 5000,
            "topic_data": [{"name": place[0], "partition_data": data}],
        }
        answer = t.raw("Produce", 11, body)
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0, answer


def _prepare(t: Stage) -> None:
    """Wait, once per broker and unrecorded, until the share coordinator answers.

    Kafka creates the coordinator's topic on the first FindCoordinator. A group that exists earlier
    would retry to initialize its partitions only after 30 seconds.
    """
    if "shares" in t.env.prepared:
        return
    key = f"{t.g}:{base64.urlsafe_b64encode(next(iter(t.env.topic_ids))).decode().rstrip('=')}:0"
    asked = {"coordinator_keys": [key], "key_type": 2}
    while t.raw("FindCoordinator", 6, asked)["coordinators"][0]["error_code"]:
        t.nap(0.1)
    for number in range(20):
        topics = [
            {"topic_id": one, "partitions": [{"partition": 0, "leader_epoch": 0}]}
            for one in t.env.topic_ids
        ]
        body = {"group_id": f"warm-{number}-{t.g}", "topics": topics}
        while any(
            one["partitions"][0]["error_code"] in _BUSY
            for one in t.raw("ReadShareGroupStateSummary", 1, body)["results"]
        ):
            t.nap(0.1)
    t.env.prepared.add("shares")


def topic_id(t: Stage, topic: str | bytes) -> bytes:
    """Return the id of a topic of the scenario or of all scenarios; an id is returned unchanged."""
    if isinstance(topic, bytes):
        return topic
    if topic in t.own_topics:
        return t.own_topics[topic]
    symbol = t.env.topic_symbols[topic].strip("<>")
    ids: dict[str, bytes] = {shown: one for one, shown in t.env.topic_ids.items()}
    return ids[f"<id:{symbol}>"]


def shown_topic(t: Stage, one: bytes) -> str:
    """Return the symbol of a topic, given its id."""
    if one in t.topic_symbols:
        return t.topic_symbols[one]
    if one in t.env.topic_ids:
        return str(t.env.topic_ids[one]).replace("<id:", "<")
    return "<zero id>" if one == bytes(16) else "<unknown id>"


def shown_partition(t: Stage, place: Place) -> str:
    """Return a partition with its topic's symbol."""
    return f"{shown_topic(t, topic_id(t, place[0]))}-{place[1]}"


def partitions_of(t: Stage, topics: Iterable[Any]) -> list[tuple[str, Any]]:
    """Return (symbol of a partition, result) from an answer with topic ids."""
    return [
        (f"{shown_topic(t, topic['topic_id'])}-{one['partition_index']}", one)
        for topic in topics
        for one in topic["partitions"]
    ]


def _assignment(t: Stage, assignment: Any) -> dict[str, list[int]]:
    topics = (assignment or {}).get("topic_partitions") or []
    return dict(
        sorted((shown_topic(t, one["topic_id"]), sorted(one["partitions"])) for one in topics)
    )


def _batch(one: Range) -> dict[str, Any]:
    first, last, types = one
    listed = [types] if isinstance(types, int) else list(types)
    return {"first_offset": first, "last_offset": last, "acknowledge_types": listed}


def _described(one: Range) -> str:
    first, last, types = one
    listed = [types] if isinstance(types, int) else list(types)
    words = " ".join(_WORDS[kind] if 0 <= kind < len(_WORDS) else str(kind) for kind in listed)
    return f"{_span(first, last)} {words}".strip()


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
