"""ApiVersions, and requests of versions that are not supported."""

from __future__ import annotations

from typing import Any

from tests.conformance import timing, wire
from tests.conformance.connection import CLOSED, Closed
from tests.conformance.stage import Area, Stage

AREA = Area("versions")
SOFTWARE = {"client_software_name": "conform", "client_software_version": "1"}


@AREA.each(
    "advertised_{api}",
    api=[
        "ApiVersions",
        "ConsumerGroupHeartbeat",
        "EndTxn",
        "Heartbeat",
        "LeaveGroup",
        "OffsetCommit",
        "SyncGroup",
    ],
)
def advertised(t: Stage, api: str) -> None:
    """Which versions of {api} does ApiVersions advertise?"""
    for version in (0, 2, 4):
        answer = t.quiet("ApiVersions", version, SOFTWARE)
        ranges = [
            [one["min_version"], one["max_version"]]
            for one in answer["api_keys"]
            if one["api_key"] == wire.KEY[api]
        ]
        t.rec(f"in ApiVersions v{version}", ranges)


@AREA.each("apiversions_v{version}", version=[1, 3])
def api_versions(t: Stage, version: int) -> None:
    """Are the API keys of ApiVersions v{version} in order, and is group.version a feature?"""
    answer = t.quiet("ApiVersions", version, {**SOFTWARE, "client_software_version": "1.0"})
    keys = [one["api_key"] for one in answer["api_keys"]]
    features = [one["name"] for one in answer.get("finalized_features", [])]
    shown = {
        "error": answer["error_code"],
        "keys ascending": keys == sorted(keys),
        "unique": len(keys) == len(set(keys)),
        "has group.version": "group.version" in features,
    }
    t.rec(f"v{version}", shown)


@AREA.each("apiversions_unsupported_{version}", version=[6, 32767])
def api_versions_unsupported(t: Stage, version: int) -> None:
    """ApiVersions {version} is answered in version 0, with the supported versions."""
    connection = t.conn()
    head = wire.header(wire.KEY["ApiVersions"], version, 77, "conf", flexible=True)
    connection.send_frame(head + b"\x05conf\x021\x00")
    try:
        frame = connection.recv_frame(2 * timing.scale)
    except Closed:
        t.rec("answer", CLOSED)
        return
    if frame is None:
        t.rec("answer", "silent")
        return
    correlation_id, answer = wire.dec_response("ApiVersions", 0, frame)
    fields = ("api_key", "min_version", "max_version")
    keys = [[one[field] for field in fields] for one in answer["api_keys"]]
    t.rec("answer as v0", {"corr": correlation_id, "error": answer["error_code"], "keys": keys})
    label = "ApiVersions v0 on the same connection"
    pending = t.send(connection, "ApiVersions", 0, {}, label)
    pending.poll(2 * timing.scale)
    is_answered = isinstance(pending.raw, dict) and pending.raw.get("error_code") == 0
    t.rec(label, "answered" if is_answered else str(pending.raw)[:80])


def _heartbeat(t: Stage) -> dict[str, Any]:
    return {"group_id": t.g, "generation_id": 1, "member_id": "x"}


@AREA.scenario
def apiversions_need_not_come_first(t: Stage) -> None:
    """The first request of a connection is a Heartbeat."""
    t.call(t.conn(), "Heartbeat", 0, _heartbeat(t), "Heartbeat as the first request")


@AREA.scenario
def no_client_id(t: Stage) -> None:
    """Requests have a null or an empty client id."""
    connection = t.conn()
    t.call(connection, "Heartbeat", 3, _heartbeat(t), "null client id", client_id=None)
    t.call(connection, "Heartbeat", 3, _heartbeat(t), "empty client id", client_id="")
    t.call(connection, "Heartbeat", 4, _heartbeat(t), "null client id, flexible", client_id=None)


@AREA.each(
    "unsupported_{api}",
    api=[
        "AddOffsetsToTxn",
        "DeleteGroups",
        "EndTxn",
        "InitProducerId",
        "LeaveGroup",
        "OffsetDelete",
        "SyncGroup",
    ],
)
def unsupported(t: Stage, api: str) -> None:
    """{api} is sent with the highest supported version, and with unsupported versions."""
    first, last = wire.SCHEMAS[api]["valid"]
    values = {"group_id": "cf-none", "generation_id": 1, "member_id": "x"}
    for version in sorted({first - 1, -1, last, last + 1, 100, 32767}):
        used = wire.layout(api, version)
        known = {one["n"] for one in wire.request_fields(api) if wire.has(one["v"], used)}
        body = {name: value for name, value in values.items() if name in known}
        body |= {"protocol_type": "consumer"} if "protocol_type" in known else {}
        connection = t.conn()
        pending = t.send(connection, api, version, body)
        if not pending.poll(1.5 * timing.scale):
            result = "silent"
        else:
            result = pending.raw if isinstance(pending.raw, str) else "answered"
        t.rec(f"version {version}", result)
        connection.close()
