"""Play the cases, each with a separate topic; return the answers and the resulting log."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

from protocol.batch_header import HEADER_BYTES, iterate_batches
from protocol.compression import decompress
from protocol.errors import ErrorCode, ProtocolError
from tests.conformance import wire
from tests.conformance.connection import Closed, Conn
from tests.conformance.odd_batches.cases import Case
from tests.conformance.odd_batches.encode import T0, Odd
from tests.support import wait_for

Answers = dict[str, Any]
"""The answer to each case."""

_SECONDS = 10.0
CLOSED, SILENT = "closes the connection", "does not answer"
# Error codes that only mean that a leader or coordinator is not known yet.
_RETRIABLE = (3, 6, 14, 15, 16)
_EARLIEST_TIME, _LATEST, _MAX_TIMESTAMP = 0, -1, -3
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_TIMES = re.compile(r"-?\d{12,}")
_NEAR_MS = 10_000_000
_NEAR_HOURS = 100
_MANY = 100


class Player:
    """A connection to one broker, and the topics of the cases."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._connection = Conn(*address, timeout=_SECONDS)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def play(self, cases: Iterable[Case]) -> Answers:
        """Return the answer to each case, or the error if its topic cannot be created.

        An older release of Kafka does not know all topic configs.
        """
        cases = list(cases)
        refused = self._create(cases)
        return {
            case.name: {"topic": refused[case.topic]} if case.topic in refused else self._case(case)
            for case in cases
        }

    def _case(self, case: Case) -> dict[str, Any]:
        topic, producer = case.topic, (-1, -1)
        if case.transactional:
            producer = self._begin(topic)
        answers = [self._produce(case, one, producer) for one in case.batches]
        shown: dict[str, Any] = {"answers": answers}
        if any(one["error"] == "NONE" for one in answers):
            shown |= self._look(topic, producer)
        return shown

    # --- requests ---------------------------------------------------------------------------------

    def ask(self, api: str, version: int, body: Mapping[str, Any]) -> Any:
        """Return the answer to one request."""
        connection = self._connection
        connection.corr += 1
        frame = wire.enc_request(api, version, connection.corr, "odd-batches", body)
        connection.send_frame(frame)
        try:
            answer = connection.recv_frame(_SECONDS)
        except Closed:
            answer = None
        if answer is None:
            end = CLOSED if connection.closed else SILENT
            self.close()
            self._connection = Conn(*self._address, timeout=_SECONDS)
            return end
        correlation_id, decoded = wire.dec_response(api, version, answer)
        assert correlation_id == connection.corr
        return decoded

    def _create(self, cases: list[Case]) -> dict[str, str]:
        """Create the topics; return the errors by topic."""
        refused: dict[str, str] = {}
        for start in range(0, len(cases), _MANY):
            topics = [
                {
                    "name": case.topic,
                    "num_partitions": 1,
                    "replication_factor": 1,
                    "configs": [
                        {"name": name, "value": value}
                        for name, value in ({"retention.ms": "-1"} | dict(case.configs)).items()
                    ],
                }
                for case in cases[start : start + _MANY]
            ]
            answer = self.ask("CreateTopics", 7, {"topics": topics, "timeout_ms": 30_000})
            refused |= {
                one["name"]: f"{ErrorCode(one['error_code']).name}: {one['error_message']}"
                for one in answer["topics"]
                if one["error_code"]
            }
        names = [{"name": case.topic} for case in cases if case.topic not in refused]
        wait_for(lambda: self._are_led(names), "leaders of all topics")
        return refused

    def _are_led(self, names: list[dict[str, str]]) -> bool:
        answer = self.ask("Metadata", 9, {"topics": names})
        return all(
            not topic["error_code"] and all(one["leader_id"] >= 0 for one in topic["partitions"])
            for topic in answer["topics"]
        )

    def _begin(self, topic: str) -> tuple[int, int]:
        def attempt() -> Any:
            # Kafka creates the coordinator's topic on the first FindCoordinator.
            self.ask("FindCoordinator", 4, {"key_type": 1, "coordinator_keys": [topic]})
            body = {"transactional_id": topic, "transaction_timeout_ms": 60_000}
            answer = self.ask("InitProducerId", 4, body)
            return answer if not answer["error_code"] else None

        answer = wait_for(attempt, "a producer id")
        producer = (answer["producer_id"], answer["producer_epoch"])
        body = {
            "v3_and_below_transactional_id": topic,
            "v3_and_below_producer_id": producer[0],
            "v3_and_below_producer_epoch": producer[1],
            "v3_and_below_topics": [{"name": topic, "partitions": [0]}],
        }
        answer = self.ask("AddPartitionsToTxn", 3, body)
        added = answer["results_by_topic_v3_and_below"][0]["results_by_partition"][0]
        assert not added["partition_error_code"], answer
        return producer

    def _produce(self, case: Case, batch: Odd, producer: tuple[int, int]) -> dict[str, Any]:
        now_ms = int(time.time() * 1000)
        data = {"index": 0, "records": batch.encode(now_ms, producer)}
        body = {
            "transactional_id": case.topic if case.transactional else None,
            "acks": -1,
            "timeout_ms": 30_000,
            "topic_data": [{"name": case.topic, "partition_data": [data]}],
        }

        def attempt() -> Any:
            answer = self.ask("Produce", case.version, body)
            if not isinstance(answer, dict):
                return {"error": answer}
            one = answer["responses"][0]["partition_responses"][0]
            return None if one["error_code"] in _RETRIABLE else one

        one: dict[str, Any] = wait_for(attempt, "an answer to Produce", step_seconds=0.1)
        if "error" in one:
            return one
        errors = [
            [error["batch_index"], self._worded(case, error["batch_index_error_message"])]
            for error in one.get("record_errors") or ()
        ]
        return {
            "error": ErrorCode(one["error_code"]).name,
            "message": self._worded(case, one.get("error_message")),
            "record errors": errors,
            "base offset": one["base_offset"],
            "append time": shown_time(one["log_append_time_ms"], now_ms),
            "log start": one.get("log_start_offset"),
        }

    @staticmethod
    def _worded(case: Case, message: str | None) -> str | None:
        if message is None:
            return None
        message = message.replace(case.topic, "TOPIC")
        return _TIMES.sub(lambda found: str(shown_time(int(found[0]), None)), message)

    # --- contents of the log ----------------------------------------------------------------------

    def _look(self, topic: str, producer: tuple[int, int]) -> dict[str, Any]:
        now_ms = int(time.time() * 1000)
        asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 22}
        body = {
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": 1 << 22,
            "topics": [{"topic": topic, "partitions": [asked]}],
        }
        records = self.ask("Fetch", 12, body)["responses"][0]["partitions"][0]["records"] or b""
        return {
            "batches": _batches(records, now_ms, producer[0]),
            "by time": {
                label: self._offset(topic, timestamp, now_ms)
                for label, timestamp in (
                    ("earliest", _EARLIEST_TIME),
                    ("T+1", T0 + 1),
                    ("largest", _MAX_TIMESTAMP),
                    ("latest", _LATEST),
                )
            },
        }

    def _offset(self, topic: str, timestamp: int, now_ms: int) -> Any:
        asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
        body = {"replica_id": -1, "topics": [{"name": topic, "partitions": [asked]}]}
        one = self.ask("ListOffsets", 8, body)["topics"][0]["partitions"][0]
        if one["error_code"]:
            return ErrorCode(one["error_code"]).name
        return [one["offset"], shown_time(one["timestamp"], now_ms)]


