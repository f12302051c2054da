"""Client telemetry (KIP-714): subscriptions of clients, and their pushes.

The reference is a Kafka with the reporter of `tests/oracle/Telemetry.java`: without a reporter
Kafka advertises neither of the two APIs.
"""

from __future__ import annotations

import gzip
import secrets
from typing import Any

from protocol.compression import Compression, compress
from protocol.errors import ErrorCode
from protocol.json_form import uuid_to_text
from tests.conformance.connection import Abort
from tests.conformance.scenarios.client_metrics import PAUSE_SECONDS, Subscription
from tests.conformance.stage import Area, Stage

AREA = Area("telemetry", profile="t")

_NO_ID = bytes(16)
_MOST_BYTES = 1048576


class _Client:
    """A client instance: a connection, a unique client id, and the instance id that it gets."""

    def __init__(self, t: Stage, software: tuple[str, str] | None = None) -> None:
        self.t, self.connection = t, t.conn()
        self.client_id = f"c-{secrets.token_hex(6)}"
        self.instance_id = _NO_ID
        self.subscription_id = 0
        if software is not None:
            name, version = software
            body = {"client_software_name": name, "client_software_version": version}
            self.ask("ApiVersions", 3, body)

    def ask(self, api: str, version: int, body: dict[str, Any]) -> Any:
        """Return the answer, unrecorded."""
        t = self.t
        was, t.recording = t.recording, False
        try:
            answer = t.call(self.connection, api, version, body, client_id=self.client_id)
        finally:
            t.recording = was
        if not isinstance(answer, dict):
            t.rec(f"{api} v{version}", answer)
            raise Abort
        return answer

    def get(self, note: str = "") -> None:
        """Send GetTelemetrySubscriptions; record the CRC instead of the subscription id."""
        answer = self.ask("GetTelemetrySubscriptions", 0, {"client_instance_id": self.instance_id})
        label = f"get {note}".strip()
        if answer["error_code"]:
            shown = {name: value for name, value in answer.items() if value}
            shown["error_code"] = ErrorCode(answer["error_code"]).name
            shown["client_instance_id"] = shown["client_instance_id"].hex()
            self.t.rec(label, shown)
            return
        is_new = answer["client_instance_id"] != self.instance_id
        self.instance_id = answer["client_instance_id"]
        self.subscription_id = answer["subscription_id"]
        names = ("push_interval_ms", "telemetry_max_bytes", "delta_temporality")
        self.t.rec(
            label,
            {
                "new id": is_new,
                "crc": (self.subscription_id ^ _java_hash(self.instance_id)) & 0xFFFFFFFF,
                "compressions": answer["accepted_compression_types"],
                "metrics": answer["requested_metrics"],
                **{name: answer[name] for name in names},
            },
        )

    def push(self, note: str = "", metrics: bytes = b"", **fields: Any) -> None:
        """Send PushTelemetry and record the error."""
        body = {
            "client_instance_id": self.instance_id,
            "subscription_id": self.subscription_id,
            "terminating": False,
            "compression_type": 0,
            "metrics": metrics,
        }
        answer = self.ask("PushTelemetry", 0, body | fields)
        self.t.rec(f"push {note}".strip(), ErrorCode(answer["error_code"]).name)


def _java_hash(uuid: bytes) -> int:
    """Return Java's Uuid.hashCode."""
    words = [int.from_bytes(uuid[start : start + 4], "big") for start in range(0, 16, 4)]
    return words[0] ^ words[1] ^ words[2] ^ words[3]


def _subscribed(t: Stage, software: tuple[str, str] | None = None, **configs: str) -> _Client:
    """Return a client with a subscription: all metrics every 100 ms, or `configs`."""
    client = _Client(t, software)
    wanted = {"metrics": "*", "interval_ms": "100", "match": f"client_id={client.client_id}"}
    Subscription(t).set(**(wanted | configs))
    return client


# --- subscriptions -------------------------------------------------------------------------------


@AREA.scenario
def nothing_subscribed(t: Stage) -> None:
    """No subscription matches a client."""
    client = _Client(t)
    client.get()
    client.get("at once")
    client.push(metrics=b"x")
    client.push("at once", metrics=b"x")


_LISTS = (
    "*", "", "a", "a,b,c", "c,b,a", "a,*", "org.apache.kafka.consumer.,org.apache.kafka.producer.",
    "b,a,r,q,z,y,x,w,v,u,t,s,a1,a2,a3,a4,a5", "Aa,BB", "BB,Aa", "ä,ö",
    ",".join(f"m.{number}" for number in range(40)),
)  # fmt: skip


