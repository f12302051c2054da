"""Every vector recorded from Apache Kafka holds, and the runner reports its counts."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from protocol import REFERENCE_VERSION
from tests.codec import vectors
from tests.codec.support import VECTORS, all_cases, case_name, message_vectors

LINES = list(vectors.read_lines(VECTORS))
KINDS = sorted(vectors.CHECKERS)


def test_the_vectors_are_of_the_reference_version() -> None:
    """The vectors come from the Java code of the reference version."""
    assert [line["kafka"] for line in LINES if line["kind"] == "about"] == [REFERENCE_VERSION]


def test_every_message_has_vectors_at_every_version() -> None:
    """Every request, response, header and record has vectors at every version."""
    drawn = {case for case, _, _ in message_vectors()}
    assert not [case_name(case) for case in all_cases() if case not in drawn]


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_of_a_kind_hold(kind: str) -> None:
    """Kafka's bytes decode to Kafka's JSON and encode back, with both codecs."""
    lines = [line for line in LINES if line["kind"] == kind]
    assert lines
    for line in lines:
        vectors.check(line)


def test_runner_counts_passed_and_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    """The runner prints its counts and ends with exit code 0 if all lines hold."""
    assert vectors.main([str(VECTORS)]) == 0
    counts = Counter(line["kind"] != "about" for line in LINES)
    assert capsys.readouterr().out == f"{counts[True]} passed, 0 failed, 0 skipped\n"


def test_runner_fails_on_a_wrong_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong line is named and counted, an unsupported line is skipped; the exit code is 1."""
    heartbeat = {
        "kind": "request",
        "api_key": 12,
        "name": "Heartbeat",
        "version": 0,
        "header_version": 1,
        "flexible": False,
        "json": {"groupId": "a", "generationId": 1, "memberId": ""},
        "hex": "000161000000020000",
    }
    unknown = {**heartbeat, "api_key": 999}
    path = tmp_path / "lines.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, (heartbeat, unknown))).encode()))
    assert vectors.main([str(path)]) == 1
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("line 1: request Heartbeat 0")
    assert last == "0 passed, 1 failed, 1 skipped"
