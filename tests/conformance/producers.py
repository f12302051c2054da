"""Transactional producers in scenarios, and descriptions of their transactions.

A producer uses transactions v1 or v2 (KIP-890): `VERSIONS` has the request versions of such
clients. Answers are recorded in short form: names of errors, symbols of producer ids (pid1 is the
first one of the scenario), epochs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self, TypeVar

from protocol.errors import ErrorCode
from tests.conformance import batches, timing
from tests.conformance.calls import commit_topics
from tests.conformance.connection import Abort, Setup
from tests.conformance.stage import Stage

_Topic = TypeVar("_Topic")
Partition = tuple[str, int]
"""A topic's name and a partition."""

VERSIONS = {
    1: {
        "InitProducerId": 4,
        "AddPartitionsToTxn": 3,
        "AddOffsetsToTxn": 3,
        "Produce": 11,
        "TxnOffsetCommit": 4,
        "EndTxn": 4,
    },
    2: {
        "InitProducerId": 5,
        "AddPartitionsToTxn": 5,
        "AddOffsetsToTxn": 4,
        "Produce": 12,
        "TxnOffsetCommit": 5,
        "EndTxn": 5,
    },
}
SETTLED = ("Empty", "Ongoing", "CompleteCommit", "CompleteAbort", "Dead", "")

_TIMEOUT_MS = 60_000


def error(code: int) -> str:
    """Return Kafka's name of an error code."""
    return ErrorCode(code).name