def shown_time(timestamp_ms: int, now_ms: int | None) -> int | str:
    """Return a timestamp in comparable form: relative to T0, relative to `now_ms`, or unchanged.

    Without `now_ms` each timestamp that is not near T0 is TIME.
    """
    if abs(timestamp_ms - T0) < _NEAR_MS:
        return f"T{timestamp_ms - T0:+d}"
    if now_ms is None:
        return "TIME"
    hours = round((timestamp_ms - now_ms) / 3_600_000)
    if abs(hours) < _NEAR_HOURS:
        return f"now{hours:+d}h" if hours else "now"
    return timestamp_ms


def _batches(data: bytes, now_ms: int, own_producer_id: int) -> list[dict[str, Any]]:
    shown = []
    for header in iterate_batches(data):
        section = data[header.position + HEADER_BYTES : header.end]
        codec = header.attributes & 7
        try:
            section = decompress(header.compression, section)
        except ProtocolError:
            section = b"damaged"
        producer_id: int | str = header.producer_id
        if producer_id == own_producer_id >= 0:
            producer_id = "own"
        shown.append(
            {
                "base offset": header.base_offset,
                "leader epoch": header.leader_epoch,
                "attributes": f"{header.attributes & 0xFFFF:#06x}",
                "codec": _CODECS[codec] if codec < len(_CODECS) else codec,
                "last offset delta": header.last_offset_delta,
                "base time": shown_time(header.base_timestamp_ms, now_ms),
                "largest time": shown_time(header.max_timestamp_ms, now_ms),
                "producer": [producer_id, header.producer_epoch, header.base_sequence],
                "count": header.record_count,
                "size": None if codec else header.size_bytes,
                "records": section.hex() if len(section) <= 200 else f"{len(section)} bytes",
            }
        )
    return shown
