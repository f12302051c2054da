"""Play a sequence against one broker, and return its answers with names instead of ids.

The transcript has an entry per step: its label, and the answers received before the next step. A
JoinGroup or SyncGroup without a prompt answer is parked; its answer is recorded with the step after
which it arrives.
"""

from __future__ import annotations

import json
import re
import struct
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from protocol import codec
from protocol.batch import Record, build_batch
from protocol.batch_header import iterate_batches
from protocol.errors import ErrorCode, ProtocolError
from protocol.headers import RequestHeader, ResponseHeader
from protocol.registry import SPEC_BY_NAME
from protocol.schema import ZERO_UUID, ArrayType, Message
from tests.conformance.connection import Closed, Conn
from tests.fuzz_kafka.draw import TOPICS, WAIT, Step
from tests.fuzz_kafka.fields import Body

Transcript = list[tuple[str, list[tuple[int, Any]]]]

_GENERATED_ID = 22
"""The length of ids that brokers generate; ids of clients are shorter."""

_UNKNOWN_ID = bytes(range(1, 17))
_OFFSETS_TOPIC = "__consumer_offsets"
"""Its partition depends on group names, which differ in each run."""

_PARKS = ("JoinGroup", "SyncGroup")
_PARKED_AFTER_S, _ANSWER_S = 0.12, 8.0
_SETTLE_S = {
    "CreateTopics": 0.12, "DeleteTopics": 0.2, "CreatePartitions": 0.12, "EndTxn": 0.06,
    "IncrementalAlterConfigs": 0.12, "ShareGroupHeartbeat": 0.12, "ConsumerGroupHeartbeat": 0.02,
    "DeleteRecords": 0.03, "InitProducerId": 0.03, "DeleteGroups": 0.02,
}  # fmt: skip
"""How long Kafka takes to make the effect of a request visible to the next one."""

_REGEX_SETTLE_S = 0.1
_RETRIED = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
_NOT_YET = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
_RETRIES, _RETRY_S = 12, 0.03
_DROPPED = {
    "throttle_time_ms", "client_host", "host", "port", "cluster_id", "node_endpoints",
    "acquisition_lock_timeout_ms", "log_append_time_ms", "last_timestamp", "member_metadata",
    "transaction_start_time_ms", "authorized_operations", "acceptable_recovery_lag_legacy",
}  # fmt: skip
"""Response fields with times and places, and irrelevant ones."""

_OF_ALL = (
    ("ListGroups", "groups"),
    ("Metadata", "topics"),
    ("DescribeTopicPartitions", "topics"),
    ("ElectLeaders", "replica_election_results"),
)
"""The lists that may contain the groups and topics of other sequences."""

_ORDERED = {"acquired_records", "acknowledge_types"}
_ORDERED_APIS = ("Fetch", "Produce", "OffsetCommit")
"""The APIs whose responses do not have the order of hash maps."""