class Producer:
    """A producer on a separate connection, with the last id and epoch that it got."""

    def __init__(
        self,
        t: Stage,
        name: str = "P",
        protocol: int = 1,
        *,
        transactional_id: str | None = None,
        timeout_ms: int = _TIMEOUT_MS,
    ) -> None:
        self.t = t
        self.name = name
        self.versions = VERSIONS[protocol]
        self.transactional_id = transactional_id or f"{t.g}-{name}"
        t.name_it(self.transactional_id, f"<{name}>")
        self.timeout_ms = timeout_ms
        self.producer_id, self.epoch = -1, -1
        self._sequences: dict[tuple[int, int, str, int], int] = {}
        self._connection = t.conn()

    def again(self, name: str) -> Self:
        """Return a new producer with the same transactional id, without producer id and epoch."""
        protocol = 1 if self.versions is VERSIONS[1] else 2
        other = type(self)(
            self.t,
            name,
            protocol,
            transactional_id=self.transactional_id,
            timeout_ms=self.timeout_ms,
        )
        self.t.name_it(self.transactional_id, f"<{self.name}>")
        return other

    # ---- several requests

    def begin(self, *partitions: Partition) -> None:
        """Begin a transaction with a record in each partition (default <t3>-0)."""
        where = partitions or ((self.t.t3, 0),)
        if self.versions is VERSIONS[1]:
            self.add(where)
        self.produce(where)

    def fence(self, name: str = "Q") -> Self:
        """Start and return another instance, which ends the open transaction."""
        other = self.again(name)
        other.init()
        if other.epoch < 0:
            other.settle()
            other.init()
        return other

    def started(self) -> Self:
        """Return this producer after an unrecorded InitProducerId."""
        was, self.t.recording = self.t.recording, False
        self.init()
        self.t.recording = was
        return self

    def raised(self, epoch: int) -> Self:
        """Return this producer after unrecorded InitProducerId requests up to this epoch."""
        self.t.deadline += 120 * timing.scale
        while self.epoch < epoch:
            before = self.epoch
            if self.started().epoch != before + 1:
                raise Setup(f"epoch {before} was followed by {self.epoch}")
        return self

    def begun(self, *partitions: Partition) -> Self:
        """Return this producer in a transaction, unrecorded."""
        self.started()
        self.t.setup(self.begin, *partitions)
        return self

    # ---- requests

    def init(
        self, note: str = "", *, version: int | None = None, adopt: bool = True, **changes: Any
    ) -> Any:
        """Send InitProducerId, by default of a new producer; return the answer.

        The step is recorded as [error, id, epoch].
        """
        body = {
            "transactional_id": self.transactional_id,
            "transaction_timeout_ms": self.timeout_ms,
            **changes,
        }
        answer = self._ask("InitProducerId", version, body, note, self._with_identity)
        if adopt:
            self._adopt(answer)
        return answer

    def init_again(self, note: str = "", **changes: Any) -> Any:
        """Send InitProducerId with the producer's id and epoch (KIP-360); return the answer."""
        identity = {"producer_id": self.producer_id, "producer_epoch": self.epoch}
        return self.init(note, **identity | changes)

    def add(
        self,
        partitions: Sequence[Partition],
        note: str = "",
        *,
        version: int | None = None,
        verify_only: bool = False,
        **changes: Any,
    ) -> Any:
        """Send AddPartitionsToTxn; return the answer.

        An error per partition is recorded, from version 4 on [error, errors].
        """
        version = self.versions["AddPartitionsToTxn"] if version is None else version
        topics = [{"name": name, "partitions": ps} for name, ps in by_topic(partitions)]
        fields = {**self._identity(changes), "topics": topics}
        if version < 4:
            body: dict[str, Any] = {f"v3_and_below_{key}": value for key, value in fields.items()}
        else:
            body = {"transactions": [{**fields, "verify_only": verify_only}]}
            note = " ".join(filter(None, ("verify" if verify_only else "", note)))
        return self._ask("AddPartitionsToTxn", version, body, note, self._of_partitions)

    def add_offsets(self, note: str = "", *, version: int | None = None, **changes: Any) -> Any:
        """Send AddOffsetsToTxn of the scenario's group; record the error and return the answer."""
        body = {"group_id": self.t.g, **self._identity(changes)}
        return self._ask("AddOffsetsToTxn", version, body, note, _error_of)

    def produce(
        self,
        partitions: Sequence[Partition],
        note: str = "",
        *,
        version: int | None = None,
        records: int = 1,
        sequence: int | None = None,
        transactional: bool = True,
        acks: int = -1,
        **changes: Any,
    ) -> Any:
        """Produce a batch to each partition; return the answer.

        The step is recorded as [error, base offset] per partition, without offsets in topics that
        scenarios share. `changes` apply to the request and to the fields of batches.
        """
        identity = self._identity(changes)
        transactional_id = identity.pop("transactional_id")
        producer_id, epoch = identity["producer_id"], identity["producer_epoch"]
        topic_data = []
        for name, indexes in by_topic(partitions):
            data = []
            for index in indexes:
                first = self.next_sequence(name, index, producer_id, epoch)
                batch = batches.build(
                    producer_id,
                    epoch,
                    first if sequence is None else sequence,
                    records,
                    transactional,
                )
                data.append({"index": index, "records": batch})
            topic_id = self.t.own_topics.get(name, bytes(16))
            topic_data.append({"name": name, "topic_id": topic_id, "partition_data": data})
        used = self.versions["Produce"] if version is None else version
        for topic in topic_data:
            topic.pop("name" if used >= 13 else "topic_id")
        body = {
            "transactional_id": transactional_id,
            "acks": acks,
            "timeout_ms": 5000,
            "topic_data": topic_data,
        }
        answer = self._ask("Produce", used, body, note, self._produced)
        if isinstance(answer, dict):
            self._count(answer, producer_id, epoch, records)
        return answer

    def commit_offsets(
        self,
        offsets: Sequence[tuple[Any, ...]],
        note: str = "",
        *,
        version: int | None = None,
        **changes: Any,
    ) -> Any:
        """Send TxnOffsetCommit of (topic, partition, offset[, metadata]); return the answer.

        The errors are recorded.
        """
        topics = commit_topics(offsets)
        body = {"group_id": self.t.g, "topics": topics, **self._identity(changes)}
        return self._ask("TxnOffsetCommit", version, body, note, self._of_offsets)

    def end(
        self,
        committed: bool = True,
        note: str = "",
        *,
        version: int | None = None,
        adopt: bool = True,
        **changes: Any,
    ) -> Any:
        """Send EndTxn; return the answer.

        The step is recorded as [error], from version 5 on as [error, next id, next epoch].
        """
        body = {"committed": committed, **self._identity(changes)}
        word = "commit" if committed else "abort"
        note = f"{word} {note}".strip()
        answer = self._ask("EndTxn", version, body, note, self._with_identity)
        if adopt:
            self._adopt(answer)
        return answer

    def commit(self, note: str = "", **options: Any) -> None:
        """Commit with a recorded EndTxn, and wait for the markers."""
        self.end(True, note, **options)
        self.settle()

    def abort(self, note: str = "", **options: Any) -> None:
        """Abort with a recorded EndTxn, and wait for the markers."""
        self.end(False, note, **options)
        self.settle()

    def next_sequence(
        self, topic: str, index: int, producer_id: int | None = None, epoch: int | None = None
    ) -> int:
        """Return the next sequence of this id and epoch, by default the producer's own."""
        identity = (
            self.producer_id if producer_id is None else producer_id,
            self.epoch if epoch is None else epoch,
        )
        return self._sequences.get((*identity, topic, index), 0)

    # ---- state

    def describe(self) -> Any:
        """Return DescribeTransactions of the transactional id, unrecorded."""
        asked = {"transactional_ids": [self.transactional_id]}
        answer = self.t.raw("DescribeTransactions", 0, asked)
        return answer["transaction_states"][0]

    def look(self, label: str = "") -> None:
        """Record DescribeTransactions of the transactional id."""
        self.t.rec(f"{self.name} state {label}".strip(), shown_state(self.t, self))

    def settle(self, *states: str, seconds: float = 6.0) -> None:
        """Wait, unrecorded, until the markers are written, or until one of `states`."""
        wanted = states or SETTLED
        end = timing.deadline(seconds)
        while (state := self.describe()["transaction_state"]) not in wanted:
            if time.monotonic() > end:
                self.t.rec("settle", f"still {state}")
                raise Abort
            self.t.nap(0.02)

    # ---- helpers

    def _identity(self, changes: dict[str, Any]) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            **changes,
        }

    def _ask(
        self,
        api: str,
        version: int | None,
        body: dict[str, Any],
        note: str,
        show: Callable[[Any], Any],
    ) -> Any:
        version = self.versions[api] if version is None else version
        label = " ".join(filter(None, (self.name, api, f"v{version}", note)))
        answer = self.t.quiet(api, version, body, self._connection)
        if isinstance(answer, dict):
            self.t.rec(label, show(answer))
        else:
            self.t.rec(label, answer)
            self._connection = self.t.conn()
        return answer

    def _adopt(self, answer: Any) -> None:
        if isinstance(answer, dict) and not answer["error_code"] and "producer_id" in answer:
            self.producer_id, self.epoch = answer["producer_id"], answer["producer_epoch"]

    def _count(self, answer: Any, producer_id: int, epoch: int, records: int) -> None:
        for topic, partition in _results(self.t, answer, "responses", "partition_responses"):
            if partition["error_code"] == 0:
                key = (producer_id, epoch, topic, partition["index"])
                self._sequences[key] = self._sequences.get(key, 0) + records

    def _with_identity(self, answer: Any) -> list[Any]:
        shown: list[Any] = [error(answer["error_code"])]
        if "producer_id" in answer:
            shown += [self.t.producer(answer["producer_id"]), answer["producer_epoch"]]
        return shown

    def _of_partitions(self, answer: Any) -> Any:
        if "results_by_transaction" in answer:
            results = {
                self.t.sub(one["transactional_id"]): self._added(one["topic_results"])
                for one in answer["results_by_transaction"]
            }
            return [error(answer["error_code"]), results]
        return self._added(answer["results_by_topic_v3_and_below"])

    def _added(self, topics: Any) -> dict[str, str]:
        return _sorted(
            (
                self.t.partition(topic["name"], one["partition_index"]),
                error(one["partition_error_code"]),
            )
            for topic in topics
            for one in topic["results_by_partition"]
        )

    def _of_offsets(self, answer: Any) -> dict[str, str]:
        return _sorted(
            (self.t.partition(topic, one["partition_index"]), error(one["error_code"]))
            for topic, one in _results(self.t, answer, "topics", "partitions")
        )

    def _produced(self, answer: Any) -> dict[str, Any]:
        return _sorted(
            (
                self.t.partition(topic, one["index"]),
                [error(one["error_code"])]
                + ([one["base_offset"]] if topic in self.t.own_topics else []),
            )
            for topic, one in _results(self.t, answer, "responses", "partition_responses")
        )


