"""The package imports little into the user's process, and only the standard library."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support import ROOT

BLOCKED = (
    "construct",
    "cryptography",
    "structlog",
    "uvloop",
    "cramjam",
    "google_crc32c",
    "h11",
    "pytest",
    "asyncio",
)

USES_ALL = f"""
import sys
for name in {BLOCKED!r}:
    sys.modules[name] = None  # an import of it fails
import coordinator_server.testing as testing
with testing.Broker(num_partitions=2) as broker:
    broker.create_topic("orders", 2)
    broker.produce("orders", "a", key="k", headers={{"h": b"x"}})
    assert broker.consume("orders")[0].value == b"a"
    assert broker.group("app") is None
    assert broker.wait_for_group("app", state="Dead", timeout=1).members == ()
    broker.clock.advance(5)
    broker.reset()
    broker.restart()
assert "broker.stopped" in broker.log
with testing.Broker(security="sasl_ssl") as broker:
    assert broker.client_config("java")["security.protocol"] == "SASL_SSL"
    assert broker.client_config("aiokafka")["ssl_context"]
loaded = [name for name in sys.modules if name.split(".")[0] in ("protocol", "storage")]
assert not loaded, loaded
"""

TAKES_TIME = """
import time
started = time.process_time()
import {module}
print(time.process_time() - started)
"""

LOADS = """
import sys
import coordinator_server.testing
print(*sys.modules)
"""

HEAVY = (
    "asyncio",
    "concurrent",
    "dataclasses",
    "email",
    "http",
    "inspect",
    "logging",
    "ssl",
    "urllib",
)


def run(script: str) -> str:
    """Return the output of a script in a fresh interpreter."""
    command = [sys.executable, "-W", "error", "-c", script]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_standard_library_is_enough() -> None:
    """The package works when the broker's dependencies, pytest and asyncio cannot be imported."""
    run(USES_ALL)


@pytest.mark.alone
def test_the_import_is_cheap() -> None:
    """The import loads nothing heavy and takes less CPU time than asyncio, the best of several."""
    assert not set(HEAVY) & set(run(LOADS).split())
    ours, asyncio = (
        min(float(run(TAKES_TIME.format(module=module))) for _ in range(5))
        for module in ("coordinator_server.testing", "asyncio")
    )
    assert ours < asyncio, (ours, asyncio)
