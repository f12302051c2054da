"""Java clients with the settings that --dev-security writes for them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.oracle.kafka_process import SECONDS, java
from tests.support import Serve

pytestmark = pytest.mark.nightly


@pytest.mark.parametrize("protocol", ["SASL_SSL", "SSL"])
def test_java_produces_and_consumes(tmp_path: Path, protocol: str) -> None:
    """Java's console tools produce and consume as alice, with a password or a certificate."""
    arguments = ("--dev-security", str(tmp_path), "--set", f"listeners={protocol}://127.0.0.1:0")
    with Serve("--ephemeral", *arguments, listener=None) as broker:
        common = ["--bootstrap-server", broker.bootstrap_servers, "--topic", "t"]
        common += ["--command-config", str(tmp_path / "alice.java.properties")]
        consumer = ("--from-beginning", "--group", "g", "--max-messages", "1")
        read = ""
        for tool, options in (("ConsoleProducer", ()), ("consumer.ConsoleConsumer", consumer)):
            read = subprocess.run(
                java(f"org.apache.kafka.tools.{tool}", *common, *options),
                input="hello\n",
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=True,
            ).stdout
        assert read.splitlines()[0] == "hello"