def by_topic(partitions: Iterable[tuple[_Topic, int]]) -> list[tuple[_Topic, list[int]]]:
    """Return the partitions by topic, in the order of each topic's first occurrence."""
    topics: dict[_Topic, list[int]] = {}
    for name, index in partitions:
        topics.setdefault(name, []).append(index)
    return list(topics.items())


def shown_state(t: Stage, producer: Producer) -> Any:
    """Return [state, timeout, has a start time, id, epoch, partitions], or the error."""
    one = producer.describe()
    if one["error_code"]:
        return error(one["error_code"])
    timeout_ms = one["transaction_timeout_ms"]
    partitions = [
        t.partition(topic["topic"], index)
        for topic in one["topics"]
        for index in topic["partitions"]
    ]
    return [
        one["transaction_state"],
        "its timeout" if timeout_ms == producer.timeout_ms else timeout_ms,
        "started" if one["transaction_start_time_ms"] >= 0 else "no start",
        t.producer(one["producer_id"]),
        one["producer_epoch"],
        sorted(partitions),
    ]


def _error_of(answer: Any) -> str:
    return error(answer["error_code"])


def _results(t: Stage, answer: Any, topics: str, partitions: str) -> list[tuple[str, Any]]:
    """Return (topic name, result) of each partition of an answer with topic names or ids."""
    names = {topic_id: name for name, topic_id in t.own_topics.items()}
    return [
        (topic["name"] if "name" in topic else names[topic["topic_id"]], one)
        for topic in answer[topics]
        for one in topic[partitions]
    ]


def _sorted(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return dict(sorted(pairs, key=lambda pair: pair[0]))
