"""The log: formats, and levels."""

from __future__ import annotations

import errno
import io
import json
import subprocess
import sys

import pytest

from coordinator_server.events.log import EventLog
from coordinator_server.events.vocabulary import DEBUG, INFO, WARNING


def test_an_event_is_one_json_line() -> None:
    """JSON format is one object per line with event, level, timestamp and the fields."""
    stream = io.StringIO()
    log = EventLog()
    log.configure("json", INFO, stream)
    log.emit("member.expired", group="g", member="m-1", elapsed_ms=5)
    (line,) = stream.getvalue().splitlines()
    found = json.loads(line)
    assert found.pop("timestamp").endswith("Z")
    assert found == {
        "event": "member.expired",
        "level": "info",
        "group": "g",
        "member": "m-1",
        "elapsed_ms": 5,
    }


def test_an_event_is_one_readable_line() -> None:
    """Console format is one line with event and fields, without colours outside of a terminal."""
    stream = io.StringIO()
    log = EventLog()
    log.configure("console", INFO, stream)
    log.emit("connection.closed", remote="10.0.0.7:4", reason="bad")
    (line,) = stream.getvalue().splitlines()
    assert "connection.closed" in line
    assert "remote=10.0.0.7:4" in line
    assert "\x1b" not in line


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_a_failure_shows_its_traceback(log_format: str) -> None:
    """exc_info adds the current exception's traceback in both formats."""
    stream = io.StringIO()
    log = EventLog()
    log.configure("json" if log_format == "json" else "console", INFO, stream)
    try:
        raise ValueError("a bug")
    except ValueError:
        log.emit("request.failed", exc_info=True)
    assert "ValueError: a bug" in stream.getvalue()


def test_events_below_the_level_are_not_written() -> None:
    """The vocabulary has the level of each event; `debug` tells callers if debug is enabled."""
    stream = io.StringIO()
    log = EventLog()
    log.configure("console", WARNING, stream)
    log.emit("member.expired", group="g")
    debug_before = log.debug
    assert stream.getvalue() == ""
    log.configure("console", DEBUG, stream)
    log.emit("connection.opened", remote="10.0.0.7:4")
    assert (debug_before, log.debug) == (False, True)
    assert "connection.opened" in stream.getvalue()


def test_a_quiet_start_does_not_import_structlog() -> None:
    """structlog is imported with the first event: its import outweighs the rest of the start-up."""
    code = (
        "import sys; from coordinator_server import cli, server"
        "\nfrom coordinator_server.events.log import LOG\n"
        "LOG.configure('json', 20); assert 'structlog' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_log_that_cannot_be_written_stops_nothing() -> None:
    """A line that cannot be written (full disk, closed pipe) is dropped without an error."""
    log = EventLog()
    full = Full()
    log.configure("json", INFO, full)
    log.emit("broker.stopped")
    assert full.attempts == 1


class Full(io.StringIO):
    """A stream on a full disk."""

    attempts = 0

    def write(self, text: str) -> int:
        """Raise the error of a full disk."""
        self.attempts += 1
        raise OSError(errno.ENOSPC, f"no room for {text!r}")