@AREA.scenario
def subscribed(t: Stage) -> None:
    """In which order are subscribed metrics returned, and with which subscription id CRC?"""
    for metrics in _LISTS:
        client = _subscribed(t, metrics=metrics)
        client.get(metrics[:30])


@AREA.scenario
def intervals(t: Stage) -> None:
    """The push interval in the answer is at most five minutes."""
    for interval in ("100", "299999", "300000", "300001", "3600000"):
        _subscribed(t, interval_ms=interval).get(interval)
    client = _Client(t)
    Subscription(t).set(metrics="a", match=f"client_id={client.client_id}")
    client.get("default")


@AREA.scenario
def several_subscriptions(t: Stage) -> None:
    """All subscriptions that match a client are combined: all metrics, the shortest interval."""
    client = _subscribed(t, metrics="b,a", interval_ms="5000")
    match = f"client_id={client.client_id}"
    more, rest = Subscription(t), Subscription(t)
    more.set(metrics="a,c", interval_ms="700", match=match)
    client.get("two")
    rest.set(metrics="*,d", match=match)
    client.get("three")
    rest.set(metrics=None, match=None)
    client.get("two again")
    more.set(metrics="", match=match)
    client.get("one without metrics")


_MATCHES = (
    "client_id={id}", "client_id={id}x", "client_id=x{id}", "client_id=.*{id}", "client_id=.+{id}",
    "client_id=no|{id}", "client_id=^{id}$", "client_id=(?i){ID}", "client_id={ID}",
    "client_id={id},client_software_name=test", "client_id={id},client_software_name=Test",
    "client_id={id},client_software_name=te", "client_software_name=.*,client_id={id}",
    "client_id={id},client_software_version=1\\.2\\.3",
    "client_id={id},client_software_version=1.2",
    "client_id={id},client_software_version=1.*", "client_id={id},client_source_address=127.0.0.1",
    "client_id={id},client_source_address=/127.0.0.1", "client_id={id},client_source_port=[0-9]+",
    "client_id={id},client_source_port=1", "client_id={id},client_instance_id=.{{22}}",
    "client_id=no,client_id={id}", "client_id={id},client_id=no",
)  # fmt: skip


@AREA.each(software=["test", "none"])
def matched(t: Stage, software: str) -> None:
    """Which patterns match a client with software of {software}?"""
    known = ("test", "1.2.3") if software == "test" else None
    for number, match in enumerate(_MATCHES):
        client = _Client(t, known)
        metric = f"m{number}.{client.client_id}"
        pattern = match.format(id=client.client_id, ID=client.client_id.upper())
        one = Subscription(t)
        one.set(metrics=metric, match=pattern)
        answer = client.ask("GetTelemetrySubscriptions", 0, {"client_instance_id": _NO_ID})
        t.rec(match, metric in answer["requested_metrics"])


@AREA.scenario
def matched_by_instance_id(t: Stage) -> None:
    """A pattern matches one client instance."""
    client = _Client(t)
    client.instance_id = secrets.token_bytes(16)
    text = uuid_to_text(client.instance_id).replace("-", "\\-")
    Subscription(t).set(metrics="a", match=f"client_instance_id={text}")
    client.get()
    _Client(t).get("other")


# --- pushes ---------------------------------------------------------------------------------------


@AREA.scenario
def pushed(t: Stage) -> None:
    """A client gets its subscription, pushes too early and on time, and ends with a last push."""
    client = _subscribed(t, interval_ms="900")
    client.get()
    client.get("at once")
    client.push("first", b"abc")
    client.push("at once", b"abc")
    client.get("at once after a push")
    t.nap(1.0)
    client.push("after the interval", b"abc")
    client.push("last", b"abc", terminating=True)
    client.push("after the last", b"abc")
    client.push("last again", b"abc", terminating=True)
    client.push("after the last ones", b"abc")
    client.get("after the last")
    t.nap(1.0)
    client.get("later")
    client.push("later", b"abc")


@AREA.scenario
def terminating_first(t: Stage) -> None:
    """A terminating push is sent without a subscription, and with a wrong subscription id."""
    client = _subscribed(t)
    client.instance_id = secrets.token_bytes(16)
    client.push("unknown", b"abc", terminating=True)
    client.push("again", b"abc")
    client.get("after")
    other = _subscribed(t)
    other.get()
    other.push("wrong", b"abc", terminating=True, subscription_id=other.subscription_id ^ 1)
    other.push("right", b"abc")


