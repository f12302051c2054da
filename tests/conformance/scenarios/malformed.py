"""Invalid frames: is each answered, does it close the connection, or does the broker wait?"""

from __future__ import annotations

import struct
from typing import Any

from tests.conformance import timing, wire
from tests.conformance.connection import CLOSED, Closed, Conn
from tests.conformance.stage import Area, Stage

AREA = Area("malformed")
HEARTBEAT = {"group_id": "cf-none", "generation_id": 1, "member_id": "x"}
_SECONDS = 0.8


def look(t: Stage, conn: Conn, label: str, api: str | None = None, version: int = 0) -> Any:
    """Record and return the answer on a connection.

    A closed or silent connection is recorded as such.
    """
    try:
        frame = conn.recv_frame(_SECONDS * timing.scale)
    except Closed:
        return t.rec(label, CLOSED)
    if frame is None:
        return t.rec(label, "silent")
    if api is None:
        return t.rec(label, "answered")
    try:
        correlation_id, answer = wire.dec_response(api, version, frame)
    except (ValueError, struct.error) as error:
        return t.rec(label, f"undecodable: {type(error).__name__}")
    return t.rec(label, {"corr": correlation_id, **t.norm(answer)})


def _shoot(t: Stage, label: str, data: bytes, api: str | None = None, version: int = 0) -> None:
    """Send bytes on a new connection; after a response, the next request must also get one."""
    conn = t.conn()
    conn.send_raw(data)
    answer = look(t, conn, label, api, version)
    if isinstance(answer, dict):
        conn.send_raw(_request("Heartbeat", 0, HEARTBEAT, 9))
        look(t, conn, f"{label} - next request on the connection", "Heartbeat")
    conn.close()


def _framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def _request(api: str, version: int, body: dict[str, Any], correlation_id: int = 5) -> bytes:
    return _framed(wire.enc_request(api, version, correlation_id, "conf", body))


@AREA.scenario
def length_negative(t: Stage) -> None:
    """A frame has a negative length."""
    for length in (-1, -2, -2147483648):
        _shoot(t, f"length {length}", struct.pack(">i", length) + b"abc")


@AREA.scenario
def frame_in_pieces(t: Stage) -> None:
    """A frame arrives byte by byte."""
    conn = t.conn()
    for byte in _request("Heartbeat", 0, HEARTBEAT):
        conn.send_raw(bytes([byte]))
        t.nap(0.002)
    look(t, conn, "byte by byte", "Heartbeat")


@AREA.scenario
def many_frames_in_one_segment(t: Stage) -> None:
    """Five frames and a part of a sixth arrive together."""
    conn = t.conn()
    frames = [_request("Heartbeat", 0, HEARTBEAT, number) for number in range(5)]
    last = _request("Heartbeat", 0, HEARTBEAT, 99)
    conn.send_raw(b"".join(frames) + last[:14])
    for number in range(5):
        look(t, conn, f"answer {number}", "Heartbeat")
    conn.send_raw(last[14:])
    look(t, conn, "the rest of the sixth", "Heartbeat")


@AREA.scenario
def other_protocol_tls(t: Stage) -> None:
    """A client begins a TLS handshake on a listener without TLS."""
    _shoot(t, "tls", bytes.fromhex("16030100a5010000a10303") + bytes(160))


@AREA.scenario
def unknown_api_keys(t: Stage) -> None:
    """Requests have API keys that do not exist."""
    for key in (999, 32767, -1, -32768):
        head = wire.header(key, 0, 1, "conf", flexible=False)
        _shoot(t, f"api key {key}", _framed(head + bytes(8)))


PARTITION = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "m"}
TRUNCATED: dict[str, tuple[str, int, dict[str, Any]]] = {
    "Heartbeat_v0": ("Heartbeat", 0, HEARTBEAT),
    "JoinGroup_v3": (
        "JoinGroup",
        3,
        {
            "group_id": "cf-none",
            "session_timeout_ms": 10000,
            "member_id": "gone",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"x"}],
        },
    ),
    "SyncGroup_v3": (
        "SyncGroup",
        3,
        {
            "group_id": "cf-none",
            "generation_id": 1,
            "member_id": "gone",
            "assignments": [{"member_id": "gone", "assignment": b"a"}],
        },
    ),
    "LeaveGroup_v4": (
        "LeaveGroup",
        4,
        {"group_id": "cf-none", "members": [{"member_id": "gone"}]},
    ),
    "OffsetCommit_v8": (
        "OffsetCommit",
        8,
        {
            "group_id": "cf-none",
            "member_id": "x",
            "generation_id_or_member_epoch": 5,
            "topics": [{"name": "cf-none", "partitions": [PARTITION]}],
        },
    ),
}


