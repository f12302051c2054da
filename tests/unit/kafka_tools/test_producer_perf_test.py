"""kafka-producer-perf-test: payload files, and statistics of many records."""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path

import pytest

from coordinator_server.kafka_tools import producer_perf_test


@pytest.mark.parametrize(
    ("delimiter", "data", "payloads"),
    [
        ("\\n", b"a\r\nb\r\n", {b"a\r", b"b\r"}),
        ("\\r\\n", b"a\r\nb", {b"a", b"b"}),
        ("\\t", b"a\tb\t", {b"a", b"b"}),
        ("\\\\n", b"a\\nb\n", {b"a", b"b\n"}),
        ("€", "aé€b".encode(), {"aé".encode(), b"b"}),
        (",", b"a,\xff", {b"a", "\ufffd".encode()}),
    ],
)
def test_payloads_are_the_bytes_between_delimiters(
    tmp_path: Path, delimiter: str, data: bytes, payloads: set[bytes]
) -> None:
    """Payloads are the bytes between delimiters; invalid UTF-8 is replaced, as in Java."""
    path = tmp_path / "payloads"
    path.write_bytes(data)
    options = argparse.Namespace(
        payload_monotonic=None,
        record_size=None,
        random_seed=0,
        payload_file=str(path),
        payload_delimiter=delimiter,
    )
    assert set(islice(producer_perf_test._payloads(options), 50)) == payloads


def test_percentiles_are_those_of_a_bounded_sample(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Percentiles use every Nth latency; count, average and maximum use all records."""
    monkeypatch.setattr(producer_perf_test, "_SAMPLES", 4)
    stats = producer_perf_test._Stats(8, interval_s=1000)
    for latency_ms in range(8):
        stats.add(1, latency_ms)
    assert stats._samples_ms == [0, 2, 4, 6]
    stats.print_sum()
    out = capsys.readouterr().out
    assert out.startswith("8 records sent, ")
    assert "3.50 ms avg latency, 7.00 ms max latency, 4 ms 50th, 6 ms 95th" in out


def test_a_window_has_the_records_since_the_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A line with the records since the last line is printed at each reporting interval."""
    stats = producer_perf_test._Stats(3, interval_s=1e-9)
    for latency_ms in (5, 7):
        stats.add(1, latency_ms)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(",")[0] for line in lines] == ["1 records sent"] * 2
    assert lines[1].endswith("7.0 ms avg latency, 7.0 ms max latency.")