@AREA.scenario
def ids_of_instances(t: Stage) -> None:
    """Which client instance ids are refused, and may a client choose an id?"""
    client = _subscribed(t)
    client.push("no id", b"abc")
    client.push("reserved id", b"abc", client_instance_id=bytes(15) + b"\1")
    client.instance_id = bytes(15) + b"\1"
    client.get("reserved id")
    client.instance_id = secrets.token_bytes(16)
    client.get("own id")
    client.push("own id", b"abc")


@AREA.scenario
def unknown_subscription(t: Stage) -> None:
    """A push has another subscription id, and GetTelemetrySubscriptions is allowed at once."""
    client = _subscribed(t, interval_ms="60000")
    client.get()
    client.push("wrong", b"abc", subscription_id=client.subscription_id ^ 1)
    client.get("after it")
    client.get("once more")
    client.push("right", b"abc")
    client.get("after a right one")


@AREA.scenario
def push_before_get(t: Stage) -> None:
    """An unknown client instance sends PushTelemetry, then GetTelemetrySubscriptions."""
    client = _subscribed(t, interval_ms="60000")
    client.instance_id = secrets.token_bytes(16)
    client.push("unknown", b"abc")
    client.get()
    client.push("right", b"abc")


@AREA.scenario
def compressions(t: Stage) -> None:
    """Pushes use every compression type and unknown types; the last request is a Get."""
    for compression in Compression:
        client = _subscribed(t)
        client.get(compression.name)
        metrics = compress(compression, b"abc" * 100)
        client.push(compression.name, metrics, compression_type=int(compression))
    for number in (5, -1, 127):
        client = _subscribed(t, interval_ms="60000")
        client.get(str(number))
        client.push(str(number), b"abc", compression_type=number)
        client.get(f"after {number}")


@AREA.scenario
def damaged(t: Stage) -> None:
    """Compressed metrics are unreadable, then a Get follows."""
    for compression in list(Compression)[1:]:
        whole = compress(compression, bytes(range(256)) * 20)
        for note, metrics in (("none", b"abcdefgh"), ("cut", whole[: len(whole) // 2])):
            client = _subscribed(t, interval_ms="60000")
            client.get(compression.name)
            label = f"{compression.name} {note}"
            client.push(label, metrics, compression_type=int(compression))
            client.get(f"after {label}")
    client = _subscribed(t)
    client.get("empty")
    client.push("empty", b"", compression_type=int(Compression.GZIP))


@AREA.scenario
def sizes(t: Stage) -> None:
    """Metrics have the maximum size and one byte more, also compressed."""
    for count in (_MOST_BYTES, _MOST_BYTES + 1):
        client = _subscribed(t, interval_ms="60000")
        client.get(str(count))
        client.push(str(count), bytes(count))
        client.get(f"after {count}")
    for count in (_MOST_BYTES, _MOST_BYTES + 1, 20 * _MOST_BYTES):
        for compression in list(Compression)[1:]:
            client = _subscribed(t, interval_ms="60000")
            client.get(f"{compression.name} {count}")
            metrics = compress(compression, bytes(count))
            if len(metrics) > _MOST_BYTES:
                metrics = metrics[:_MOST_BYTES]
            client.push(f"{compression.name} {count}", metrics, compression_type=int(compression))
            client.get(f"after {compression.name} {count}")
    client = _subscribed(t)
    client.get("bomb")
    client.push("bomb", gzip.compress(bytes(1 << 28), 9), compression_type=int(Compression.GZIP))


@AREA.scenario
def changed_subscription(t: Stage) -> None:
    """A subscription changes between Get and push, and the instance starts again."""
    client = _Client(t)
    one = Subscription(t)
    match = f"client_id={client.client_id}"
    one.set(metrics="a", interval_ms="60000", match=match)
    client.get()
    one.set(metrics="b")
    client.push("changed", b"abc")
    client.get("changed")
    client.push("new", b"abc")
    client.push("at once", b"abc")
    one.set(interval_ms="50000")
    client.get("other interval")
    one.set(metrics=None, interval_ms=None, match=None)
    client.push("deleted", b"abc")
    client.get("deleted")


@AREA.scenario
def other_connection(t: Stage) -> None:
    """The connection of a client instance closes, and the instance uses another connection."""
    client = _subscribed(t, interval_ms="60000")
    client.get()
    second = _Client(t)
    second.instance_id, second.subscription_id = client.instance_id, client.subscription_id
    second.get("same instance at once")
    second.push("same instance", b"abc")
    client.connection.close()
    t.nap(PAUSE_SECONDS)
    second.get("after its end")
