"""The tools: `show` prints the parts of a message, `dump` decodes bytes."""

from __future__ import annotations

import io
import json
import struct

import pytest

from protocol import batch, dump, show
from protocol.apis.fetch import FetchResponse
from protocol.apis.heartbeat import HeartbeatRequest
from protocol.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.codec import encoder
from protocol.registry import SPECS

HEARTBEAT = (
    struct.pack(">hhih", 12, 4, 7, 2)
    + b"me\x00"
    + encoder(HeartbeatRequest, 4)(
        HeartbeatRequest(group_id="orders", generation_id=3, member_id="m")
    )
)
HEARTBEAT_FRAME = struct.pack(">i", len(HEARTBEAT)) + HEARTBEAT


def test_show_prints_all_three_forms(capsys: pytest.CaptureFixture[str]) -> None:
    """`show` prints the declaration, the Struct and the generated source of a message."""
    assert show.main(["JoinGroup", "9", "--side", "request"]) == 0
    out = capsys.readouterr().out
    assert "class JoinGroupRequestProtocol(Message):" in out
    assert "reason: nullable compact string" in out
    assert "def generated(buffer, position=0):" in out
    assert "def generated(message):" in out
    assert "JoinGroupResponse" not in out


def test_show_knows_every_api(capsys: pytest.CaptureFixture[str]) -> None:
    """`show` accepts every API by key, at its oldest and newest version."""
    for spec in SPECS:
        assert show.main([str(spec.key)]) == 0
        assert show.main([spec.stem, str(spec.min_version)]) == 0
    assert "tagged fields" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["Nothing"], ["999"], ["Heartbeat", "9"]])
def test_show_refuses_what_is_not_served(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """For an unknown API or version `show` prints one line on stderr and exits with code 2."""
    assert show.main(arguments) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def hexdump(data: bytes) -> str:
    """Return the output of `hexdump -C`."""
    lines = []
    for start in range(0, len(data), 16):
        row = data[start : start + 16]
        left, right = row[:8].hex(" "), row[8:].hex(" ")
        lines.append(f"{start:08x}  {left}  {right:<23}  |{'.' * len(row)}|")
    return "\n".join([*lines, f"{len(data):08x}"])


def xxd(data: bytes) -> str:
    """Return the output of `xxd`."""
    lines = []
    for start in range(0, len(data), 16):
        row = data[start : start + 16]
        lines.append(f"{start:08x}: {row.hex(' ', 2):<39}  {'.' * len(row)}")
    return "\n".join(lines)


@pytest.mark.parametrize("form", [bytes.hex, hexdump, xxd])
def test_dump_reads_a_request_frame(
    form: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`dump` shows a frame on standard input with its header, in any usual form of dump."""
    assert callable(form)
    monkeypatch.setattr("sys.stdin", io.StringIO(form(HEARTBEAT_FRAME)))
    assert dump.main([]) == 0
    out = capsys.readouterr().out
    assert "correlation_id: 7" in out
    shown = json.loads(out.splitlines()[-1])
    assert shown == {
        "groupId": "orders",
        "generationId": 3,
        "memberId": "m",
        "groupInstanceId": None,
    }


def test_dump_reads_frames_without_and_with_lengths(capsys: pytest.CaptureFixture[str]) -> None:
    """The length before a frame is optional, and several frames may follow each other."""
    assert dump.main([HEARTBEAT.hex()]) == 0
    assert dump.main([(HEARTBEAT_FRAME * 2).hex()]) == 0
    assert capsys.readouterr().out.count("group_id: 'orders'") == 3


def test_dump_opens_records(capsys: pytest.CaptureFixture[str]) -> None:
    """Records in a bare body are shown one by one, and damage is reported."""
    data = batch.build_batch([batch.Record(0, 1, b"key", b"value")]).to_bytes()
    for records, expected in ((data, "key=b'key'"), (data[:-1] + b"\xff", "CRC WRONG")):
        request = ProduceRequest(
            topic_data=[
                TopicProduceData(name="t", partition_data=[PartitionProduceData(records=records)])
            ]
        )
        body = encoder(ProduceRequest, 9)(request)
        assert dump.main(["--api", "Produce", "--version", "9", body.hex()]) == 0
        assert expected in capsys.readouterr().out


def test_dump_reads_a_response(capsys: pytest.CaptureFixture[str]) -> None:
    """A response needs its API and version; with --frame its header is read too."""
    body = encoder(FetchResponse, 12)(FetchResponse(session_id=77))
    frame = struct.pack(">iix", len(body) + 5, 6) + body
    arguments = ["--api", "1", "--version", "12", "--side", "response"]
    assert dump.main([*arguments, "--frame", frame.hex()]) == 0
    assert "correlation_id: 6" in capsys.readouterr().out
    assert dump.main([*arguments, body.hex(), "ff"]) == 0
    out = capsys.readouterr().out
    assert "session_id: 77" in out
    assert "1 bytes behind the message" in out


@pytest.mark.parametrize(
    "arguments", [["zz"], ["0011"], ["03e7000000000007ffff"], ["--api", "Nothing", "00"]]
)
def test_dump_says_what_it_cannot_decode(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """For bytes that it cannot decode `dump` prints one line on stderr and exits with code 1."""
    assert dump.main(arguments) == 1
    assert capsys.readouterr().err.startswith("cannot decode: ")