class Player:
    """Plays one sequence; `run` is a prefix of all names, `wait` lets time pass for the broker.

    `patience` scales all waits for the broker.
    """

    def __init__(
        self,
        address: tuple[str, int],
        run: str,
        wait: Callable[[float], object] = time.sleep,
        patience: float = 1.0,
    ) -> None:
        self._address, self._run, self._wait, self._patience = address, run, wait, patience
        self._connections: dict[int, list[Any]] = {}
        self._parked: list[tuple[Step, Any, int]] = []
        self._correlation_ids = count(1)
        self._names: dict[Any, str] = {}  # id -> its name in the transcript
        self._topic_ids: dict[str, bytes] = {}
        self._own: dict[Any, str] = {}  # (group, client) -> member ids
        self._members: dict[str | None, list[str]] = {}
        self._epochs: dict[Any, int] = {}
        self._owned: dict[Any, Any] = {}
        self._told: dict[Any, Body] = {}  # last received assignments by group and member id
        self._joined: dict[Any, Body] = {}
        self._producers: dict[str | None, tuple[int, int]] = {}
        self._sessions: dict[int, int] = {}

    def play(self, steps: Sequence[Step]) -> Transcript:
        """Create the topics, play the steps, delete the topics."""
        try:
            self._create_topics()
            played = [(f"{step.api} v{step.version}", self._play(step)) for step in steps]
            self._finish()
            names = [f"{self._run}-{name}" for name in self._topic_ids]
            self._ask("DeleteTopics", 4, {"topic_names": names, "timeout_ms": 1000})
            return played
        finally:
            for connections in self._connections.values():
                for connection in connections:
                    connection.close()

    def _finish(self) -> None:
        """Do nothing after the last step; a subclass can send further requests."""

    def _create_topics(self) -> None:
        topics: list[Body] = [
            {"name": f"{self._run}-{name}", "num_partitions": partitions, "replication_factor": 1}
            for name, partitions in TOPICS.items()
        ]
        self._ask("CreateTopics", 7, {"topics": topics, "timeout_ms": 8000})
        named = {"topics": [{"name": topic["name"]} for topic in topics]}
        for topic in self._until_there("Metadata", 12, named)["topics"]:
            self._learn_topic(topic)
        listed = [
            {"name": topic["name"], "partitions": [{"partition_index": i, "timestamp": -1}]}
            for topic in topics
            for i in range(topic["num_partitions"])
        ]
        self._until_there("ListOffsets", 7, {"replica_id": -1, "topics": listed})
        time.sleep(0.1 * self._patience)  # Kafka's coordinators learn of new topics after a delay

    def _until_there(self, api: str, version: int, body: Body) -> Any:
        """Retry until no topic in the answer has an error, as new topics have in Kafka."""
        end = time.monotonic() + _ANSWER_S
        while _has_error(answer := self._ask(api, version, body), _NOT_YET):
            if time.monotonic() > end:
                break
            time.sleep(0.02)
        return answer

    def _ask(self, api: str, version: int, body: Body) -> Any:
        """Send a request outside of the sequence and return the answer."""
        step = Step(-1, -1, api, version, body)
        connection, correlation_id = self._send(step)
        return self._receive(step, connection, correlation_id, _ANSWER_S)

    def _play(self, step: Step) -> list[tuple[int, Any]]:
        if step.api == WAIT:
            self._wait(step.body["seconds"])
            return self._unpark()
        for attempt in range(_RETRIES):
            connection, correlation_id = self._send(step)
            patience = _PARKED_AFTER_S if step.api in _PARKS else _ANSWER_S
            answer = self._receive(step, connection, correlation_id, patience * self._patience)
            if not _has_error(answer, _RETRIED) or attempt == _RETRIES - 1:
                break
            time.sleep(_RETRY_S * self._patience)
        if answer is None and step.api in _PARKS:
            self._parked.append((step, connection, correlation_id))
            answers: list[tuple[int, Any]] = [(step.number, "parked")]
        else:
            self._learn(step, answer)
            answers = [(step.number, self._shown(answer, step.api))]
        settle = _SETTLE_S.get(step.api, 0.0)
        if step.body.get("subscribed_topic_regex"):
            settle = _REGEX_SETTLE_S
        time.sleep(settle * self._patience)
        return answers + self._unpark()

    def _unpark(self) -> list[tuple[int, Any]]:
        """Return the answers to parked requests, until no more arrive."""
        answers: list[tuple[int, Any]] = []
        is_answered = True
        while self._parked and is_answered:
            is_answered = False
            end = time.monotonic() + 0.025 * self._patience
            for parked in tuple(self._parked):
                step, connection, correlation_id = parked
                left = max(0.001, end - time.monotonic())
                answer = self._receive(step, connection, correlation_id, left)
                if answer is not None:
                    is_answered = True
                    self._parked.remove(parked)
                    self._learn(step, answer)
                    answers.append((step.number, self._shown(answer, step.api)))
        return sorted(answers, key=lambda answer: answer[0])

    # --- connections

    def _send(self, step: Step) -> tuple[Any, int]:
        """Send a request on a connection of its client that no parked request uses."""
        spec = SPEC_BY_NAME[step.api]
        connections = self._connections.setdefault(step.client, [])
        busy = {id(connection) for _, connection, _ in self._parked}
        free = [one for one in connections if not one.closed and id(one) not in busy]
        if not free:
            free = [Conn(*self._address)]
            connections += free
        correlation_id = next(self._correlation_ids)
        header = RequestHeader(
            api_key=spec.key,
            api_version=step.version,
            correlation_id=correlation_id,
            client_id=f"c{step.client}",
        )
        head = codec.encoder(RequestHeader, spec.request_header_version(step.version))(header)
        message = _message(spec.request_type, self._resolved(step.body))
        free[0].send_frame(head + codec.encoder(spec.request_type, step.version)(message))
        return free[0], correlation_id

    def _receive(self, step: Step, connection: Any, correlation_id: int, seconds: float) -> Any:
        """Return the answer as a dict, None without one, or the fault of an invalid answer."""
        spec = SPEC_BY_NAME[step.api]
        try:
            frame = connection.recv_frame(seconds)
            if frame is None:
                if step.api not in _PARKS:
                    connection.close()
                    return "no response"
                return None
            header_version = spec.response_header_version(step.version)
            header, start = codec.decoder(ResponseHeader, header_version)(frame, 0)
            response, end = codec.decoder(spec.response_type, step.version)(frame, start)
        except Closed:
            return "closed"
        except ProtocolError as error:
            return f"cannot be decoded: {error}"
        assert (header.correlation_id, end) == (correlation_id, len(frame)), step
        return _plain(response, step.version)

    # --- references

    def _resolved(self, value: Any) -> Any:
        if isinstance(value, dict):
            name, argument = next(iter(value.items()), ("", None))
            if name.startswith("$"):
                return getattr(self, f"_resolve_{name[1:]}")(argument)
            return {name: self._resolved(one) for name, one in value.items()}
        return [self._resolved(one) for one in value] if isinstance(value, list) else value

    def _resolve_name(self, name: str) -> str:
        return f"{self._run}-{name}"

    def _resolve_regex(self, regex: str) -> str:
        return f"{self._run}-{regex}" if regex else regex

    def _resolve_topic_id(self, name: str) -> bytes:
        return self._topic_ids.get(name, _UNKNOWN_ID)

    def _resolve_chosen_id(self, client: int) -> str:
        return f"{self._run}-member-{client}"

    def _resolve_member(self, argument: tuple[str, int, str]) -> str:
        group, client, kind = argument
        if kind == "own":
            return self._own.get((group, client), "")
        members = self._members.get(group, [])
        return members[int(kind) % len(members)] if kind.isdigit() and members else kind

    def _resolve_epoch(self, argument: tuple[str, int, int]) -> int:
        group, client, delta = argument
        return self._epochs.get((group, client), 0 if delta else -1) + delta

    def _resolve_owned(self, argument: tuple[str, int]) -> Any:
        return self._owned.get(tuple(argument), [])

    def _resolve_assignments(self, argument: tuple[str, int]) -> list[Body]:
        members = self._joined.get(tuple(argument), {}).get("members") or []
        ids = sorted(
            (one["member_id"] for one in members), key=lambda one: self._names.get(one, "")
        )
        return [{"member_id": one, "assignment": b"%d" % i} for i, one in enumerate(ids)]

    def _resolve_protocol(self, argument: tuple[str, int]) -> str | None:
        return self._joined.get(tuple(argument), {}).get("protocol_name")

    def _resolve_subscription(self, topics: list[Body]) -> bytes:
        names = [self._resolved(topic).encode() for topic in topics]
        listed = b"".join(struct.pack(">h", len(name)) + name for name in names)
        return struct.pack(">hi", 0, len(names)) + listed + struct.pack(">i", -1)

    def _resolve_producer_id(self, transactional_id: str) -> int:
        return self._producers.get(transactional_id, (777777, 0))[0]

    def _resolve_producer_epoch(self, argument: tuple[str, int]) -> int:
        return self._producers.get(argument[0], (777777, 0))[1] + argument[1]

    def _resolve_session(self, client: int) -> int:
        return self._sessions.get(client, 0)

    def _resolve_records(self, drawn: Body) -> bytes:
        records = [Record(i, 1700000000000, None, b"%d" % i, []) for i in range(drawn["count"])]
        producer_id, epoch = self._producers.get(drawn.get("producer"), (777777, 0))
        if "producer" not in drawn:
            return build_batch(records).to_bytes()
        return build_batch(
            records,
            producer_id=producer_id,
            producer_epoch=epoch + drawn["epoch"],
            base_sequence=drawn["sequence"],
            transactional=drawn["transactional"],
        ).to_bytes()

    # --- values from responses

    def _learn(self, step: Step, answer: Any) -> None:
        """Record ids and epochs for later requests."""
        if not isinstance(answer, dict):
            return
        for topic in answer.get("topics") or [] if step.api == "CreateTopics" else []:
            if not topic["error_code"] and "topic_id" in topic:
                self._learn_topic(topic)
        key, error = (step.owner, step.client), answer.get("error_code")
        member_id = answer.get("member_id")
        if member_id and error in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self._own[key] = member_id
            if len(member_id) >= _GENERATED_ID:
                self._names.setdefault(member_id, f"<member {step.number}>")
            if member_id not in self._members.setdefault(step.owner, []):
                self._members[step.owner].append(member_id)
        if error != ErrorCode.NONE:
            return
        if step.api == "JoinGroup":
            self._epochs[key], self._joined[key] = answer["generation_id"], answer
        elif step.api.endswith("GroupHeartbeat"):
            self._epochs[key] = answer["member_epoch"]
            told = self._told.setdefault((step.owner, member_id), {})
            told |= answer.get("assignment") or {}
            told |= {
                name: one
                for name, one in answer.items()
                if name.endswith("_tasks") and one is not None
            }
            if answer.get("assignment") is not None:
                self._owned[key] = answer["assignment"]["topic_partitions"]
            elif answer.get("active_tasks") is not None:
                self._owned[key] = answer["active_tasks"]
        elif step.api == "Fetch" and answer.get("session_id"):
            self._sessions[step.client] = answer["session_id"]
        elif answer.get("producer_id", -1) >= 0:
            self._names.setdefault(answer["producer_id"], f"<producer {step.number}>")
            if step.body["transactional_id"] is not None:
                self._producers[step.owner] = answer["producer_id"], answer["producer_epoch"]

    def _learn_topic(self, topic: Body) -> None:
        name = topic["name"][len(self._run) + 1 :]
        if topic["topic_id"] != ZERO_UUID:
            self._topic_ids[name] = topic["topic_id"]
            self._names.setdefault(topic["topic_id"], f"<id {len(self._topic_ids)} {name}>")

    # --- transcript

    def _shown(self, value: Any, api: str, name: str = "") -> Any:
        if isinstance(value, dict):
            if value.get("topic") == _OFFSETS_TOPIC:
                return {"topic": _OFFSETS_TOPIC}
            return {k: self._shown(v, api, k) for k, v in value.items() if k not in _DROPPED}
        if name.endswith("error_code"):
            return ErrorCode(value).name
        if name == "records":
            batches = iterate_batches(memoryview(value or b""))
            return [[one.base_offset, one.last_offset, one.is_control] for one in batches]
        if isinstance(value, list):
            if (api, name) in _OF_ALL:
                value = [one for one in value if self._run in str(one)]
            shown_items = [self._shown(one, api, name) for one in value]
            is_ordered = name in _ORDERED or (api in _ORDERED_APIS and name != "active_producers")
            return shown_items if is_ordered else sorted(shown_items, key=json.dumps)
        if name == "session_id":
            return bool(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return self._names.get(value, value) if name.endswith("producer_id") else value
        if isinstance(value, bytes):
            if len(value) == 16 and name == "topic_id":
                return self._names.get(value, {ZERO_UUID: "<zero>"}.get(value, "<other>"))
            value = value.decode("latin1")
        if isinstance(value, str):
            for known, symbol in self._names.items():
                if isinstance(known, str):
                    value = value.replace(known, symbol)
                elif isinstance(known, int):
                    value = re.sub(
                        rf"(producer ?id:? ){known}\b", rf"\1{symbol}", value, flags=re.I
                    )
            value = value.replace(self._run, "RUN")
            if (
                name in ("member_id", "leader")
                and len(value) >= _GENERATED_ID
                and "RUN" not in value
            ):
                return "<other member>"
        return value


def _message(kind: Any, body: Body) -> Message:
    """Build a message from nested dicts; missing fields get their defaults."""
    values: Body = {}
    for field in kind.FIELDS:
        if field.name in body:
            value = body[field.name]
            element = field.type.element if isinstance(field.type, ArrayType) else field.type
            if isinstance(element, type) and value is not None:
                is_array = isinstance(value, list)
                value = (
                    [_message(element, v) for v in value] if is_array else _message(element, value)
                )
            values[field.name] = value
    message: Message = kind(**values)
    return message


def _plain(value: Any, version: int) -> Any:
    """Return a message as nested dicts with the fields of its version."""
    if isinstance(value, Message):
        fields = [field for field in value.FIELDS if field.in_version(version)]
        return {field.name: _plain(getattr(value, field.name), version) for field in fields}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | memoryview):
        return [_plain(one, version) for one in value]
    return bytes(value) if isinstance(value, memoryview) else value


def _has_error(answer: Any, errors: Sequence[int]) -> bool:
    if isinstance(answer, dict):
        return any(
            (name.endswith("error_code") and value in errors) or _has_error(value, errors)
            for name, value in answer.items()
        )
    return isinstance(answer, list) and any(_has_error(one, errors) for one in answer)
