"""The transcript of a scenario, with symbolic names instead of values that differ in every run.

Member ids become the name of the member that they were given to (A, B, ..; A2 for a second id of
A), and ids that no member has learned `?unnamed`. Groups are <g>, <g:x>; topics <t1>, <t3>; topic
ids <id:t1>. Throttle times, error messages and authorized operations are omitted, producer ids and
client hosts replaced. Members, topics and partitions are sorted.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from tests.conformance import timing
from tests.conformance.connection import Abort
from tests.conformance.environment import Environment
from tests.conformance.subscriptions import unwrap
from tests.conformance.wire import ERRORS

Transcript = list[list[Any]]
"""[label, result] per step."""

UNFINISHED = ("SETUP", "CONNECT", "SCENARIO", "BROKE")
"""Labels of steps that end a scenario early, because of a problem."""

_OMITTED = ("throttle_time_ms", "error_message", "authorized_operations")
_SORTED = ("members", "topics", "partitions", "topic_partitions", "subscribed_topic_names")
_SORT_KEYS = ("member_id", "name", "topic_name", "topic_id")
_LONGEST_TEXT, _LONGEST_BYTES = 200, 600


class Recording:
    """Steps of one scenario, the names of its values, and its time limit."""

    def __init__(self, env: Environment, name: str) -> None:
        self.env = env
        self.name = name
        self.deadline = timing.deadline(timing.SCENARIO_SECONDS)
        self.steps: Transcript = []
        self.recording = True
        self.subst: dict[str, str] = {}
        self.g = f"cf-{name}-{env.run}"
        self.name_it(self.g, "<g>")
        for topic, symbol in env.topic_symbols.items():
            self.name_it(topic, symbol)
        self.uuids: dict[bytes, str] = dict(env.topic_ids)

    # ---- steps

    def rec(self, label: str, result: Any) -> Any:
        """Record a step, and return its result."""
        if self.recording:
            self.steps.append([label, result])
        return result

    # ---- time

    def left(self) -> float:
        """Return the seconds left until the scenario's deadline; after it, end the scenario."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            self.rec("SCENARIO", "TIME LIMIT")
            raise Abort
        return left

    def sleep(self, seconds: float) -> None:
        """Wait, scaled by `--patience`: for timeouts that the scenario has chosen with `ms`."""
        time.sleep(min(seconds * timing.scale, self.left()))

    def nap(self, seconds: float) -> None:
        """Wait, not scaled: for polling, and for timeouts of the broker's configuration."""
        time.sleep(max(0, min(seconds, self.left())))

    @staticmethod
    def ms(milliseconds: int) -> int:
        """Return a timeout for a request, scaled by `--patience`."""
        return int(milliseconds * timing.scale)

    # ---- names

    def name_it(self, value: str, symbol: str) -> None:
        """Set the symbol that stands for this value in the transcript."""
        self.subst[value] = symbol

    def group(self, suffix: str) -> str:
        """Return the name of another group of the scenario, recorded as <g:suffix>."""
        group = f"{self.g}.{suffix}"
        self.name_it(group, f"<g:{suffix}>")
        return group

    def name_member(self, member_id: str, name: str) -> None:
        """Record a member id as the name of its member, A2 if it is the second one of A."""
        if not member_id or member_id in self.subst:
            return
        taken = set(self.subst.values())
        numbered, number = name, 1
        while numbered in taken:
            number += 1
            numbered = f"{name}{number}"
        self.subst[member_id] = numbered

    def sub(self, text: str, key: str = "") -> str:
        """Return a text of an answer in its recorded form, such as a symbol."""
        if text in self.subst:
            return self.subst[text]
        is_member = key in ("member_id", "leader")
        if is_member and len(text) > 36 and text[-36:].count("-") == 4:
            return "?unnamed"
        if len(text) > _LONGEST_TEXT:
            return f"<{len(text)} chars {text[:8]}..>"
        return text

    def norm(self, value: Any, key: str = "") -> Any:
        """Return a decoded answer, or its part with this key, in the recorded form."""
        if isinstance(value, dict):
            return {
                name: self._field(name, part)
                for name, part in value.items()
                if name not in _OMITTED
            }
        if isinstance(value, list):
            parts = [self.norm(part, key) for part in value]
            return sorted(parts, key=_sort_key) if key in _SORTED else parts
        if isinstance(value, bytes):
            return self._bytes(value, key)
        return self.sub(value, key) if isinstance(value, str) else value

    def _field(self, name: str, value: Any) -> Any:
        if name == "error_code":
            return ERRORS.get(value, value)
        if name == "client_host":
            return "/ip" if isinstance(value, str) and value.startswith("/") else value
        if name == "producer_id":
            return "<pid>" if isinstance(value, int) and value >= 0 else value
        return self.norm(value, name)

    def _bytes(self, data: bytes, key: str) -> str:
        if data in self.uuids:
            return self.uuids[data]
        run = self.env.run.encode()
        # The replacement has the same length, so lengths in the data stay valid.
        data = data.replace(run, b"<run>.")
        if len(data) == 16 and key == "topic_id":
            return "<id?>" if any(data) else "<zero id>"
        subscribed = unwrap(data)
        if subscribed is not None:
            version, topics, user_data = subscribed
            names = ",".join(self.sub(one.replace("<run>.", self.env.run)) for one in topics)
            more = "" if user_data is None else f" userdata {len(user_data)} bytes"
            return f"sub v{version} [{names}]{more}"
        if len(data) > _LONGEST_BYTES:
            return f"<{len(data)} bytes {data[:4].hex()}..>"
        if all(32 <= byte < 127 for byte in data):
            return data.decode("ascii")
        return "hex:" + self.sub(data.hex())


def _sort_key(part: Any) -> str:
    if not isinstance(part, Mapping):
        return f"{part:09}"
    named = next((part[key] for key in _SORT_KEYS if part.get(key)), None)
    return str(named or part.get("partition_index", "")) + str(part)
