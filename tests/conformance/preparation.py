"""The topics and coordinators that exist before the first scenario of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.conformance.calls import Calls
from tests.conformance.connection import Abort
from tests.conformance.environment import Environment

_SECONDS = 30.0
_BUSY = (14, 15, 16, 51)
"""Errors of a coordinator that is being created or loaded."""
_GROUPS, _TRANSACTIONAL_IDS = 30, 12
"""Names that are likely to need every coordinator partition."""
_TOPICS_SECONDS = 0.5
"""Kafka's group coordinator learns of new topics later than Metadata and FindCoordinator show."""


def prepared(host: str, port: int) -> Environment:
    """Return the environment of a broker with the shared topics and loaded coordinators."""
    env = Environment(host, port)
    calls = Calls(env, "prepare")
    calls.deadline = time.monotonic() + _SECONDS + 5
    calls.recording = False
    try:
        _until(calls, lambda answer: "api_keys" in answer, "ApiVersions", 0, {})
        _create_topics(calls)
        for api, version, body in _first_requests(env):
            _until(calls, lambda answer: answer.get("error_code") not in _BUSY, api, version, body)
    finally:
        calls.close()
    time.sleep(_TOPICS_SECONDS)
    return env


def _create_topics(calls: Calls) -> None:
    env = calls.env
    counts = {env.t1: 1, env.t3: 3, env.tx: 2}
    topics = [
        {"name": name, "num_partitions": count, "replication_factor": 1}
        for name, count in counts.items()
    ]
    _until(calls, _is_created, "CreateTopics", 4, {"topics": topics, "timeout_ms": 5000})
    asked = {"topics": [{"name": name} for name in counts], "allow_auto_topic_creation": True}
    answer = _until(calls, _has_leaders, "Metadata", 12, asked)
    env.brokers = {(one["node_id"], one["host"], one["port"]) for one in answer["brokers"]}
    for topic in answer["topics"]:
        symbol = env.topic_symbols[topic["name"]].strip("<>")
        env.topic_ids[topic["topic_id"]] = f"<id:{symbol}>"


def _is_created(answer: Mapping[str, Any]) -> bool:
    already_exists = 36
    return all(one["error_code"] in (0, already_exists) for one in answer.get("topics", [{}]))


def _has_leaders(answer: Mapping[str, Any]) -> bool:
    return all(not one["error_code"] and one["partitions"] for one in answer["topics"])


def _first_requests(env: Environment) -> Iterator[tuple[str, int, dict[str, Any]]]:
    for key_type in (0, 1):
        yield "FindCoordinator", 2, {"key": "cf-warm", "key_type": key_type}
    for number in range(_GROUPS):
        group = f"cf-warm-{number}-{env.run}"
        yield "Heartbeat", 3, {"group_id": group, "generation_id": 1, "member_id": "x"}
    for number in range(_TRANSACTIONAL_IDS):
        body = {"transactional_id": f"cf-warm-{number}-{env.run}"}
        yield "InitProducerId", 1, body | {"transaction_timeout_ms": 10_000}


def _until(
    calls: Calls,
    is_ready: Callable[[Any], bool],
    api: str,
    version: int,
    body: Mapping[str, Any],
) -> Any:
    """Send a request until its answer is ready; return the answer."""
    while True:
        try:
            answer = calls.call(calls.ctl, api, version, body)
        except Abort:
            answer = None
        if isinstance(answer, dict) and is_ready(answer):
            return answer
        calls.left()
        time.sleep(0.1)