@AREA.each("truncated_{case}", case=list(TRUNCATED))
def truncated(t: Stage, case: str) -> None:
    """{case} lacks bytes at its end; the frame has the length of the remaining bytes."""
    api, version, body = TRUNCATED[case]
    frame = wire.enc_request(api, version, 5, "conf", body)
    head = len(wire.header(0, 0, 0, "conf", wire.is_flexible(api, version)))
    cuts = {len(frame) - 1, (len(frame) + head) // 2, head + 1, head}
    for cut in sorted(cuts, reverse=True):
        _shoot(t, f"{len(frame) - cut} bytes short", _framed(frame[:cut]), api, version)


@AREA.scenario
def trailing_bytes(t: Stage) -> None:
    """Requests have additional bytes after their last field."""
    for api, version, body, is_decoded in (
        ("Heartbeat", 0, HEARTBEAT, True),
        ("Heartbeat", 4, HEARTBEAT, True),
        ("FindCoordinator", 3, {"key": "x"}, False),
        ("ApiVersions", 0, {}, False),
    ):
        frame = wire.enc_request(api, version, 5, "conf", body)
        label = f"{api} v{version} and 3 bytes more"
        _shoot(t, label, _framed(frame + b"abc"), api if is_decoded else None, version)


@AREA.scenario
def array_count_of_protocols(t: Stage) -> None:
    """JoinGroup has counts and lengths that are negative or too large."""
    start = wire.header(11, 1, 5, "conf", flexible=False) + b"\x00\x07cf-none"
    start += struct.pack(">ii", 10000, 10000) + b"\x00\x04gone" + b"\x00\x08consumer"
    for count in (-1, -2, 1000000, 2147483647):
        frame = start + struct.pack(">i", count)
        _shoot(t, f"JoinGroup v1 with {count} protocols", _framed(frame), "JoinGroup", 1)
    one = start + struct.pack(">i", 1) + b"\x00\x05range"
    for label, rest in (
        ("metadata null", struct.pack(">i", -1)),
        ("metadata length -7", struct.pack(">i", -7)),
        ("metadata longer than the frame", struct.pack(">i", 1000) + b"x"),
    ):
        _shoot(t, label, _framed(one + rest), "JoinGroup", 1)


@AREA.scenario
def invalid_utf8(t: Stage) -> None:
    """Strings in requests are not valid UTF-8."""
    bad = b"g\xff\xfe\xc3"
    for label, api, version, body in (
        ("group id, Heartbeat v0", "Heartbeat", 0, HEARTBEAT | {"group_id": bad}),
        ("group id, DescribeGroups v5", "DescribeGroups", 5, {"groups": [bad]}),
        ("member id, Heartbeat v4", "Heartbeat", 4, HEARTBEAT | {"member_id": bad}),
    ):
        _shoot(t, label, _request(api, version, body), api, version)
    head = struct.pack(">hhih", wire.KEY["Heartbeat"], 0, 5, len(bad)) + bad
    fields = wire.enc_struct(wire.request_fields("Heartbeat"), HEARTBEAT, 0, flexible=False)
    _shoot(t, "client id", _framed(head + fields), "Heartbeat")
    half = _request("DescribeGroups", 5, {"groups": [b"\xed\xa0\x80"]})
    _shoot(t, "surrogate half", half, "DescribeGroups", 5)


@AREA.scenario
def null_topics_and_groups(t: Stage) -> None:
    """Requests have null in fields that must not be null."""
    committed = {"group_id": "cf-none", "member_id": "", "topics": None}
    left = {"group_id": "cf-none", "members": None}
    joined = {"group_id": None, "protocol_type": "c"}
    for what, api, version, body in (
        ("topics", "OffsetCommit", 7, committed),
        ("groups", "OffsetFetch", 8, {"groups": None}),
        ("names", "DeleteGroups", 1, {"groups_names": None}),
        ("members", "LeaveGroup", 4, left),
        ("group id", "JoinGroup", 6, joined),
    ):
        _shoot(t, f"{api} v{version}, null {what}", _request(api, version, body), api, version)


@AREA.scenario
def garbage_leaves_the_group_alone(t: Stage) -> None:
    """Malformed requests of a member do not change its group."""
    (a,) = t.stable("A")
    left = wire.enc_request("LeaveGroup", 1, 5, "conf", {"group_id": t.g, "member_id": a.id})
    _shoot(t, "truncated LeaveGroup", _framed(left[:-3]), "LeaveGroup", 1)
    frame = struct.pack(">hh", 13, 44) + left[4:]
    _shoot(t, "LeaveGroup in an unsupported version", _framed(frame))
    body = {"group_id": t.g, "member_id": a.id, "generation_id": a.gen}
    a.h.send_frame(wire.enc_request("Heartbeat", 3, 5, "conf", body)[:-2])
    look(t, a.h, "A's own connection, truncated Heartbeat", "Heartbeat", 3)
    a.hb()
    t.state()


@AREA.scenario
def bad_request_after_good_ones_closes_after_the_answers(t: Stage) -> None:
    """A good and a bad request arrive together: the good one is answered."""
    conn = t.conn()
    bad = wire.header(999, 0, 2, "conf", flexible=False)
    conn.send_raw(_request("Heartbeat", 0, HEARTBEAT, 1) + _framed(bad))
    look(t, conn, "first", "Heartbeat")
    look(t, conn, "second")
